"""What a refused write means to the one who asked for it."""

from headwater.base.coordination import (
    ConnectionLost,
    CoordinationError,
    NodeExists,
    NodeMissing,
    NotAuthenticated,
    NotAuthorized,
    SessionLost,
    WrongVersion,
)
from headwater.base.errors import ErrorCode, KafkaError
from headwater.metadata.cluster import layout


def is_disconnection(error: CoordinationError) -> bool:
    return isinstance(error, ConnectionLost | SessionLost)


def is_deposition(error: CoordinationError) -> bool:
    """Another controller has been elected since."""
    return isinstance(error, WrongVersion | NodeMissing) and error.path == layout.CONTROLLER_EPOCH


def sentence(error: NotAuthorized) -> str:
    if isinstance(error, NotAuthenticated):
        return f"ZooKeeper does not know this broker by any login, so {error.path} cannot belong to it"
    return f"The ACLs in ZooKeeper do not let this broker use {error.path}"


def meaning(error: CoordinationError) -> KafkaError:
    if is_deposition(error):
        return KafkaError(ErrorCode.NOT_CONTROLLER, "Another broker has become the controller.")
    if isinstance(error, WrongVersion):
        return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, "The partition has changed since.")
    if isinstance(error, NotAuthorized):
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{sentence(error)}.")
    if isinstance(error, NodeExists):
        return _exists(error.path)
    if isinstance(error, NodeMissing) and error.path.startswith(f"{layout.TOPIC_IDS}/"):
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "The topic has been deleted.")
    if isinstance(error, NodeMissing):
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"ZooKeeper has no {error.path}.")
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"ZooKeeper refused a write: {error}.")


def _exists(path: str) -> KafkaError:
    directory, _, name = path.rpartition("/")
    if directory in (layout.TOPICS, layout.TOPIC_CONFIGS):
        return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"ZooKeeper has {path} already.")
