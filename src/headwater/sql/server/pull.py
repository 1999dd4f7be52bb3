"""Pull queries over one table: WHERE, GROUP BY, HAVING, ORDER BY and LIMIT over the rows that it has now, by the same
expressions and aggregates as elsewhere. A condition on the key or on the start of the window looks at those rows only.
LIMIT without ORDER BY goes by the key, so that what follows a page is found by its last key.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import itemgetter
from typing import Any, Final

from headwater.sql import budget
from headwater.sql.expressions.column_scope import Scope
from headwater.sql.expressions.compiling import Compiler
from headwater.sql.functions.aggregates import Aggregate
from headwater.sql.functions.collections import hashable
from headwater.sql.functions.scope import aggregate_named
from headwater.sql.language import tree, types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.tree import Role, SourceKind
from headwater.sql.language.types import Base
from headwater.sql.plan import reading
from headwater.sql.plan.catalog import Column, SourceInfo
from headwater.sql.plan.relations import (
    TOGETHER,
    Errors,
    KeyColumn,
    Relation,
    RowFunction,
    condition_of,
    guarded,
    values_of,
)
from headwater.sql.plan.rewriting import columns as columns_of
from headwater.sql.plan.rewriting import parts, replaced
from headwater.sql.plan.selecting import Item, spread
from headwater.sql.plan.sources import WINDOW_BOUNDS
from headwater.sql.server.lookup import Lookup, lookup_of
from headwater.sql.values import place as place_of

_UNORDERED: Final = (Base.ARRAY, Base.MAP, Base.STRUCT)
_OF_NUMBERS: Final = ("AVG", "CORRELATION", "STDDEV_POP", "STDDEV_SAMP", "STDDEV_SAMPLE", "SUM", "SUM_LIST")
_IN_ANY_ORDER: Final = frozenset(("ATTR", "COUNT", "COUNT_DISTINCT", "MAX", "MIN", *_OF_NUMBERS))


@dataclass(frozen=True, slots=True)
class PullPlan:
    columns: tuple[Column, ...]
    where: RowFunction | None
    groups: Groups | None
    having: RowFunction | None
    select: RowFunction
    order: RowFunction
    descending: tuple[bool, ...]  # of each of `order`
    limit: int | None
    lookup: Lookup  # the only rows that WHERE can take
    by_key: tuple[int, ...] = ()  # the places in rows by which LIMIT counts, where nothing else is said

    def answer(self, rows: list[list[Any]]) -> list[list[Any]]:
        """The result over the rows of the table. Pure, so that a thread may do it."""
        rows = _passing(self.where, rows)
        if self.groups is not None:
            rows = self.groups.rows(rows)
        rows = _passing(self.having, rows)
        if self.descending:
            rows = self._ordered(rows)
        elif self.by_key:
            rows = self._first_by_key(rows, len(rows) if self.limit is None else self.limit)
        if self.limit is not None:
            rows = rows[: self.limit]
        return self.select.all(rows)

    def _first_by_key(self, rows: list[list[Any]], count: int) -> list[list[Any]]:
        try:
            return heapq.nsmallest(count, rows, key=itemgetter(*self.by_key))
        except TypeError:  # a part of a key is NULL
            return heapq.nsmallest(count, rows, key=lambda row: [_sort_key(row[each]) for each in self.by_key])

    def _ordered(self, rows: list[list[Any]]) -> list[list[Any]]:
        found = list(zip(self.order.all(rows), rows, strict=True))
        for place, descending in reversed(list(enumerate(self.descending))):
            found.sort(key=lambda each: _sort_key(each[0][place]), reverse=descending)
        return [row for _, row in found]


@dataclass(frozen=True, slots=True)
class Groups:
    """Aggregates over rows of equal keys; `arguments` are those of all of them, one behind the other. `read_by`: the
    places in rows of their time, partition and offset, where it matters which row comes first.
    """

    keys: RowFunction
    width: int  # of a key
    calls: tuple[tuple[Aggregate, int], ...]  # and how many arguments each takes
    arguments: RowFunction
    errors: Errors
    read_by: tuple[int, int, int] | None

    def rows(self, rows: list[list[Any]]) -> list[list[Any]]:
        if self.read_by is not None:
            rows = _as_read(rows, *self.read_by)
        groups: dict[Any, tuple[list[Any], list[Any]]] = {}
        if not self.width:  # aggregates over everything have a row also over nothing
            groups[()] = ([], [each.initial() for each, _ in self.calls])
        for begin in range(0, len(rows), TOGETHER):
            some = rows[begin : begin + TOGETHER]
            for key, given in zip(self.keys.all(some), self.arguments.all(some), strict=True):
                budget.begin()
                name = tuple(map(hashable, key))
                if name not in groups:
                    groups[name] = (key, [each.initial() for each, _ in self.calls])
                self._add(groups[name][1], given)
        return [
            [*(each.result(state) for (each, _), state in zip(self.calls, states, strict=True)), *key]
            for key, states in groups.values()
        ]

    def _add(self, states: list[Any], given: list[Any]) -> None:
        at = 0
        for place, (each, count) in enumerate(self.calls):
            try:
                states[place] = each.add(states[place], *given[at : at + count])
            except Exception as error:  # noqa: BLE001  it keeps its state, as in a query that runs
                self.errors.note("GROUP BY", error)
            at += count


def _as_read(rows: list[list[Any]], time: int, partition: int, offset: int) -> list[list[Any]]:
    """In the order in which a query that runs would read them: by offset, and of several partitions the one that is
    earlier.
    """
    partitions: dict[int, list[list[Any]]] = {}
    for row in sorted(rows, key=itemgetter(partition, offset)):
        partitions.setdefault(row[partition], []).append(row)
    return list(heapq.merge(*partitions.values(), key=itemgetter(time)))


def _passing(condition: RowFunction | None, rows: list[list[Any]]) -> list[list[Any]]:
    return rows if condition is None else list(compress(rows, condition.all(rows)))


def _sort_key(value: Any) -> tuple[bool, Any]:
    """NULL comes last, and first where the order is descending. Arrays and structs go by their items, one by one."""
    if value is None:
        return (True, ())
    items = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else None
    return (False, place_of(value) if items is None else tuple(map(_sort_key, items)))


def _has_order(given: types.Type | None) -> bool:
    """Whether ORDER BY knows what comes first: maps have no order."""
    match given:
        case types.ArrayType():
            return _has_order(given.item)
        case types.StructType():
            return all(_has_order(each) for _, each in given.fields)
        case _:
            return not isinstance(given, types.MapType)


def plan(query: tree.Query, source: SourceInfo, alias: str) -> PullPlan:
    """Raises SqlError."""
    for clause, given in (("WINDOW", query.window), ("PARTITION BY", query.partition_by)):
        if given is not None:
            raise SqlError(
                f"Pull queries don't support {clause} clauses.", hint="Ask with EMIT CHANGES.", position=query.position
            )
    errors = Errors()
    key_columns = tuple(KeyColumn(each.name, each.type, frozenset({(alias, each.name)})) for each in source.key_columns)
    relation = Relation(
        None,
        source.kind,
        key_columns,
        tuple(reading.row_columns(source, alias)),
        source.key_format,
        source.value_format,
        source.window,
        1,
        ((alias, source),),
    )
    items = spread(query, relation, transient=True)
    expressions = [each.expression for each in items]
    order = list(query.order_by)
    where = _condition(relation.compiler(), query.where, "WHERE", errors)
    aggregates = _calls([*expressions, *([query.having] if query.having else []), *(each for each, _ in order)])
    if query.group_by is None and not aggregates:
        compiler, rewrite, groups = relation.compiler(), None, None
    else:
        compiler, rewrite, groups = _grouping(query, relation, aggregates, errors)
    having = query.having
    if rewrite is not None:
        expressions = [rewrite(each) for each in expressions]
        order = [(rewrite(each), descending) for each, descending in order]
        having = rewrite(having) if having is not None else None
        _check_grouped([*expressions, *(each for each, _ in order), *([having] if having else [])], relation, items)
    keys = {each.name for each in source.key_columns} | set(WINDOW_BOUNDS if source.window else ())

    def role_of(item: Item) -> Role:
        """A column of the table's key is still called so in rows of the table itself."""
        is_key = groups is None and isinstance(item.expression, tree.Column) and item.expression.name in keys
        return Role.KEY if is_key and source.kind is SourceKind.TABLE else Role.VALUE

    names = {item.name: expression for item, expression in zip(items, expressions, strict=True)}
    columns, select = [], []
    for item, expression in zip(items, expressions, strict=True):
        compiled = compiler.compile(expression)
        columns.append(Column(item.name, compiled.type or types.STRING, role_of(item)))
        select.append((item.name, compiled))
    ordered = [("ORDER BY", compiler.compile(_named(each, names))) for each, _ in order]
    for (each, _), (_, made) in zip(order, ordered, strict=True):
        if not _has_order(made.type):
            raise SqlError(f"ORDER BY cannot sort by {made.type}: maps have no order.", position=each.position)
    return PullPlan(
        tuple(columns),
        where,
        groups,
        _condition(compiler, having, "HAVING", errors),
        values_of(select, errors),
        values_of(ordered, errors),
        tuple(descending for _, descending in order),
        query.limit,
        lookup_of(query.where, source),
        _places_of_key(relation) if query.limit is not None and not order and groups is None else (),
    )


