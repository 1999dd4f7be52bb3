"""SQL over streams: ksqlDB's language, compiled to a topology of `headwater.streams` and to nothing else."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.sql.dbapi import connect as connect

__all__ = ["connect"]


def __getattr__(name: str) -> Any:
    if name == "connect":
        from headwater.sql.dbapi import connect

        return connect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
