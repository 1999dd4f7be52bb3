"""Where a partition has gone (KIP-951): beside the error that this broker does not lead it, a client finds who does,
and need not ask for metadata first.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.base.errors import ErrorCode
from headwater.base.ids import NO_BROKER, BrokerId, TopicId

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

TOLD_WITH: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class Leader(NamedTuple):
    leader_id: BrokerId
    leader_epoch: int


class Address(NamedTuple):
    node_id: BrokerId
    host: str
    port: int
    rack: str | None


def leader_of(broker: "Broker", topic: str | None, topic_id: bytes, index: int) -> Leader | None:
    """The leader of a partition, named or by id; None if there is none, or no such partition."""
    found = broker.image.ids_by_name.get(topic) if topic else TopicId(topic_id)
    state = None if found is None else broker.image.topics.get(found)
    if state is None or not 0 <= index < len(state.partitions):
        return None
    partition = state.partitions[index]
    return None if partition.leader == NO_BROKER else Leader(partition.leader, partition.leader_epoch)


def addresses_of(broker: "Broker", listener: str, leaders: Iterable[BrokerId]) -> list[Address]:
    """Where clients of this listener reach them, each once."""
    brokers = broker.image.brokers
    return [
        Address(leader, endpoint.host, endpoint.port, brokers[leader].rack)
        for leader in dict.fromkeys(leaders)
        if leader in brokers
        for endpoint in brokers[leader].endpoints
        if endpoint.listener == listener
    ]
