"""TRANSFORM, FILTER and REDUCE: functions that take lambdas, over arrays and maps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headwater.sql.functions.registry import scalar
from headwater.sql.values import EvaluationError

_CATEGORY = "LAMBDA"
Function = Callable[..., Any]


@scalar(
    "TRANSFORM",
    "(array ARRAY<T>, lambda LAMBDA(T) => U) -> ARRAY<U>",
    "Each item through a lambda.",
    category=_CATEGORY,
    nulls=True,
)
def transform_array(array: list[Any] | None, function: Function) -> list[Any] | None:
    return None if array is None else [function(each) for each in array]


@scalar("TRANSFORM", "(map MAP<K, V>, keys LAMBDA(K, V) => R, values LAMBDA(K, V) => S) -> MAP<R, S>", nulls=True)
def transform_map(mapping: dict[Any, Any] | None, keys: Function, values: Function) -> dict[Any, Any] | None:
    if mapping is None:
        return None
    result: dict[Any, Any] = {}
    for key, value in mapping.items():
        new = keys(key, value)
        if new in result:
            raise EvaluationError(f"TRANSFORM gives the key {new!r} twice")
        result[new] = values(key, value)
    return result


@scalar(
    "FILTER",
    "(array ARRAY<T>, lambda LAMBDA(T) => BOOLEAN) -> ARRAY<T>",
    "The items for which a lambda is true.",
    category=_CATEGORY,
    nulls=True,
)
def filter_array(array: list[Any] | None, function: Function) -> list[Any] | None:
    return None if array is None else [each for each in array if function(each)]


@scalar("FILTER", "(map MAP<K, V>, lambda LAMBDA(K, V) => BOOLEAN) -> MAP<K, V>", nulls=True)
def filter_map(mapping: dict[Any, Any] | None, function: Function) -> dict[Any, Any] | None:
    return None if mapping is None else {key: value for key, value in mapping.items() if function(key, value)}


@scalar(
    "REDUCE",
    "(array ARRAY<T>, state S, lambda LAMBDA(S, T) => S) -> S",
    "A state through all items, from first to last.",
    category=_CATEGORY,
    nulls=True,
)
def reduce_array(array: list[Any] | None, state: Any, function: Function) -> Any:
    if array is None or state is None:
        return state
    for each in array:
        state = function(state, each)
    return state


@scalar("REDUCE", "(map MAP<K, V>, state S, lambda LAMBDA(S, K, V) => S) -> S", nulls=True)
def reduce_map(mapping: dict[Any, Any] | None, state: Any, function: Function) -> Any:
    if mapping is None or state is None:
        return state
    for key, value in mapping.items():
        state = function(state, key, value)
    return state
