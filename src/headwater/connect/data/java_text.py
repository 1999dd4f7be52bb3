"""Values as Java writes them, because their text ends up in topics: floats, and the `toString` of what a converter is
given.
"""

import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any


class Float32(float):
    """A float of 32 bits where no schema says so: its text is shorter."""

    __slots__ = ()


def to_float32(value: float) -> float:
    """The nearest float of 32 bits; infinite where it is out of range."""
    try:
        (rounded,) = struct.unpack(">f", struct.pack(">f", value))
        assert isinstance(rounded, float)
        return rounded
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def whole_to_float32(value: int) -> float:
    """Rounded once, as Java does: what a float of 64 bits would round away decides between two neighbours."""
    if -(1 << 53) <= value <= 1 << 53:
        return to_float32(float(value))
    sign, size = (-1, -value) if value < 0 else (1, value)
    extra = size.bit_length() - 53
    return sign * to_float32(float(size >> extra | (size & (1 << extra) - 1 != 0))) * 2.0**extra


def java_double(value: float) -> str:
    if 1e-3 <= abs(value) < 1e7:  # where Java writes no exponent, and Python does not either
        return repr(value)
    return _java_float(value, repr(value))


def java_float(value: float) -> str:
    """The shortest text that is this float of 32 bits."""
    if value != value or value in (float("inf"), float("-inf")):
        return _java_float(value, "")
    for digits in range(1, 10):
        text = f"{value:.{digits}g}"
        if to_float32(float(text)) == value:
            return _java_float(value, text)
    return _java_float(value, repr(value))


def _java_float(value: float, shortest: str) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits_tuple, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    minus = "-" if sign else ""
    digits = "".join(map(str, digits_tuple)).lstrip("0")
    if not digits:
        return f"{minus}0.0"
    stripped = digits.rstrip("0")
    exponent += len(digits) - len(stripped)
    point = len(stripped) + exponent  # digits before the decimal point
    if -2 <= point <= 7:
        if point <= 0:
            return f"{minus}0.{'0' * -point}{stripped}"
        padded = stripped.ljust(point, "0")
        return f"{minus}{padded[:point]}.{padded[point:] or '0'}"
    return f"{minus}{stripped[0]}.{stripped[1:] or '0'}E{point - 1}"


def java_string(value: Any) -> str:
    """`toString` of a value, for the String converter and for casts."""
    if type(value) is str:
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Float32):
        return java_float(value)
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(java_string, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{java_string(key)}={java_string(each)}" for key, each in value.items()) + "}"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    if isinstance(value, time):
        return java_string(datetime.combine(date(1970, 1, 1), value, UTC))
    if isinstance(value, date):
        return java_string(datetime.combine(value, time(), UTC))
    if hasattr(value, "schema") and hasattr(value, "get_without_default"):
        pairs = ((field, value.get_without_default(field.name)) for field in value.schema.fields)
        return f"Struct{{{','.join(f'{field.name}={_of_field(field, each)}' for field, each in pairs if each is not None)}}}"
    return str(value)


def _of_field(field: Any, value: Any) -> str:
    return java_float(value) if field.schema.type == "float32" else java_string(value)
