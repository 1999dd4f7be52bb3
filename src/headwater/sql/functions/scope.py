"""Which functions a statement may call: ksqlDB's, and those that CREATE FUNCTION has made.

A statement is compiled within `using(...)`; whatever is compiled outside of one knows the built-in functions only. The
names of made functions that were looked up are noted, so that a function that a query uses is not dropped. Compiled
expressions hold the functions themselves: a query goes on with what it was made with. A function whose code is not here
(`withheld`) may be named by a statement that was accepted elsewhere, and by no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from headwater.sql.functions.aggregates import AGGREGATES, AggregateFunction
from headwater.sql.functions.registry import SCALARS, ScalarFunction
from headwater.sql.functions.settings import FUNCTION_SETTINGS
from headwater.sql.functions.tables import TABLE_FUNCTIONS, TableFunction
from headwater.sql.language.errors import SqlError

MadeFunction = ScalarFunction | AggregateFunction | TableFunction


@dataclass(slots=True)
class FunctionScope:
    made: Mapping[str, MadeFunction] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    withheld: Mapping[str, SqlError] = field(default_factory=dict)

    def find(self, name: str) -> MadeFunction | None:
        found = self.made.get(name)
        if found is not None:
            if name in self.withheld:
                error = self.withheld[name]
                raise type(error)(error.what, error.why, error.hint)
            self.used.add(name)
        return found


_current: ContextVar[FunctionScope] = ContextVar("functions", default=FunctionScope())  # noqa: B039  nobody adds to it


@contextmanager
def using(
    made: Mapping[str, MadeFunction], settings: Mapping[str, str], withheld: Mapping[str, SqlError] | None = None
) -> Iterator[FunctionScope]:
    """Expressions that are compiled within may call `made` too, but for what is `withheld`; `settings` are the
    properties of the statement.
    """
    scope = FunctionScope(made, withheld=withheld or {})
    token, with_settings = _current.set(scope), FUNCTION_SETTINGS.set(settings)
    try:
        yield scope
    finally:
        _current.reset(token)
        FUNCTION_SETTINGS.reset(with_settings)


def scalar_named(name: str) -> ScalarFunction | None:
    found = _current.get().find(name)
    return found if isinstance(found, ScalarFunction) else SCALARS.get(name)


def aggregate_named(name: str) -> AggregateFunction | None:
    found = _current.get().find(name)
    return found if isinstance(found, AggregateFunction) else AGGREGATES.get(name)


def table_function_named(name: str) -> TableFunction | None:
    found = _current.get().find(name)
    return found if isinstance(found, TableFunction) else TABLE_FUNCTIONS.get(name)


def is_known(name: str) -> bool:
    return any(named(name) is not None for named in (scalar_named, aggregate_named, table_function_named))


def known_names() -> list[str]:
    return [*SCALARS, *AGGREGATES, *TABLE_FUNCTIONS, *_current.get().made]


def is_built_in(name: str) -> bool:
    return name in SCALARS or name in AGGREGATES or name in TABLE_FUNCTIONS
