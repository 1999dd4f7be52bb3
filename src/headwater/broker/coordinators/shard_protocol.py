"""What the runtime asks of a shard, and what a client is told when its shard could not write. No state."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

from headwater.base.errors import ErrorCode
from headwater.coordinator.effects import CoordinatorRecord, Effects, Producer, TimerKey
from headwater.replication.partition import Partition

ErrorResponse = Callable[[ErrorCode], Any]
MayWrite = bool | Callable[[Any], bool]  # whether a request can lead to records; for some, the shard must be asked


class Shard(Protocol):
    def replay(self, record: CoordinatorRecord, producer: Producer | None) -> None: ...

    def replay_marker(self, producer: Producer, *, committed: bool) -> None: ...

    def timers_found(self) -> Iterator[tuple[TimerKey, int]]:
        """What to wait for, now that all is read, and how long. There may be a million; nobody asks the shard anything
        meanwhile.
        """
        ...

    def loaded(self, now_ms: int) -> Effects: ...

    def on_timer(self, key: TimerKey, now_ms: int) -> Effects: ...


def batch_bytes_max(partition: Partition) -> int:
    """Of what a shard writes at once, as its topic is configured now."""
    config = partition.log.config
    return min(config.max_message_bytes, config.segment_bytes)


S = TypeVar("S", bound=Shard)


def coordinator_error(code: ErrorCode) -> ErrorCode:
    """What a client is told when a coordinator could not write: something that makes it look for the coordinator
    again.
    """
    match code:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION | ErrorCode.NOT_ENOUGH_REPLICAS | ErrorCode.REQUEST_TIMED_OUT:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return ErrorCode.NOT_COORDINATOR
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE:
            return ErrorCode.UNKNOWN_SERVER_ERROR
        case _:
            return code