def _places_of_key(relation: Relation) -> tuple[int, ...]:
    """Of the columns of the key, then of the start of its window; none where a type of them has no order."""
    if any(each.type.base in _UNORDERED for each in relation.key):
        return ()
    names = [*(each.name for each in relation.key), *(["WINDOWSTART"] if relation.window is not None else [])]
    places = {each.name: place for place, each in enumerate(relation.row)}
    return tuple(places[name] for name in names)


def _places_of_reading(relation: Relation) -> tuple[int, int, int]:
    names = [each.name for each in relation.row]
    return names.index("ROWTIME"), names.index("ROWPARTITION"), names.index("ROWOFFSET")


def _check_grouped(expressions: Sequence[tree.Expression], relation: Relation, items: Sequence[Item]) -> None:
    """Columns of the rows themselves have as many values as their group has rows. ORDER BY may name the result's."""
    names, results = {each.name for each in relation.row}, {each.name for each in items}
    for column in (each for expression in expressions for each in columns_of(expression)):
        if column.name in names and (column.source is not None or column.name not in results):
            raise SqlError(
                f"Non-aggregate SELECT expression(s) not part of GROUP BY: {column.name}",
                hint="Either add the column(s) to the GROUP BY or remove them from the SELECT.",
                position=column.position,
            )


