"""A query as a topology: FROM, WHERE, PARTITION BY or GROUP BY, HAVING, SELECT, and the topic that it writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headwater.sql.expressions.compiled import Compiled, converted
from headwater.sql.formats.internal import ROWS
from headwater.sql.language import tree, types
from headwater.sql.language.errors import SqlError, placed_at
from headwater.sql.language.tree import Role, SourceKind
from headwater.sql.plan import exploding, grouping, properties, reading, selecting
from headwater.sql.plan.catalog import Catalog, Column, RowFormat, SourceInfo
from headwater.sql.plan.joining import join
from headwater.sql.plan.partitioning import partitioned, partitions_by_null
from headwater.sql.plan.relations import Errors, Relation, RowFunction, filtering, guarded, selection
from headwater.sql.plan.rewriting import names_of, parts
from headwater.sql.plan.selecting import Item
from headwater.sql.plan.sources import RESERVED, check_formats, check_timestamp, check_topic, check_writable
from headwater.sql.plan.topic_sharing import check_shared

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App


@dataclass(frozen=True, slots=True)
class LastStep:
    """WHERE, HAVING or SELECT of a query on its own, behind all else: for the rows of a run at once."""

    function: RowFunction
    filters: bool

    def __call__(self, rows: list[Any]) -> list[Any]:
        found = self.function.all(rows)
        return [row for row, passes in zip(rows, found, strict=True) if passes] if self.filters else found


@dataclass(frozen=True, slots=True)
class Result:
    """What a query gives: a relation whose row is exactly the value columns, and the names of its columns. Of a query
    on its own, the row becomes that by the last steps, and `gone` is the row of a key that is no more.
    """

    relation: Relation
    key: tuple[Column, ...]
    value: tuple[Column, ...]
    last: tuple[LastStep, ...] = ()
    gone: Callable[[Any], list[Any]] | None = None


class QueryBuilder:
    """Builds one query into one application. Nothing outside is changed."""

    def __init__(
        self,
        app: App,
        catalog: Catalog,
        errors: Errors,
        *,
        reset: str | None = None,
        transient: bool = False,
        throws: bool = False,
        store: str | None = None,
        spreads_bounds: bool = True,
        default_key: str | None = None,
        checks_topics: bool = True,
    ) -> None:
        """`reset`: where streams are read from at first; tables are always read from their beginning. `transient`: the
        rows go to whoever asked, so all columns are in the row, and the key need not be selected. `throws`: a row of a
        source without a time ends the query. `store`: of the groups of the query that this one goes on for.
        `spreads_bounds`: `*` of a join has the bounds of windows. `default_key`: the format of keys where the source
        has none, as `ksql.persistence.default.format.key` says; None: KAFKA, as it was before that counted.
        `checks_topics`: whether sources over one topic must be declared alike, which the log may have from before.
        """
        self._app = app
        self._catalog = catalog
        self._errors = errors
        # Streams say where they begin even where that is what holds anyway: one that did not would not agree with a
        # table over its topic.
        self._reset = reset if transient else reset or "earliest"
        self._transient = transient
        self._throws = throws
        self._store, self._spreads_bounds, self._default_key = store, spreads_bounds, default_key
        self._checks_topics = checks_topics
        self._over: dict[str, SourceInfo] = {}  # the first source over each topic
        self._plain = False  # the query asks for no pseudo column
        self._last: list[LastStep] = []
        self.together: list[frozenset[str]] = []  # topics that a join needs equally partitioned
        self.grouped: grouping.Grouped | None = None

    def build(self, query: tree.Query, what: str, with_: properties.With) -> Result:
        transient = self._transient
        _check_clauses(query)
        if transient and query.group_by is None and _gathers(query):
            query = replace(query, group_by=(tree.Literal("", position=query.position),))  # all rows are one group
        self._plain = not transient and not RESERVED & names_of(query)
        relation = self._source(query.source)
        key_format = with_.key(_default_key(relation, query, self._default_key))
        calls = exploding.table_functions(query)
        if query.where is not None:
            is_last = query.group_by is None and query.partition_by is None and not calls
            relation = self._filtered(relation, query.where, "WHERE", is_last=is_last)
        relation = exploding.exploded(calls, relation, self._errors) if calls else relation
        if query.partition_by is not None:
            relation = partitioned(query, relation, key_format, self._errors)
        items = selecting.spread(query, relation, transient=transient, bounds=self._spreads_bounds)
        synthetic = {call: f"KSQL_SYNTH_{place}" for place, call in enumerate(calls)}
        items = [Item(each.name, exploding.synthetic(each.expression, synthetic)) for each in items] if calls else items
        having = query.having
        if query.group_by is not None:
            expressions = [each.expression for each in items]
            grouped = grouping.group(query, relation, expressions, key_format, self._errors, self._store)
            self.grouped = grouped
            relation = grouped.relation
            items = [Item(each.name, grouped.rewrite(each.expression)) for each in items]
            having = grouped.rewrite(having) if having is not None else None
        elif any(grouping.has_aggregates(each.expression) for each in items):  # not of a query on its own
            raise SqlError(
                "Use of aggregate functions requires a GROUP BY clause.",
                why=f"Aggregate functions: {', '.join(_aggregates(items))}",
                position=query.position,
            )
        is_final = query.emit is tree.Emit.FINAL
        if is_final and transient:
            relation = _final(relation)
        if having is not None:
            relation = self._filtered(relation, having, "HAVING", is_last=True)
        result = self._selected(relation, items, what, transient)
        return replace(result, relation=_final(result.relation)) if is_final and not transient else result

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _source(self, source: tree.Source | tree.Join) -> Relation:
        if isinstance(source, tree.Source):
            found = self._catalog.find(source.name, source.position)
            if found.kind is SourceKind.TABLE and found.window is not None and not self._transient:
                raise SqlError("KSQL does not support persistent queries on windowed tables.", position=source.position)
            if self._checks_topics:
                check_shared(self._over.setdefault(found.topic, found), found, self._reset, source.position)
            return reading.read_source(
                self._app, found, source.alias, self._errors, self._reset, plain=self._plain, throws=self._throws
            )
        left, right = self._source(source.left), self._source(source.right)
        taken = [alias for alias, _ in left.sources]
        for alias, _ in right.sources:
            if alias in taken:
                raise SqlError(
                    f"Each side of the join must have a unique alias. Both are '{alias}'.",
                    hint="Give one of them an alias: FROM a JOIN a AS b ...",
                    position=source.right.position,
                )
        return join(source, left, right, self._errors, self.together)

    def _filtered(self, relation: Relation, condition: tree.Expression, what: str, *, is_last: bool) -> Relation:
        """`is_last`: nothing but conditions and SELECT is behind it."""
        if grouping.has_aggregates(condition):
            raise SqlError(f"{what} cannot have aggregate functions.", hint="Use HAVING.", position=condition.position)
        compiled = relation.compiler().compile(condition)
        if compiled.type not in (None, types.BOOLEAN):
            raise SqlError(
                f"Type error in {what} expression: Should evaluate to boolean but is {compiled.type} instead.",
                position=condition.position,
            )
        passes = filtering(compiled, what, self._errors)
        if is_last and self._transient:
            self._last.append(LastStep(passes, filters=True))
            return relation
        return relation.with_node(relation.node.filter(passes.of_records))

    def _selected(self, relation: Relation, items: Sequence[Item], what: str, transient: bool) -> Result:
        compiler = relation.compiler()
        divided = selecting.Projection((), tuple(items))
        if not transient:
            try:
                divided = selecting.divide(items, relation, what)
            except SqlError:  # a name that nobody knows is told first: it may be the key's, misspelt
                for item in items:
                    compiler.compile(item.expression)
                raise
        if not divided.value:
            raise SqlError(
                "The projection contains no value columns.", position=items[0].expression.position if items else None
            )
        columns, selected = [], []
        for item in divided.value:
            compiled = compiler.compile(item.expression)
            if compiled.type is None:
                raise SqlError(
                    f"The type of column {types.quoted(item.name)} cannot be told from NULL alone.",
                    hint="CAST(NULL AS ...).",
                    position=item.expression.position,
                )
            columns.append(Column(item.name, compiled.type))
            selected.append((item.name, compiled))
        made = selection(selected, self._errors)
        if transient:
            last = (*self._last, LastStep(made, filters=False))
            return Result(relation, (), tuple(columns), last, selecting.of_gone_keys(items, relation))
        node = relation.node.map_values(made.of_records, value=ROWS)
        role = Role.PRIMARY_KEY if relation.kind is SourceKind.TABLE else Role.KEY
        keys = tuple(
            Column(item.name, column.type, role) for item, column in zip(divided.key, relation.key, strict=True)
        )
        return Result(relation.with_node(node), keys, tuple(columns))


def _final(relation: Relation) -> Relation:
    """EMIT FINAL: rows are held back until their windows close, however far time jumps. Behind HAVING: a row that does
    not pass in the end was never there.
    """
    return relation.with_node(relation.node.suppress(until_window_closes=True))


def sink_of(
    statement: tree.CreateAs,
    result: Result,
    with_: properties.With,
    query: tree.Query,
    query_id: str,
    *,
    wraps: bool = True,
    default_key: str | None = None,
) -> SourceInfo:
    """The stream or table that CREATE ... AS makes. `default_key`: as of `QueryBuilder`; with None, what PARTITION BY
    NULL makes has the format of the keys that it has no more.
    """
    relation = result.relation
    is_keyless = default_key is not None and partitions_by_null(query)
    if with_.wrap_single is not None and len(result.value) != 1:
        raise SqlError(
            "'WRAP_SINGLE_VALUE' is only valid for single-field value schemas",
            position=with_.place("WRAP_SINGLE_VALUE"),
        )
    if with_.key_format not in (None, "NONE") and not result.key:
        raise SqlError(
            "Key format specified for stream without key columns.", position=with_.place("KEY_FORMAT", "FORMAT")
        )
    if statement.kind is not relation.kind:
        if relation.kind is SourceKind.TABLE:
            raise SqlError(
                "Invalid result type. Your SELECT query produces a TABLE. Please use CREATE TABLE AS SELECT statement instead.",
                position=statement.position,
            )
        raise SqlError(
            "Invalid result type. Your SELECT query produces a STREAM. Please use CREATE STREAM AS SELECT statement instead.",
            position=statement.position,
        )
    sink = SourceInfo(
        statement.name,
        statement.kind,
        with_.topic or statement.name,
        (*result.key, *result.value),
        RowFormat("NONE") if is_keyless else with_.key(_default_key(relation, query, default_key)),
        with_.value(relation.value_format, wraps=wraps or len(result.value) != 1),
        relation.window,
        with_.timestamp,
        with_.timestamp_format,
        with_.partitions or relation.partitions,
        with_.replicas or 1,
        False,
        statement.text,
        query_id,
    )
    with placed_at(with_.place("KAFKA_TOPIC")):
        check_topic(sink.topic)
        check_writable(sink.topic)
    check_formats(sink)
    with placed_at(with_.place("TIMESTAMP", "TIMESTAMP_FORMAT")):
        check_timestamp(sink)
    return sink


def widened_to(result: Result, target: SourceInfo, errors: Errors) -> Result:
    """The result with values of the target's types, which are known to take them."""
    converters = [
        guarded(converted(Compiled(column.type, lambda row: row[0]), wanted.type), wanted.name, errors)
        for column, wanted in zip(result.value, target.value_columns, strict=True)
    ]

    def convert(row: list[Any] | None) -> list[Any] | None:
        return None if row is None else [each([value]) for each, value in zip(converters, row, strict=True)]

    node = result.relation.node.map_values(convert, value=ROWS)
    return Result(result.relation.with_node(node), result.key, tuple(target.value_columns))


