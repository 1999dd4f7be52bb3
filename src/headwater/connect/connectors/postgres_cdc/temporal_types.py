"""Dates and times by `time.precision.mode`. Pure.

`adaptive`: milliseconds where the column has at most three digits of a second, else microseconds;
`adaptive_time_microseconds` counts times of day always in microseconds; `connect` has Connect's own types, with
milliseconds; `isostring` texts; `microseconds` and `nanoseconds` what they say. Timestamps and times with a zone are
texts in every mode.
"""

from collections.abc import Callable
from typing import Any, Final

from headwater.connect.connectors.postgres_cdc import text_values as t
from headwater.connect.data import schema as s
from headwater.connect.data.logical import days_to_date, millis_to_time, millis_to_timestamp
from headwater.connect.data.schema import Schema, Type

TIME_MODES: Final = ("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds")
_INT64_MAX: Final = (1 << 63) - 1
Temporal = tuple[Schema, Callable[[str], Any], Any]


def temporal(name: str, modifier: int, mode: str) -> Temporal | None:
    """Schema, reader and zero of a type; None: it is none of these types."""
    digits = modifier if 0 <= modifier <= 6 else 6
    match name:
        case "date":
            return _date(mode)
        case "time":
            return _time(mode, digits)
        case "timestamp":
            return _timestamp(mode, digits)
        case "timestamptz":
            schema = _schema(Type.STRING, "ZonedTimestamp")
            return schema, lambda text: _zoned(text, digits), _zoned_us(0, digits)
        case "timetz":
            return _schema(Type.STRING, "ZonedTime"), lambda text: f"{_short(t.timetz_us(text))}Z", "00:00:00Z"
    return None


def _schema(type_: Type, name: str) -> Schema:
    return Schema(type_, name=f"io.debezium.time.{name}", version=1)


def _date(mode: str) -> Temporal:
    if mode == "connect":
        return s.DATE_SCHEMA, lambda text: days_to_date(t.date_days(text)), days_to_date(0)
    if mode == "isostring":
        return _schema(Type.STRING, "IsoDate"), lambda text: f"{t.date_text(t.date_days(text))}Z", "1970-01-01Z"
    return _schema(Type.INT32, "Date"), t.date_days, 0


def _time(mode: str, digits: int) -> Temporal:
    match mode:
        case "connect":
            return s.TIME_SCHEMA, lambda text: millis_to_time(t.time_us(text) // 1000), millis_to_time(0)
        case "isostring":
            return _schema(Type.STRING, "IsoTime"), lambda text: f"{_short(t.time_us(text) % t.DAY_US)}Z", "00:00:00Z"
        case "nanoseconds":
            return _schema(Type.INT64, "NanoTime"), lambda text: t.time_us(text) * 1000, 0
        case "adaptive" if digits <= 3:
            return _schema(Type.INT32, "Time"), lambda text: t.time_us(text) // 1000, 0
    return _schema(Type.INT64, "MicroTime"), t.time_us, 0


def _timestamp(mode: str, digits: int) -> Temporal:
    match mode:
        case "connect":
            return s.TIMESTAMP_SCHEMA, lambda text: millis_to_timestamp(t.timestamp_us(text) // 1000), millis_to_timestamp(0)  # fmt: skip
        case "isostring":
            return _schema(Type.STRING, "IsoTimestamp"), _iso_timestamp, "1970-01-01T00:00:00Z"
        case "nanoseconds":
            return _schema(Type.INT64, "NanoTimestamp"), _nanoseconds, 0
        case "adaptive" | "adaptive_time_microseconds" if digits <= 3:
            return _schema(Type.INT64, "Timestamp"), lambda text: t.timestamp_us(text) // 1000, 0
    return _schema(Type.INT64, "MicroTimestamp"), t.timestamp_us, 0


def _nanoseconds(text: str) -> int:
    """Years beyond 2262 do not fit; the outermost number stands for them, as for infinity."""
    return max(-_INT64_MAX - 1, min(t.timestamp_us(text) * 1000, _INT64_MAX))


def _iso_timestamp(text: str) -> str:
    days, micros = divmod(t.timestamp_us(text), t.DAY_US)
    return f"{t.date_text(days)}T{_short(micros)}Z"


def _zoned(text: str, digits: int) -> str:
    return text if text.endswith("infinity") else _zoned_us(t.timestamp_us(text), digits)


def _zoned_us(micros: int, digits: int) -> str:
    days, clock = divmod(micros, t.DAY_US)
    return f"{t.date_text(days)}T{t.clock_text(clock, digits=digits)}Z"


def _short(micros: int) -> str:
    """Without zeros at the end of the fraction."""
    return t.clock_text(micros).rstrip("0").rstrip(".") if micros % 1_000_000 else t.clock_text(micros, digits=0)
