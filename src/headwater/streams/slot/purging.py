"""Purges repartition topics: what was read from them, and is committed, goes. Now and then; what fails is tried with
the next.

Owned by the slot.
"""

import logging
import time
from collections.abc import Mapping
from typing import Final

from headwater.base.errors import KafkaError
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

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self._internal:
            self._committed |= {each: offset for each, offset in offsets.items() if each.topic in self._internal}

    def run(self, admin: Admin, now: float) -> None:
        """If it is time."""
        if (now - self._purged_at) * 1000 < self._interval_ms:
            return
        self._purged_at = now
        gone, self._committed = self._committed, {}
        try:
            answers = admin.delete_records(gone) if gone else {}
        except (KafkaError, TimeoutError) as error:
            _log.warning("repartition topics were not purged error=%s", error)
            return
        for partition, answer in answers.items():
            if isinstance(answer, KafkaError):
                _log.warning("a repartition topic was not purged partition=%s error=%s", partition, answer)
