"""Values of SQL as JSON text, and what JSON text is read from."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, Final

from headwater.sql.values import encodable, java_double, java_time, java_timestamp

_ESCAPES: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)

_WHOLE: Final = re.compile(
    r"[^\\]*+(?:\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?!u[dD][89a-fA-F][0-9a-fA-F]{2}).)[^\\]*+)*+",
    re.DOTALL,
)


def text_of(data: bytes) -> str:
    """The text that holds a JSON value, without half characters (`without_halves`)."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:  # halves are encoded by themselves
        text = encodable(data.decode("utf-8", "surrogatepass"))
    return without_halves(text)


def without_halves(text: str) -> str:
    """JSON text with a `?` in the place of each escape of half a character (a surrogate whose other half is missing):
    text with one has no bytes in any encoding, and Java writes it so. What cuts a text between the halves of an emoji,
    as JavaScript's `slice` does, makes them.
    """
    if "\\ud" not in text and "\\uD" not in text:
        return text
    if _WHOLE.fullmatch(text):  # a record of many emoji; several times as fast as to put each escape back
        return text
    return _ESCAPES.sub(lambda found: found[0] if found["half"] is None else "?", text)


def dump(value: Any, double: Callable[[float], str] = json.dumps) -> str:
    """As Jackson writes it: without spaces. `double`: how a finite one is written."""
    kind = type(value)
    if kind is str:
        return encode_basestring(value)
    if kind is int:
        return str(value)
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return double(value) if math.isfinite(value) else json.dumps(java_double(value))
        case Decimal():  # 1E+999999999 is written as it came: its digits would fill the memory
            return format(value, "f") if abs(value.adjusted()) < 400 else str(value)
        case datetime():
            return json.dumps(java_timestamp(value))
        case date():
            return json.dumps(value.isoformat())
        case time():
            return json.dumps(java_time(value))
        case bytes():
            return json.dumps(base64.b64encode(value).decode())
        case list():
            return "[" + ",".join([dump(each, double) for each in value]) + "]"
        case dict():
            return (
                "{"
                + ",".join(f"{encode_basestring(str(key))}:{dump(each, double)}" for key, each in value.items())
                + "}"
            )
        case _:
            return encode_basestring(str(value))
