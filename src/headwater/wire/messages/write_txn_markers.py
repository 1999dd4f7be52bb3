"""WriteTxnMarkers: from the transaction coordinator to the leaders of partitions, ends transactions in their logs.

v1 is flexible, v2 tells the transaction version (KIP-1228).
"""

from headwater.wire.schema import BOOL, INT8, INT16, INT32, INT64, STRING, Array, Message, Struct, field


class WritableTxnMarkerTopic(Struct):
    name: str = field(STRING)
    partition_indexes: list[int] = field(Array(INT32))


class WritableTxnMarker(Struct):
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    transaction_result: bool = field(BOOL)  # True commits, False aborts
    topics: list[WritableTxnMarkerTopic] = field(Array(WritableTxnMarkerTopic))
    coordinator_epoch: int = field(INT32)
    transaction_version: int = field(INT8, since=2)


class WriteTxnMarkersRequest(Message, key=27, versions=(1, 2), flexible_since=1):
    markers: list[WritableTxnMarker] = field(Array(WritableTxnMarker))


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = field(INT32)
    error_code: int = field(INT16)


class WritableTxnMarkerTopicResult(Struct):
    name: str = field(STRING)
    partitions: list[WritableTxnMarkerPartitionResult] = field(Array(WritableTxnMarkerPartitionResult))


class WritableTxnMarkerResult(Struct):
    producer_id: int = field(INT64)
    topics: list[WritableTxnMarkerTopicResult] = field(Array(WritableTxnMarkerTopicResult))


class WriteTxnMarkersResponse(Message, key=27, versions=(1, 2), flexible_since=1):
    markers: list[WritableTxnMarkerResult] = field(Array(WritableTxnMarkerResult))
