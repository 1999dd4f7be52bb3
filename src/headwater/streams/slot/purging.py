"""Purges repartition topics: what was read from them, and is committed, goes. Now and then, and nobody waits for it;
what fails is tried with the next.

Owned by the slot. A request has a thread of its own, one at a time, and ends at the latest when the admin client is
closed.
"""

import logging
import threading
import time
from collections.abc import Mapping
from typing import Final

from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.streams.topics.plan import TopicPlan

_log: Final = logging.getLogger("headwater.streams")


class Purge:
    def __init__(self, topics: TopicPlan, interval_ms: int) -> None:
        self._internal = frozenset(topic.name for topic in topics.internal if topic.is_repartition)
        self._interval_ms = interval_ms
        self._purged_at = time.monotonic()
        self._committed: dict[TopicPartition, int] = {}
        self._request: threading.Thread | None = None

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self._internal:
            self._committed |= {each: offset for each, offset in offsets.items() if each.topic in self._internal}

    def run(self, admin: Admin, now: float) -> None:
        """If it is time, and the last one is through."""
        if (now - self._purged_at) * 1000 < self._interval_ms or not self._committed:
            return
        if self._request is not None and self._request.is_alive():
            return
        self._purged_at = now
        gone, self._committed = self._committed, {}
        self._request = threading.Thread(target=_purge, args=(admin, gone), name="purge", daemon=True)
        self._request.start()


def _purge(admin: Admin, gone: Mapping[TopicPartition, int]) -> None:
    try:
        answers = admin.delete_records(gone)
    except UserError:  # the client was closed meanwhile
        return
    except (KafkaError, TimeoutError) as error:
        _log.warning("repartition topics were not purged error=%s", error)
        return
    for partition, answer in answers.items():
        if isinstance(answer, KafkaError):
            _log.warning("a repartition topic was not purged partition=%s error=%s", partition, answer)
