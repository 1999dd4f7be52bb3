"""Aggregate functions: a state, how a row is added to it and taken back, and what it means.

`AGGREGATES[name](argument types, constants)` gives an `Aggregate`. States are values that can be stored as rows can:
numbers, text, lists, dicts. `undo` is None where a row cannot be taken back: those aggregate streams only, as in
ksqlDB. Arguments that are literals by their nature (how many of TOPK) are `constants`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from headwater.sql.functions.collections import hashable
from headwater.sql.functions.settings import limit_of
from headwater.sql.language import types
from headwater.sql.language.errors import Position, SqlError
from headwater.sql.language.types import ArrayType, Base, DecimalType, Type
from headwater.sql.values import EXACT, fit, int32, int64, place

State = Any


@dataclass(frozen=True, slots=True)
class Aggregate:
    returns: Type
    initial: Callable[[], State]
    add: Callable[..., State]
    undo: Callable[..., State] | None
    result: Callable[[State], Any]
    merge: Callable[[State, State], State]  # of two sessions that become one; the first is the earlier


def _plus(one: Any, other: Any) -> Any:
    return one + other


def _each_plus(one: list[Any], other: list[Any]) -> list[Any]:
    return [first + second for first, second in zip(one, other, strict=True)]


def _same(state: State) -> Any:
    return state


def no_merge(_one: State, _other: State) -> State:
    """Of functions that cannot merge two states: such a query has no session windows."""
    raise AssertionError("two sessions of a function without merge")


Make = Callable[[Sequence[Type], Sequence[Any]], "Aggregate | None"]


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    name: str
    description: str
    forms: tuple[str, ...]
    make: Make
    constants: int = 0  # how many of the last arguments are literals, at most

    def resolve(self, given: Sequence[Type | None], constants: Sequence[Any], position: Position) -> Aggregate:
        known = [each for each in given if each is not None]
        made = self.make(known, constants) if len(known) == len(given) else None
        if made is None:
            shown = ", ".join("null" if each is None else str(each) for each in given)
            raise SqlError(
                f"Function '{self.name}' does not accept parameters ({shown}).",
                why="Valid alternatives are:\n" + "\n".join(self.name + form for form in self.forms),
                hint=f"For detailed information on a function run: DESCRIBE FUNCTION {self.name};",
                position=position,
            )
        return made


AGGREGATES: Final[dict[str, AggregateFunction]] = {}


def _aggregate(name: str, description: str, *forms: str, constants: int = 0) -> Callable[[Make], Make]:
    def declare(make: Make) -> Make:
        AGGREGATES[name] = AggregateFunction(name, description, forms, make, constants)
        return make

    return declare


@_aggregate("COUNT", "How many rows, or how many values that are not NULL.", "(*) -> BIGINT", "(value T) -> BIGINT")
def _count(given: Sequence[Type], _constants: Sequence[Any]) -> Aggregate | None:
    if not given:
        return Aggregate(types.BIGINT, lambda: 0, lambda state: state + 1, lambda state: state - 1, _same, _plus)
    if len(given) > 1:
        return None
    return Aggregate(
        types.BIGINT,
        lambda: 0,
        lambda state, value: state + (value is not None),
        lambda state, value: state - (value is not None),
        _same,
        _plus,
    )


def _wrap(given: Type) -> Callable[[Any], Any]:
    return {Base.INTEGER: int32, Base.BIGINT: int64}.get(given.base, _same)


@_aggregate(
    "SUM", "The sum of a column.", *(f"(value {each}) -> {each}" for each in ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE"))
)
def _sum(given: Sequence[Type], _constants: Sequence[Any]) -> Aggregate | None:
    if len(given) != 1 or not given[0].is_number:
        return None
    if isinstance(given[0], DecimalType):
        return _decimal_sum(given[0])
    wrap = _wrap(given[0])
    return Aggregate(
        given[0],
        lambda: 0.0 if given[0].base is Base.DOUBLE else 0,
        lambda state, value: state if value is None else wrap(state + value),
        lambda state, value: state if value is None else wrap(state - value),
        _same,
        lambda one, other: wrap(one + other),
    )


def _decimal_sum(given: DecimalType) -> Aggregate:
    """The state has as many digits as it takes, so that whatever was added can be taken back; only what is told of it
    has to fit the type.
    """
    return Aggregate(
        given,
        lambda: fit(Decimal(0), given.precision, given.scale),
        lambda state, value: state if value is None else EXACT.add(state, value),  # + rounds to 28 digits
        lambda state, value: state if value is None else EXACT.subtract(state, value),
        lambda state: fit(state, given.precision, given.scale),
        EXACT.add,
    )


@_aggregate(
    "SUM_LIST",
    "The sum of the items of arrays.",
    *(f"(value ARRAY<{each}>) -> {each}" for each in ("INTEGER", "BIGINT", "DOUBLE")),
)
def _sum_list(given: Sequence[Type], _constants: Sequence[Any]) -> Aggregate | None:
    if len(given) != 1 or not isinstance(given[0], ArrayType):
        return None
    item = given[0].item
    if item.base not in (Base.INTEGER, Base.BIGINT, Base.DOUBLE):
        return None
    wrap = _wrap(item)

    def sum_of(items: list[Any] | None) -> Any:
        return wrap(sum(each for each in items or () if each is not None))

    return Aggregate(
        item,
        lambda: 0.0 if item.base is Base.DOUBLE else 0,
        lambda state, items: wrap(state + sum_of(items)),
        lambda state, items: wrap(state - sum_of(items)),
        _same,
        lambda one, other: wrap(one + other),
    )


@_aggregate(
    "AVG",
    "The mean of a column.",
    *(f"(value {each}) -> DOUBLE" for each in ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE")),
)
def _avg(given: Sequence[Type], _constants: Sequence[Any]) -> Aggregate | None:
    if len(given) != 1 or not given[0].is_number:
        return None
    number: type[int] | type[float] = (
        int if given[0].base in (Base.INTEGER, Base.BIGINT) else float
    )  # the sum of whole numbers is exact
    return Aggregate(
        types.DOUBLE,
        lambda: [number(0), 0],
        lambda state, value: state if value is None else [state[0] + number(value), state[1] + 1],
        lambda state, value: state if value is None else [state[0] - number(value), state[1] - 1],
        lambda state: float(state[0]) / state[1] if state[1] else 0.0,
        _each_plus,
    )


def _extreme(better: Callable[[Any, Any], bool]) -> Make:
    def make(given: Sequence[Type], _constants: Sequence[Any]) -> Aggregate | None:
        if len(given) != 1 or given[0].base in (Base.BOOLEAN, Base.ARRAY, Base.MAP, Base.STRUCT):
            return None

        is_better = better if given[0].base is not Base.DOUBLE else lambda one, other: better(place(one), place(other))

        def add(state: Any, value: Any) -> Any:
            return value if state is None or (value is not None and is_better(value, state)) else state

        return Aggregate(given[0], lambda: None, add, None, _same, add)

    return make


_ORDERED: Final = ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE", "STRING", "DATE", "TIME", "TIMESTAMP", "BYTES")
_aggregate("MIN", "The smallest value.", *(f"(value {each}) -> {each}" for each in _ORDERED))(
    _extreme(lambda one, other: one < other)
)
_aggregate("MAX", "The largest value.", *(f"(value {each}) -> {each}" for each in _ORDERED))(
    _extreme(lambda one, other: one > other)
)


def _top(given: Sequence[Type], constants: Sequence[Any], *, distinct: bool) -> Aggregate | None:
    if not given or len(constants) != 1 or not isinstance(constants[0], int) or constants[0] < 1:
        return None
    if len(given) > 1:
        return None if distinct else _top_rows(given, constants[0])
    if given[0].base in (Base.BOOLEAN, Base.ARRAY, Base.MAP, Base.STRUCT):
        return None
    count = constants[0]

    def add(state: list[Any], value: Any) -> list[Any]:
        if value is None or (distinct and place(value) in map(place, state)):
            return state
        return sorted([*state, value], key=place, reverse=True)[:count]

    def merge(one: list[Any], other: list[Any]) -> list[Any]:
        for value in other:
            one = add(one, value)
        return one

    return Aggregate(types.array(given[0]), list, add, None, _same, merge)


def _top_rows(given: Sequence[Type], count: int) -> Aggregate | None:
    """TOPK with further columns: structs, in the order of their first field."""
    if given[0].base in (Base.BOOLEAN, Base.ARRAY, Base.MAP, Base.STRUCT):
        return None
    names = ["sort_col", *(f"col{place}" for place in range(len(given) - 1))]

    def best(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(rows, key=lambda row: place(row["sort_col"]), reverse=True)[:count]

    def add(state: list[dict[str, Any]], *values: Any) -> list[dict[str, Any]]:
        return state if values[0] is None else best([*state, dict(zip(names, values, strict=True))])

    returns = types.array(types.struct(*zip(names, given, strict=True)))
    return Aggregate(returns, list, add, None, _same, lambda one, other: best([*one, *other]))


@_aggregate(
    "TOPK",
    "The largest values, in order.",
    "(value T, k INTEGER) -> ARRAY<T>",
    "(value T, more ANY..., k INTEGER) -> ARRAY<STRUCT>",
    constants=1,
)
def _topk(given: Sequence[Type], constants: Sequence[Any]) -> Aggregate | None:
    return _top(given, constants, distinct=False)


@_aggregate("TOPKDISTINCT", "The largest different values, in order.", "(value T, k INTEGER) -> ARRAY<T>", constants=1)
def _topkdistinct(given: Sequence[Type], constants: Sequence[Any]) -> Aggregate | None:
    return _top(given, constants, distinct=True)


def _without(state: list[Any], value: Any) -> list[Any]:
    """Without the last item that is equal."""
    gone = hashable(value)
    at = next((place for place in reversed(range(len(state))) if hashable(state[place]) == gone), None)
    return state if at is None else [*state[:at], *state[at + 1 :]]


@_aggregate("COLLECT_LIST", "All values, as an array.", "(value T) -> ARRAY<T>")
def _collect_list(given: Sequence[Type], _constants: Sequence[Any]) -> Aggregate | None:
    if len(given) != 1:
        return None
    limit = limit_of("collect_list")

    def add(state: list[Any], value: Any) -> list[Any]:
        return state if limit is not None and len(state) >= limit else [*state, value]

    return Aggregate(types.array(given[0]), list, add, _without, _same, lambda one, other: [*one, *other][:limit])


@_aggregate("COLLECT_SET", "All different values, as an array.", "(value T) -> ARRAY<T>")
def _collect_set(given: Sequence[Type], _constants: Sequence[Any]) -> Aggregate | None:
    return _set(given, limit_of("collect_set"))


def _set(given: Sequence[Type], limit: int | None) -> Aggregate | None:
    if len(given) != 1:
        return None

    def add(state: list[Any], value: Any) -> list[Any]:
        if limit is not None and len(state) >= limit:
            return state
        return state if hashable(value) in {hashable(each) for each in state} else [*state, value]

    def merge(one: list[Any], other: list[Any]) -> list[Any]:
        for value in other:
            one = add(one, value)
        return one

    return Aggregate(types.array(given[0]), list, add, None, _same, merge)


@_aggregate("COUNT_DISTINCT", "How many different values; counted exactly.", "(value T) -> BIGINT")
def _count_distinct(given: Sequence[Type], _constants: Sequence[Any]) -> Aggregate | None:
    made = _set(given, None)
    if made is None:
        return None
    add = made.add
    return Aggregate(
        types.BIGINT,
        list,
        lambda state, value: state if value is None else add(state, value),
        None,
        lambda state: len(state),
        made.merge,
    )


@_aggregate("HISTOGRAM", "How often each text occurs.", "(value STRING) -> MAP<STRING, BIGINT>")
def _histogram(given: Sequence[Type], _constants: Sequence[Any]) -> Aggregate | None:
    if list(given) != [types.STRING]:
        return None
    limit = 1_000

    def changed(state: dict[str, int], value: str | None, by: int) -> dict[str, int]:
        if value is None or (by > 0 and value not in state and len(state) >= limit):
            return state
        count = state.get(value, 0) + by
        return {**state, value: count} if count > 0 else {key: each for key, each in state.items() if key != value}

    return Aggregate(
        types.mapping(types.STRING, types.BIGINT),
        dict,
        lambda state, value: changed(state, value, 1),
        lambda state, value: changed(state, value, -1),
        _same,
        lambda one, other: {
            key: one.get(key, 0) + other.get(key, 0) for key in [*one, *(each for each in other if each not in one)]
        },
    )


def _by_offset(*, latest: bool) -> Make:
    def make(given: Sequence[Type], constants: Sequence[Any]) -> Aggregate | None:
        counts = [each for each in constants if isinstance(each, int) and not isinstance(each, bool)]
        flags = [each for each in constants if isinstance(each, bool)]
        if len(given) != 1 or len(counts) > 1 or len(flags) > 1 or len(counts) + len(flags) != len(constants):
            return None
        count, ignore_nulls = counts[0] if counts else 1, flags[0] if flags else True
        if count < 1:
            return None

        def add(state: list[Any], value: Any) -> list[Any]:
            if value is None and ignore_nulls:
                return state
            if latest:
                return [*state, value][-count:]
            return state if len(state) >= count else [*state, value]

        returns = types.array(given[0]) if counts else given[0]
        result = _same if counts else (lambda state: state[0] if state else None)

        def merge(one: list[Any], other: list[Any]) -> list[Any]:
            return [*one, *other][-count:] if latest else [*one, *other][:count]

        return Aggregate(returns, list, add, None, result, merge)

    return make


_FORMS: Final = (
    "(value T) -> T",
    "(value T, ignoreNulls BOOLEAN) -> T",
    "(value T, count INTEGER) -> ARRAY<T>",
    "(value T, count INTEGER, ignoreNulls BOOLEAN) -> ARRAY<T>",
)
_aggregate("EARLIEST_BY_OFFSET", "The first value, or the first few.", *_FORMS, constants=2)(_by_offset(latest=False))
_aggregate("LATEST_BY_OFFSET", "The last value, or the last few.", *_FORMS, constants=2)(_by_offset(latest=True))


@_aggregate("ATTR", "The value, if all rows have the same; else NULL.", "(value T) -> T")
def _attr(given: Sequence[Type], _constants: Sequence[Any]) -> Aggregate | None:
    if len(given) != 1:
        return None

    def changed(state: list[list[Any]], value: Any, by: int) -> list[list[Any]]:
        wanted = hashable(value)
        kept = [[each, count + by] if hashable(each) == wanted else [each, count] for each, count in state]
        if by > 0 and all(hashable(each) != wanted for each, _ in state):
            kept.append([value, 1])
        return [[each, count] for each, count in kept if count > 0]

    def merge(one: list[list[Any]], other: list[list[Any]]) -> list[list[Any]]:
        for value, count in other:
            one = (
                changed(one, value, count)
                if any(hashable(each) == hashable(value) for each, _ in one)
                else [*one, [value, count]]
            )
        return one

    return Aggregate(
        given[0],
        list,
        lambda state, value: changed(state, value, 1),
        lambda state, value: changed(state, value, -1),
        lambda state: state[0][0] if len(state) == 1 else None,
        merge,
    )


def _deviation(*, sample: bool) -> Make:
    def make(given: Sequence[Type], _constants: Sequence[Any]) -> Aggregate | None:
        if len(given) != 1 or not given[0].is_number:
            return None

        def add(state: list[Any], value: Any) -> list[Any]:
            if value is None:
                return state
            count, mean, spread = state
            moved = mean + (float(value) - mean) / (count + 1)
            return [count + 1, moved, spread + (float(value) - mean) * (float(value) - moved)]

        def undo(state: list[Any], value: Any) -> list[Any]:
            if value is None:
                return state
            count, mean, spread = state
            if count <= 1:
                return [0, 0.0, 0.0]
            before = (count * mean - float(value)) / (count - 1)
            return [count - 1, before, spread - (float(value) - before) * (float(value) - mean)]

        def result(state: list[Any]) -> float:
            freedom = state[0] - 1 if sample else state[0]
            return math.sqrt(max(state[2], 0.0) / freedom) if freedom > 0 else 0.0

        def merge(one: list[Any], other: list[Any]) -> list[Any]:
            count = one[0] + other[0]
            if not count:
                return one
            apart = other[1] - one[1]
            mean = one[1] + apart * other[0] / count
            return [count, mean, one[2] + other[2] + apart * apart * one[0] * other[0] / count]

        return Aggregate(types.DOUBLE, lambda: [0, 0.0, 0.0], add, undo, result, merge)

    return make


_NUMBERS: Final = tuple(f"(value {each}) -> DOUBLE" for each in ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE"))
_aggregate("STDDEV_SAMP", "The standard deviation of a sample.", *_NUMBERS)(_deviation(sample=True))
_aggregate("STDDEV_SAMPLE", "The standard deviation of a sample.", *_NUMBERS)(_deviation(sample=True))
_aggregate("STDDEV_POP", "The standard deviation of all values.", *_NUMBERS)(_deviation(sample=False))


@_aggregate("CORRELATION", "Pearson's correlation of two columns.", "(x DOUBLE, y DOUBLE) -> DOUBLE")
def _correlation(given: Sequence[Type], _constants: Sequence[Any]) -> Aggregate | None:
    if len(given) != 2 or not all(each.is_number for each in given):
        return None

    def changed(state: list[float], first: Any, second: Any, by: int) -> list[float]:
        if first is None or second is None:
            return state
        x, y = float(first), float(second)
        return [each + by * more for each, more in zip(state, (1, x, y, x * x, y * y, x * y), strict=True)]

    def result(state: list[float]) -> float:
        count, x, y, xx, yy, xy = state
        spread = (count * xx - x * x) * (count * yy - y * y)
        return (count * xy - x * y) / math.sqrt(spread) if spread > 0 else math.nan

    return Aggregate(
        types.DOUBLE,
        lambda: [0.0] * 6,
        lambda state, x, y: changed(state, x, y, 1),
        lambda state, x, y: changed(state, x, y, -1),
        result,
        _each_plus,
    )