def write(result: Result, sink: SourceInfo, errors: Errors) -> None:
    """The last step: changes of the result go to the sink's topic."""
    node: Any = result.relation.node
    if result.relation.kind is SourceKind.TABLE:
        node = node.to_stream()
    if sink.timestamp_column is not None:
        node = _timed(node, sink, errors)
    if reading.writes_null_alone(sink):
        node = node.map_values(lambda row: None if row is None or row[0] is None else row, value=ROWS)
    node.to(sink.topic, key=reading.key_serde(_as_known(result, sink)), value=reading.value_serde(sink))


def _as_known(result: Result, sink: SourceInfo) -> SourceInfo:
    """The sink with its key as the query calls it, where names are not written: so that a lane sees that the key which
    it has is the one that it writes.
    """
    known = result.relation.key
    if sink.key_format.name != "KAFKA" or len(known) != len(sink.key_columns):
        return sink
    names = iter([each.name for each in known])
    columns = tuple(replace(each, name=next(names)) if each.is_key else each for each in sink.columns)
    return replace(sink, columns=columns)


def _timed(node: Any, sink: SourceInfo, errors: Errors) -> Any:
    """Records get the time that a column of theirs says; those that say none are left out."""
    time_of = reading.timestamp_of(sink, errors)
    keys = [each.name for each in sink.key_columns]
    values = [each.name for each in sink.value_columns]
    from headwater.sql.plan.timing import SetTimestamp

    in_key = sink.timestamp_column in keys
    assert sink.timestamp_column is not None
    place = (keys if in_key else values).index(sink.timestamp_column)
    return node.process_values(lambda: SetTimestamp(time_of, place, in_key=in_key), value=ROWS)


