"""Which replicas are copied at a limited rate, as the configs of topics name them, and the budgets of this broker for
them.

`leader.replication.throttled.replicas` names partitions and the brokers that give,
`follower.replication.throttled.replicas` those that take: "0:1,0:2" is partition 0 on the brokers 1 and 2, "*" is all
of the topic. A replica that is in sync is never held back, or writes with acks=all would wait for it. Owned by
`Replicas`.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from headwater.base.ids import BrokerId, PartitionKey
from headwater.replication.partition import Partition
from headwater.replication.throttle import Throttle

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

LEADER_RATE: Final = "leader.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
_ALL: Final = "*"


class Throttles:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        config = broker.config
        self.following = Throttle(broker.clock, lambda: config.int(FOLLOWER_RATE), self._follows_throttled)
        self._leading = Throttle(broker.clock, lambda: config.int(LEADER_RATE), self._leads_throttled)

    def holds_back(self, partition: Partition, follower: BrokerId) -> bool:
        """Whether a follower of what is led here gets nothing for now."""
        return _is_behind(partition, follower) and self._leading.rest_ms(_key(partition)) > 0

    def gave(self, partition: Partition, follower: BrokerId, size_bytes: int) -> None:
        if _is_behind(partition, follower):
            self._leading.took(_key(partition), size_bytes)

    def _leads_throttled(self, key: PartitionKey) -> bool:
        return self._is_named(LEADER_REPLICAS, key)

    def _follows_throttled(self, key: PartitionKey) -> bool:
        if not self._is_named(FOLLOWER_REPLICAS, key):
            return False
        state = self._broker.image.topics[key.topic_id].partitions[key.partition]
        return self._broker.broker_id not in state.in_sync_replicas

    def _is_named(self, name: str, key: PartitionKey) -> bool:
        topic = self._broker.image.topics.get(key.topic_id)
        text = None if topic is None else topic.config.get(name)
        return bool(text) and is_named(str(text), key.partition, self._broker.broker_id)


def is_named(text: str, partition: int, broker: int) -> bool:
    names = _names(text)
    return _ALL in names or f"{partition}:{broker}" in names


@lru_cache(maxsize=1024)
def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(","))


def _is_behind(partition: Partition, follower: BrokerId) -> bool:
    return partition.in_sync is not None and follower not in partition.in_sync.members


def _key(partition: Partition) -> PartitionKey:
    return PartitionKey(partition.topic_id, partition.index)
