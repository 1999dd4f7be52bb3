"""What columns become in the records of JdbcSource: `numeric.mapping` and `timestamp.granularity`.

A NUMERIC with few enough digits can be a number that every format has, instead of Connect's Decimal. Which columns
these are is the dialect's to say: only PostgreSQL's NUMERIC is one for the drivers that Confluent's connector uses.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from headwater.base.config.validators import OneOf
from headwater.connect.config.keys import LOW, flag, text
from headwater.connect.connectors.jdbc_dialects import Column, from_database
from headwater.connect.data import schema as s
from headwater.connect.data.logical import millis_to_timestamp, scale_of
from headwater.connect.data.schema import Schema
from headwater.connect.errors import ConnectError

_MAPPINGS: Final = ("none", "precision_only", "best_fit", "best_fit_eager_double")
_GRANULARITIES: Final = ("connect_logical", "micros_long", "micros_string", "micros_iso_datetime_string", "nanos_long", "nanos_string", "nanos_iso_datetime_string")  # fmt: skip
FIELD_KEYS: Final = (
    text("numeric.mapping", None, LOW, "What PostgreSQL's NUMERIC(precision, scale) becomes. none: Connect's Decimal. precision_only: int8 to int64 without a scale, up to 18 digits. best_fit: also float64 with one. best_fit_eager_double: float64 with any number of digits. Nothing else changes: a NUMERIC without a precision is text, those of MariaDB are Decimals, those of SQLite float64.", OneOf(*_MAPPINGS, ignore_case=True)),
    flag("numeric.precision.mapping", False, LOW, "numeric.mapping=precision_only, where that is not given."),
    text("timestamp.granularity", "connect_logical", LOW, "What timestamps become: connect_logical (Connect's, milliseconds), or microseconds or nanoseconds since 1970 as a number or as text, or ISO's text in db.timezone.", OneOf(*_GRANULARITIES, ignore_case=True)),
)  # fmt: skip
_DIGITS_MAX: Final = 18  # of an int64 whatever the digits are
_MICROSECOND: Final = timedelta(microseconds=1)


class Field(NamedTuple):
    name: str
    schema: Schema
    read: Callable[[Any], Any]  # of what the driver gave, which is not None; raises ConnectError


def fields_of(columns: Sequence[Column], config: Mapping[str, Any], *, maps_numerics: bool) -> list[Field]:
    mapping = config["numeric.mapping"] or ("precision_only" if config["numeric.precision.mapping"] else "none")
    made = []
    for each in columns:
        schema = _numeric(each.schema, mapping.lower()) if maps_numerics else each.schema
        if schema.name == s.TIMESTAMP and config["timestamp.granularity"].lower() != "connect_logical":
            made.append(_timestamp(each, config["timestamp.granularity"].lower(), config["db.timezone"]))
        else:
            made.append(Field(each.name, schema, _reader(schema)))
    return made


def _reader(schema: Schema) -> Callable[[Any], Any]:
    return lambda found: from_database(schema, found)


def _numeric(schema: Schema, mapping: str) -> Schema:
    digits = (schema.parameters or {}).get(s.PRECISION)
    if schema.name != s.DECIMAL or digits is None or mapping == "none":
        return schema
    precision, scale = int(digits), scale_of(schema)
    if scale == 0 and precision <= _DIGITS_MAX:
        return _like(schema, s.INT8 if precision <= 2 else s.INT16 if precision <= 4 else s.INT32 if precision <= 9 else s.INT64)  # fmt: skip
    few_enough = mapping == "best_fit_eager_double" or (mapping == "best_fit" and precision <= _DIGITS_MAX)
    return _like(schema, s.FLOAT64) if scale > 0 and few_enough else schema


def _like(schema: Schema, plain: Schema) -> Schema:
    return plain.as_optional() if schema.optional else plain


def _timestamp(column: Column, granularity: str, zone: str) -> Field:
    unit, _, form = granularity.partition("_")
    per_microsecond, zeros = (1, "") if unit == "micros" else (1000, "000")

    def count(found: Any) -> int:
        moment = from_database(s.TIMESTAMP_SCHEMA, found)
        number: int = (moment - millis_to_timestamp(0)) // _MICROSECOND * per_microsecond
        if form == "long" and not -(1 << 63) <= number < 1 << 63:
            raise ConnectError(f"the value {found} has more {unit} since 1970 than an int64")
        return number

    def iso(found: Any) -> str:
        moment: datetime = from_database(s.TIMESTAMP_SCHEMA, found)
        return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None).isoformat(timespec="microseconds") + zeros

    if form == "long":
        return Field(column.name, _like(column.schema, s.INT64), count)
    return Field(column.name, _like(column.schema, s.STRING), iso if "iso" in form else lambda found: str(count(found)))
