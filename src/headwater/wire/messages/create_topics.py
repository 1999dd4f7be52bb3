"""CreateTopics: makes topics, with configs and, if wanted, replicas assigned by hand.

v4 lets the broker choose the partition count and replication factor. v5 is flexible and answers the topic as made,
with its configs. v6 may be throttled by a quota. v7 answers the topic id.
"""

from headwater.wire.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Array, Message, Struct, field


class CreatableReplicaAssignment(Struct):
    partition_index: int = field(INT32)
    broker_ids: list[int] = field(Array(INT32))


class CreatableTopicConfig(Struct):
    name: str = field(STRING)
    value: str | None = field(STRING, nullable_since=0)


class CreatableTopic(Struct):
    name: str = field(STRING)
    num_partitions: int = field(INT32)  # -1 when assigned by hand, or for the default (v4 on)
    replication_factor: int = field(INT16)  # -1 likewise
    assignments: list[CreatableReplicaAssignment] = field(Array(CreatableReplicaAssignment))
    configs: list[CreatableTopicConfig] = field(Array(CreatableTopicConfig))


class CreateTopicsRequest(Message, key=19, versions=(2, 7), flexible_since=5):
    topics: list[CreatableTopic] = field(Array(CreatableTopic))
    timeout_ms: int = field(INT32, default=60_000)
    validate_only: bool = field(BOOL)


class CreatableTopicConfigs(Struct):
    name: str = field(STRING)
    value: str | None = field(STRING, nullable_since=0)
    read_only: bool = field(BOOL)
    config_source: int = field(INT8, default=-1)
    is_sensitive: bool = field(BOOL)


class CreatableTopicResult(Struct):
    name: str = field(STRING)
    topic_id: bytes = field(UUID, since=7)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    topic_config_error_code: int = field(INT16, since=5, tag=0)
    num_partitions: int = field(INT32, since=5, default=-1)
    replication_factor: int = field(INT16, since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = field(Array(CreatableTopicConfigs), since=5, nullable_since=0)


class CreateTopicsResponse(Message, key=19, versions=(2, 7), flexible_since=5):
    throttle_time_ms: int = field(INT32)
    topics: list[CreatableTopicResult] = field(Array(CreatableTopicResult))
