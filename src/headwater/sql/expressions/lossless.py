"""INSERT: a value of one type as one of another, whole or not at all. Where CAST wraps, cuts off and rounds, this
fails; so it is within arrays, maps and structs.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from headwater.sql import values
from headwater.sql.expressions import casting
from headwater.sql.language.types import Base, DecimalType, StructType, Type
from headwater.sql.values import EvaluationError

Convert = Callable[[Any], Any]
_TIMES: Final = (Base.DATE, Base.TIME, Base.TIMESTAMP)
_WHOLE: Final = {Base.INTEGER: 2**31, Base.BIGINT: 2**63}


def converter(given: Type | None, wanted: Type) -> Convert | None:
    """None: no value of `given` (None: the type of NULL) is taken as `wanted`. NULL stays NULL. What it gives raises
    EvaluationError for a value that does not fit.
    """
    if given is None or given == wanted:
        return lambda value: value
    found = _converter(given, wanted)
    return None if found is None else (lambda value: None if value is None else found(value))


def number(wanted: Type) -> Convert:
    """A number of any type as one of `wanted`."""
    if isinstance(wanted, DecimalType):
        return lambda value: _decimal(value, wanted)
    if wanted.base is Base.DOUBLE:
        return _double
    return lambda value: whole(value, wanted)


def whole(value: Any, wanted: Type) -> int:
    """`wanted`: a type of whole numbers, or one that is stored as such."""
    bound = _WHOLE.get(wanted.base, 2**63)
    try:
        found = int(value)
    except (OverflowError, ValueError):
        raise EvaluationError(f"{value} is no {wanted}") from None
    if found != value or not -bound <= found < bound:
        raise EvaluationError(f"{value} is no {wanted}")
    return found


def _decimal(value: Any, wanted: DecimalType) -> Decimal:
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    found = values.fit(exact, wanted.precision, wanted.scale)
    if found != exact:
        raise EvaluationError(f"Cannot fit decimal '{exact}' into {wanted} without rounding.")
    return found


def _double(value: Any) -> float:
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if math.isinf(found) and not (isinstance(value, float) and math.isinf(value)):
        raise EvaluationError("The number is larger than any DOUBLE")
    return found


def _bytes(value: str) -> bytes:
    try:
        return base64.b64decode(value.strip(), validate=True)
    except binascii.Error:
        raise EvaluationError("The text is no base64") from None


def _converter(given: Type, wanted: Type) -> Convert | None:
    if given.is_number and wanted.is_number:
        return number(wanted)
    if given.base is Base.STRING and wanted.base in _TIMES:
        return casting.converter(given, wanted)
    if given.base is Base.STRING and wanted.base is Base.BYTES:
        return _bytes
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        return _struct(given, wanted)
    return casting.of_items(given, wanted, converter)


def _struct(given: StructType, wanted: StructType) -> Convert | None:
    """Fields that only the target has are NULL; one that it has not is refused, where ksqlDB would lose it."""
    names = [name for name, _ in wanted.fields]
    theirs = dict(wanted.fields)
    found = {name: converter(each, theirs[name]) if name in theirs else None for name, each in given.fields}
    if any(each is None for each in found.values()):
        return None
    convert = {name: each for name, each in found.items() if each is not None}
    return lambda value: {name: convert[name](value.get(name)) if name in convert else None for name in names}
