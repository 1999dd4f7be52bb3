"""How values are compared, computed and written, as Java does it: what ksqlDB's results rest on.

Integers wrap at 32 and 64 bits, division cuts towards zero, doubles are written as `Double.toString` writes them.
"""

from __future__ import annotations

import base64
import math
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  a TIMESTAMP has no zone: it means UTC
EXACT: Final = Context(prec=2_100)


class EvaluationError(Exception):
    """An expression has no value for this row: the row's column becomes NULL, and the processing log says why."""


def int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def int64(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def quotient(left: int, right: int) -> int:
    """Division that cuts towards zero."""
    if right == 0:
        raise EvaluationError("/ by zero")
    result = abs(left) // abs(right)
    return result if (left < 0) == (right < 0) else -result


def remainder(left: int, right: int) -> int:
    """What is left over, with the sign of the dividend."""
    if right == 0:
        raise EvaluationError("/ by zero")
    result = abs(left) % abs(right)
    return -result if left < 0 else result


def float_quotient(left: float, right: float) -> float:
    if right == 0:
        if left == 0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1.0, right)
    return left / right


def float_remainder(left: float, right: float) -> float:
    if right == 0 or math.isinf(left) or math.isnan(left) or math.isnan(right):
        return math.nan
    return math.fmod(left, right)


def fit(value: Decimal, precision: int, scale: int) -> Decimal:
    """`value` as DECIMAL(precision, scale), rounded half up; an error if it has too many digits."""
    if not value.is_finite():
        raise EvaluationError(f"Numeric field overflow: {value} is no DECIMAL")
    try:
        result = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, EXACT)
    except InvalidOperation:
        raise EvaluationError(
            f"Numeric field overflow: {value:.20E} does not fit DECIMAL({precision}, {scale})"
        ) from None
    if len(result.as_tuple().digits) > precision and result != 0:
        raise EvaluationError(
            f"Numeric field overflow: A field with precision {precision} and scale {scale} must round to an absolute value "
            f"less than 10^{precision - scale}. Got {value}"
        )
    return unsigned_zero(result)


def unsigned_zero(value: Decimal) -> Decimal:
    """Java's decimals have no -0.00."""
    return value if value else value.copy_abs()


def decimal_quotient(left: Decimal, right: Decimal) -> Decimal:
    if right == 0:
        raise EvaluationError("Division by zero")
    return EXACT.divide(left, right)


def decimal_remainder(left: Decimal, right: Decimal) -> Decimal:
    if right == 0:
        raise EvaluationError("Division by zero")
    return EXACT.remainder(left, right)


_LEAST_DOUBLE: Final = 5e-324


def java_double(value: float) -> str:
    """As `Double.toString` writes it."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    point = len(text) + exponent
    if abs(value) == _LEAST_DOUBLE:
        text = "49"  # two digits where one would do
    if 1e-3 <= abs(value) < 1e7:
        if point <= 0:
            body = "0." + "0" * -point + text
        elif point >= len(text):
            body = text + "0" * (point - len(text)) + ".0"
        else:
            body = f"{text[:point]}.{text[point:]}"
    else:
        body = f"{text[0]}.{text[1:] or '0'}E{point - 1}"
    return "-" + body if sign else body


def millis(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


def from_millis(value: int) -> datetime:
    try:
        return EPOCH + timedelta(milliseconds=value)
    except OverflowError:
        raise EvaluationError(f"{value} milliseconds are no TIMESTAMP between the years 1 and 9999") from None


def days(day: date) -> int:
    return day.toordinal() - EPOCH.date().toordinal()


def from_days(value: int) -> date:
    try:
        return date.fromordinal(value + EPOCH.date().toordinal())
    except (OverflowError, ValueError):
        raise EvaluationError(f"{value} days are no DATE between the years 1 and 9999") from None


def time_millis(moment: time) -> int:
    return ((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1000 + moment.microsecond // 1000


def from_time_millis(value: int) -> time:
    if not 0 <= value < 86_400_000:
        raise EvaluationError(f"{value} milliseconds are no TIME of a day")
    return (EPOCH + timedelta(milliseconds=value)).time()


def parse_bytes(text: str) -> bytes:
    """Base64, whose padding may be left out."""
    shown = text.strip()
    try:
        return base64.b64decode(shown if "=" in shown else shown + "=" * (-len(shown) % 4), validate=True)
    except ValueError as error:
        raise EvaluationError(f"'{text}' is no base64: {error}") from None


def java_time(moment: time) -> str:
    """As ksqlDB writes it: seconds only where there are some, and never the milliseconds."""
    return f"{moment.hour:02}:{moment.minute:02}" + (f":{moment.second:02}" if moment.second else "")


def java_timestamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0") + f".{moment.microsecond // 1000:03}"


_MIDNIGHT: Final = re.compile(r"\d{4}-\d{2}-\d{2}T24(?![:.0]*[1-9])")


def parse_timestamp(text: str) -> datetime:
    """An ISO date, or date and time, with or without a zone; without one it means UTC. 24 o'clock is the next
    midnight.
    """
    shown = text.strip()
    midnight = _MIDNIGHT.match(shown)
    if midnight is not None:
        shown = f"{shown[:10]}T00{shown[13:]}"
    try:
        moment = datetime.fromisoformat(shown.replace("Z", "+00:00"))
    except ValueError:
        moment = _partial_timestamp(shown)
    try:
        moment += timedelta(days=1 if midnight is not None else 0)
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except OverflowError:
        raise EvaluationError(f"Failed to parse timestamp '{text}': it is not in the years 1 to 9999") from None


def _partial_timestamp(text: str) -> datetime:
    for length, pattern in ((4, "%Y"), (7, "%Y-%m"), (13, "%Y-%m-%dT%H")):
        if len(text) == length:
            try:
                return datetime.strptime(text, pattern)  # noqa: DTZ007
            except ValueError:
                break
    raise EvaluationError(
        f"Failed to parse timestamp '{text}': Required format is: \"yyyy-MM-dd'T'HH:mm:ss.SSS\", with an optional offset"
    )


def parse_date(text: str) -> date:
    """An ISO date, or its beginning: the rest is the first month and day."""
    shown = text.strip()[:10]
    try:
        if len(shown) in (4, 7):
            return _partial_timestamp(shown).date()
        return date.fromisoformat(shown)
    except (ValueError, EvaluationError):
        raise EvaluationError(f"Failed to parse date '{text}': Required format is: \"yyyy-MM-dd\"") from None


def parse_time(text: str) -> time:
    try:
        return time.fromisoformat(text.strip())
    except ValueError:
        raise EvaluationError(f"Failed to parse time '{text}': Required format is: \"HH:mm:ss.SSS\"") from None


def as_text(value: Any) -> str:
    """A value as CAST(... AS STRING) writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return java_double(value)
        case Decimal():
            return format(value, "f") if abs(value.adjusted()) < 2_000 else str(value)
        case datetime():
            return java_timestamp(value)
        case date():
            return value.isoformat()
        case time():
            return java_time(value)
        case None:
            return "null"
        case list():
            return "[" + ", ".join(map(as_text, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{as_text(key)}={as_text(each)}" for key, each in value.items()) + "}"
        case _:
            return str(value)
