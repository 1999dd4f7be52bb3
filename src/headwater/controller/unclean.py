"""Counts the unclean elections that have happened, whatever became of the commits that they were part of.

A commit may fail as a whole and be carried out in part, or its answer may be lost with the controller's term. So what
was planned is noted, and counted when the change is seen.
"""

import logging

from headwater.base.ids import BrokerId, LeaderEpoch, PartitionKey
from headwater.base.metrics import ControllerMetrics
from headwater.controller.planning import Planned
from headwater.metadata.image import ClusterImage, PartitionChanged

logger = logging.getLogger("headwater.controller")


class UncleanElections:
    def __init__(self, image: ClusterImage, metrics: ControllerMetrics) -> None:
        self._image = image
        self._metrics = metrics
        self._planned: dict[PartitionKey, tuple[BrokerId, LeaderEpoch]] = {}  # the last one of each partition

    def plan(self, planned: Planned) -> None:
        self._planned[planned.key] = (planned.change.leader, planned.change.leader_epoch)

    def applied(self, change: PartitionChanged) -> None:
        """One leader epoch has one leader, so this is the planned one or it will never be."""
        key = PartitionKey(change.topic_id, change.partition)
        planned = self._planned.get(key)
        if planned is None or change.leader_epoch < planned[1]:
            return
        del self._planned[key]
        if (change.leader, change.leader_epoch) == planned:
            self._metrics.unclean_elections += 1
            topic = self._image.topics.get(key.topic_id)
            name = "" if topic is None else topic.name
            logger.warning("event=unclean-election partition=%s-%d leader=%d", name, key.partition, change.leader)
