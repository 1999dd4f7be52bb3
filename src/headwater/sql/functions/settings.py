"""Properties that functions look at while a statement is compiled: ksqlDB's `ksql.functions.<name>.<setting>`."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Final

from headwater.sql.language.errors import SqlError

FUNCTION_SETTINGS: Final[ContextVar[Mapping[str, str]]] = ContextVar(
    "function settings",
    default=MappingProxyType({}),
)


def limit_of(function: str) -> int | None:
    """How many items the function keeps for one key: `ksql.functions.<function>.limit`, or for all, `_global_`. None:
    no limit.
    """
    settings = FUNCTION_SETTINGS.get()
    name = f"ksql.functions.{function.lower()}.limit"
    given = settings.get(name, settings.get("ksql.functions._global_.limit"))
    if given is None:
        return None
    try:
        limit = int(given)
    except ValueError:
        raise SqlError(f"{name} cannot be '{given}'.", hint="It is a whole number.") from None
    return limit if limit >= 0 else None
