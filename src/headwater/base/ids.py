"""Names for the numbers that must not be mixed up. `NewType` costs nothing at run time."""

from typing import Final, NamedTuple, NewType

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerId = NewType("BrokerId", int)
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
TopicId = NewType("TopicId", bytes)  # 16 bytes, as on the wire; `encode_topic_id` gives Kafka's text form

NO_TOPIC_ID: Final = TopicId(bytes(16))
NO_BROKER: Final = BrokerId(-1)
NO_LEADER_EPOCH: Final = LeaderEpoch(-1)
NO_PRODUCER_ID: Final = ProducerId(-1)


class TopicPartition(NamedTuple):
    """A partition by name: for the edge (files, clients, messages). In memory, partitions are keyed by topic id."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionKey(NamedTuple):
    """A partition as the broker's memory knows it: a topic deleted and made again is another one."""

    topic_id: TopicId
    partition: int
