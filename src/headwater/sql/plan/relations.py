"""A step of a query: a stream or table of `headwater.streams`, with the names and types of what its keys and rows hold.

Keys are lists of values (None: no key), within `Windowed` where the source is windowed. Rows are lists of values (None:
a tombstone). The row of a source holds its value columns, then the pseudo columns, then copies of its key columns, so
that every expression is a function of the row alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from headwater.sql import budget
from headwater.sql.expressions import row_functions
from headwater.sql.expressions.column_calls import ByColumn
from headwater.sql.expressions.column_scope import Scope
from headwater.sql.expressions.compiled import Compiled, Evaluate
from headwater.sql.expressions.compiling import Compiler
from headwater.sql.language import tree
from headwater.sql.language.tree import SourceKind
from headwater.sql.language.types import Type
from headwater.sql.plan.catalog import RowFormat, SourceInfo, SourceWindow
from headwater.sql.plan.processing_errors import Listener, ProcessingError, message_of

Log = Callable[[str, BaseException], None]
TOGETHER: Final = 8_000  # rows that are worked out at once: each that waits for a call is kept meanwhile


@dataclass(frozen=True, slots=True)
class RowColumn:
    source: str | None  # the alias of the source it comes from
    name: str
    type: Type
    pseudo: bool = False  # not part of SELECT *


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of the key, and the columns of the row that are equal to it: naming one of those names the key. Of a
    join, `viable` are all that SELECT may call the key, the first of them that it has counts; one of the side that may
    be missing is not equal to the key in every row.
    """

    name: str
    type: Type
    same_as: frozenset[tuple[str | None, str]]
    expression: tree.Expression | None = None  # of GROUP BY or PARTITION BY
    synthetic: bool = False  # made for an outer join: in SELECT * it comes first
    viable: tuple[tuple[str | None, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Relation:
    node: Any  # Stream or Table
    kind: SourceKind
    key: tuple[KeyColumn, ...]
    row: tuple[RowColumn, ...]
    key_format: RowFormat
    value_format: RowFormat
    window: SourceWindow | None
    partitions: int
    sources: tuple[tuple[str, SourceInfo], ...]

    def scope(self) -> Scope:
        """The columns that expressions may name: with their source, and alone where only one source has them."""
        counts = Counter(each.name for each in self.row)
        columns: dict[tuple[str | None, str], tuple[int, Type]] = {}
        for place, each in enumerate(self.row):
            columns.setdefault((each.source, each.name), (place, each.type))
            if counts[each.name] == 1 or each.source is None:
                columns[None, each.name] = (place, each.type)
        ambiguous = frozenset(name for name, count in counts.items() if count > 1 and (None, name) not in columns)
        return Scope(columns, ambiguous, len(self.row))

    def compiler(self) -> Compiler:
        return Compiler(self.scope())

    def with_node(self, node: Any) -> Relation:
        return replace(self, node=node)

    def row_of_key(self) -> Callable[[Any], list[Any]]:
        """A row in which only the columns of the key have values: what a tombstone still says."""
        known: dict[tuple[str | None, str], int] = {}
        for at, each in enumerate(self.row):
            known.setdefault((each.source, each.name), at)
        places = [min((known[each] for each in column.same_as if each in known), default=None) for column in self.key]
        width = len(self.row)

        def row(key: Any) -> list[Any]:
            made: list[Any] = [None] * width
            for at, value in zip(places, key or [None] * len(places), strict=True):
                if at is not None:
                    made[at] = value
            return made

        return row

    def key_places(self) -> Callable[[tree.Expression], int | None]:
        """Which column of the key an expression is, if it is one. For many expressions, it is made once."""
        by_expression: dict[tree.Expression, int] = {}
        by_column: dict[tuple[str | None, str], int] = {}
        for place, column in enumerate(self.key):
            if column.expression is not None:
                by_expression.setdefault(column.expression, place)
            for same in column.same_as:
                by_column.setdefault(same, place)
        holders = self.holders()

        def place_of(expression: tree.Expression) -> int | None:
            found = [by_expression.get(expression)]
            if isinstance(expression, tree.Column):
                found.append(by_column.get((expression.source, expression.name)))
                sources = holders.get(expression.name, [])
                if expression.source is None and len(sources) == 1:
                    found.append(by_column.get((sources[0], expression.name)))
            return min((place for place in found if place is not None), default=None)

        return place_of

    def holders(self) -> dict[str, list[str | None]]:
        """The sources of the columns of each name."""
        found: dict[str, list[str | None]] = {}
        for each in self.row:
            found.setdefault(each.name, []).append(each.source)
        return found


@dataclass(slots=True)
class Errors:
    """Where expressions tell of rows for which they have no value: the processing log of a query. `seen`: what was told
    last, at least `limit` of it.
    """

    seen: list[tuple[str, str]] = field(default_factory=list)
    limit: int = 1_000
    query_id: str = ""
    listener: Listener | None = None

    def note(self, what: str, error: BaseException) -> None:
        message = message_of(error)
        self.seen.append((what, message))
        if len(self.seen) > 2 * self.limit:
            del self.seen[: len(self.seen) - self.limit]
        if self.listener is not None:
            self.listener(ProcessingError(self.query_id, "processing", what, message))


def guarded(evaluate: Evaluate, what: str, errors: Errors, otherwise: Any = None) -> Evaluate:
    """`evaluate`, which gives `otherwise` for a row that it fails on, and notes why."""

    def run(row: list[Any]) -> Any:
        budget.begin()
        try:
            return evaluate(row)
        except Exception as error:  # noqa: BLE001  whatever a function raises, the row goes on with NULL
            errors.note(what, error)
            return otherwise

    return run


def filtering(condition: Compiled, what: str, errors: Errors) -> RowFunction:
    """`predicate` of a condition, written out where that can be."""
    by_row = row_functions.filter_of(condition.written, what, errors.note) or predicate(
        condition.evaluate, what, errors
    )
    return RowFunction(by_row, row_functions.filter_by_column(condition.written, what), errors)


def selection(columns: Sequence[tuple[str, Compiled]], errors: Errors) -> RowFunction:
    """`projection` of columns that are guarded by their names, written out where that can be."""
    written = [(name, each.written) for name, each in columns]
    by_row = row_functions.select_of(written, errors.note) or projection(
        [guarded(each.evaluate, name, errors) for name, each in columns]
    )
    return RowFunction(by_row, row_functions.select_by_column(written), errors)


def condition_of(condition: Compiled, what: str, errors: Errors) -> RowFunction:
    """As `filtering`, for few rows: nothing is compiled for a row alone."""
    return RowFunction(
        predicate(condition.evaluate, what, errors), row_functions.filter_by_column(condition.written, what), errors
    )


def values_of(columns: Sequence[tuple[str, Compiled]], errors: Errors) -> RowFunction:
    """As `selection`, for few rows."""
    by_row = projection([guarded(each.evaluate, name, errors) for name, each in columns])
    return RowFunction(by_row, row_functions.select_by_column([(name, each.written) for name, each in columns]), errors)


@dataclass(frozen=True, slots=True)
class RowFunction:
    """A function of a row, and what gives the same for many rows at once; `by_column` only where some function takes
    whole columns.
    """

    by_row: Callable[[Any], Any]
    by_column: ByColumn | None
    errors: Errors

    def all(self, rows: Sequence[Any]) -> list[Any]:
        if self.by_column is None:
            return [self.by_row(row) for row in rows]
        found: list[Any] = []
        for begin in range(0, len(rows), TOGETHER):
            found += self.by_column.run(rows[begin : begin + TOGETHER], self.errors.note)
        return found

    @property
    def of_records(self) -> Callable[..., Any]:
        """For streams: `evaluate_all`, by which lanes call it, stands beside the function of key and value."""
        by_row = self.by_row
        if self.by_column is None:
            return by_row

        def call(_key: Any, row: Any) -> Any:
            return by_row(row)

        call.evaluate_all = lambda _keys, rows: self.all(rows)  # type: ignore[attr-defined]
        call.values_stay = True  # type: ignore[attr-defined]  # nobody changes a row
        return call


def appending(columns: Sequence[tuple[str, Compiled]], errors: Errors) -> Callable[[Any, Any], Any]:
    """For streams, as `RowFunction.of_records`: each row with these columns behind its own; a tombstone stays one."""
    found = selection(columns, errors)

    def longer(row: Any, new: Any) -> Any:
        return None if new is None else [*row, *new]

    def call(_key: Any, row: Any) -> Any:
        return longer(row, found.by_row(row))

    call.evaluate_all = lambda _keys, rows: list(map(longer, rows, found.all(rows)))  # type: ignore[attr-defined]
    call.values_stay = True  # type: ignore[attr-defined]
    return call


def takes_columns(compiled: Compiled) -> bool:
    """Whether it calls a function that takes the rows of a run at once."""
    return row_functions.select_by_column([("", compiled.written)]) is not None


def predicate(evaluate: Evaluate, what: str, errors: Errors) -> Callable[[Any], bool]:
    """Whether a row passes; one without a value, or for which the condition fails, does not."""
    test = guarded(evaluate, what, errors, False)
    return lambda row: row is not None and test(row) is True


def projection(evaluates: Sequence[Evaluate]) -> Callable[[Any], Any]:
    """Rows to other rows; a tombstone stays one."""
    columns = list(evaluates)
    return lambda row: None if row is None else [evaluate(row) for evaluate in columns]
