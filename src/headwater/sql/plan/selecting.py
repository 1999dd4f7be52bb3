"""The SELECT list: stars spread out, columns named, key columns told from value columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.sql.language import tree, types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.types import StructType
from headwater.sql.plan import windowed
from headwater.sql.plan.relations import KeyColumn, Relation
from headwater.sql.plan.sources import RESERVED, WINDOW_BOUNDS


@dataclass(frozen=True, slots=True)
class Item:
    """A column of the result: its name and what it is."""

    name: str
    expression: tree.Expression


def spread(query: tree.Query, relation: Relation, *, transient: bool = False, bounds: bool = True) -> list[Item]:
    """All columns of the result, in order, each with a name of its own. Rows of a transient query may have pseudo
    columns. `bounds`: `*` of a join has the windows of its sources.
    """
    items: list[Item] = []
    names, place_of = _Names(relation), relation.key_places()
    for each in query.select:
        if isinstance(each, tree.SelectAll):
            found = _all(each, relation, transient or (bounds and len(relation.sources) > 1))
        elif isinstance(each, tree.SelectFields):
            found = _fields(each, relation)
        else:
            found = [(each.alias or "", each.expression)]
        for name, expression in found:
            if not name:
                name = names.of(expression)
            if name in names.taken:
                raise SqlError(
                    f"Duplicate column name: {types.quoted(name)}. The projection contains two columns of that name.",
                    hint="Give one of them another name with AS.",
                    position=each.position,
                )
            if name in RESERVED and not transient and place_of(expression) is None:
                raise SqlError(
                    f"{types.quoted(name)} is a reserved column name. You cannot use it as an alias for a column.",
                    position=each.position,
                )
            names.taken.add(name)
            items.append(Item(name, expression))
    return items


def _all(item: tree.SelectAll, relation: Relation, has_bounds: bool) -> list[tuple[str, tree.Expression]]:
    """Key columns first, then value columns, source by source."""
    joined = len(relation.sources) > 1
    if item.source is not None and item.source not in [alias for alias, _ in relation.sources]:
        raise SqlError(f"'{item.source}' is not a valid stream/table name or alias.", position=item.position)
    found: list[tuple[str, tree.Expression]] = []
    if item.source is None:
        hidden = {each.name for each in relation.row if each.pseudo}
        for column in relation.key:
            plain = isinstance(column.expression, tree.Column) and column.expression.name not in hidden
            if column.synthetic or (column.expression is not None and not plain):
                found.append((column.name, column.expression or tree.Column(column.name, position=item.position)))
    for alias, source in relation.sources:
        if item.source is not None and alias != item.source:
            continue
        keys = {each.name for each in source.key_columns} if joined else {each.name for each in relation.key}
        visible = [each for each in relation.row if each.source == alias and not each.pseudo]
        if has_bounds and source.window is not None:
            bounds = [each for each in relation.row if each.source == alias and each.name in WINDOW_BOUNDS]
            visible = [
                *(each for each in visible if each.name in keys),
                *bounds,
                *(each for each in visible if each.name not in keys),
            ]
            keys |= set(WINDOW_BOUNDS)
        for each in sorted(visible, key=lambda column: column.name not in keys):
            name = f"{alias}_{each.name}" if joined else each.name
            found.append((name, tree.Column(each.name, alias, position=item.position)))
    return found


def _fields(item: tree.SelectFields, relation: Relation) -> list[tuple[str, tree.Expression]]:
    of = relation.compiler().compile(item.of)
    if not isinstance(of.type, StructType):
        raise SqlError(f"Cannot resolve '->*' of {of.type}: it is no STRUCT.", position=item.position)
    return [(name, tree.FieldOf(item.of, name, position=item.position)) for name, _ in of.type.fields]


class _Names:
    """Names for columns without one, beside those that are `taken`. Taken names only become more, so the next number is
    looked for where the last was found.
    """

    def __init__(self, relation: Relation) -> None:
        self.taken: set[str] = set()
        self._holders = relation.holders()
        self._is_join = len(relation.sources) > 1
        self._of_key: dict[tree.Expression, str] = {}
        for column in relation.key:
            if column.expression is not None:
                self._of_key.setdefault(column.expression, column.name)
        self._keys = {each.name for each in relation.key}
        self._numbers: dict[str, int] = {}

    def of(self, expression: tree.Expression) -> str:
        if isinstance(expression, tree.Column):
            several = len(self._holders.get(expression.name, ())) > 1
            if expression.source is not None and several and self._is_join:
                return f"{expression.source}_{expression.name}"
            return expression.name
        if isinstance(expression, tree.FieldOf):
            base = expression.name
            return self._first(base, lambda number: f"{base}_{number}" if number else base, ())
        if expression in self._of_key:
            return self._of_key[expression]
        return self._first("", lambda number: f"KSQL_COL_{number}", self._keys)

    def _first(self, what: str, name: Callable[[int], str], more: Collection[str]) -> str:
        number = self._numbers.get(what, 0)
        while (found := name(number)) in self.taken or found in self._holders or found in more:
            number += 1
        self._numbers[what] = number
        return found


def of_gone_keys(items: Sequence[Item], relation: Relation) -> Callable[[Any], list[Any]]:
    """The row that tells that a key is gone: columns that are of the key, or bounds of its window, have values."""
    place_of, width = relation.key_places(), len(relation.key)
    bounds = {name: width + place for place, name in enumerate(WINDOW_BOUNDS)} if relation.window else {}
    places = [
        bounds.get(item.expression.name, place_of(item.expression))
        if isinstance(item.expression, tree.Column)
        else place_of(item.expression)
        for item in items
    ]

    def row(key: Any) -> list[Any]:
        known = [*(windowed.bare(key) or [None] * width), *windowed.bounds(key)]
        return [None if place is None else known[place] for place in places]

    return row


@dataclass(frozen=True, slots=True)
class Projection:
    """Which items are the key, in the order of the key; and which make the value."""

    key: tuple[Item, ...]
    value: tuple[Item, ...]


def divide(items: Sequence[Item], relation: Relation, what: str, *, partial: bool = False) -> Projection:
    """Items that name a column of the key are the key; each column of the key must be named once."""
    found = _of_joins(items, relation)
    value: list[Item] = []
    place_of = relation.key_places()
    chosen = {id(each) for each in found.values()}
    for item in items:
        place = place_of(item.expression)
        if id(item) in chosen:
            continue
        if place is None or (
            place in found and relation.key[place].expression is None and _other_side(item, found[place])
        ):
            value.append(item)
        elif place in found:
            raise SqlError(
                f"The projection contains a key column ({types.quoted(relation.key[place].name)}) more than once: "
                f"{types.quoted(found[place].name)} and {types.quoted(item.name)}.",
                why="Each key column must only be in the projection once",
                hint="If you intended to copy the key into the value, then consider using the AS_VALUE function to indicate "
                "which key reference should be copied.",
                position=item.expression.position,
            )
        else:
            found[place] = item
    missing = [column for place, column in enumerate(relation.key) if place not in found]
    if missing and not partial:
        raise SqlError(
            f"Key missing from projection. The query used to build {types.quoted(what)} must include the {_lacked(missing)}",
            position=items[0].expression.position if items else None,
        )
    return Projection(tuple(found[place] for place in sorted(found)), tuple(value))


def _of_joins(items: Sequence[Item], relation: Relation) -> dict[int, Item]:
    """Of the columns that may be called the key of a join, the first that is named: the left side's before the
    right's, wherever they stand.
    """
    found: dict[int, Item] = {}
    for place, column in enumerate(relation.key):
        for source, name in column.viable:
            for item in items:
                named = item.expression
                if isinstance(named, tree.Column) and named.name == name and named.source in (None, source):
                    found.setdefault(place, item)
    return found


def _lacked(missing: Sequence[KeyColumn]) -> str:
    if len(missing) == 1 and missing[0].viable:
        shown = [f"{source}.{name}" for source, name in missing[0].viable]
        many = "s" if len(shown) > 1 else ""
        return f"join expression{many} {' or '.join(shown)} in its projection (eg, SELECT {shown[0]}...)."
    names = ", ".join(types.quoted(each.name) for each in missing)
    return f"key column{'s' if len(missing) > 1 else ''} {names} in its projection (eg, SELECT {names}...)."


def _other_side(item: Item, already: Item) -> bool:
    """Both sides of a join's condition are the key; the second one that is named is a value."""
    return item.expression != already.expression
