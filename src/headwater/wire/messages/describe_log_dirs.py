"""DescribeLogDirs: the log directories of a broker and the size of each replica in them.

v2 is flexible, v3 has an error for the whole response, v4 the total and usable bytes of the volume, v5 says whether
a directory is cordoned.
"""

from headwater.wire.schema import BOOL, INT16, INT32, INT64, STRING, Array, Message, Struct, field


class DescribableLogDirTopic(Struct):
    topic: str = field(STRING)
    partitions: list[int] = field(Array(INT32))


class DescribeLogDirsRequest(Message, key=35, versions=(1, 5), flexible_since=2):
    topics: list[DescribableLogDirTopic] | None = field(Array(DescribableLogDirTopic), nullable_since=0)  # None for all


class DescribeLogDirsPartition(Struct):
    partition_index: int = field(INT32)
    partition_size: int = field(INT64)
    offset_lag: int = field(INT64)
    is_future_key: bool = field(BOOL)
    dirty_bytes: int = field(INT64, since=2, tag=10_000, default=-1)  # ours: what compaction has to do; others skip it


class DescribeLogDirsTopic(Struct):
    name: str = field(STRING)
    partitions: list[DescribeLogDirsPartition] = field(Array(DescribeLogDirsPartition))


class DescribeLogDirsResult(Struct):
    error_code: int = field(INT16)
    log_dir: str = field(STRING)
    topics: list[DescribeLogDirsTopic] = field(Array(DescribeLogDirsTopic))
    total_bytes: int = field(INT64, since=4, default=-1)
    usable_bytes: int = field(INT64, since=4, default=-1)
    is_cordoned: bool = field(BOOL, since=5)


class DescribeLogDirsResponse(Message, key=35, versions=(1, 5), flexible_since=2):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, since=3)
    results: list[DescribeLogDirsResult] = field(Array(DescribeLogDirsResult))
