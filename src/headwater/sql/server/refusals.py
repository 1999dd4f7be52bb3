"""Refusals of statements that ksqlDB has error codes of their own for."""

from __future__ import annotations

from typing import Final

from headwater.sql.language.errors import RegistryMissingError, SqlError


class WrongEndpointError(SqlError):
    """A query where statements are carried out."""


class TooManyPushesError(SqlError):
    """As many push queries run as may."""


class WrongPropertyError(SqlError):
    """A property of a request that cannot be set, whatever its statements are."""


class UnknownTopicError(SqlError):
    """A topic of PRINT that is not there, or that the caller may not see."""


class AssertionFailedError(SqlError):
    """What an ASSERT says is not so. The statement itself is right."""


BAD_REQUEST: Final = 40000
BAD_STATEMENT: Final = 40001
ASSERTION_FAILED: Final = 41700
NO_REGISTRY: Final = 42801
SERVER_ERROR: Final = 50000
_CODES: Final[dict[type[SqlError], int]] = {
    WrongEndpointError: 40002,
    TooManyPushesError: 40003,
    WrongPropertyError: BAD_REQUEST,
    UnknownTopicError: BAD_REQUEST,
    AssertionFailedError: ASSERTION_FAILED,
    RegistryMissingError: NO_REGISTRY,
}
GENERIC: Final = (BAD_REQUEST, ASSERTION_FAILED, NO_REGISTRY)  # these tell nothing of the statement


def code_of(error: SqlError) -> int:
    return _CODES.get(type(error), BAD_STATEMENT)
