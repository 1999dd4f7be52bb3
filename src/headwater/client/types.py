"""What the client gives back: plain named tuples, free of anything that belongs to a message version."""

from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode

NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1

# Timestamps with a meaning, for list_offsets
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1


def topic_id_text(topic_id: bytes) -> str:
    """Kafka's text form of a uuid: URL-safe base64 without its padding."""
    return urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


class Broker(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None = None
    fenced: bool = False  # registered, but not serving now


class Partition(NamedTuple):
    topic: str
    partition: int
    leader: int  # -1: none
    leader_epoch: int
    replicas: list[int]
    in_sync_replicas: list[int]
    offline_replicas: list[int]
    error: ErrorCode = ErrorCode.NONE


class Topic(NamedTuple):
    name: str
    topic_id: bytes
    internal: bool
    partitions: list[Partition]  # in order of their index
    error: ErrorCode = ErrorCode.NONE


class ClusterInfo(NamedTuple):
    cluster_id: str | None
    controller_id: int
    brokers: list[Broker]


class NewTopic(NamedTuple):
    """-1 leaves the number to the broker's defaults. `assignments`: the brokers of each partition, in place of
    numbers.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = {}
    assignments: Sequence[list[int]] = ()


class CreatedTopic(NamedTuple):
    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


class OffsetAt(NamedTuple):
    """An answer of ListOffsets. Offset -1: no record is that young."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class ConfigSynonym(NamedTuple):
    """Another name, or another place, that a setting's value may come from."""

    name: str
    value: str | None
    source: str


class ConfigEntry(NamedTuple):
    name: str
    value: str | None
    source: str  # topic, dynamic-broker, dynamic-default, static-broker, default, group, client-metrics, dynamic-logger
    read_only: bool
    sensitive: bool
    type: str
    documentation: str | None
    synonyms: Sequence[ConfigSynonym] = ()  # in the order in which they count

    @property
    def is_default(self) -> bool:
        return self.source == "default"


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """What has settings. A broker's name is its number; an empty one stands for the defaults of all brokers."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.type.name.lower().replace('_', ' ')} {self.name!r}"


class LogDirReplica(NamedTuple):
    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool
    dirty_bytes: int = -1  # that compaction has still to do; -1: not compacted, or the broker does not say


class LogDir(NamedTuple):
    broker: int
    path: str
    error: ErrorCode
    total_bytes: int  # -1: the broker does not say
    usable_bytes: int
    replicas: list[LogDirReplica]

    @property
    def size_bytes(self) -> int:
        return sum(replica.size_bytes for replica in self.replicas)


class Header(NamedTuple):
    key: str
    value: bytes | None


class OutgoingRecord(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None  # None: by key, or by the partitioner
    timestamp_ms: int | None = None  # None: now


class ProducedRecord(NamedTuple):
    """Where a record went. With acks=0 nobody knows the offset: -1."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class FetchedRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    log_append_time: bool
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    attributes: int
