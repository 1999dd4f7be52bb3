"""JSON as Jackson writes it, byte for byte: no blanks, Java's floats, control characters as upper-case escapes.

Numbers are given as they shall stand there: a `Raw`.
"""

import re
from decimal import Decimal
from typing import Any, Final

from headwater.connect.data.java_text import Float32, java_double, java_float

_ESCAPED: Final = re.compile(r'[\x00-\x1f"\\]')
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


class Raw(str):
    """Text of JSON that is written as it stands."""

    __slots__ = ()


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    return _SHORT.get(character) or f"\\u{ord(character):04X}"


def quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def number(value: float, *, single: bool = False) -> str:
    text = java_float(value) if single else java_double(value)
    return text if text[-1].isdigit() else f'"{text}"'


def dumps(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, Raw):
        return value
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return number(value, single=isinstance(value, Float32))
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{quoted(str(key))}:{dumps(each)}" for key, each in value.items()) + "}"
    assert isinstance(value, list | tuple), type(value)
    return "[" + ",".join(map(dumps, value)) + "]"
