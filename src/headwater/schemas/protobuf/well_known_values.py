"""Messages that everybody knows as Python's own values, and back: wrappers, google.protobuf.Timestamp, google.type.Date
and TimeOfDay, confluent.type.Decimal. Pure.

A Decimal is as Java's BigDecimal: the shortest bytes of its digits, their number as `precision`, and a `scale` that may
be negative. Reading rounds to `precision` where more digits came, as Confluent's deserializers do.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

from headwater.schemas.model import DataError
from headwater.schemas.protobuf.types import Message

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # UTC, without a zone
_EXACT: Final = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
_INT32_MAX: Final = (1 << 31) - 1


def is_wrapper(message: Message) -> bool:
    name = message.full_name
    return name.startswith("google.protobuf.") and name.endswith("Value") and [each.name for each in message.fields] == ["value"]  # fmt: skip


def from_well_known(message: Message, value: dict[str, Any]) -> Any:
    """A message that was read, as Python's own value where there is one."""
    if is_wrapper(message):
        return value["value"]
    try:
        match message.full_name:
            case "google.protobuf.Timestamp":
                return _EPOCH + timedelta(seconds=value["seconds"], microseconds=value["nanos"] // 1000)
            case "google.type.Date":
                return date(value["year"], value["month"], value["day"])
            case "google.type.TimeOfDay":
                return time(value["hours"], value["minutes"], value["seconds"], value["nanos"] // 1000)
            case "confluent.type.Decimal":
                return _decimal(value["value"], value["precision"], value["scale"])
    except (ValueError, OverflowError) as error:
        raise DataError(f"a {message.full_name} has no such value: {error}") from error
    return value


def to_well_known(message: Message, value: Any) -> Mapping[str, Any]:
    if is_wrapper(message):
        return {"value": value}
    match message.full_name, value:
        case "google.protobuf.Timestamp", datetime():
            if value.tzinfo is not None:
                value = value.astimezone(UTC).replace(tzinfo=None)
            micros = (value - _EPOCH) // timedelta(microseconds=1)
            return {"seconds": micros // 1_000_000, "nanos": micros % 1_000_000 * 1000}
        case "google.type.Date", date():
            return {"year": value.year, "month": value.month, "day": value.day}
        case "google.type.TimeOfDay", time():
            nanos = value.microsecond * 1000
            return {"hours": value.hour, "minutes": value.minute, "seconds": value.second, "nanos": nanos}
        case "confluent.type.Decimal", Decimal():
            return _unscaled(value)
        case _, Mapping():
            return value
    raise DataError(f"a {message.full_name} is wanted, not {type(value).__name__}")


def _decimal(unscaled: bytes, precision: int, scale: int) -> Decimal:
    found = Decimal(int.from_bytes(unscaled, "big", signed=True)).scaleb(-scale, _EXACT)
    if not 0 < precision < len(found.as_tuple().digits):
        return found
    return Context(prec=precision, rounding=ROUND_HALF_UP, Emin=MIN_EMIN, Emax=MAX_EMAX).plus(found)


def _unscaled(value: Decimal) -> dict[str, Any]:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or not -_INT32_MAX <= exponent <= _INT32_MAX:
        raise DataError(f"{value} is no confluent.type.Decimal")
    number = int(Decimal((sign, digits, 0)))
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return {"value": number.to_bytes(size, "big", signed=True), "precision": len(digits), "scale": -exponent}
