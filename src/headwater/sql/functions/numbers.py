"""Functions of numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal
from typing import Any, Final

from headwater.sql.functions.registry import scalar
from headwater.sql.functions.signatures import common, decimal_of
from headwater.sql.language import types
from headwater.sql.language.types import DecimalType, Type
from headwater.sql.values import EXACT, EvaluationError, int32, int64, place, unsigned_zero

_CATEGORY = "MATHEMATICAL"


def _decimal(given: Sequence[Type | None]) -> Type:
    return decimal_of(given)


@scalar("ABS", "(value INTEGER) -> INTEGER", "The absolute value of a number.", category=_CATEGORY)
def abs_int(value: int) -> int:
    return int32(abs(value))


@scalar("ABS", "(value BIGINT) -> BIGINT")
def abs_long(value: int) -> int:
    return int64(abs(value))


@scalar("ABS", "(value DOUBLE) -> DOUBLE")
def abs_double(value: float) -> float:
    return abs(value)


@scalar("ABS", "(value DECIMAL) -> DECIMAL", returns=_decimal)
def abs_decimal(value: Decimal) -> Decimal:
    return value.copy_abs()


def _doubles(name: str, description: str, compute: Callable[[float], float]) -> None:
    """A function of a double, where Java gives NaN or an infinity and Python raises."""

    def call(value: float) -> float:
        try:
            return compute(value)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.copysign(math.inf, value)

    scalar(name, "(value DOUBLE) -> DOUBLE", description, category=_CATEGORY)(call)


def _cube_root(value: float) -> float:
    """That of a whole number's cube is exact in Java; the C library gives 3.0000000000000004 for 27."""
    root = math.cbrt(value)
    nearest = float(round(root)) if math.isfinite(root) else 0.0
    return nearest if nearest and nearest * nearest * nearest == value else root


_doubles("ACOS", "The inverse cosine in radians.", math.acos)
_doubles("ASIN", "The inverse sine in radians.", math.asin)
_doubles("ATAN", "The inverse tangent in radians.", math.atan)
_doubles("CBRT", "The cube root.", _cube_root)
_doubles("COS", "The cosine of an angle in radians.", math.cos)
_doubles("COSH", "The hyperbolic cosine.", lambda value: math.cosh(value) if abs(value) < 711 else math.inf)
_doubles("COT", "The cotangent of an angle in radians.", lambda value: 1 / math.tan(value) if value else math.inf)
_doubles("DEGREES", "Radians as degrees.", math.degrees)
_doubles("EXP", "e to the power of the value.", lambda value: math.exp(value) if value < 709.8 else math.inf)
_doubles("RADIANS", "Degrees as radians.", math.radians)
_doubles("SIN", "The sine of an angle in radians.", math.sin)
_doubles("SINH", "The hyperbolic sine.", math.sinh)
_doubles("SQRT", "The square root.", math.sqrt)
_doubles("TAN", "The tangent of an angle in radians.", math.tan)
_doubles("TANH", "The hyperbolic tangent.", math.tanh)


def _logarithm(value: float) -> float:
    if value == 0:
        return -math.inf
    return math.nan if value < 0 else math.log(value)


_doubles("LN", "The natural logarithm.", _logarithm)
_doubles("LOG", "The natural logarithm, or that to a base.", _logarithm)


@scalar("LOG", "(base DOUBLE, value DOUBLE) -> DOUBLE")
def log_base(base: float, value: float) -> float:
    if base <= 0 or base == 1:
        return math.nan
    return _logarithm(value) / math.log(base) if value >= 0 else math.nan


@scalar("ATAN2", "(y DOUBLE, x DOUBLE) -> DOUBLE", "The angle of a point in radians.", category=_CATEGORY)
def atan2(y: float, x: float) -> float:
    return math.atan2(y, x)


@scalar("PI", "() -> DOUBLE", "The number pi.", category=_CATEGORY)
def pi() -> float:
    return math.pi


@scalar("RANDOM", "() -> DOUBLE", "A random number from 0 up to 1.", category=_CATEGORY)
def random_number() -> float:
    return random.random()


@scalar("POWER", "(base DOUBLE, exponent DOUBLE) -> DOUBLE", "A number to a power.", category=_CATEGORY)
def power(base: float, exponent: float) -> float:
    negative = math.copysign(1, base) < 0 and math.fmod(exponent, 2) in (-1, 1)
    try:
        return math.pow(base, exponent)
    except ValueError:
        return math.nan if base else -math.inf if negative else math.inf
    except OverflowError:
        return -math.inf if negative else math.inf


