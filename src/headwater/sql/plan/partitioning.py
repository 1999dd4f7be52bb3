"""PARTITION BY: the rows of a stream under another key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headwater.sql.formats.library import format_named
from headwater.sql.formats.port import Field
from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError
from headwater.sql.language.tree import SourceKind
from headwater.sql.plan import grouping, reading
from headwater.sql.plan.catalog import RowFormat
from headwater.sql.plan.relations import Errors, KeyColumn, Relation
from headwater.sql.plan.rewriting import columns as columns_of
from headwater.sql.plan.rewriting import refuse_duplicates


def partitions_by_null(query: tree.Query) -> bool:
    """The result has no key: PARTITION BY NULL."""
    single = query.partition_by[0] if query.partition_by and len(query.partition_by) == 1 else None
    return isinstance(single, tree.Literal) and single.value is None


def partitioned(query: tree.Query, relation: Relation, key_format: RowFormat, errors: Errors) -> Relation:
    """PARTITION BY: rows under another key. The columns of the old one stay in the row."""
    assert query.partition_by is not None
    if relation.kind is SourceKind.TABLE:
        raise SqlError(
            "PARTITION BY is not supported on tables.",
            hint="Only streams have rows that can be given another key; GROUP BY makes a table of a table.",
            position=query.position,
        )
    if relation.window is not None:
        raise SqlError("PARTITION BY of windowed streams is not supported.", position=query.position)
    if not query.partition_by:
        raise SqlError("PARTITION BY requires at least one expression", position=query.position)
    if query.group_by is not None:
        raise SqlError("Only one of PARTITION BY and GROUP BY is allowed.", position=query.position)
    if partitions_by_null(query):
        node = relation.node.select_key(lambda _, row: None, key=reading.NoKey())  # noqa: ARG005
        return replace(relation, node=node, key=())
    columns, keys, unnamed = [], [], 0
    aliases = {each.expression: each.alias for each in query.select if isinstance(each, tree.SelectItem) and each.alias}
    compiler, holders = relation.compiler(), relation.holders()
    refuse_duplicates("PARTITION BY", query.partition_by, holders)
    for expression in query.partition_by:
        compiled = compiler.compile(expression)
        if compiled.type is None:
            raise SqlError("Cannot PARTITION BY multiple columns including NULL", position=expression.position)
        name, unnamed = _key_name(expression, holders, aliases, unnamed)
        same = frozenset(_holders(expression, holders))
        columns.append(KeyColumn(name, compiled.type, same, expression))
        keys.append(("PARTITION BY", compiled))
    serde = format_named(key_format.name).serde([Field(each.name, each.type) for each in columns], key_format.options)

    of_key = relation.row_of_key()
    precomputed = grouping.PrecomputedColumns(keys, len(relation.row), errors, runs=True)
    evaluates = precomputed.evaluates
    place_of = relation.key_places()
    of_old = [
        evaluate if all(place_of(each) is not None for each in columns_of(node)) else _nothing
        for evaluate, node in zip(evaluates, query.partition_by, strict=True)
    ]

    def key_of(old: Any, row: list[Any] | None) -> list[Any] | None:
        """A row without a value has what can be told by its old key alone."""
        full, told = (of_key(old), of_old) if row is None else (row, evaluates)
        key = [evaluate(full) for evaluate in told]
        return None if len(key) == 1 and key[0] is None else key

    node = precomputed.before(relation.node, "PARTITION-BY-COLUMNS").select_key(key_of, key=serde)
    return replace(relation, node=node, key=tuple(columns))


def _key_name(
    expression: tree.Expression,
    holders: Mapping[str, Sequence[str | None]],
    aliases: Mapping[tree.Expression, str | None],
    unnamed: int,
) -> tuple[str, int]:
    if isinstance(expression, tree.Column):
        several = len(holders.get(expression.name, ())) > 1
        return (f"{expression.source}_{expression.name}" if several and expression.source else expression.name), unnamed
    if isinstance(expression, tree.FieldOf) and expression not in aliases:
        return expression.name, unnamed
    alias = aliases.get(expression)
    return (alias, unnamed) if alias else (f"KSQL_COL_{unnamed}", unnamed + 1)


def _holders(expression: tree.Expression, holders: Mapping[str, Sequence[str | None]]) -> list[tuple[str | None, str]]:
    """The columns of the row that a column of PARTITION BY is."""
    if not isinstance(expression, tree.Column):
        return []
    sources = holders.get(expression.name, ())
    return [(each, expression.name) for each in sources if expression.source in (None, each)]


def _nothing(_row: list[Any]) -> None:
    return None
