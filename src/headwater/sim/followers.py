"""In-sync followers, as far as a leader notices them: they confirm what they have, some time after it was appended.

Stands in for the other nodes until a world has them. By the follower's own account (`PartitionHistory.follower_has`),
not by the leader's, is judged whether an acknowledgement or a read came too early.
"""

from typing import TYPE_CHECKING

from headwater.base.ids import PartitionKey
from headwater.replication.partition import Partition

if TYPE_CHECKING:
    from headwater.sim.world import World


class Followers:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._is_followed: dict[PartitionKey, bool] = {}
        self._attached: set[PartitionKey] = set()
        self.are_stalled = False
        self._chance = world.stream("followers")

    def start(self) -> None:
        self._world.heap.call_later(self._chance.randint(10, 80), self._fetch)

    def leader_died(self) -> None:
        """Whoever leads next begins without followers; they come back to it."""
        self._attached.clear()
        for topic in self._world.catalog.topics.values():
            for history in topic.partitions:
                history.follower_has = None

    def _fetch(self) -> None:
        self.start()
        broker = self._world.node.broker
        if broker is not None and not self.are_stalled:
            for key, partition in list(broker.partitions.items()):
                if self._follows(key) and self._chance.random() < 0.6:
                    self._confirm(key, partition)

    def _follows(self, key: PartitionKey) -> bool:
        if key not in self._is_followed:
            self._is_followed[key] = self._chance.randrange(100) < self._world.faults.followed_percent
        return self._is_followed[key]

    def _confirm(self, key: PartitionKey, partition: Partition) -> None:
        topic = self._world.catalog.topics.get(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            return  # no client knows it yet
        end = partition.log.log_end_offset
        topic.partitions[key.partition].follower_has = end
        partition.confirm(end)
        if key not in self._attached:
            self._attached.add(key)
            self._world.note(f"follower of {partition.topic}-{partition.index} from {end} on")