@scalar("SIGN", "(value DOUBLE) -> INTEGER", "-1, 0 or 1.", category=_CATEGORY)
@scalar("SIGN", "(value BIGINT) -> INTEGER")
@scalar("SIGN", "(value INTEGER) -> INTEGER")
def sign(value: float) -> int:
    return (value > 0) - (value < 0)


@scalar("CEIL", "(value INTEGER) -> INTEGER", "The smallest whole number that is not less.", category=_CATEGORY)
@scalar("CEIL", "(value BIGINT) -> BIGINT")
@scalar("FLOOR", "(value INTEGER) -> INTEGER", "The largest whole number that is not more.", category=_CATEGORY)
@scalar("FLOOR", "(value BIGINT) -> BIGINT")
def unchanged(value: int) -> int:
    return value


@scalar("CEIL", "(value DOUBLE) -> DOUBLE")
def ceil_double(value: float) -> float:
    """What is rounded to nothing from below is -0.0, as in Java."""
    return math.copysign(float(math.ceil(value)), value) if math.isfinite(value) else value


@scalar("FLOOR", "(value DOUBLE) -> DOUBLE")
def floor_double(value: float) -> float:
    return math.copysign(float(math.floor(value)), value) if math.isfinite(value) else value


def _quantized(value: Decimal, places: int, rounding: str) -> Decimal:
    """Rounded to `places`, with the scale that it had."""
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    rounded = value.quantize(Decimal(1).scaleb(-places), rounding, EXACT)
    return unsigned_zero(rounded.quantize(Decimal(1).scaleb(exponent), context=EXACT))


@scalar("CEIL", "(value DECIMAL) -> DECIMAL", returns=_decimal, carries=True)
def ceil_decimal(value: Decimal) -> Decimal:
    return _quantized(value, 0, ROUND_CEILING)


@scalar("FLOOR", "(value DECIMAL) -> DECIMAL", returns=_decimal, carries=True)
def floor_decimal(value: Decimal) -> Decimal:
    return _quantized(value, 0, ROUND_FLOOR)


@scalar(
    "ROUND", "(value INTEGER) -> BIGINT", "Rounded half up, to a whole number or to decimal places.", category=_CATEGORY
)
@scalar("ROUND", "(value BIGINT) -> BIGINT")
@scalar("TRUNC", "(value INTEGER) -> BIGINT", "Cut to a whole number or to decimal places.", category=_CATEGORY)
@scalar("TRUNC", "(value BIGINT) -> BIGINT")
def whole(value: int) -> int:
    return value


@scalar("ROUND", "(value DOUBLE) -> BIGINT")
def round_double(value: float) -> int:
    """As `Math.round`: towards positive infinity at the half; NaN is 0, and what is too large the largest BIGINT."""
    return _long(value, lambda finite: math.floor(Decimal(finite) + Decimal("0.5")))


def _long(value: float, whole_of: Callable[[float], int]) -> int:
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return 2**63 - 1 if value > 0 else -(2**63)
    return max(-(2**63), min(2**63 - 1, whole_of(value)))


@scalar("TRUNC", "(value DOUBLE) -> BIGINT")
def trunc_double(value: float) -> int:
    return _long(value, math.trunc)


@scalar("ROUND", "(value DOUBLE, decimals INTEGER) -> DOUBLE")
def round_places(value: float, places: int) -> float:
    return _places(value, places, _half_up(value))


def _half_up(value: float | Decimal) -> str:
    """Of two nearest values the larger one, also below zero: as `Math.round`, and so ksqlDB."""
    return ROUND_HALF_UP if value > 0 else ROUND_HALF_DOWN


@scalar("TRUNC", "(value DOUBLE, decimals INTEGER) -> DOUBLE")
def trunc_places(value: float, places: int) -> float:
    return _places(value, places, ROUND_DOWN)


def _places(value: float, places: int, rounding: str) -> float:
    if not math.isfinite(value):
        raise EvaluationError(f"{value} has no decimal places")
    if places > 400:
        return value + 0.0
    exact = Decimal(repr(value))
    if places < -400:
        return 0.0
    return float((exact.scaleb(places)).to_integral_value(rounding).scaleb(-places)) + 0.0  # -0.0 is 0.0


def _rounded_type(given: Sequence[Type | None]) -> Type:
    known = decimal_of(given)
    return types.decimal(max(known.precision - known.scale, 0) + 1, 0)


@scalar("ROUND", "(value DECIMAL) -> DECIMAL", returns=_rounded_type)
def round_decimal(value: Decimal) -> Decimal:
    return unsigned_zero(value.quantize(Decimal(1), _half_up(value), EXACT))


