"""Changes to the cluster, one after the other.

A commit takes a while (the store writes and syncs it), and a plan is only right for the image it was made from. So a
plan is made when everything before it has been applied: two clients that create the same topic at once get one topic
and one TOPIC_ALREADY_EXISTS, not two commits of the same name.

Owned by the broker's loop.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from headwater.base.errors import ErrorCode, KafkaError
from headwater.metadata.image import Change, MetadataStore

logger = logging.getLogger("headwater.broker")

Plan = Callable[[], Sequence[Change]]
Done = Callable[[KafkaError | None], None]


class ChangeQueue:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._waiting: deque[tuple[Plan, Done]] = deque()
        self._busy = False

    def submit(self, plan: Plan, done: Done) -> None:
        """`plan` is called when its turn comes; `done` when its changes are applied, or are refused as a whole.

        A plan without changes is done at once. Errors of single topics are the plan's own business.
        """
        self._waiting.append((plan, done))
        self._run()

    def _run(self) -> None:
        while self._waiting and not self._busy:
            plan, done = self._waiting.popleft()
            self._busy = True
            try:
                changes = plan()
            except Exception:  # those behind it shall not wait in vain
                logger.exception("event=plan-failed")
                self._busy = False
                done(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The change could not be planned."))
                continue
            if changes:
                self._store.commit(changes, partial(self._committed, done))
            else:
                self._busy = False
                done(None)

    def _committed(self, done: Done, error: KafkaError | None) -> None:
        self._busy = False
        done(error)
        self._run()