def _default_key(relation: Relation, query: tree.Query, default: str | None) -> RowFormat:
    known = relation.key_format
    changes = query.partition_by is not None or query.group_by is not None or isinstance(query.source, tree.Join)
    return RowFormat(default or properties.DEFAULT_KEY_FORMAT) if known.name == "NONE" and changes else known


def _check_clauses(query: tree.Query) -> None:
    if query.having is not None and query.group_by is None:
        raise SqlError("HAVING requires a GROUP BY clause.", position=query.position)
    if query.window is not None and query.group_by is None:
        raise SqlError("WINDOW clause requires a GROUP BY clause.", position=query.window.position)
    if query.order_by:
        raise SqlError(
            "ORDER BY is for pull queries: rows of a stream have no end to be put in order.", position=query.position
        )
    if query.emit is tree.Emit.FINAL and query.window is None:
        raise SqlError("EMIT FINAL is only supported for windowed aggregations.", position=query.position)


def _gathers(query: tree.Query) -> bool:
    return any(isinstance(each, tree.SelectItem) and grouping.has_aggregates(each.expression) for each in query.select)


def _aggregates(items: Sequence[Item]) -> list[str]:
    return [
        each.function
        for item in items
        for each in parts(item.expression)
        if isinstance(each, tree.Call) and grouping.is_aggregate(each)
    ]
