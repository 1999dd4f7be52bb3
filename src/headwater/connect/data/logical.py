"""Logical values and what they are stored as: decimals as unscaled two's complement bytes, dates as days, times and
timestamps as milliseconds, all in UTC.
"""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Final

from headwater.connect.data.schema import SCALE, Schema
from headwater.connect.errors import DataError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = date(1970, 1, 1)
MILLISECONDS_PER_DAY: Final = 86_400_000
WIDE: Final = Context(prec=100_000)  # decimals are exact: nothing is ever rounded


def scale_of(schema: Schema) -> int:
    text = (schema.parameters or {}).get(SCALE)
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    try:
        return int(text)
    except ValueError:
        raise DataError("Invalid scale parameter found in Decimal schema: ") from None


def scale_of_value(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise DataError(f"Not a finite decimal: {value}")
    return -exponent


def unscaled(value: Decimal) -> int:
    return int(value.scaleb(scale_of_value(value), WIDE))


def decimal_of(number: int, scale: int) -> Decimal:
    return Decimal(number).scaleb(-scale, WIDE)


def decimal_to_bytes(schema: Schema, value: Decimal) -> bytes:
    if scale_of_value(value) != scale_of(schema):
        raise DataError(
            f"Decimal value has mismatching scale for given Decimal schema. Schema has scale {scale_of(schema)}, "
            f"value has scale {scale_of_value(value)}."
        )
    number = unscaled(value)
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def bytes_to_decimal(schema: Schema, value: bytes) -> Decimal:
    if not value:
        raise DataError("Invalid bytes for Decimal field")
    return decimal_of(int.from_bytes(value, "big", signed=True), scale_of(schema))


def date_to_days(value: date) -> int:
    return (value - _EPOCH_DAY).days


def days_to_date(days: int) -> date:
    try:
        return _EPOCH_DAY + timedelta(days=days)
    except OverflowError:
        raise DataError(f"Not a date between the years 1 and 9999: day {days}") from None


def time_to_millis(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def millis_to_time(millis: int) -> time:
    if not 0 <= millis < MILLISECONDS_PER_DAY:
        raise DataError("Time values must use number of milliseconds greater than 0 and less than 86400000")
    return (_EPOCH + timedelta(milliseconds=millis)).time()


def timestamp_to_millis(value: datetime) -> int:
    """A value without a zone is UTC. Microseconds are cut off."""
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)


def millis_to_timestamp(millis: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        raise DataError(f"Not a time between the years 1 and 9999: {millis} ms") from None


def millis_of(value: date | time | datetime) -> int:
    """Milliseconds since 1970 of any of the three, as Java's `Date` has them."""
    if isinstance(value, datetime):
        return timestamp_to_millis(value)
    if isinstance(value, time):
        return time_to_millis(value)
    return date_to_days(value) * MILLISECONDS_PER_DAY
