"""GROUP BY: rows of equal keys become one, by aggregate functions.

SELECT and HAVING may name what is grouped by, and aggregates; all else changes from row to row of a group. Both are
rewritten: each aggregate call and each grouping expression becomes a column of the row that the aggregation gives:
results first, then key, then bounds of the window and ROWTIME.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headwater.sql.expressions.compiled import Compiled, Evaluate
from headwater.sql.expressions.compiling import Compiler
from headwater.sql.formats.internal import ROWS
from headwater.sql.formats.library import format_named
from headwater.sql.formats.port import Field
from headwater.sql.functions import scope
from headwater.sql.functions.aggregates import Aggregate, no_merge
from headwater.sql.functions.registry import unknown
from headwater.sql.functions.scope import aggregate_named
from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError
from headwater.sql.language.tree import SourceKind
from headwater.sql.language.types import Base, Type
from headwater.sql.plan import windowed
from headwater.sql.plan.catalog import RowFormat
from headwater.sql.plan.relations import Errors, KeyColumn, Relation, RowColumn, appending, guarded, takes_columns
from headwater.sql.plan.rewriting import columns, parts, refuse_duplicates, replaced
from headwater.sql.plan.sources import WINDOW_BOUNDS
from headwater.streams.dsl.materialized import Materialized
from headwater.streams.engine.stream_filter import StreamFilter
from headwater.streams.engine.stream_map_values import StreamMapValues
from headwater.streams.plan.graph import ProcessorGraphNode


@dataclass(frozen=True, slots=True)
class _Call:
    """An aggregate of the query: what it is made of, and how its arguments come out of a row."""

    call: tree.Call
    aggregate: Aggregate
    arguments: tuple[Compiled, ...]


def is_aggregate(call: tree.Call) -> bool:
    return aggregate_named(call.function) is not None


def has_aggregates(expression: tree.Expression) -> bool:
    return any(isinstance(each, tree.Call) and is_aggregate(each) for each in parts(expression))


@dataclass(frozen=True, slots=True)
class Grouped:
    """The relation behind an aggregation, and how expressions of the query have to be rewritten for it. `calls`: the
    aggregates, in the order of their states; `layout`: the columns of rows that go through a topic to their group.
    """

    relation: Relation
    rewrite: Callable[[tree.Expression], tree.Expression]
    calls: tuple[tree.Call, ...]
    layout: tuple[tuple[str, str], ...] | None


def group(
    query: tree.Query,
    relation: Relation,
    items: Sequence[tree.Expression],
    key_format: RowFormat,
    errors: Errors,
    store: str | None = None,
) -> Grouped:
    """`items` are the expressions of SELECT, with stars spread out. `store`: what the store of a stream's groups
    without windows is called, where a query goes on with another's.
    """
    assert query.group_by is not None
    if not query.group_by:
        raise SqlError("GROUP BY needs at least one expression.", position=query.position)
    having = [query.having] if query.having else []
    grouping = _grouping(query, relation)
    _check_functions([*items, *having])
    calls = _calls([*items, *having], relation)
    _check_plain(items, grouping, "SELECT")
    _check_plain(having, grouping, "HAVING")
    if relation.kind is SourceKind.TABLE:
        for each in calls:
            if each.aggregate.undo is None:
                raise SqlError(
                    f"The aggregation function {each.call.function} cannot be applied to a table source, only to a stream source.",
                    position=each.call.position,
                )
    if query.window is not None and query.window.kind is tree.WindowKind.SESSION:
        for each in calls:
            if each.aggregate.merge is no_merge:
                raise SqlError(
                    f"The aggregation function {each.call.function} cannot merge two sessions: it has no merge.",
                    position=each.call.position,
                )
    serde = format_named(key_format.name).serde([Field(each.name, each.type) for each in grouping], key_format.options)
    table = _aggregated(query, relation, grouping, calls, serde, errors, store)
    return _behind(query, relation, grouping, calls, table, errors)


@dataclass(frozen=True, slots=True)
class _Grouping:
    name: str
    type: Type
    expression: tree.Expression
    compiled: Compiled


def _grouping(query: tree.Query, relation: Relation) -> list[_Grouping]:
    found: list[_Grouping] = []
    unnamed = 0
    aliases = {each.expression: each.alias for each in query.select if isinstance(each, tree.SelectItem) and each.alias}
    compiler, holders = relation.compiler(), relation.holders()
    refuse_duplicates("GROUP BY", query.group_by or (), holders)
    for expression in query.group_by or ():
        if has_aggregates(expression):
            name = next(
                each.function for each in parts(expression) if isinstance(each, tree.Call) and is_aggregate(each)
            )
            raise SqlError(
                f"GROUP BY does not support aggregate functions: {name} is an aggregate function.",
                position=expression.position,
            )
        bound = next((each for each in columns(expression) if each.name in WINDOW_BOUNDS), None)
        if bound is not None and query.window is not None and bound.name not in holders:
            raise SqlError(
                f"Window bounds column {bound.name} can only be used in the SELECT clause of windowed aggregations",
                position=bound.position,
            )
        compiled = compiler.compile(expression)
        if compiled.type is None or compiled.type.base in (Base.MAP,):
            raise SqlError(f"GROUP BY cannot take {compiled.type or 'NULL'}.", position=expression.position)
        if isinstance(expression, tree.Column):
            several = len(holders.get(expression.name, ())) > 1
            name = f"{expression.source}_{expression.name}" if several and expression.source else expression.name
        elif isinstance(expression, tree.FieldOf):
            name = aliases.get(expression) or expression.name
        else:
            name = aliases.get(expression) or f"KSQL_COL_{unnamed}"
            unnamed += 1
        found.append(_Grouping(name, compiled.type, expression, compiled))
    return found


def _calls(expressions: Sequence[tree.Expression], relation: Relation) -> list[_Call]:
    """Each different aggregate once, in the order in which they stand."""
    found: dict[tree.Call, _Call] = {}
    compiler = relation.compiler()
    for expression in expressions:
        for each in parts(expression):
            if isinstance(each, tree.Call) and is_aggregate(each) and each not in found:
                _check_bounds(each, relation)
                found[each] = _call(each, compiler)
    return list(found.values())


def _check_bounds(call: tree.Call, relation: Relation) -> None:
    """The windows of a query are those of its groups: what is gathered has none, unless it had before."""
    known = {each.name for each in relation.row}
    for each in (column for argument in call.arguments for column in columns(argument)):
        if each.name in WINDOW_BOUNDS and each.name not in known:
            raise SqlError(
                f"Window bounds column {each.name} can only be used in the SELECT clause of windowed aggregations and can "
                "not be passed to aggregate functions.",
                position=each.position,
            )


def _call(call: tree.Call, compiler: Compiler) -> _Call:
    for inner in call.arguments:
        if has_aggregates(inner):
            raise SqlError(f"Aggregate functions can not be nested: {call.function}", position=inner.position)
    function = aggregate_named(call.function)
    assert function is not None
    arguments = list(call.arguments)
    constants: list[Any] = []
    while function.constants > len(constants) and len(arguments) > 1 and isinstance(arguments[-1], tree.Literal):
        last = arguments.pop()
        assert isinstance(last, tree.Literal)
        constants.insert(0, last.value)
    compiled = [compiler.compile(each) for each in arguments]
    try:
        aggregate = function.resolve([each.type for each in compiled], constants, call.position)
    except SqlError:
        _check_constant(call, function.constants)
        raise
    return _Call(call, aggregate, tuple(compiled))


def _check_constant(call: tree.Call, constants: int) -> None:
    """Raises SqlError where the last argument should be a literal."""
    last = call.arguments[-1] if constants and len(call.arguments) > 1 else None
    if last is not None and not isinstance(last, tree.Literal):
        shown = f", but was expression: '{last.name}'" if isinstance(last, tree.Column) else ""
        raise SqlError(
            f"Parameter {len(call.arguments)} passed to function {call.function} must be a literal constant{shown}",
            position=last.position,
        )


def _check_functions(expressions: Sequence[tree.Expression]) -> None:
    """Raises SqlError for a function that is none, before its columns are found to be neither grouped nor gathered."""
    for expression in expressions:
        for each in parts(expression):
            if isinstance(each, tree.Call) and not scope.is_known(each.function):
                raise unknown(each.function, scope.known_names(), each.position)


def _check_plain(expressions: Sequence[tree.Expression], grouping: Sequence[_Grouping], clause: str) -> None:
    is_grouped = _grouped(grouping)
    left_over: dict[str, tree.Column] = {}
    for expression in expressions:
        rest = replaced(
            expression,
            lambda each: (
                tree.Literal(None) if is_grouped(each) or (isinstance(each, tree.Call) and is_aggregate(each)) else None
            ),
        )
        for column in columns(rest):
            if column.name not in WINDOW_BOUNDS:
                left_over.setdefault(column.name, column)
    if left_over:
        shown = "SELECT expression(s)" if clause == "SELECT" else f"{clause} expression"
        raise SqlError(
            f"Non-aggregate {shown} not part of GROUP BY: {', '.join(left_over)}",
            hint=f"Either add the column(s) to the GROUP BY or remove them from the {clause}.",
            position=next(iter(left_over.values())).position,
        )


def _grouped(grouping: Sequence[_Grouping]) -> Callable[[tree.Expression], bool]:
    """Whether an expression is grouped by; a column without its source is the one of any source."""
    expressions = {each.expression for each in grouping}
    sources: dict[str, set[str | None]] = {}
    for each in expressions:
        if isinstance(each, tree.Column):
            sources.setdefault(each.name, set()).add(each.source)

    def is_grouped(expression: tree.Expression) -> bool:
        if expression in expressions:
            return True
        if not isinstance(expression, tree.Column) or expression.name not in sources:
            return False
        return expression.source is None or None in sources[expression.name]

    return is_grouped


def _aggregated(
    query: tree.Query,
    relation: Relation,
    grouping: Sequence[_Grouping],
    calls: Sequence[_Call],
    serde: Any,
    errors: Errors,
    store: str | None,
) -> Any:
    """The table of states."""
    keys = [("GROUP BY", each.compiled) for each in grouping]
    given = [(each.call.function, argument) for each in calls for argument in each.arguments]
    is_stream, is_key = relation.kind is SourceKind.STREAM, _is_key(relation, grouping)
    grouped_by = PrecomputedColumns(keys, len(relation.row), errors, runs=is_stream and not is_key)
    taken = PrecomputedColumns(given, len(relation.row) + len(grouped_by.columns), errors, runs=is_stream)
    key_of = _key_of(grouped_by.evaluates)
    left = iter(taken.evaluates)
    arguments = [[next(left) for _ in each.arguments] for each in calls]
    initial = [each.aggregate.initial for each in calls]

    def initialize() -> list[Any]:
        return [make() for make in initial]

    def changed(row: list[Any], state: list[Any], changes: Sequence[Callable[..., Any]]) -> list[Any]:
        result = []
        for each, call, needs, change in zip(state, calls, arguments, changes, strict=True):
            try:
                result.append(change(each, *[argument(row) for argument in needs]))
            except Exception as error:  # noqa: BLE001  one aggregate that fails keeps its state, the others go on
                errors.note(call.call.function, error)
                result.append(each)
        return result

    adds = [each.aggregate.add for each in calls]
    if relation.kind is SourceKind.TABLE:
        undos = [each.aggregate.undo or each.aggregate.add for each in calls]
        if query.window is not None:
            raise SqlError("WINDOW clause is only supported on streams.", position=query.window.position)
        grouped = relation.node.group_by(lambda _, row: (key_of(row), row), key=serde, value=ROWS)
        return grouped.aggregate(
            initialize,
            lambda _, row, state: changed(row, state, adds),
            lambda _, row, state: changed(row, state, undos),
            store=Materialized(key=serde, value=ROWS),
        )
    if relation.window is not None:
        raise SqlError(
            "GROUP BY of a windowed stream is not supported.",
            hint="Group the source before its windows.",
            position=query.position,
        )
    if is_key:
        node = relation.node if query.window is None else _rows_of(relation.node)
        grouped = taken.before(node, "AGGREGATE-COLUMNS").group_by_key(key=serde, value=ROWS)
    else:
        node = grouped_by.before(relation.node, "GROUP-BY-COLUMNS")
        node = node.filter(lambda row: row is not None and key_of(row) is not None)
        node = taken.before(node, "AGGREGATE-COLUMNS")
        grouped = node.group_by(lambda _, row: key_of(row), key=serde, value=ROWS)

    def add(_: Any, row: list[Any], state: list[Any]) -> list[Any]:
        return changed(row, state, adds)

    merges = [_merging(each, errors) for each in calls]

    def merge(one: list[Any], other: list[Any]) -> list[Any]:
        return [change(first, second) for change, first, second in zip(merges, one, other, strict=True)]

    if query.window is not None:
        return windowed.aggregate(grouped, query.window, query.emit, initialize, add, merge, serde)
    return grouped.aggregate(initialize, add, store=Materialized(store, key=serde, value=ROWS))


def _merging(call: _Call, errors: Errors) -> Callable[[Any, Any], Any]:
    """Where it fails, the later session's state stays: the earlier may be that of no row at all."""
    merge = call.aggregate.merge

    def run(one: Any, other: Any) -> Any:
        try:
            return merge(one, other)
        except Exception as error:  # noqa: BLE001  as for a row that cannot be added
            errors.note(call.call.function, error)
            return other

    return run


