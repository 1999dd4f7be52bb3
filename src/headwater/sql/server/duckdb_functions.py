"""Scalar functions of CREATE FUNCTION in queries that DuckDB carries out: those that the query calls and whose
parameters and result have plain types. DuckDB calls them row by row. What one raises is NULL, as elsewhere. DuckDB may
have a function of its own by that name; so ours have others there (`OwnFunction.called`).
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headwater.sql.functions.registry import ScalarFunction
from headwater.sql.functions.scope import MadeFunction
from headwater.sql.functions.signatures import Pattern
from headwater.sql.language.tokens import tokenize
from headwater.sql.language.types import ArrayType, Type

_NAMES: Final = {
    "BOOLEAN": "BOOLEAN",
    "INTEGER": "INTEGER",
    "BIGINT": "BIGINT",
    "DOUBLE": "DOUBLE",
    "STRING": "VARCHAR",
    "BYTES": "BLOB",
    "DATE": "DATE",
    "TIME": "TIME",
    "TIMESTAMP": "TIMESTAMP",
}


@dataclass(frozen=True, slots=True)
class OwnFunction:
    """`takes` and `gives`: types as DuckDB writes them."""

    name: str
    call: Callable[..., Any]
    takes: tuple[str, ...]
    gives: str
    takes_null: bool

    @property
    def called(self) -> str:
        return f"own_{self.name.lower()}"

    def register(self, connection: Any) -> None:
        def call(*given: Any) -> Any:
            return self.call(*given)

        # DuckDB counts the parameters.
        places = [inspect.Parameter(f"p{at}", inspect.Parameter.POSITIONAL_ONLY) for at in range(len(self.takes))]
        call.__signature__ = inspect.Signature(places)  # type: ignore[attr-defined]
        nulls = "special" if self.takes_null else "default"
        connection.create_function(
            self.called,
            call,
            list(self.takes),
            self.gives,
            null_handling=nulls,
            exception_handling="return_null",
        )


def own_functions(text: str, made: Mapping[str, MadeFunction]) -> list[OwnFunction]:
    """Those that a query calls."""
    called = {
        token.text.upper()
        for token, behind in itertools.pairwise(tokenize(text))
        if token.is_name and behind.text == "("
    }
    found = [_own(each) for name, each in made.items() if name in called]
    return [each for each in found if each is not None]


def _own(function: MadeFunction) -> OwnFunction | None:
    """None where DuckDB has no type like one of its own."""
    if not isinstance(function, ScalarFunction):
        return None
    (overload,) = function.overloads
    if any(each.variadic for each in overload.signature.parameters) or overload.returns is None:
        return None
    takes = [_pattern_name(each.pattern) for each in overload.signature.parameters]
    gives = _type_name(overload.returns(()))
    if gives is None or None in takes:
        return None
    return OwnFunction(function.name, overload.call, tuple(map(str, takes)), gives, overload.nulls)


def _pattern_name(pattern: Pattern) -> str | None:
    if pattern.name == "ARRAY" and pattern.inner:
        item = _pattern_name(pattern.inner[0])
        return None if item is None else f"{item}[]"
    return _NAMES.get(pattern.name)


def _type_name(given: Type) -> str | None:
    if isinstance(given, ArrayType):
        item = _type_name(given.item)
        return None if item is None else f"{item}[]"
    return _NAMES.get(str(given))
