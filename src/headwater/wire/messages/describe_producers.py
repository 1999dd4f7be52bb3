"""DescribeProducers: the producers that partitions know of, and their open transactions. Flexible from the start."""

from headwater.wire.schema import INT16, INT32, INT64, STRING, Array, Message, Struct, field


class TopicRequest(Struct):
    name: str = field(STRING)
    partition_indexes: list[int] = field(Array(INT32))


class DescribeProducersRequest(Message, key=61, versions=(0, 0), flexible_since=0):
    topics: list[TopicRequest] = field(Array(TopicRequest))


class ProducerState(Struct):
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT32)
    last_sequence: int = field(INT32, default=-1)
    last_timestamp: int = field(INT64, default=-1)
    coordinator_epoch: int = field(INT32)
    current_txn_start_offset: int = field(INT64, default=-1)


class PartitionResponse(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    active_producers: list[ProducerState] = field(Array(ProducerState))


class TopicResponse(Struct):
    name: str = field(STRING)
    partitions: list[PartitionResponse] = field(Array(PartitionResponse))


class DescribeProducersResponse(Message, key=61, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = field(INT32)
    topics: list[TopicResponse] = field(Array(TopicResponse))
