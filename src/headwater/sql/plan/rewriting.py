"""Walks over expressions: what they name, and copies of them with parts replaced."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError


def parts(expression: tree.Expression) -> Iterator[tree.Expression]:
    """The expression and everything within it."""
    yield expression
    for field in dataclasses.fields(expression):
        yield from _parts_of(getattr(expression, field.name))


def _parts_of(value: Any) -> Iterator[tree.Expression]:
    if isinstance(value, tree.Expression):
        yield from parts(value)
    elif isinstance(value, tuple):
        for each in value:
            yield from _parts_of(each)


def replaced(
    expression: tree.Expression, change: Callable[[tree.Expression], tree.Expression | None]
) -> tree.Expression:
    """A copy in which every part for which `change` gives something is that; what it gives is not looked into again."""
    new = change(expression)
    if new is not None:
        return new
    changes = {}
    for field in dataclasses.fields(expression):
        before = getattr(expression, field.name)
        after = _replaced(before, change)
        if after is not before:
            changes[field.name] = after
    return dataclasses.replace(expression, **changes) if changes else expression


def _replaced(value: Any, change: Callable[[tree.Expression], tree.Expression | None]) -> Any:
    if isinstance(value, tree.Expression):
        return replaced(value, change)
    if isinstance(value, tuple):
        changed = tuple(_replaced(each, change) for each in value)
        return changed if any(new is not old for new, old in zip(changed, value, strict=True)) else value
    return value


def columns(expression: tree.Expression) -> Iterator[tree.Column]:
    """The columns that an expression names; parameters of lambdas are none."""
    yield from _columns(expression, frozenset())


def names_of(query: tree.Query) -> set[str]:
    """All names of columns, and of what looks like one, anywhere in a query."""
    return set(_names(query))


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, tree.Column):
        yield value.name
    if isinstance(value, tuple | list):
        for each in value:
            yield from _names(each)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _names(getattr(value, field.name))


def _columns(value: Any, bound: frozenset[str]) -> Iterator[tree.Column]:
    if isinstance(value, tree.Column):
        if not (value.source is None and value.name in bound):
            yield value
    elif isinstance(value, tree.Lambda):
        yield from _columns(value.body, bound | set(value.parameters))
    elif isinstance(value, tree.Expression):
        for field in dataclasses.fields(value):
            yield from _columns(getattr(value, field.name), bound)
    elif isinstance(value, tuple):
        for each in value:
            yield from _columns(each, bound)


def refuse_duplicates(
    clause: str, expressions: Iterable[tree.Expression], holders: Mapping[str, Sequence[str | None]]
) -> None:
    """Of what makes a key each part stands once, as in ksqlDB. `holders`: the sources of the columns of each name."""
    seen = set()
    for each in expressions:
        same, named = each, ""
        if isinstance(each, tree.Column):
            named = f": {each.name}"
            same = dataclasses.replace(each, source=None) if len(holders.get(each.name, ())) == 1 else each
        if same in seen:
            raise SqlError(f"Duplicate {clause} expression{named}.", position=each.position)
        seen.add(same)
