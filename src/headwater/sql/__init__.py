"""SQL over streams: ksqlDB's language, compiled to a topology of `headwater.streams` and to nothing else.

This is also the module of Python's database API (PEP 249): `headwater.sql.connect()`, `headwater.sql.Error` and so on.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.sql.dbapi import (
        BINARY,
        DATETIME,
        NUMBER,
        ROWID,
        STRING,
        Binary,
        Connection,
        Cursor,
        DatabaseError,
        DataError,
        Date,
        DateFromTicks,
        Error,
        IntegrityError,
        InterfaceError,
        InternalError,
        NotSupportedError,
        OperationalError,
        ProgrammingError,
        Time,
        TimeFromTicks,
        Timestamp,
        TimestampFromTicks,
        Warning,  # noqa: A004
        apilevel,
        connect,
        paramstyle,
        threadsafety,
    )

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]


def __getattr__(name: str) -> Any:
    if name in __all__:  # imported when first asked for: the server does without
        from headwater.sql import dbapi

        return getattr(dbapi, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
