"""Refusals of statements that ksqlDB has error codes of their own for."""

from __future__ import annotations

from typing import Final

from headwater.sql.language.errors import SqlError


class WrongEndpointError(SqlError):
    """A query where statements are carried out."""


class TooManyPushesError(SqlError):
    """As many push queries run as may."""


BAD_STATEMENT: Final = 40001
SERVER_ERROR: Final = 50000
_CODES: Final[dict[type[SqlError], int]] = {WrongEndpointError: 40002, TooManyPushesError: 40003}


def code_of(error: SqlError) -> int:
    return _CODES.get(type(error), BAD_STATEMENT)
