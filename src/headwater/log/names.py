"""The names of files and directories in a log directory, as Kafka has them."""

import re
from typing import Final

from headwater.base.ids import TopicPartition

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"
NEXT: Final = ".next"  # ours: behind the name of a checkpoint that is about to take its place
SYNC_FAILED: Final = ".headwater_syncfailed"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"
MOVED_FROM: Final = (
    "moved-from"  # ours: in a replica that was copied from another log directory, until the old one is gone
)

KRAFT_METADATA: Final = "__cluster_metadata"  # the log of Apache Kafka's controllers, which lies among the partitions

TEMPORARY: Final = ".tmp"  # behind the name of a file that is about to take its place

_OF_A_SEGMENT: Final = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT)
_LEFT_BY_A_CRASH: Final = (DELETED, CLEANED, SWAP, TEMPORARY)
_SEGMENT_FILE: Final = re.compile(
    r"([0-9]{20})\.(log|index|timeindex|txnindex|snapshot)(\.deleted|\.cleaned|\.swap|\.tmp)?"
)
_SMALL_FILES: Final = tuple(name + TEMPORARY for name in (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, MOVED_FROM))
_OFFSET_MAX: Final = (1 << 63) - 1

_DELETED_DIRECTORY: Final = re.compile(r"(.+)\.([0-9a-f]{32})-delete")
_FUTURE_DIRECTORY: Final = re.compile(r"(.+)-([0-9]+)\.([0-9a-f]{32})-future")
_OTHER_DIRECTORY: Final = re.compile(r".+\.([0-9a-f]{32})-(future|stray)")
_DIRECTORY_NAME_MAX: Final = 255


def segment_name(offset: int) -> str:
    return f"{offset:020d}"


def snapshot_name(offset: int) -> str:
    return segment_name(offset) + SNAPSHOT


def is_foreign(name: str) -> bool:
    """Whether a file in a partition's directory ends like one of a log and is none: somebody has put it there."""
    if not name.endswith(_OF_A_SEGMENT + _LEFT_BY_A_CRASH) or name in _SMALL_FILES:
        return False
    return _SEGMENT_FILE.fullmatch(name) is None or offset_of(name) > _OFFSET_MAX


def own_files(entries: list[str]) -> list[str]:
    """What a log may read, rename and remove of what lies in its directory."""
    return [name for name in entries if not is_foreign(name)]


def is_leftover(name: str) -> bool:
    """Of a log's own files: one that a crash has left half made or half gone."""
    return name.endswith(_LEFT_BY_A_CRASH)


def offset_of(name: str) -> int:
    """The offset that a segment's or snapshot's file is named after."""
    return int(name[: name.index(".")])


def parse_partition_directory(name: str) -> TopicPartition | None:
    """The partition whose log this directory holds; None for anything else that lies in a log directory."""
    topic, dash, number = name.rpartition("-")
    if not dash or topic in ("", KRAFT_METADATA) or not number.isdecimal() or _DELETED_DIRECTORY.fullmatch(name):
        return None
    return TopicPartition(topic, int(number))


def is_deleted_directory(name: str) -> bool:
    return _DELETED_DIRECTORY.fullmatch(name) is not None


def is_set_aside_directory(name: str) -> bool:
    """A replica on its way between log directories (`-future`), or one that its cluster does not know (`-stray`)."""
    return _OTHER_DIRECTORY.fullmatch(name) is not None


def parse_future_directory(name: str) -> tuple[TopicPartition | None, str] | None:
    """Of a copy on its way: the partition, unless a long topic name was cut, and the digits that the old one will get
    too.
    """
    other = _OTHER_DIRECTORY.fullmatch(name)
    if other is None or other[2] != "future":
        return None
    whole = _FUTURE_DIRECTORY.fullmatch(name)
    is_cut = len(name) == _DIRECTORY_NAME_MAX
    partition = None if whole is None or is_cut else TopicPartition(whole[1], int(whole[2]))
    return partition, other[1]


def future_directory_name(partition: TopicPartition, unique: str) -> str:
    """`topic-partition.<32 hex digits>-future`: the copy of a replica that moves here from another log directory."""
    return _suffixed(partition, f".{unique}-future")


def deleted_directory_name(partition: TopicPartition, unique: str) -> str:
    """`topic-partition.<32 hex digits>-delete`; a long topic name is cut, the name is never parsed back."""
    return _suffixed(partition, f".{unique}-delete")


def stray_directory_name(partition: TopicPartition, unique: str) -> str:
    """The same for one that is nobody's and is kept: `-stray`."""
    return _suffixed(partition, f".{unique}-stray")


def _suffixed(partition: TopicPartition, suffix: str) -> str:
    return str(partition)[: _DIRECTORY_NAME_MAX - len(suffix)] + suffix
