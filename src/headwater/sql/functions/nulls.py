"""Functions that look at NULL."""

from __future__ import annotations

from typing import Any

from headwater.sql.functions.registry import scalar


@scalar(
    "COALESCE", "(first T, more T...) -> T", "The first value that is not NULL.", category="CONDITIONAL", nulls=True
)
def coalesce(*given: Any) -> Any:
    return next((each for each in given if each is not None), None)


@scalar(
    "IFNULL",
    "(value T, otherwise T) -> T",
    "The value, or another one if it is NULL.",
    category="CONDITIONAL",
    nulls=True,
)
def ifnull(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


@scalar(
    "NULLIF", "(value T, other T) -> T", "NULL if both are equal, else the first.", category="CONDITIONAL", nulls=True
)
def nullif(value: Any, other: Any) -> Any:
    return None if value is not None and value == other else value


@scalar("AS_VALUE", "(keyColumn T) -> T", "A copy of a key column, in the value.", category="OTHER", nulls=True)
def as_value(value: Any) -> Any:
    return value
