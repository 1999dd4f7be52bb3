"""Metadata: brokers, the controller, topics and their partitions.

No topics means all of them in v0; from v1 on that is null, and an empty list means none. v1 adds racks, the
controller and internal topics, v2 the cluster id, v4 lets the client forbid automatic creation, v5 offline replicas,
v7 leader epochs, v8 authorised operations (for the cluster only up to v10). v9 is flexible. v10 has topic ids;
asking by them works from v12. v13 has an error for the whole response.
"""

from headwater.wire.schema import BOOL, INT16, INT32, STRING, UUID, Array, Message, Struct, field


class MetadataRequestTopic(Struct):
    topic_id: bytes = field(UUID, since=10)
    name: str | None = field(STRING, nullable_since=10)


class MetadataRequest(Message, key=3, versions=(0, 13), flexible_since=9):
    # None for all; v0 writes that as empty
    topics: list[MetadataRequestTopic] | None = field(Array(MetadataRequestTopic), nullable_since=1)
    allow_auto_topic_creation: bool = field(BOOL, since=4, default=True)
    include_cluster_authorized_operations: bool = field(BOOL, since=8, until=10)
    include_topic_authorized_operations: bool = field(BOOL, since=8)


class MetadataResponseBroker(Struct):
    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, since=1, nullable_since=0)


class MetadataResponsePartition(Struct):
    error_code: int = field(INT16)
    partition_index: int = field(INT32)
    leader_id: int = field(INT32)
    leader_epoch: int = field(INT32, since=7, default=-1)
    replica_nodes: list[int] = field(Array(INT32))
    isr_nodes: list[int] = field(Array(INT32))
    offline_replicas: list[int] = field(Array(INT32), since=5)


class MetadataResponseTopic(Struct):
    error_code: int = field(INT16)
    name: str | None = field(STRING, nullable_since=12)
    topic_id: bytes = field(UUID, since=10)
    is_internal: bool = field(BOOL, since=1)
    partitions: list[MetadataResponsePartition] = field(Array(MetadataResponsePartition))
    topic_authorized_operations: int = field(INT32, since=8, default=-0x8000_0000)


class MetadataResponse(Message, key=3, versions=(0, 13), flexible_since=9):
    throttle_time_ms: int = field(INT32, since=3)
    brokers: list[MetadataResponseBroker] = field(Array(MetadataResponseBroker))
    cluster_id: str | None = field(STRING, since=2, nullable_since=0)
    controller_id: int = field(INT32, since=1, default=-1)
    topics: list[MetadataResponseTopic] = field(Array(MetadataResponseTopic))
    cluster_authorized_operations: int = field(INT32, since=8, until=10, default=-0x8000_0000)
    error_code: int = field(INT16, since=13)
