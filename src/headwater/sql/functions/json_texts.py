"""Functions of JSON in text."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from headwater.sql.functions.registry import scalar
from headwater.sql.json_text import dump
from headwater.sql.values import EvaluationError

_CATEGORY = "JSON"
_MISSING = object()
_DECODER = json.JSONDecoder(parse_float=Decimal)


def _load(text: str) -> Any:
    """The value that a JSON text begins with, or _MISSING if it is none. Numbers keep their digits. What stands behind
    the end of an object, an array or a text is not read, as in ksqlDB.
    """
    try:
        shown = text.lstrip(" \t\r\n")
        value, end = _DECODER.raw_decode(shown)
    except (ValueError, RecursionError):
        return _MISSING
    ends = isinstance(value, dict | list | str) or not shown[end:].strip(" \t\r\n")
    return value if ends else _MISSING


def _path(path: str) -> list[str | int]:
    """`$.a.b[0]` as steps."""
    if not path.startswith("$"):
        raise EvaluationError(f"Invalid JSON path '{path}': it begins with $")
    steps: list[str | int] = []
    rest = path[1:]
    while rest:
        if rest.startswith("["):
            inside, found, rest = rest[1:].partition("]")
            if not found:
                raise EvaluationError(f"Invalid JSON path '{path}': ] is missing")
            steps.append(int(inside) if inside.isdigit() else inside.strip("'\""))
        elif rest.startswith("."):
            rest = rest[1:]
            end = min((at for at in (rest.find("."), rest.find("[")) if at >= 0), default=len(rest))
            steps.append(rest[:end])
            rest = rest[end:]
        else:
            raise EvaluationError(f"Invalid JSON path '{path}'")
    return steps


@scalar(
    "EXTRACTJSONFIELD",
    "(json STRING, path STRING) -> STRING",
    "The value at a path ($.a[0].b) in a JSON text.",
    category=_CATEGORY,
)
def extract_json_field(text: str, path: str) -> str | None:
    value = _load(text)
    for step in _path(path):
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step] if step < len(value) else None
        else:
            return None
    if value is None or value is _MISSING:
        return None
    return value if isinstance(value, str) else dump(value)


@scalar("IS_JSON_STRING", "(json STRING) -> BOOLEAN", "Whether a text is JSON.", category=_CATEGORY, nulls=True)
def is_json_string(text: str | None) -> bool:
    return text is not None and _load(text) is not _MISSING


@scalar("JSON_ARRAY_LENGTH", "(json STRING) -> INTEGER", "How many items a JSON array has.", category=_CATEGORY)
def json_array_length(text: str) -> int | None:
    value = _load(text)
    if value is _MISSING:
        raise EvaluationError(f"Failed to parse JSON: '{text[:100]}'")
    return len(value) if isinstance(value, list) else None


@scalar("JSON_KEYS", "(json STRING) -> ARRAY<STRING>", "The keys of a JSON object.", category=_CATEGORY)
def json_keys(text: str) -> list[str] | None:
    value = _load(text)
    return list(value) if isinstance(value, dict) else None


@scalar(
    "JSON_RECORDS", "(json STRING) -> MAP<STRING, STRING>", "A JSON object as a map of JSON texts.", category=_CATEGORY
)
def json_records(text: str) -> dict[str, str] | None:
    value = _load(text)
    if not isinstance(value, dict):
        return None
    return {key: each if isinstance(each, str) else dump(each) for key, each in value.items()}


@scalar("JSON_ITEMS", "(json STRING) -> ARRAY<STRING>", "The items of a JSON array as JSON texts.", category=_CATEGORY)
def json_items(text: str) -> list[str] | None:
    value = _load(text)
    return [dump(each) for each in value] if isinstance(value, list) else None


@scalar(
    "JSON_CONCAT",
    "(json STRING...) -> STRING",
    "Several JSON values as one: objects merged, arrays joined.",
    category=_CATEGORY,
)
def json_concat(*texts: str) -> str | None:
    values = [_load(each) for each in texts]
    if not values or _MISSING in values:
        return None
    if all(isinstance(each, dict) for each in values):
        merged: dict[str, Any] = {}
        for each in values:
            merged.update(each)
        return dump(merged)
    return dump([item for each in values for item in (each if isinstance(each, list) else [each])])


@scalar("TO_JSON_STRING", "(value T) -> STRING", "A value as a JSON text.", category=_CATEGORY, nulls=True)
def to_json_string(value: Any) -> str:
    return dump(value)


@scalar(
    "JSON_ARRAY_CONTAINS",
    "(json STRING, value T) -> BOOLEAN",
    "Whether a JSON array has a value.",
    category=_CATEGORY,
    nulls=True,
    widen=False,
)
def json_array_contains(text: str | None, value: Any) -> bool:
    array = _MISSING if text is None else _load(text)
    if not isinstance(array, list):
        return False
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    for each in array:
        same_kind = number == (isinstance(each, int | Decimal) and not isinstance(each, bool))
        if same_kind and isinstance(each, bool) == isinstance(value, bool) and each == value:
            return True
    return False
