"""Joins: two relations become one, whose row is both rows side by side.

ON compares one expression of each side. A stream whose key is another one is given that key first. Which kinds there
are is ksqlDB's: streams with streams WITHIN a time, streams with tables by the table's key, tables with tables by both
keys, or by a foreign key of the left one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from headwater.sql.expressions.column_scope import Scope
from headwater.sql.expressions.compiled import Compiled
from headwater.sql.formats.internal import ROWS
from headwater.sql.formats.library import format_named
from headwater.sql.formats.port import Field, FormatOptions
from headwater.sql.language import tree, types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.tree import JoinKind, SourceKind
from headwater.sql.plan.catalog import RowFormat
from headwater.sql.plan.relations import Errors, KeyColumn, Relation, RowColumn, guarded
from headwater.sql.plan.rewriting import columns
from headwater.sql.plan.windowed import DEFAULT_GRACE_MS
from headwater.streams.dsl.join_windows import JoinWindows

SYNTHETIC_KEY = "ROWKEY"
_KINDS = {JoinKind.RIGHT: "right join", JoinKind.OUTER: "full-outer join"}


@dataclass(frozen=True, slots=True)
class _Side:
    relation: Relation
    expression: tree.Expression
    compiled: Compiled

    @property
    def is_key(self) -> bool:
        return len(self.relation.key) == 1 and self.relation.key_places()(self.expression) == 0

    def equal_columns(self) -> list[tuple[str | None, str]]:
        """The columns that are equal to the expression in every row: itself, and what earlier joins made equal to
        it.
        """
        found = [self.column] if self.column is not None else []
        if self.is_key and found:
            found += sorted(self.relation.key[0].same_as - set(found), key=str)
        return found

    def viable_columns(self) -> list[tuple[str | None, str]]:
        """What may be called the key in SELECT: first what may be so of an earlier join by the same key."""
        earlier = self.relation.key[0].viable if self.relation.key else ()
        found = list(earlier) if self.column in earlier else []
        return found if self.column is None or self.column in found else [*found, self.column]

    @property
    def column(self) -> tuple[str | None, str] | None:
        """The column that the expression is, if it is one."""
        if not isinstance(self.expression, tree.Column):
            return None
        for each in self.relation.row:
            if each.name == self.expression.name and self.expression.source in (None, each.source):
                return (each.source, each.name)
        return None


def join(
    node: tree.Join, left: Relation, right: Relation, errors: Errors, together: list[frozenset[str]] | None = None
) -> Relation:
    """`together` gets the topics that must have as many partitions as each other."""
    one, other = _sides(node, left, right)
    _check_types(node, one, other)
    _check_windows(node, left, right)
    kinds = (left.kind, right.kind)
    if together is not None and one.is_key and other.is_key:
        together.append(frozenset(source.topic for relation in (left, right) for _, source in relation.sources))
    if kinds == (SourceKind.STREAM, SourceKind.STREAM):
        return _streams(node, one, other, errors)
    if kinds == (SourceKind.STREAM, SourceKind.TABLE):
        return _stream_table(node, one, other, errors)
    if kinds == (SourceKind.TABLE, SourceKind.STREAM):
        raise SqlError(
            "Invalid join order: table-stream joins are not supported; only stream-table joins.",
            hint="Swap the two: FROM stream JOIN table.",
            position=node.position,
        )
    return _tables(node, one, other, errors)


# -- the condition -----------------------------------------------------------------------------------------------------


def _sides(node: tree.Join, left: Relation, right: Relation) -> tuple[_Side, _Side]:
    on = node.on
    if not isinstance(on, tree.Binary) or on.operator != "=":
        raise SqlError(
            "Invalid join condition: joins on anything but one equality are not supported.",
            hint="JOIN ... ON a.id = b.id.",
            position=on.position,
        )
    sides = []
    aliases = {alias for relation in (left, right) for alias, _ in relation.sources}
    for expression in (on.left, on.right):
        if any(each.source not in (None, *aliases) for each in columns(expression)):
            _check_known(expression, left, right)
    for expression in (on.left, on.right):
        found = _owner(expression, left, right)
        if found is None:
            _check_known(expression, left, right)
            raise SqlError(
                "Each side of the join comparision must contain references from exactly one source.",
                why="One of its sides names none of the joined sources, or both",
                position=expression.position,
            )
        sides.append((found, expression))
    if sides[0][0] is sides[1][0]:
        raise SqlError(
            "Each side of the join must reference exactly one source and not the same source.",
            hint="JOIN ... ON a.id = b.id.",
            position=on.position,
        )
    by_relation = {id(relation): expression for relation, expression in sides}
    made = []
    for relation in (left, right):
        expression = by_relation[id(relation)]
        made.append(_Side(relation, expression, relation.compiler().compile(expression)))
    return made[0], made[1]


def _owner(expression: tree.Expression, left: Relation, right: Relation) -> Relation | None:
    """The side whose columns an expression names."""
    named = list(columns(expression))
    owners = []
    for relation in (left, right):
        scope = relation.scope()
        if named and all((each.source, each.name) in scope.columns for each in named):
            owners.append(relation)
    if len(owners) == 2:
        position = named[0].position
        raise SqlError(f"Column '{named[0].name}' is ambiguous.", hint="Write its source before it.", position=position)
    return owners[0] if owners else None


def _check_known(expression: tree.Expression, left: Relation, right: Relation) -> None:
    """Raises SqlError for a column that neither side has."""
    one, other = left.scope(), right.scope()
    both = Scope({**one.columns, **other.columns}, one.ambiguous | other.ambiguous)
    for each in columns(expression):
        both.find(each)


def _check_types(node: tree.Join, one: _Side, other: _Side) -> None:
    if one.compiled.type != other.compiled.type:
        raise SqlError(
            f"Invalid join condition: types don't match.{_got(node, one, other, typed=True)}",
            hint="CAST one of them to the other's type.",
            position=node.on.position,
        )


def _got(node: tree.Join, one: _Side, other: _Side, *, typed: bool = False) -> str:
    """The condition, side by side as it is written; one that is no column is told by its type."""
    assert isinstance(node.on, tree.Binary)
    sides = (one, other) if one.expression is node.on.left else (other, one)
    shown = []
    for each in sides:
        name = "" if each.column is None else ".".join(part for part in each.column if part)
        shown.append(name + (f"{{{each.compiled.type}}}" if typed or not name else ""))
    return f" Got {' = '.join(shown)}."


def _shown_window(relation: Relation) -> str:
    name = types.quoted(relation.sources[0][0])
    return f"{name} is {relation.window.kind.value} windowed" if relation.window else f"{name} is not windowed"


def _check_windows(node: tree.Join, left: Relation, right: Relation) -> None:
    if (left.window is None) != (right.window is None):
        raise SqlError(
            "Can not join windowed source to non-windowed source.",
            why=f"{_shown_window(left)}, {_shown_window(right)}",
            position=node.position,
        )
    if left.window and right.window and (left.window.kind.value == "SESSION") != (right.window.kind.value == "SESSION"):
        raise SqlError(
            "Incompatible windowed sources.",
            why=f"{_shown_window(left)}, {_shown_window(right)}; their keys are different",
            position=node.position,
        )


# -- the kinds ---------------------------------------------------------------------------------------------------------


def _streams(node: tree.Join, one: _Side, other: _Side, errors: Errors) -> Relation:
    if node.within is None:
        raise SqlError(
            "Stream-Stream joins must have a WITHIN clause specified. None was provided.",
            hint="JOIN ... WITHIN 1 HOUR ON ...",
            position=node.position,
        )
    within = node.within
    eager = within.grace_ms is None
    grace = DEFAULT_GRACE_MS if within.grace_ms is None else within.grace_ms
    window = JoinWindows(within.before_ms, within.after_ms, grace, eager)
    left, right = _keyed(one, errors), _keyed(other, errors, like=one)
    combine = _combiner(one.relation, other.relation, node.kind)
    if node.kind is JoinKind.RIGHT:
        mirrored = JoinWindows(within.after_ms, within.before_ms, grace, eager)
        joined = right.left_join(left, lambda key, second, first: combine(key, first, second), window=mirrored)
    else:
        method = {JoinKind.INNER: left.join, JoinKind.LEFT: left.left_join, JoinKind.OUTER: left.outer_join}[node.kind]
        joined = method(right, combine, window=window)
    return _joined(node, one, other, joined.map_values(_same, value=ROWS), SourceKind.STREAM)


def _stream_table(node: tree.Join, one: _Side, other: _Side, errors: Errors) -> Relation:
    if node.within is not None:
        raise SqlError(
            "A window definition was provided for a Stream-Table join. These joins are not windowed.",
            hint="Leave WITHIN out.",
            position=node.within.position,
        )
    if not other.is_key:
        raise SqlError(
            f"Invalid join condition: stream-table joins require to join on the table's primary key.{_got(node, one, other)}",
            position=node.on.position,
        )
    if node.kind in (JoinKind.RIGHT, JoinKind.OUTER):
        raise SqlError(
            f"Invalid join type: {_KINDS[node.kind]} not supported for stream-table join.", position=node.position
        )
    left = _keyed(one, errors, like=other)
    combine = _combiner(one.relation, other.relation, node.kind)
    method = left.join if node.kind is JoinKind.INNER else left.left_join
    joined = method(other.relation.node, combine)
    return _joined(node, one, other, joined.map_values(_same, value=ROWS), SourceKind.STREAM)


def _tables(node: tree.Join, one: _Side, other: _Side, errors: Errors) -> Relation:
    if node.within is not None:
        raise SqlError(
            "A window definition was provided for a Table-Table join. These joins are not windowed.",
            hint="Leave WITHIN out.",
            position=node.within.position,
        )
    if not other.is_key:
        raise SqlError(
            "Invalid join condition: table-table joins require to join on the primary key of the right input table."
            f"{_got(node, one, other)}",
            position=node.on.position,
        )
    combine = _combiner(one.relation, other.relation, node.kind)
    left, right = one.relation.node, other.relation.node
    if not one.is_key:
        if node.kind not in (JoinKind.INNER, JoinKind.LEFT):
            raise SqlError(
                f"Invalid join type: {node.kind.value} join not supported for foreign-key table-table join.",
                position=node.position,
            )
        if one.relation.window is not None:
            raise SqlError(
                "Foreign-key table-table joins are not supported on windowed tables.", position=node.position
            )
        return _foreign_key(node, one, other, combine, errors)
    if node.kind is JoinKind.RIGHT:
        joined = right.left_join(left, lambda key, second, first: combine(key, first, second))
    else:
        method = {JoinKind.INNER: left.join, JoinKind.LEFT: left.left_join, JoinKind.OUTER: left.outer_join}[node.kind]
        joined = method(right, combine)
    return _joined(node, one, other, joined.map_values(_same, value=ROWS), SourceKind.TABLE)


def _foreign_key(node: tree.Join, one: _Side, other: _Side, combine: Callable[..., Any], errors: Errors) -> Relation:
    foreign = guarded(one.compiled.evaluate, "ON", errors)

    def key_of(row: list[Any] | None) -> list[Any] | None:
        value = None if row is None else foreign(row)
        return None if value is None else [value]

    method = one.relation.node.join if node.kind is JoinKind.INNER else one.relation.node.left_join
    joined = method(other.relation.node, lambda left, right: combine(None, left, right), on=lambda _, row: key_of(row))
    made = _beside(one.relation, other.relation)
    return replace(made, node=joined.map_values(_same, value=ROWS), kind=SourceKind.TABLE, key=one.relation.key)


# -- pieces ------------------------------------------------------------------------------------------------------------


def _same(row: list[Any] | None) -> list[Any] | None:
    return row


def _keyed(side: _Side, errors: Errors, like: _Side | None = None) -> Any:
    """The stream of a side under the key that it is joined by, in bytes that are those of the other side."""
    relation = side.relation
    format_ = like.relation.key_format if like is not None else relation.key_format
    same = format_ == relation.key_format or (relation.window is not None and format_.name == relation.key_format.name)
    if side.is_key and (like is None or same):
        return relation.node
    if relation.window is not None:
        raise SqlError(
            "Implicit repartitioning of windowed sources is not supported.",
            why="A windowed stream can only be joined by its key",
            position=side.expression.position,
        )
    assert side.compiled.type is not None
    name, options = _key_of(like.relation if like is not None else relation, format_)
    serde = format_named(format_.name if format_.name != "NONE" else "KAFKA").serde(
        [Field(name, side.compiled.type)], options
    )
    evaluate = guarded(side.compiled.evaluate, "ON", errors)

    def key_of(_: Any, row: list[Any] | None) -> list[Any] | None:
        value = None if row is None else evaluate(row)
        return None if value is None else [value]

    return relation.node.select_key(key_of, key=serde)


def _key_of(relation: Relation, format_: RowFormat) -> tuple[str, FormatOptions]:
    """The key's name and how it is written in the topic that has it: bytes that are the same go to the same
    partition.
    """
    for _, source in relation.sources:
        if format_.options.subject is not None and source.key_format == format_ and len(source.key_columns) == 1:
            return source.key_columns[0].name, format_.options
    return "KEY", replace(format_.options, subject=None)


def _combiner(left: Relation, right: Relation, kind: JoinKind) -> Callable[[Any, Any, Any], list[Any]]:
    nothing_left, nothing_right = [None] * len(left.row), [None] * len(right.row)
    synthetic = kind is JoinKind.OUTER

    def combine(key: Any, one: list[Any] | None, other: list[Any] | None) -> list[Any]:
        row = [*(nothing_left if one is None else one), *(nothing_right if other is None else other)]
        row.append(key[0] if key and synthetic else None)
        return row

    return combine


def _beside(left: Relation, right: Relation) -> Relation:
    """Both relations as one. The last column is the synthetic key, where there is one."""
    row = (*left.row, *right.row, RowColumn(None, f"{SYNTHETIC_KEY}_", types.STRING, pseudo=True))
    partitions = max(left.partitions, right.partitions)
    return replace(left, row=row, sources=(*left.sources, *right.sources), partitions=partitions)


def _synthetic_name(taken: Iterable[str]) -> str:
    """ROWKEY, or ROWKEY_1 and so on: the first that no column is called."""
    names = set(taken)
    numbered = (f"{SYNTHETIC_KEY}_{number}" for number in itertools.count(1))
    return next(each for each in itertools.chain([SYNTHETIC_KEY], numbered) if each not in names)


def _joined(node: tree.Join, one: _Side, other: _Side, joined: Any, kind: SourceKind) -> Relation:
    made = _beside(one.relation, other.relation)
    assert one.compiled.type is not None
    equal = {
        JoinKind.INNER: [one, other],
        JoinKind.LEFT: [one],
        JoinKind.RIGHT: [other],
        JoinKind.OUTER: [],
    }[node.kind]
    same = [column for side in equal for column in side.equal_columns()]
    either = [] if node.kind is JoinKind.OUTER else [one, other]
    viable = tuple(dict.fromkeys(column for side in either for column in side.viable_columns()))
    if not viable:
        called = _synthetic_name(each.name for each in made.row if not each.pseudo)
        synthetic = RowColumn(None, called, one.compiled.type, pseudo=True)
        key = KeyColumn(called, one.compiled.type, frozenset({(None, called)}), synthetic=True)
        return replace(made, node=joined, kind=kind, key=(key,), row=(*made.row[:-1], synthetic))
    source, name = viable[0]
    name = name if sum(each.name == name for each in made.row) == 1 else f"{source}_{name}"
    key = KeyColumn(name, one.compiled.type, frozenset(same), viable=viable)
    return replace(made, node=joined, kind=kind, key=(key,))
