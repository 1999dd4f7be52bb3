"""Avro's logical types as Python's own: dates, times, timestamps, decimals, UUIDs. Pure.

timestamp-*          an aware datetime in UTC (one without a zone is taken as UTC); local-timestamp-* one without a zone
time-*, date         datetime.time and datetime.date
decimal              decimal.Decimal, exactly: a value with more digits than the schema has is an error
-nanos, duration     as they are stored (int, bytes): Python has no type that would keep them
Values that are stored already (an int for a timestamp) are taken too.
"""

import datetime
import uuid
from collections.abc import Callable
from decimal import Context, Decimal, Inexact, localcontext
from typing import Any, Final

from headwater.schemas.avro.types import AvroType, Fixed, LogicalType, logical_type
from headwater.schemas.model import DataError

Convert = Callable[[Any], Any]

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LOCAL_EPOCH: Final = datetime.datetime(1970, 1, 1)  # noqa: DTZ001  # a local timestamp has no zone
_EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


def to_stored(avro_type: AvroType) -> Convert | None:
    """From Python's value to the one that is stored; None where nothing is to be done."""
    logical = logical_type(avro_type)
    if logical is None:
        return None
    if logical.name == "decimal":
        return _decimal_to_stored(logical, avro_type.size if isinstance(avro_type, Fixed) else None)
    if logical.name == "uuid" and isinstance(avro_type, Fixed):
        return lambda value: value.bytes if isinstance(value, uuid.UUID) else value
    return _TO_STORED.get(logical.name)


def from_stored(avro_type: AvroType) -> Convert | None:
    logical = logical_type(avro_type)
    if logical is None:
        return None
    if logical.name == "decimal":
        return _decimal_from_stored(logical)
    if logical.name == "uuid" and isinstance(avro_type, Fixed):
        return lambda value: uuid.UUID(bytes=value)
    return _FROM_STORED.get(logical.name)


def _date_to_stored(value: Any) -> Any:
    return value.toordinal() - _EPOCH_DAY if isinstance(value, datetime.date) else value


def _micros(value: Any) -> Any:
    if not isinstance(value, datetime.time):
        return value
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _timestamp_micros(value: Any) -> Any:
    if not isinstance(value, datetime.datetime):
        return value
    return (value - (_LOCAL_EPOCH if value.tzinfo is None else _EPOCH)) // _MICROSECOND


def _in_millis(micros: Convert) -> Convert:
    def millis(value: Any) -> Any:
        return value if isinstance(value, int) else _thousandth(micros(value))

    return millis


def _thousandth(value: Any) -> Any:
    return value // 1000 if isinstance(value, int) else value


def _local_micros(value: Any) -> Any:
    return _timestamp_micros(value.replace(tzinfo=None)) if isinstance(value, datetime.datetime) else value


def _time(micros: int) -> datetime.time:
    if not 0 <= micros < 86_400_000_000:
        raise DataError(f"{micros} microseconds are not a time of day")
    seconds, micro = divmod(micros, 1_000_000)
    return datetime.time(seconds // 3600, seconds // 60 % 60, seconds % 60, micro)


def _moment(epoch: datetime.datetime, unit: str) -> Convert:
    def moment(value: int) -> datetime.datetime:
        try:
            return epoch + datetime.timedelta(**{unit: value})
        except OverflowError as error:
            raise DataError(f"{value} {unit} after 1970 are beyond what Python's datetime holds") from error

    return moment


def _date(days: int) -> datetime.date:
    try:
        return datetime.date.fromordinal(days + _EPOCH_DAY)
    except (ValueError, OverflowError) as error:
        raise DataError(f"{days} days after 1970 are beyond what Python's date holds") from error


def _uuid(value: str) -> uuid.UUID:
    try:
        return uuid.UUID(value)
    except ValueError as error:
        raise DataError(f"{value[:50]!r} is not a UUID") from error


_TO_STORED: Final[dict[str, Convert]] = {
    "date": _date_to_stored,
    "time-millis": _in_millis(_micros),
    "time-micros": _micros,
    "timestamp-millis": _in_millis(_timestamp_micros),
    "timestamp-micros": _timestamp_micros,
    "local-timestamp-millis": _in_millis(_local_micros),
    "local-timestamp-micros": _local_micros,
    "uuid": lambda value: str(value) if isinstance(value, uuid.UUID) else value,
}
_FROM_STORED: Final[dict[str, Convert]] = {
    "date": _date,
    "time-millis": lambda value: _time(value * 1000),
    "time-micros": _time,
    "timestamp-millis": _moment(_EPOCH, "milliseconds"),
    "timestamp-micros": _moment(_EPOCH, "microseconds"),
    "local-timestamp-millis": _moment(_LOCAL_EPOCH, "milliseconds"),
    "local-timestamp-micros": _moment(_LOCAL_EPOCH, "microseconds"),
    "uuid": _uuid,
}


def _decimal_to_stored(logical: LogicalType, size: int | None) -> Convert:
    precision, scale = logical.precision, logical.scale

    def convert(value: Any) -> Any:
        if not isinstance(value, Decimal):
            return value
        unscaled = _unscaled(value, precision, scale)
        length = (
            size
            if size is not None
            else (unscaled.bit_length() if unscaled >= 0 else (~unscaled).bit_length()) // 8 + 1
        )
        return unscaled.to_bytes(length, "big", signed=True)

    return convert


def _unscaled(value: Decimal, precision: int, scale: int) -> int:
    if not value.is_finite():
        raise DataError(f"{value} is not a decimal number")
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if not any(digits):
        return 0
    shift = exponent + scale
    if shift + len(digits) > precision:
        raise DataError(f"{value} has more than {precision} digits")
    if shift < 0 and any(digits[shift:] if -shift < len(digits) else digits):
        raise DataError(f"{value} has more than {scale} digits behind the point")
    kept = digits[:shift] if shift < 0 else digits
    number = int(Decimal((0, kept, max(shift, 0))))
    return -number if sign else number


def _decimal_from_stored(logical: LogicalType) -> Convert:
    context = Context(prec=max(logical.precision, 1) + 2, traps=[Inexact])

    def convert(value: bytes) -> Decimal:
        unscaled = int.from_bytes(value, "big", signed=True)
        if abs(unscaled) >= 10**logical.precision:
            raise DataError(f"a decimal has more than {logical.precision} digits")
        with localcontext(context):
            return Decimal(unscaled).scaleb(-logical.scale)

    return convert
