"""CAST, and the quiet conversions of numbers: from a value of one type to a value of another."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from headwater.sql import values
from headwater.sql.language.types import ArrayType, Base, DecimalType, MapType, StructType, Type
from headwater.sql.values import EvaluationError

Convert = Callable[[Any], Any]

_WHOLE: Final = re.compile(r"[+-]?\d+")
_NUMBERS: Final = (Base.INTEGER, Base.BIGINT, Base.DECIMAL, Base.DOUBLE)
_TIMES: Final = (Base.DATE, Base.TIME, Base.TIMESTAMP)


def converter(given: Type | None, wanted: Type) -> Convert | None:
    """A function that casts values of `given` (None: the type of NULL), or None if there is no such cast. NULL stays
    NULL.
    """
    if given is None or given == wanted:
        return _same
    found = _container(given, wanted) if given.base == wanted.base else _scalar(given, wanted)
    return None if found is None else _unless_null(found)


def _same(value: Any) -> Any:
    return value


def _unless_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _container(given: Type, wanted: Type) -> Convert | None:
    if isinstance(given, DecimalType) and isinstance(wanted, DecimalType):
        return lambda value: values.fit(value, wanted.precision, wanted.scale)
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        return _struct(given, wanted)
    return of_items(given, wanted, converter)


def of_items(given: Type, wanted: Type, inner: Callable[[Type, Type], Convert | None]) -> Convert | None:
    """Arrays and maps, whose items `inner` converts; None: they are none, or their items cannot be converted."""
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        each_item = inner(given.item, wanted.item)
        return None if each_item is None else (lambda value: [each_item(each) for each in value])
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        key, item = inner(given.key, wanted.key), inner(given.value, wanted.value)
        if key is None or item is None:
            return None
        return lambda value: {key(name): item(each) for name, each in value.items()}
    return None


def _struct(given: StructType, wanted: StructType) -> Convert | None:
    """Fields that both have are cast, those that only the target has are NULL."""
    theirs = dict(given.fields)
    found: dict[str, Convert | None] = {
        name: converter(theirs[name], each) if name in theirs else _same for name, each in wanted.fields
    }
    if any(each is None for each in found.values()):
        return None
    convert = {name: each for name, each in found.items() if each is not None}
    return lambda value: {name: each(value.get(name)) for name, each in convert.items()}


def _scalar(given: Type, wanted: Type) -> Convert | None:
    if wanted.base is Base.STRING:
        return _to_string(given)
    if given.base is Base.STRING:
        return _from_string(wanted)
    if given.base in _NUMBERS and wanted.base in _NUMBERS:
        return _number(wanted)
    if given.base is Base.TIMESTAMP and wanted.base is Base.DATE:
        return lambda value: value.date()
    if given.base is Base.TIMESTAMP and wanted.base is Base.TIME:
        return lambda value: value.time()
    if given.base is Base.DATE and wanted.base is Base.TIMESTAMP:
        return lambda value: datetime.combine(value, time())
    return None


def _to_string(given: Type) -> Convert | None:
    if given.base is Base.BYTES:
        return None
    return _struct_text if isinstance(given, StructType) else values.as_text


def _struct_text(value: dict[str, Any]) -> str:
    shown = [f"{name}={values.as_text(each)}" for name, each in value.items() if each is not None]
    return "Struct{" + ",".join(shown) + "}"


def _from_string(wanted: Type) -> Convert | None:
    if wanted.base is Base.BOOLEAN:
        return _boolean
    if wanted.base in (Base.INTEGER, Base.BIGINT):
        bits = 31 if wanted.base is Base.INTEGER else 63
        return lambda value: _integer(value, bits, wanted)
    if wanted.base is Base.DOUBLE:
        return _double
    if isinstance(wanted, DecimalType):
        return lambda value: values.fit(decimal_of(value), wanted.precision, wanted.scale)
    parsers: dict[Base, Convert] = {
        Base.DATE: values.parse_date,
        Base.TIME: values.parse_time,
        Base.TIMESTAMP: values.parse_timestamp,
        Base.BYTES: values.parse_bytes,
    }
    return parsers.get(wanted.base)


def _boolean(text: str) -> bool:
    """Whatever begins neither `true` nor `yes` is false."""
    shown = text.strip().lower()
    return bool(shown) and ("true".startswith(shown) or "yes".startswith(shown))


def exact_boolean(text: str) -> bool:
    """Of a literal beside BOOLEANs, which has to be one."""
    shown = text.strip().lower()
    if not _boolean(shown) and not (shown and ("false".startswith(shown) or "no".startswith(shown))):
        raise EvaluationError(f"Invalid value: '{text}' is no BOOLEAN")
    return _boolean(shown)


def _integer(text: str, bits: int, wanted: Type) -> int:
    shown = text.strip()
    if not _WHOLE.fullmatch(shown) or len(shown) > 20 or not -(2**bits) <= int(shown) < 2**bits:
        raise EvaluationError(f"Invalid value: '{text}' is no {wanted}")
    return int(shown)


def _double(text: str) -> float:
    number = double_of(text)
    if not math.isfinite(number):
        raise EvaluationError(f"Invalid double value: {text}")
    return number


def double_of(text: str) -> float:
    """As formats have it, which know NaN and the infinities."""
    shown = text.strip()
    try:
        if "_" in shown or shown.lower() in ("inf", "-inf", "+inf"):
            raise ValueError
        return float(shown)
    except ValueError:
        raise EvaluationError(f"Invalid value: '{text}' is no DOUBLE") from None


def decimal_of(text: str) -> Decimal:
    try:
        value = Decimal(text.strip().replace("_", "?"))
    except InvalidOperation:
        raise EvaluationError(f"Invalid value: '{text}' is no DECIMAL") from None
    if not value.is_finite() or abs(value.adjusted()) > 2_000:
        raise EvaluationError(f"Invalid value: '{text}' is no DECIMAL")
    return value


def _number(wanted: Type) -> Convert:
    if wanted.base is Base.DOUBLE:
        return float
    if isinstance(wanted, DecimalType):
        return lambda value: values.fit(
            Decimal(repr(value)) if isinstance(value, float) else Decimal(value), wanted.precision, wanted.scale
        )
    wrap, most = (values.int32, 2**31 - 1) if wanted.base is Base.INTEGER else (values.int64, 2**63 - 1)
    return lambda value: _saturated(value, most) if isinstance(value, float) else wrap(int(value))


def _saturated(value: float, most: int) -> int:
    """A DOUBLE as Java has it as a whole number: cut towards zero, what is too large is the largest, NaN is 0. Exact
    numbers lose their first digits instead.
    """
    if not math.isfinite(value):
        return 0 if math.isnan(value) else most if value > 0 else -most - 1
    return max(-most - 1, min(most, int(value)))
