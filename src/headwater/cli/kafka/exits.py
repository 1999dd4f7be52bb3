"""How a script ends: with Kafka's words and exit codes, never with a traceback, and quietly when its reader has
gone.
"""

import sys
from collections.abc import Callable
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.cli.lost_output import forget_stdout, unwritten
from headwater.cli.script_errors import Stop, Usage

_PACKAGE: Final = "org.apache.kafka.common.errors."
_NAMES: Final = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "OutOfOrderSequenceException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.NETWORK_EXCEPTION: "NetworkException",
    ErrorCode.INVALID_TXN_STATE: "InvalidTxnStateException",
}
_MESSAGES: Final = {
    ErrorCode.OFFSET_OUT_OF_RANGE: "The requested offset is not within the range of offsets maintained by the server.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "Deleting offsets of a topic is forbidden while the consumer group is actively "
    "subscribed to it.",
    ErrorCode.UNSUPPORTED_VERSION: "The version of API is not supported.",
    ErrorCode.POLICY_VIOLATION: "Request parameters do not satisfy the configured policy.",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "The transactionalId could not be found.",
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
}


def exception_name(code: ErrorCode) -> str:
    """The Java exception of an error code: GROUP_ID_NOT_FOUND -> GroupIdNotFoundException."""
    camel = "".join(word.capitalize() for word in code.name.split("_"))
    return _NAMES.get(code, f"{camel}Exception")


def message_of(error: KafkaError) -> str:
    """What the broker said, or else what Kafka's clients say for the code."""
    return _MESSAGES.get(error.code) or error.message or error.code.name


def java_text(error: KafkaError) -> str:
    """An error as Java prints it in the middle of a line."""
    return f"{_PACKAGE}{exception_name(error.code)}: {message_of(error)}"


def told_text(error: KafkaError) -> str:
    """The same, with what was said about this very case, if anything was."""
    return f"{_PACKAGE}{exception_name(error.code)}: {error.message or message_of(error)}"


def print_error(message: str) -> None:
    """As Kafka's tool for groups says it, among its results."""
    sys.stdout.write(f"\nError: {message}\n")


def ended(body: Callable[[], int], usage: Callable[[], str]) -> int:
    """Runs a script's body; every exception that a person may cause becomes a sentence and exit code 1."""
    try:
        code = body()
        sys.stdout.flush()
        return code
    except Usage as wrong:
        sys.stderr.write(f"{wrong}\n{usage()}")
    except Stop as stop:
        if stop.message:
            sys.stderr.write(f"{stop.message}\n")
        return stop.code
    except BrokenPipeError:
        forget_stdout()
        return 0
    except OSError as error:
        problem = unwritten(error)
        if problem is None:
            raise
        forget_stdout()
        _tell(problem)
    except KeyboardInterrupt:
        return 130
    except (KafkaError, UserError) as error:
        _tell(error)
    return 1


def _tell(error: KafkaError | UserError) -> None:
    from headwater.cli.explain import explain

    sys.stderr.write(f"{explain(error)}\n")
