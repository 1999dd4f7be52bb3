"""What CREATE OR REPLACE may change, as in ksqlDB: readers of a stream or table must find what they were made for, and
a query that takes the place of another goes on with its progress and its state.

A source keeps its name, kind, topic, formats, windows, timestamp and keys, and its columns can only grow at the end. A
query without state may filter and compute anything. One that groups a stream, without windows, may change what it
filters, its HAVING, and what it makes of its groups: its state stays as it is. Other states are not taken over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.sql.functions.scope import MadeFunction
from headwater.sql.language import tree
from headwater.sql.language.errors import Position, SqlError
from headwater.sql.language.tree import Role, SourceKind
from headwater.sql.plan.catalog import Catalog, SourceInfo, changed_or_missing
from headwater.sql.plan.grouping import Grouped
from headwater.sql.plan.rewriting import replaced

_HINT = "DROP it and create it anew, or give the new one another name."
_ROLES = ((Role.KEY, Role.PRIMARY_KEY), (Role.VALUE,), (Role.HEADER, Role.HEADERS))


def check_source(old: SourceInfo, new: SourceInfo, position: Position | None) -> None:
    """Raises SqlError where a reader of the old source would not understand the new one."""
    pairs = [
        ("type", _type(old), _type(new)),
        ("topic", _topic(old), _topic(new)),
        ("timestampColumn", _timestamp(old), _timestamp(new)),
    ]
    issues = [_issue(old.name, what, before, after) for what, before, after in pairs if before != after]
    if (problem := _changed_columns(old, new)) is not None:
        before, after = (", ".join(map(str, each.columns)) for each in (old, new))
        issues.append(f"{_issue(old.name, 'schema', before, after)}. ({problem})")
    if issues:
        raise SqlError("Cannot upgrade data source: " + "\n\tAND ".join(issues), hint=_HINT, position=position)


def _issue(name: str, what: str, before: str, after: str) -> str:
    return f"DataSource '`{name}`' has {what} = {before} which is not upgradeable to {after}"


def _type(source: SourceInfo) -> str:
    return f"K{source.kind.value}"


def _topic(source: SourceInfo) -> str:
    window = source.window
    size = f" of {window.size_ms} ms" if window is not None and window.size_ms is not None else ""
    shown = f"{source.topic} (key: {_format(source, key=True)}, value: {_format(source, key=False)}"
    return shown + (")" if window is None else f", windows: {window.kind.value}{size})")


def _format(source: SourceInfo, *, key: bool) -> str:
    if key and not source.key_columns:
        return "NONE"  # whatever it would be: what PARTITION BY NULL makes had one in older logs
    known = source.key_format if key else source.value_format
    options, marks = known.options, [known.name]
    if known.name == "DELIMITED":
        marks.append(f"delimiter '{options.delimiter}'")
    if not key and not options.wrap_single:
        marks.append("unwrapped")
    marks += [str(each) for each in (options.full_name, options.nullable) if each is not None]
    return " ".join(marks)


def _timestamp(source: SourceInfo) -> str:
    if source.timestamp_column is None:
        return "none"
    return " ".join(each for each in (source.timestamp_column, source.timestamp_format) if each is not None)


def _changed_columns(old: SourceInfo, new: SourceInfo) -> str | None:
    """Columns are compared among keys, values and headers: where the key stands between the others says nothing."""
    keys, *others = (
        tuple([each for each in source.columns if each.role in roles] for source in (old, new)) for roles in _ROLES
    )
    if keys[0] != keys[1]:
        missing = changed_or_missing(*keys) or keys[1][len(keys[0]) :]
        return (
            "Key columns must be identical. The following key columns are changed, missing or reordered: "
            f"[{', '.join(map(str, missing))}]"
        )
    missing = [column for before, after in others for column in changed_or_missing(before, after)]
    shown = ", ".join(map(str, missing))
    return f"The following columns are changed, missing or reordered: [{shown}]" if missing else None


@dataclass(frozen=True, slots=True)
class Footing:
    """What the progress and the state of a query rest on. `kept`: a step whose state only this very query can read,
    with ksqlDB's name; `layout`: of rows that are on their way to their group, None where they need no way;
    `stored`: the columns of a table that is read, for its rows are kept.
    """

    reads: tuple[object, ...]
    kept: str | None = None
    partition_by: tuple[tree.Expression, ...] | None = None
    group_by: tuple[tree.Expression, ...] | None = None
    aggregates: tuple[tree.Expression, ...] = ()
    functions: tuple[MadeFunction | None, ...] = ()
    layout: tuple[tuple[str, str], ...] | None = None
    stored: tuple[str, ...] = ()


def footing_of(query: tree.Query, catalog: Catalog, grouped: Grouped | None) -> Footing:
    """Of a query that was built; `grouped`: its aggregation, if it has one."""
    if isinstance(query.source, tree.Join):
        return Footing((), _join_step(query.source, catalog))
    source = catalog.find(query.source.name, query.source.position)
    reads = (f"{_type(source)} {_topic(source)}", _timestamp(source))
    if grouped is None:
        is_kept = source.kind is SourceKind.TABLE
        return Footing(
            reads,
            partition_by=_bare(query.partition_by),
            stored=tuple(map(str, source.columns)) if is_kept else (),
        )
    kept = None
    if source.kind is SourceKind.TABLE:
        kept = "TableAggregate"
    elif query.window is not None:
        kept = "StreamWindowedAggregate"
    return Footing(
        reads,
        kept,
        group_by=_bare(query.group_by),
        aggregates=_bare(grouped.calls) or (),
        functions=tuple(catalog.functions.get(each.function) for each in grouped.calls),
        layout=grouped.layout,
    )


def _join_step(join: tree.Join, catalog: Catalog) -> str:
    left: tree.Source | tree.Join = join.left
    while isinstance(left, tree.Join):
        left = left.left
    kinds = [catalog.find(each.name, each.position).kind.value.title() for each in (left, join.right)]
    return "".join(kinds) + "Join"


def _bare(expressions: Sequence[tree.Expression] | None) -> tuple[tree.Expression, ...] | None:
    """There is one source: whether a column names it, and by which alias, says nothing."""

    def change(each: tree.Expression) -> tree.Expression | None:
        return tree.Column(each.name) if isinstance(each, tree.Column) else None

    return None if expressions is None else tuple(replaced(each, change) for each in expressions)


def check_query(old: Footing, new: Footing, position: Position | None) -> None:
    """Raises SqlError where the new query could not go on with what the old one left."""
    for kept in (old.kept, new.kept):
        if kept is not None:
            raise SqlError(f"Upgrades not yet supported for {kept}.", hint=_HINT, position=position)
    grouped = "StreamAggregate"
    for step, what, before, after in (
        ("StreamSource", "topic, formats and timestamp column", old.reads, new.reads),
        ("StreamSelectKey", "key expression", old.partition_by, new.partition_by),
        ("StreamGroupBy", "group by clause", old.group_by, new.group_by),
        (grouped, "aggregate functions", (old.aggregates, old.functions), (new.aggregates, new.functions)),
        (grouped, "columns not part of aggregate", old.layout, new.layout),
        ("TableSource", "columns that its store has", old.stored, new.stored),
    ):
        if before != after:
            raise SqlError(
                f"Query is not upgradeable. Plan step of type {step} must have matching {what}.",
                why="The query would go on with a state and at offsets that are not its own",
                hint=_HINT,
                position=position,
            )
