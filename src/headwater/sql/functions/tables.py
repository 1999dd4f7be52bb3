"""Table functions: one row in, any number of rows out. Several in one SELECT go side by side; the shorter ones are
filled with NULL.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headwater.sql.language.types import ArrayType, Type
from headwater.sql.values import EvaluationError


@dataclass(frozen=True, slots=True)
class TableFunction:
    name: str
    description: str
    forms: tuple[str, ...]
    returns: Callable[[Sequence[Type]], Type | None]
    call: Callable[[Any], list[Any]]


def _item(given: Sequence[Type]) -> Type | None:
    return given[0].item if len(given) == 1 and isinstance(given[0], ArrayType) else None


def _explode(array: list[Any] | None) -> list[Any]:
    return array or []


CUBE_MAX: Final = 16


def _cube(given: Sequence[Type]) -> Type | None:
    return given[0] if len(given) == 1 and isinstance(given[0], ArrayType) else None


def _cube_explode(array: list[Any] | None) -> list[Any]:
    """Each way to replace items by NULL, from all NULL to none; an item that is NULL already has one way only."""
    if array is None:
        return []
    if len(array) > CUBE_MAX:
        raise EvaluationError(f"CUBE_EXPLODE takes arrays of at most {CUBE_MAX} items")
    choices = [(None,) if each is None else (None, each) for each in array]
    return [list(each) for each in itertools.product(*choices)]


TABLE_FUNCTIONS: Final[dict[str, TableFunction]] = {
    each.name: each
    for each in (
        TableFunction("EXPLODE", "A row for each item of an array.", ("(array ARRAY<T>) -> T",), _item, _explode),
        TableFunction(
            "CUBE_EXPLODE",
            "A row for each subset of an array.",
            ("(array ARRAY<T>) -> ARRAY<T>",),
            _cube,
            _cube_explode,
        ),
    )
}