@scalar("ROUND", "(value DECIMAL, decimals INTEGER) -> DECIMAL", returns=_decimal, carries=True)
def round_decimal_places(value: Decimal, places: int) -> Decimal:
    return _quantized(value, places, _half_up(value))


def _trunc_type(given: Sequence[Type | None]) -> Type:
    known = decimal_of(given)
    return types.decimal(max(known.precision - known.scale, 1), 0)


@scalar("TRUNC", "(value DECIMAL) -> DECIMAL", returns=_trunc_type)
def trunc_decimal(value: Decimal) -> Decimal:
    return unsigned_zero(value.quantize(Decimal(1), ROUND_DOWN, EXACT))


@scalar("TRUNC", "(value DECIMAL, decimals INTEGER) -> DECIMAL", returns=_decimal)
def trunc_decimal_places(value: Decimal, places: int) -> Decimal:
    return _quantized(value, places, ROUND_DOWN)


def _extreme(given: Sequence[Type | None]) -> Type:
    found: Type | None = None
    for each in given:
        found = common(found, each)
    if isinstance(found, DecimalType) and not all(isinstance(each, DecimalType) for each in given if each):
        return types.decimal(min(found.precision + 1, types.MAX_PRECISION), found.scale)
    return found or types.INTEGER


for _type in ("INTEGER", "BIGINT", "DECIMAL", "DOUBLE", "STRING", "DATE", "TIME", "TIMESTAMP", "BYTES"):
    _returns = _extreme if _type == "DECIMAL" else None

    @scalar(
        "GREATEST",
        f"(first {_type}, more {_type}...) -> {_type}",
        "The largest value; NULLs are left out.",
        category="NUMERIC",
        nulls=True,
        returns=_returns,
    )
    def greatest(*given: Any) -> Any:
        return max((each for each in given if each is not None), default=None, key=place)

    @scalar(
        "LEAST",
        f"(first {_type}, more {_type}...) -> {_type}",
        "The smallest value; NULLs are left out.",
        category="NUMERIC",
        nulls=True,
        returns=_returns,
    )
    def least(*given: Any) -> Any:
        return min((each for each in given if each is not None), default=None, key=place)


@scalar(
    "GEO_DISTANCE",
    "(lat1 DOUBLE, lon1 DOUBLE, lat2 DOUBLE, lon2 DOUBLE) -> DOUBLE",
    "The great-circle distance between two points, in KM or MILES.",
    category=_CATEGORY,
)
def geo_distance(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    return geo_distance_in(lat1, lon1, lat2, lon2, "KM")


@scalar("GEO_DISTANCE", "(lat1 DOUBLE, lon1 DOUBLE, lat2 DOUBLE, lon2 DOUBLE, units STRING) -> DOUBLE", nulls=True)
def geo_distance_or_null(
    lat1: float | None, lon1: float | None, lat2: float | None, lon2: float | None, units: str | None
) -> float | None:
    if lat1 is None or lon1 is None or lat2 is None or lon2 is None:
        return None
    return geo_distance_in(lat1, lon1, lat2, lon2, "KM" if units is None else units)


_MILES: Final = ("mi", "mile", "miles")
_KILOMETRES: Final = ("", "km", "kilometer", "kilometers", "kilometre", "kilometres")


def geo_distance_in(lat1: float, lon1: float, lat2: float, lon2: float, units: str) -> float:
    unit = units.strip().lower()
    if unit not in (*_MILES, *_KILOMETRES):
        raise EvaluationError(
            f"GeoDistance function units parameter must be one of {', '.join([*_MILES, *_KILOMETRES[1:-1]])}, or "
            f"{_KILOMETRES[-1]}. Values are case-insensitive."
        )
    radius = 3959.0 if unit in _MILES else 6371.0
    for value, limit, name in (
        (lat1, 90, "latitude"),
        (lat2, 90, "latitude"),
        (lon1, 180, "longitude"),
        (lon2, 180, "longitude"),
    ):
        if not -limit <= value <= limit:
            raise EvaluationError(
                f"valid {name} values for GeoDistance function are in the range of -{limit} to {limit} decimal degrees"
            )
    change_lat, change_lon = math.radians(lat2 - lat1), math.radians(lon2 - lon1)
    half = math.sin(change_lat / 2) ** 2 + math.sin(change_lon / 2) ** 2 * math.cos(math.radians(lat1)) * math.cos(
        math.radians(lat2)
    )
    return 2 * math.asin(math.sqrt(min(half, 1.0))) * radius
