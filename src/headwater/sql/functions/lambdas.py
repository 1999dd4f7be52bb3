"""TRANSFORM, FILTER and REDUCE: functions that take lambdas, over arrays and maps.

A lambda that calls functions of whole columns has `of_all`, which gives for many items at once what it gives for one
after the other. REDUCE needs each result for the next item: of several rows it takes an item each, in lock-step, where
its lambda waits for calls that are made for all of them (`_waiting`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from headwater.sql.functions.registry import scalar
from headwater.sql.functions.whole_calls import Waiting
from headwater.sql.values import EvaluationError

_CATEGORY = "LAMBDA"
Function = Callable[..., Any]


def _of_all(function: Function, items: Sequence[tuple[Any, ...]]) -> Sequence[Any]:
    of_all = getattr(function, "of_all", None)
    found: Sequence[Any] = [function(*each) for each in items] if of_all is None else of_all(items)
    return found


@scalar(
    "TRANSFORM",
    "(array ARRAY<T>, lambda LAMBDA(T) => U) -> ARRAY<U>",
    "Each item through a lambda.",
    category=_CATEGORY,
    nulls=True,
)
def transform_array(array: list[Any] | None, function: Function) -> list[Any] | None:
    return None if array is None else list(_of_all(function, [(each,) for each in array]))


@scalar("TRANSFORM", "(map MAP<K, V>, keys LAMBDA(K, V) => R, values LAMBDA(K, V) => S) -> MAP<R, S>", nulls=True)
def transform_map(mapping: dict[Any, Any] | None, keys: Function, values: Function) -> dict[Any, Any] | None:
    if mapping is None:
        return None
    items = list(mapping.items())
    seen = set()
    names = _of_all(keys, items)
    for name in names:
        if name in seen:
            raise EvaluationError(f"TRANSFORM gives the key {name!r} twice")
        seen.add(name)
    return dict(zip(names, _of_all(values, items), strict=True))


@scalar(
    "FILTER",
    "(array ARRAY<T>, lambda LAMBDA(T) => BOOLEAN) -> ARRAY<T>",
    "The items for which a lambda is true.",
    category=_CATEGORY,
    nulls=True,
)
def filter_array(array: list[Any] | None, function: Function) -> list[Any] | None:
    if array is None:
        return None
    passed = _of_all(function, [(each,) for each in array])
    return [each for each, passes in zip(array, passed, strict=True) if passes]


@scalar("FILTER", "(map MAP<K, V>, lambda LAMBDA(K, V) => BOOLEAN) -> MAP<K, V>", nulls=True)
def filter_map(mapping: dict[Any, Any] | None, function: Function) -> dict[Any, Any] | None:
    if mapping is None:
        return None
    passed = _of_all(function, list(mapping.items()))
    return {key: value for (key, value), passes in zip(mapping.items(), passed, strict=True) if passes}


def _reduce(items: Iterable[tuple[Any, ...]], state: Any, function: Function) -> Any:
    for each in items:
        state = function(state, *each)
    return state


def _waiting(items: Iterable[tuple[Any, ...]], state: Any, function: Callable[..., Waiting]) -> Waiting:
    for each in items:
        state = yield from function(state, *each)
    return state


def _reduce_array_waiting(array: list[Any] | None, state: Any, function: Callable[..., Waiting]) -> Waiting:
    items = [] if array is None or state is None else [(each,) for each in array]
    return _waiting(items, state, function)


def _reduce_map_waiting(mapping: dict[Any, Any] | None, state: Any, function: Callable[..., Waiting]) -> Waiting:
    return _waiting([] if mapping is None or state is None else mapping.items(), state, function)


@scalar(
    "REDUCE",
    "(array ARRAY<T>, state S, lambda LAMBDA(S, T) => S) -> S",
    "A state through all items, from first to last.",
    category=_CATEGORY,
    nulls=True,
    waiting=_reduce_array_waiting,
)
def reduce_array(array: list[Any] | None, state: Any, function: Function) -> Any:
    return state if array is None or state is None else _reduce([(each,) for each in array], state, function)


@scalar("REDUCE", "(map MAP<K, V>, state S, lambda LAMBDA(S, K, V) => S) -> S", nulls=True, waiting=_reduce_map_waiting)
def reduce_map(mapping: dict[Any, Any] | None, state: Any, function: Function) -> Any:
    return state if mapping is None or state is None else _reduce(mapping.items(), state, function)