def _named(expression: tree.Expression, names: dict[str, tree.Expression]) -> tree.Expression:
    """ORDER BY may name a column of the result."""
    if isinstance(expression, tree.Column) and expression.source is None and expression.name in names:
        return names[expression.name]
    return expression


def _condition(compiler: Compiler, given: tree.Expression | None, what: str, errors: Errors) -> RowFunction | None:
    if given is None:
        return None
    compiled = compiler.compile(given)
    if compiled.type not in (None, types.BOOLEAN):
        raise SqlError(
            f"Type error in {what} expression: Should evaluate to boolean but is {compiled.type} instead.",
            position=given.position,
        )
    return condition_of(compiled, what, errors)


def _calls(expressions: Sequence[tree.Expression]) -> list[tree.Call]:
    found: dict[tree.Call, None] = {}
    for expression in expressions:
        for each in parts(expression):
            if isinstance(each, tree.Call) and aggregate_named(each.function) is not None:
                found[each] = None
    return list(found)


def _grouping(query: tree.Query, relation: Relation, calls: list[tree.Call], errors: Errors) -> Any:
    """The scope of rows that aggregates give: results first, then what is grouped by."""
    by = query.group_by or ()
    compiler = relation.compiler()
    made, taken = [], []
    for call in calls:
        function = aggregate_named(call.function)
        assert function is not None
        arguments = list(call.arguments)
        constants: list[Any] = []
        while function.constants > len(constants) and len(arguments) > 1 and isinstance(arguments[-1], tree.Literal):
            constants.insert(0, arguments[-1].value)
            arguments.pop()
        compiled = [compiler.compile(each) for each in arguments]
        aggregate = function.resolve([each.type for each in compiled], constants, call.position)
        result = guarded(aggregate.result, call.function, errors)
        made.append((replace(aggregate, result=result), len(compiled)))
        taken += [(call.function, each) for each in compiled]
    keys = [compiler.compile(each) for each in by]
    columns: dict[tuple[str | None, str], tuple[int, types.Type]] = {}
    for place, (aggregate, _) in enumerate(made):
        columns[None, f"KSQL_AGG_VARIABLE_{place}"] = (place, aggregate.returns)
    for place, key in enumerate(keys):
        columns[None, f"KSQL_GROUP_{place}"] = (len(made) + place, key.type or types.STRING)

    def change(expression: tree.Expression) -> tree.Expression | None:
        if isinstance(expression, tree.Call) and expression in calls:
            return tree.Column(f"KSQL_AGG_VARIABLE_{calls.index(expression)}", position=expression.position)
        for place, known in enumerate(by):
            same = expression == known or (
                isinstance(expression, tree.Column) and isinstance(known, tree.Column) and expression.name == known.name
            )
            if same:
                return tree.Column(f"KSQL_GROUP_{place}", position=expression.position)
        return None

    grouped = Compiler(Scope(columns, width=len(columns)))
    by_key = values_of([("GROUP BY", each) for each in keys], errors)
    # aggregates that give the same whichever row comes first need no order
    read_by = None if {each.function for each in calls} <= _IN_ANY_ORDER else _places_of_reading(relation)
    groups = Groups(by_key, len(keys), tuple(made), values_of(taken, errors), errors, read_by)
    return grouped, (lambda expression: replaced(expression, change)), groups
