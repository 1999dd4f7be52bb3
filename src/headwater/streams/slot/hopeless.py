"""Commits that fail, and will fail again: a right that is missing, something that brokers do not take at all. Pure.

What was processed since the last commit is processed again when a commit fails, which mends what passes. What does not
pass would be done again and again, and nobody would hear of it but the log.
"""

from typing import Final

from headwater.base.errors import ErrorCode, KafkaError, UserError

_MISSING_RIGHT: Final = frozenset(
    (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    )
)
_NOT_TAKEN: Final = frozenset(
    (
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    )
)
_PAUSE_S: Final = 0.25
_PAUSE_MAX_S: Final = 5.0


def raise_if_hopeless(application_id: str, error: KafkaError | TimeoutError) -> None:
    """Raises UserError for a failure that no repetition mends."""
    if not isinstance(error, KafkaError) or error.code not in _MISSING_RIGHT | _NOT_TAKEN:
        return
    rights = "Give the application's user the right (bin/kafka-acls), and start it again"
    raise UserError(
        f"What {application_id} makes cannot be committed",
        f"{error}; what was not committed is processed again by the next run",
        rights if error.code in _MISSING_RIGHT else "",
    ) from error


def pause_s(failed_in_a_row: int) -> float:
    """Before what failed is tried again: none after the first failure, which most often passes."""
    if failed_in_a_row < 2:
        return 0.0
    return min(_PAUSE_S * 2.0 ** min(failed_in_a_row - 2, 10), _PAUSE_MAX_S)
