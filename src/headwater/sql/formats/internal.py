"""Rows within a query: in repartition topics, changelogs and stores. Nobody else reads them, so every type keeps its
exact value: JSON, with a tag where JSON has no such value.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from json.encoder import encode_basestring_ascii
from typing import Any, Final

from headwater.sql import values


def _tagged(value: Any) -> Any:
    match value:
        case Decimal():
            return {"$d": str(value)}
        case datetime():
            return {"$ts": values.millis(value)}
        case date():
            return {"$date": values.days(value)}
        case time():
            return {"$time": values.time_millis(value)}
        case bytes():
            return {"$b": base64.b64encode(value).decode()}
        case _:
            raise TypeError(f"{type(value).__name__} cannot be stored")


def _shown(value: Any) -> Any:
    """Dicts as tagged pairs: their keys may be numbers, and must not be taken for tags."""
    if isinstance(value, dict):
        return {"$m": [[_shown(key), _shown(each)] for key, each in value.items()]}
    if isinstance(value, list):
        return [_shown(each) if isinstance(each, dict | list) else each for each in value]
    return value


def _restored(found: dict[str, Any]) -> Any:
    ((tag, value),) = found.items()
    match tag:
        case "$d":
            return Decimal(value)
        case "$ts":
            return values.from_millis(value)
        case "$date":
            return values.from_days(value)
        case "$time":
            return values.from_time_millis(value)
        case "$b":
            return base64.b64decode(value)
        case _:
            return {_key(key): each for key, each in value}


def _key(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


_ENCODE: Final = json.JSONEncoder(default=_tagged, separators=(",", ":")).encode
_DECODER: Final = json.JSONDecoder(object_hook=_restored)
_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    int: int.__repr__,
    str: encode_basestring_ascii,
    type(None): lambda _: "null",
    bool: lambda value: "true" if value else "false",
}  # as the encoder writes them


class InternalRows:
    """A serde of rows, and of lists of states."""

    name = "rows"

    def serialize(self, value: list[Any]) -> bytes:
        try:
            return f"[{','.join([_TEXTS[type(each)](each) for each in value])}]".encode()
        except KeyError:  # a value of another type
            return _ENCODE(_shown(value)).encode()

    def deserialize(self, data: bytes) -> list[Any]:
        """Written here, so it begins at once, and ends where its list ends: the decoder need not look for spaces."""
        text = data.decode()
        if text[:1] == "[":
            row, end = _DECODER.raw_decode(text)
            if end == len(text):
                return row  # type: ignore[no-any-return]
        found: list[Any] = _DECODER.decode(text)  # which says what is wrong
        return found


ROWS = InternalRows()
