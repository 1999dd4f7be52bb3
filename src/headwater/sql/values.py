"""How values are compared, computed and written, as Java does it: what ksqlDB's results rest on.

Integers wrap at 32 and 64 bits, division cuts towards zero, doubles are written as `Double.toString` writes them.
"""

from __future__ import annotations

import base64
import calendar
import math
import re
from datetime import date, datetime, time, timedelta
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


def place(value: Any) -> tuple[bool, Any]:
    """What values are sorted by: NaN, which `<` puts nowhere, is the largest number, as for Java's `compareTo`."""
    return (True, 0.0) if value != value else (False, value)


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


_HALVES: Final = re.compile("[\ud800-\udfff]")


def encodable(text: str) -> str:
    """Text that has bytes: half a character (a surrogate whose other half is missing) is a `?`, as Java writes it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        halves = text.encode("utf-16-le", "surrogatepass")  # two that stand together are one character
        return _HALVES.sub("?", halves.decode("utf-16-le", "surrogatepass"))
    return text


def java_time(moment: time) -> str:
    """As ksqlDB writes it: seconds only where there are some, and never the milliseconds."""
    return f"{moment.hour:02}:{moment.minute:02}" + (f":{moment.second:02}" if moment.second else "")


def java_timestamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0") + f".{moment.microsecond // 1000:03}"


_TIMESTAMP: Final = re.compile(r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})\.(\d{3})", re.ASCII)
_OFFSET: Final = re.compile(r"([+-])(\d{1,2})(?::?(\d{2}))?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME: Final = re.compile(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?", re.ASCII)


def parse_timestamp(text: str) -> datetime:
    """A date, or a date and a time, which may break off, with or without an offset; without one it means UTC. A day
    that a month lacks is its last, and 24 o'clock is the next midnight.
    """
    day, is_timed, rest = text.strip().partition("T")
    at = next((place for place in (rest.find("+"), rest.find("-")) if place >= 0), len(rest))
    clock = rest[:at].removesuffix("Z")
    found = _TIMESTAMP.fullmatch(f"{day if is_timed else _completed(day)}T{clock}{'00:00:00.000'[len(clock) :]}")
    offset = _OFFSET.fullmatch(rest[at:] or "+00")
    if found is None or offset is None:
        raise _no_timestamp(text)
    year, month, last, hour, minute, second, millis_of_second = map(int, found.groups())
    try:
        if 28 < last <= 31:
            last = min(last, calendar.monthrange(year, month)[1])
        is_midnight = hour == 24 and not (minute or second or millis_of_second)
        moment = datetime(year, month, last, 0 if is_midnight else hour, minute, second, millis_of_second * 1000)  # noqa: DTZ001
        behind = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0)) * (-1 if offset[1] == "-" else 1)
        return moment + timedelta(days=is_midnight) - behind
    except ValueError:
        raise _no_timestamp(text) from None
    except OverflowError:
        raise EvaluationError(f"Failed to parse timestamp '{text}': it is not in the years 1 to 9999") from None


def _no_timestamp(text: str) -> EvaluationError:
    return EvaluationError(
        f"Failed to parse timestamp '{text}': Required format is: \"yyyy-MM-dd'T'HH:mm:ss.SSS\", with an optional offset"
    )


def _completed(day: str) -> str:
    """A year, or a year and a month, with the first month and day."""
    return day + "-01" * max(2 - day.count("-"), 0)


def parse_date(text: str) -> date:
    """An ISO date, or its beginning: the rest is the first month and day."""
    shown = _completed(text.strip())
    try:
        if _DATE.fullmatch(shown):
            return date.fromisoformat(shown)
    except ValueError:
        pass
    raise EvaluationError(f"Failed to parse date '{text}': Required format is: \"yyyy-MM-dd\"")


def parse_time(text: str) -> time:
    found = _TIME.fullmatch(text.strip())
    try:
        if found is not None:
            micros = int((found[4] or "")[:3].ljust(3, "0")) * 1000
            return time(int(found[1]), int(found[2]), int(found[3] or 0), micros)
    except ValueError:
        pass
    raise EvaluationError(f"Failed to parse time '{text}': Required format is: \"HH:mm:ss.SSS\"")


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
