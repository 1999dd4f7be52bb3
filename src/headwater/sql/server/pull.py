"""Pull queries over one table: WHERE, GROUP BY, HAVING, ORDER BY and LIMIT over the rows that it has now, by the same
expressions and aggregates as elsewhere. A condition on the key or on the start of the window looks at those rows only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headwater.sql.expressions.column_scope import Scope
from headwater.sql.expressions.compiled import Evaluate
from headwater.sql.expressions.compiling import Compiler
from headwater.sql.functions.aggregates import Aggregate
from headwater.sql.functions.collections import hashable
from headwater.sql.functions.scope import aggregate_named
from headwater.sql.language import tree, types
from headwater.sql.language.errors import SqlError
from headwater.sql.plan import reading
from headwater.sql.plan.catalog import Column, SourceInfo
from headwater.sql.plan.relations import Errors, KeyColumn, Relation, guarded, predicate
from headwater.sql.plan.rewriting import parts, replaced
from headwater.sql.plan.selecting import spread
from headwater.sql.server.lookup import Lookup, lookup_of


@dataclass(frozen=True, slots=True)
class PullPlan:
    columns: tuple[Column, ...]
    where: Any
    keys: tuple[Evaluate, ...] | None
    calls: tuple[tuple[Aggregate, tuple[Evaluate, ...]], ...]
    having: Any
    select: tuple[Evaluate, ...]
    order: tuple[tuple[Evaluate, bool], ...]
    limit: int | None
    lookup: Lookup  # the only rows that WHERE can take

    def answer(self, rows: list[list[Any]]) -> list[list[Any]]:
        """The result over the rows of the table. Pure, so that a thread may do it."""
        if self.where is not None:
            rows = [row for row in rows if self.where(row)]
        if self.keys is not None:
            rows = self._grouped(rows)
        if self.having is not None:
            rows = [row for row in rows if self.having(row)]
        for evaluate, descending in reversed(self.order):
            rows = sorted(rows, key=lambda row: _sort_key(evaluate(row)), reverse=descending)
        if self.limit is not None:
            rows = rows[: self.limit]
        return [[evaluate(row) for evaluate in self.select] for row in rows]

    def _grouped(self, rows: list[list[Any]]) -> list[list[Any]]:
        assert self.keys is not None
        groups: dict[Any, tuple[list[Any], list[Any]]] = {}
        if not self.keys:  # aggregates over everything have a row also over nothing
            groups[()] = ([], [each.initial() for each, _ in self.calls])
        for row in rows:
            key = [evaluate(row) for evaluate in self.keys]
            name = tuple(map(hashable, key))
            if name not in groups:
                groups[name] = (key, [each.initial() for each, _ in self.calls])
            states = groups[name][1]
            for place, (each, arguments) in enumerate(self.calls):
                states[place] = each.add(states[place], *[argument(row) for argument in arguments])
        return [
            [*(each.result(state) for (each, _), state in zip(self.calls, states, strict=True)), *key]
            for key, states in groups.values()
        ]


def _sort_key(value: Any) -> tuple[bool, Any]:
    """NULL comes last, and first where the order is descending."""
    return (value is None, 0 if value is None else value)


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
        compiler, rewrite, keys, calls = relation.compiler(), None, None, ()
    else:
        compiler, rewrite, keys, calls = _grouping(query, relation, aggregates, errors)
    having = query.having
    if rewrite is not None:
        expressions = [rewrite(each) for each in expressions]
        order = [(rewrite(each), descending) for each, descending in order]
        having = rewrite(having) if having is not None else None
    names = {item.name: expression for item, expression in zip(items, expressions, strict=True)}
    columns, select = [], []
    for item, expression in zip(items, expressions, strict=True):
        compiled = compiler.compile(expression)
        columns.append(Column(item.name, compiled.type or types.STRING))
        select.append(guarded(compiled.evaluate, item.name, errors))
    ordered = tuple(
        (guarded(compiler.compile(_named(each, names)).evaluate, "ORDER BY", errors), descending)
        for each, descending in order
    )
    return PullPlan(
        tuple(columns),
        where,
        keys,
        calls,
        _condition(compiler, having, "HAVING", errors),
        tuple(select),
        ordered,
        query.limit,
        lookup_of(query.where, source),
    )


def _named(expression: tree.Expression, names: dict[str, tree.Expression]) -> tree.Expression:
    """ORDER BY may name a column of the result."""
    if isinstance(expression, tree.Column) and expression.source is None and expression.name in names:
        return names[expression.name]
    return expression


def _condition(compiler: Compiler, given: tree.Expression | None, what: str, errors: Errors) -> Any:
    if given is None:
        return None
    compiled = compiler.compile(given)
    if compiled.type not in (None, types.BOOLEAN):
        raise SqlError(
            f"Type error in {what} expression: Should evaluate to boolean but is {compiled.type} instead.",
            position=given.position,
        )
    return predicate(compiled.evaluate, what, errors)


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
    made = []
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
        made.append((aggregate, tuple(guarded(each.evaluate, call.function, errors) for each in compiled)))
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
    evaluates = tuple(guarded(each.evaluate, "GROUP BY", errors) for each in keys)
    return grouped, (lambda expression: replaced(expression, change)), evaluates, tuple(made)
