"""What an error of the coordinator means for a member: one table for each protocol. Pure."""

from enum import Enum, auto
from typing import Final

from headwater.base.errors import ErrorCode


class Api(Enum):
    JOIN = auto()
    SYNC = auto()
    HEARTBEAT = auto()
    COMMIT = auto()


class Verdict(Enum):
    GO_ON = auto()  # nothing happened
    TAKE_ID = auto()  # the coordinator gave a member id: join again with it
    AGAIN = auto()  # the same once more, after a pause, of whoever is the coordinator then
    REJOIN = auto()  # the group rebalances: give up what must be given up, and join; the member is still one
    LOSE_GENERATION = auto()  # the group went on without this member, which is still known: all it owned is lost
    LOSE_MEMBER = auto()  # the group does not know the member any more: lost, and joins as a new one
    TELL = auto()  # the user must know; the next poll tries again
    END = auto()  # the user must know, and nothing but a new consumer helps


_ANYWHERE: Final = {
    ErrorCode.NONE: Verdict.GO_ON,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.AGAIN,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.AGAIN,
    ErrorCode.NOT_COORDINATOR: Verdict.AGAIN,
    ErrorCode.NETWORK_EXCEPTION: Verdict.AGAIN,
    ErrorCode.REQUEST_TIMED_OUT: Verdict.AGAIN,
    ErrorCode.BROKER_NOT_AVAILABLE: Verdict.AGAIN,
    ErrorCode.FENCED_INSTANCE_ID: Verdict.END,
}
_MEMBER: Final = {
    ErrorCode.REBALANCE_IN_PROGRESS: Verdict.REJOIN,
    ErrorCode.ILLEGAL_GENERATION: Verdict.LOSE_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.LOSE_MEMBER,
}
_JOIN: Final = {
    ErrorCode.MEMBER_ID_REQUIRED: Verdict.TAKE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS: Verdict.AGAIN,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.LOSE_MEMBER,
    ErrorCode.ILLEGAL_GENERATION: Verdict.LOSE_GENERATION,
    ErrorCode.INVALID_GROUP_ID: Verdict.END,
    ErrorCode.INVALID_SESSION_TIMEOUT: Verdict.END,
    ErrorCode.UNSUPPORTED_VERSION: Verdict.END,
}
_TABLE: Final = {
    Api.JOIN: _ANYWHERE | _JOIN,
    Api.SYNC: _ANYWHERE | _MEMBER,
    Api.HEARTBEAT: _ANYWHERE | _MEMBER,
    Api.COMMIT: _ANYWHERE | _MEMBER,
}


def classic_verdict(api: Api, code: ErrorCode) -> Verdict:
    """GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL and missing permissions are told: they may pass."""
    found = _TABLE[api].get(code)
    if found is not None:
        return found
    if api is Api.COMMIT:
        return Verdict.GO_ON  # it is about the offsets, not about the member
    return Verdict.AGAIN if code.retriable else Verdict.TELL


_CONSUMER: Final = {
    ErrorCode.FENCED_MEMBER_EPOCH: Verdict.LOSE_MEMBER,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.LOSE_MEMBER,
    ErrorCode.GROUP_ID_NOT_FOUND: Verdict.LOSE_MEMBER,
    ErrorCode.UNRELEASED_INSTANCE_ID: Verdict.END,
    ErrorCode.UNSUPPORTED_ASSIGNOR: Verdict.END,
    ErrorCode.UNSUPPORTED_VERSION: Verdict.END,
    ErrorCode.INVALID_REQUEST: Verdict.END,
    ErrorCode.INVALID_GROUP_ID: Verdict.END,
}
_ASKS_FOR_HEARTBEAT: Final = frozenset(
    (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
)


def consumer_verdict(code: ErrorCode) -> Verdict:
    """What an answer to a heartbeat of the consumer protocol means: GO_ON, AGAIN, LOSE_MEMBER, TELL or END."""
    found = (_ANYWHERE | _CONSUMER).get(code)
    if found is not None:
        return found
    return Verdict.AGAIN if code.retriable else Verdict.TELL


def commit_asks_for_heartbeat(code: ErrorCode) -> bool:
    """A commit refused like this says that the member knows less than the coordinator: the next heartbeat tells
    what.
    """
    return code in _ASKS_FOR_HEARTBEAT
