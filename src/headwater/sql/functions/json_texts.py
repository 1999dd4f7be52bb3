"""Functions of JSON in text."""

from __future__ import annotations

import functools
import json
import re
from decimal import Decimal
from typing import Any, Final

from headwater.sql.functions.registry import scalar
from headwater.sql.json_text import dump, without_halves
from headwater.sql.values import EvaluationError, as_text, java_double

_CATEGORY = "JSON"
_MISSING = object()
_DECODER = json.JSONDecoder(parse_float=Decimal)


def _load(text: str) -> Any:
    """The value that a JSON text begins with, or _MISSING if it is none. Numbers keep their digits. What stands behind
    the end of an object, an array or a text is not read, as in ksqlDB.
    """
    try:
        shown = without_halves(text).lstrip(" \t\r\n")
        value, end = _DECODER.raw_decode(shown)
    except (ValueError, RecursionError):
        return _MISSING
    ends = isinstance(value, dict | list | str) or not shown[end:].strip(" \t\r\n")
    return value if ends else _MISSING


@functools.lru_cache(maxsize=256)
def _path(path: str) -> tuple[str, ...]:
    """`$.a.b[0]["c d"]` as steps. A step into an array is its place, however it is written."""
    steps, at = [], 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            break
        quoted = found["quoted"]
        plain = found["name"] or found["index"] or found["single"] or ""
        steps.append(_ESCAPED.sub(r"\1", quoted) if quoted is not None else plain)
        at = found.end()
    if not path.startswith("$") or at < len(path):
        raise EvaluationError(f"Invalid JSON path: '{path}'")
    return tuple(steps)


# Names may also have signs that ksqlDB takes between quotes alone (`$.a-b`), and either quotes: whoever wrote them so
# means nothing else.
_STEP: Final = re.compile(
    r"""\.(?P<name>[^.\[\]'"\s]+)|\[(?:"(?P<quoted>(?:[^"\\]|\\["\\])*)"|'(?P<single>[^']*)'|(?P<index>[^\[\]'"\s]+))\]"""
)
_ESCAPED: Final = re.compile(r"\\(.)")
_PLACE: Final = re.compile(r"[0-9]{1,9}")


@scalar(
    "EXTRACTJSONFIELD",
    "(json STRING, path STRING) -> STRING",
    "The value at a path ($.a[0].b) in a JSON text.",
    category=_CATEGORY,
)
def extract_json_field(text: str, path: str) -> str | None:
    """What is not there is NULL, and so is what is in no object or array; JSON's null is the text `null`."""
    steps = _path(path)
    value = _load(text)
    if value is _MISSING:
        raise EvaluationError(f"Invalid JSON format: {text[:100]}")
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step, _MISSING)
        elif isinstance(value, list) and _PLACE.fullmatch(step):
            value = value[int(step)] if int(step) < len(value) else _MISSING
        else:
            return None
    if value is _MISSING:
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
    """Fields of structs and keys of maps stand in their order."""
    return dump(_sorted(value), java_double)


def _sorted(value: Any) -> Any:
    if isinstance(value, list):
        return [_sorted(each) for each in value]
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value, key=as_text)}
    return value


@scalar(
    "JSON_ARRAY_CONTAINS",
    "(json STRING, value T) -> BOOLEAN",
    "Whether a JSON array has a value.",
    category=_CATEGORY,
    nulls=True,
    widen=False,
)
def json_array_contains(text: str | None, value: Any) -> bool:
    """A number is found among those that are written as it is: 1 is no 1.0, and a DECIMAL is in no array."""
    if text is None:
        raise EvaluationError("JSON_ARRAY_CONTAINS needs a text")
    array = _load(text)
    if not isinstance(array, list) or not isinstance(value, bool | int | float | str | None):
        return False
    if isinstance(value, float):  # JSON's numbers with a point are read as decimals
        return any(type(each) is Decimal and float(each) == value for each in array)
    return any(type(each) is type(value) and each == value for each in array)
