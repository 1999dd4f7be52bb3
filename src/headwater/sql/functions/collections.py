"""Functions of arrays and maps."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal
from typing import Any

from headwater.sql.budget import spend
from headwater.sql.functions.registry import scalar
from headwater.sql.language import types
from headwater.sql.values import EvaluationError, as_text, int32, int64, place

_CATEGORY = "COLLECTION"
SERIES_MAX = 1_000_000


def hashable(value: Any) -> Any:
    """A value as a key of a set: equal values have equal ones."""
    if isinstance(value, list):
        return ("array", *map(hashable, value))
    if isinstance(value, dict):
        return ("map", frozenset((hashable(key), hashable(each)) for key, each in value.items()))
    return (type(value) is bool, value if value == value else math.nan)  # NaN is equal to itself


def _ordered(values: list[Any]) -> list[Any]:
    seen: dict[Any, Any] = {}
    for each in values:
        seen.setdefault(hashable(each), each)
    return list(seen.values())


@scalar("ARRAY_LENGTH", "(array ARRAY<T>) -> INTEGER", "How many items an array has.", category=_CATEGORY)
def array_length(array: list[Any]) -> int:
    return len(array)


@scalar(
    "ARRAY_CONTAINS",
    "(array ARRAY<T>, value T) -> BOOLEAN",
    "Whether a value is in an array.",
    category=_CATEGORY,
    nulls=True,
)
def array_contains(array: list[Any] | None, value: Any) -> bool:
    return array is not None and hashable(value) in {hashable(each) for each in array}


@scalar("ARRAY_DISTINCT", "(array ARRAY<T>) -> ARRAY<T>", "Each value of an array once.", category=_CATEGORY)
def array_distinct(array: list[Any]) -> list[Any]:
    return _ordered(array)


@scalar(
    "ARRAY_UNION", "(left ARRAY<T>, right ARRAY<T>) -> ARRAY<T>", "Each value of two arrays once.", category=_CATEGORY
)
def array_union(left: list[Any], right: list[Any]) -> list[Any]:
    return _ordered([*left, *right])


@scalar(
    "ARRAY_INTERSECT",
    "(left ARRAY<T>, right ARRAY<T>) -> ARRAY<T>",
    "The values that both arrays have, once each.",
    category=_CATEGORY,
)
def array_intersect(left: list[Any], right: list[Any]) -> list[Any]:
    both = {hashable(each) for each in right}
    return [each for each in _ordered(left) if hashable(each) in both]


@scalar(
    "ARRAY_EXCEPT",
    "(left ARRAY<T>, right ARRAY<T>) -> ARRAY<T>",
    "The values that only the first array has, once each.",
    category=_CATEGORY,
)
def array_except(left: list[Any], right: list[Any]) -> list[Any]:
    without = {hashable(each) for each in right}
    return [each for each in _ordered(left) if hashable(each) not in without]


@scalar(
    "ARRAY_CONCAT",
    "(left ARRAY<T>, right ARRAY<T>) -> ARRAY<T>",
    "Two arrays, one after the other.",
    category=_CATEGORY,
    nulls=True,
)
def array_concat(left: list[Any] | None, right: list[Any] | None) -> list[Any] | None:
    if left is None and right is None:
        return None
    return [*(left or []), *(right or [])]


@scalar(
    "ARRAY_REMOVE", "(array ARRAY<T>, value T) -> ARRAY<T>", "An array without a value.", category=_CATEGORY, nulls=True
)
def array_remove(array: list[Any] | None, value: Any) -> list[Any] | None:
    if array is None:
        return None
    gone = hashable(value)
    return [each for each in array if hashable(each) != gone]


@scalar("ARRAY_MAX", "(array ARRAY<T>) -> T", "The largest value of an array; NULLs are left out.", category=_CATEGORY)
def array_max(array: list[Any]) -> Any:
    return max((each for each in array if each is not None), default=None, key=place)


@scalar("ARRAY_MIN", "(array ARRAY<T>) -> T", "The smallest value of an array; NULLs are left out.", category=_CATEGORY)
def array_min(array: list[Any]) -> Any:
    return min((each for each in array if each is not None), default=None, key=place)


@scalar("ARRAY_SORT", "(array ARRAY<T>) -> ARRAY<T>", "An array in order, NULLs last: ASC or DESC.", category=_CATEGORY)
def array_sort(array: list[Any]) -> list[Any]:
    return sorted((each for each in array if each is not None), key=place) + [None] * array.count(None)


@scalar("ARRAY_SORT", "(array ARRAY<T>, direction STRING) -> ARRAY<T>")
def array_sort_by(array: list[Any], direction: str) -> list[Any] | None:
    if direction.upper() not in ("ASC", "ASCENDING", "DESC", "DESCENDING"):
        return None
    descending = direction.upper().startswith("DESC")
    known = sorted((each for each in array if each is not None), key=place, reverse=descending)
    return known + [None] * array.count(None)


@scalar(
    "ARRAY_JOIN",
    "(array ARRAY<T>) -> STRING",
    "The items of an array as text, with a delimiter between them.",
    category=_CATEGORY,
    nulls=True,
)
def array_join(array: list[Any] | None, delimiter: str | None = ",") -> str | None:
    if array is None:
        return None
    for each in array:
        if not isinstance(each, bool | int | float | Decimal | str | None):
            raise EvaluationError(f"error: hit element of type {type(each).__name__} which is currently not supported")
    return (delimiter or "").join(map(as_text, array))


@scalar("ARRAY_JOIN", "(array ARRAY<T>, delimiter STRING) -> STRING", nulls=True)
def array_join_by(array: list[Any] | None, delimiter: str | None) -> str | None:
    return array_join(array, delimiter)


@scalar(
    "SLICE",
    "(array ARRAY<T>, from INTEGER, to INTEGER) -> ARRAY<T>",
    "The items from one place to another, both from 1 and included.",
    category=_CATEGORY,
    nulls=True,
)
def slice_(array: list[Any] | None, start: int | None, end: int | None) -> list[Any] | None:
    if array is None:
        return None
    first = 0 if start is None else start - 1
    last = len(array) if end is None else end
    if not 0 <= first <= last <= len(array):
        return None
    return array[first:last]


@scalar(
    "AS_MAP",
    "(keys ARRAY<STRING>, values ARRAY<V>) -> MAP<STRING, V>",
    "A map of an array of keys and one of values.",
    category=_CATEGORY,
)
def as_map(keys: list[str], entries: list[Any]) -> dict[str, Any]:
    """A key without a value has NULL; values without a key are left out."""
    return dict(itertools.zip_longest(keys, entries[: len(keys)]))


@scalar("MAP_KEYS", "(map MAP<K, V>) -> ARRAY<K>", "The keys of a map.", category=_CATEGORY)
def map_keys(mapping: dict[Any, Any]) -> list[Any]:
    return list(mapping)


@scalar("MAP_VALUES", "(map MAP<K, V>) -> ARRAY<V>", "The values of a map.", category=_CATEGORY)
def map_values(mapping: dict[Any, Any]) -> list[Any]:
    return list(mapping.values())


@scalar(
    "MAP_UNION",
    "(left MAP<K, V>, right MAP<K, V>) -> MAP<K, V>",
    "Two maps as one; the second decides.",
    category=_CATEGORY,
    nulls=True,
)
def map_union(left: dict[Any, Any] | None, right: dict[Any, Any] | None) -> dict[Any, Any] | None:
    return None if left is None and right is None else {**(left or {}), **(right or {})}


def _entries_type(given: Any) -> types.Type:
    known = given[0]
    value = known.value if isinstance(known, types.MapType) else types.STRING
    return types.array(types.struct(("K", types.STRING), ("V", value)))


@scalar(
    "ENTRIES",
    "(map MAP<STRING, V>, sorted BOOLEAN) -> ARRAY<V>",
    "The entries of a map as structs K and V.",
    category=_CATEGORY,
    returns=_entries_type,
)
def entries(mapping: dict[str, Any], in_order: bool) -> list[dict[str, Any]]:
    keys = sorted(mapping) if in_order else list(mapping)
    return [{"K": key, "V": mapping[key]} for key in keys]


@scalar(
    "ELT", "(place INTEGER, values STRING...) -> STRING", "The value at a place, from 1.", category="STRING", nulls=True
)
def elt(place: int | None, *given: str | None) -> str | None:
    return given[place - 1] if place is not None and 0 < place <= len(given) else None


@scalar(
    "FIELD",
    "(text STRING, values STRING...) -> INTEGER",
    "The place of a text among values, from 1; 0 if it is not there.",
    category="STRING",
    nulls=True,
)
def field(text: str | None, *given: str | None) -> int:
    return given.index(text) + 1 if text is not None and text in given else 0


def _series(start: int, end: int, step: int) -> list[int]:
    if step == 0:
        raise EvaluationError("GENERATE_SERIES step cannot be zero")
    if (end - start) * step < 0:
        raise EvaluationError(f"GENERATE_SERIES step has wrong sign: {step}")
    if abs((end - start) // step) >= SERIES_MAX:
        raise EvaluationError(f"GENERATE_SERIES gives at most {SERIES_MAX} numbers")
    spend(abs((end - start) // step))
    return list(range(start, end + (1 if step > 0 else -1), step))


@scalar(
    "GENERATE_SERIES",
    "(start INTEGER, end INTEGER) -> ARRAY<INTEGER>",
    "Numbers from one to another, both included.",
    category=_CATEGORY,
)
@scalar("GENERATE_SERIES", "(start BIGINT, end BIGINT) -> ARRAY<BIGINT>")
def generate_series(start: int, end: int) -> list[int]:
    return _series(start, end, 1 if end >= start else -1)


@scalar("GENERATE_SERIES", "(start INTEGER, end INTEGER, step INTEGER) -> ARRAY<INTEGER>")
def generate_series_int(start: int, end: int, step: int) -> list[int]:
    return [int32(each) for each in _series(start, end, step)]


@scalar("GENERATE_SERIES", "(start BIGINT, end BIGINT, step INTEGER) -> ARRAY<BIGINT>")
def generate_series_long(start: int, end: int, step: int) -> list[int]:
    return [int64(each) for each in _series(start, end, step)]
