"""Changes to the cluster, one after the other.

A commit takes a while (the store writes and syncs it), and a plan is only right for the image it was made from. So a
plan is made when everything before it has been applied: two clients that create the same topic at once get one topic
and one TOPIC_ALREADY_EXISTS, not two commits of the same name. Where somebody else changes the same config or the same
rules in ZooKeeper meanwhile, the plan is made again.

Owned by the broker's loop.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.metadata.image import Change, ChangedMeanwhile, MetadataStore

logger = logging.getLogger("headwater.broker")

Plan = Callable[[], Sequence[Change]]
Done = Callable[[KafkaError | None], None]
TRIES_MAX: Final = 10  # as many as Apache Kafka makes


class ChangeQueue:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._waiting: deque[tuple[Plan, Done, int]] = deque()  # with the tries that are left
        self._busy = False

    def submit(self, plan: Plan, done: Done) -> None:
        """`plan` is called when its turn comes; `done` when its changes are applied, or are refused as a whole.

        A plan without changes is done at once. Errors of single topics are the plan's own business. One that changes
        configs or rules may be called several times: what it found before counts no more.
        """
        self._waiting.append((plan, done, TRIES_MAX))
        self._run()

    def _run(self) -> None:
        while self._waiting and not self._busy:
            plan, done, tries = self._waiting.popleft()
            self._busy = True
            try:
                changes = plan()
            except Exception:  # those behind it shall not wait in vain
                logger.exception("event=plan-failed")
                self._busy = False
                done(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The change could not be planned."))
                continue
            if changes:
                self._store.commit(changes, partial(self._committed, plan, done, tries - 1))
            else:
                self._busy = False
                done(None)

    def _committed(self, plan: Plan, done: Done, tries: int, error: KafkaError | None) -> None:
        self._busy = False
        if isinstance(error, ChangedMeanwhile) and tries:
            self._waiting.appendleft((plan, done, tries))
        else:
            done(error)
        self._run()
