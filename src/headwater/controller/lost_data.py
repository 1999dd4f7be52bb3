"""Says which partitions wait for data that the last in-sync replica came back without, and what can be done. Once for
each life of a broker.
"""

import logging
from collections.abc import Iterable

from headwater.base.ids import BrokerId, PartitionKey, TopicPartition
from headwater.controller.elections import came_back_empty
from headwater.controller.failures import state_of
from headwater.metadata.image import ClusterImage

logger = logging.getLogger("headwater.controller")


class LostData:
    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._told: dict[BrokerId, int] = {}  # the epoch of the life of which it was said

    def look(self, unwell: Iterable[PartitionKey]) -> None:
        brokers = self._image.brokers
        found: dict[BrokerId, list[TopicPartition]] = {}
        for key in unwell:
            state = state_of(self._image, key)
            for broker_id in () if state is None else came_back_empty(state, brokers):
                name = TopicPartition(self._image.topics[key.topic_id].name, key.partition)
                found.setdefault(broker_id, []).append(name)
        for broker_id, partitions in found.items():
            if self._told.get(broker_id) != brokers[broker_id].epoch:
                self._told[broker_id] = brokers[broker_id].epoch
                first = f"{partitions[0].topic}:{partitions[0].partition}"
                logger.error(
                    "event=data-gone broker=%d partitions=%d first=%s: the broker came back with empty directories, and was the last "
                    "in-sync replica. Stop it and start it with its old data; or, if that is gone, let other replicas lead with what they "
                    "have: headwater cluster elect --unclean %s",
                    broker_id, len(partitions), first, first,
                )  # fmt: skip