def _rows_of(node: Any) -> Any:
    """The stream without records that have no value: Kafka Streams' aggregates over windows take these, too, and they
    are no rows. The step takes no number in the topology (see `PrecomputedColumns`).
    """
    step = ProcessorGraphNode("AGGREGATE-ROWS", lambda: StreamFilter(lambda _, row: row is not None))
    node.graph.add(node.node, step)
    return node.after(step, value=ROWS)


class PrecomputedColumns:
    """Expressions of which some call functions that take whole columns: these are worked out in a step of their own,
    for all rows of a run at once, and stand behind the columns of the row from then on.

    The step takes no number in the topology, so the nodes behind it, and so their stores and topics, are called as they
    were before there was one. A row that an earlier version left in a topic on the way has no such columns: it is
    worked out where it is needed.
    """

    def __init__(self, given: Sequence[tuple[str, Compiled]], width: int, errors: Errors, *, runs: bool) -> None:
        """`width`: of the row before the step. `runs`: there may be such a step."""
        self._errors = errors
        self.columns: list[tuple[str, Compiled]] = []
        self.evaluates: list[Evaluate] = []
        for what, compiled in given:
            evaluate = guarded(compiled.evaluate, what, errors)
            if runs and takes_columns(compiled):
                evaluate = _at(width + len(self.columns), evaluate)
                self.columns.append((what, compiled))
            self.evaluates.append(evaluate)

    def before(self, node: Any, name: str) -> Any:
        """The stream with the step behind it, if there is one."""
        if not self.columns:
            return node
        append = appending(self.columns, self._errors)
        step = ProcessorGraphNode(name, lambda: StreamMapValues(append))
        step.value_changing = True
        node.graph.add(node.node, step)
        return node.after(step, value=ROWS)


