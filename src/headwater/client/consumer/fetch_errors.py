"""What an error of a fetch answer asks for. Pure: a table."""

from enum import Enum, auto
from typing import Final

from headwater.base.errors import ErrorCode


class Remedy(Enum):
    REFRESH = auto()  # the metadata is out of date, or soon will be: ask for it, pause, go on
    RESET = auto()  # the position is not in the log
    RETRY = auto()  # pause, go on
    TELL = auto()  # poll raises it; fetching goes on after a pause


_REMEDIES: Final = {
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Remedy.REFRESH,
    ErrorCode.REPLICA_NOT_AVAILABLE: Remedy.REFRESH,
    ErrorCode.LEADER_NOT_AVAILABLE: Remedy.REFRESH,
    ErrorCode.KAFKA_STORAGE_ERROR: Remedy.REFRESH,
    ErrorCode.FENCED_LEADER_EPOCH: Remedy.REFRESH,
    ErrorCode.UNKNOWN_LEADER_EPOCH: Remedy.REFRESH,
    ErrorCode.OFFSET_NOT_AVAILABLE: Remedy.RETRY,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Remedy.REFRESH,
    ErrorCode.UNKNOWN_TOPIC_ID: Remedy.REFRESH,
    ErrorCode.INCONSISTENT_TOPIC_ID: Remedy.REFRESH,
    ErrorCode.OFFSET_OUT_OF_RANGE: Remedy.RESET,
    ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE: Remedy.RETRY,
    ErrorCode.UNKNOWN_SERVER_ERROR: Remedy.RETRY,
    ErrorCode.REQUEST_TIMED_OUT: Remedy.RETRY,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: Remedy.RETRY,
}

SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


def remedy_for(code: int) -> Remedy:
    return _REMEDIES.get(code, Remedy.TELL)  # type: ignore[call-overload,no-any-return]