def _at(place: int, otherwise: Evaluate) -> Evaluate:
    return lambda row: row[place] if place < len(row) else otherwise(row)


def _key_of(evaluates: Sequence[Evaluate]) -> Callable[[list[Any] | None], list[Any] | None]:
    """The group of a row; None if one of its expressions is NULL: such rows belong to no group."""

    def key_of(row: list[Any] | None) -> list[Any] | None:
        if row is None:
            return None
        key = [evaluate(row) for evaluate in evaluates]
        return None if any(each is None for each in key) else key

    return key_of


def _is_key(relation: Relation, grouping: Sequence[_Grouping]) -> bool:
    """Whether rows are grouped by their key already, in its order."""
    place_of = relation.key_places()
    places = [place_of(each.expression) for each in grouping]
    return places == list(range(len(relation.key)))


def _behind(
    query: tree.Query,
    relation: Relation,
    grouping: Sequence[_Grouping],
    calls: Sequence[_Call],
    table: Any,
    errors: Errors,
) -> Grouped:
    results = [guarded(each.aggregate.result, each.call.function, errors) for each in calls]
    is_windowed = query.window is not None

    def row_of(key: Any, state: list[Any] | None) -> list[Any] | None:
        if state is None:
            return None
        row = [result(each) for result, each in zip(results, state, strict=True)]
        row += windowed.bare(key)
        return [*row, *windowed.bounds(key)] if is_windowed else row

    columns_: list[RowColumn] = [
        RowColumn(None, f"KSQL_AGG_VARIABLE_{place}", each.aggregate.returns, pseudo=True)
        for place, each in enumerate(calls)
    ]
    columns_ += [RowColumn(None, each.name, each.type) for each in grouping]
    window = None
    if query.window is not None:
        columns_ += [RowColumn(None, name, given, pseudo=True) for name, given in WINDOW_BOUNDS.items()]
        window = windowed.of_result(query.window, query.emit)
    node = table.map_values(row_of, value=ROWS)
    behind = replace(
        relation,
        node=node,
        kind=SourceKind.TABLE,
        key=tuple(
            KeyColumn(each.name, each.type, frozenset({(None, each.name)}), each.expression) for each in grouping
        ),
        row=tuple(columns_),
        window=window,
    )
    places = {each.call: place for place, each in enumerate(calls)}
    names = {each.expression: each.name for each in grouping}
    of_column: dict[str, str] = {}
    for known, name in names.items():
        if isinstance(known, tree.Column):
            of_column.setdefault(known.name, name)

    def change(expression: tree.Expression) -> tree.Expression | None:
        if isinstance(expression, tree.Call) and expression in places:
            return tree.Column(f"KSQL_AGG_VARIABLE_{places[expression]}", position=expression.position)
        if expression in names:
            return tree.Column(names[expression], position=expression.position)
        if isinstance(expression, tree.Column):
            if expression.name in WINDOW_BOUNDS:
                return tree.Column(expression.name, position=expression.position)
            if expression.name in of_column:
                return tree.Column(of_column[expression.name], position=expression.position)
        return None

    on_the_way = None if _is_key(relation, grouping) else tuple((each.name, str(each.type)) for each in relation.row)
    return Grouped(
        behind, lambda expression: replaced(expression, change), tuple(each.call for each in calls), on_the_way
    )
