"""TimestampConverter: times between text, Unix numbers and Connect's Date, Time and Timestamp."""

from collections.abc import Mapping
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, Final

from headwater.base.config.validators import OneOf
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, LOW, MEDIUM, REPLACE_NULL, REQUIRED, text
from headwater.connect.data import schema as s
from headwater.connect.data.logical import millis_of, millis_to_timestamp, timestamp_to_millis
from headwater.connect.data.record import ConnectRecord
from headwater.connect.data.runs import ValueColumns
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.struct import Struct
from headwater.connect.data.validation import with_default
from headwater.connect.errors import ConfigError, ConnectError, DataError
from headwater.connect.transforms.base import Carried, PartTransformation, basics, require_map, require_struct
from headwater.connect.transforms.columns import by_value, from_millis, millis_column
from headwater.connect.transforms.date_format import DateFormat

if TYPE_CHECKING:
    import pyarrow as pa

_SCHEMAS: Final = {
    "string": s.STRING,
    "unix": s.INT64,
    "Date": s.DATE_SCHEMA,
    "Time": s.TIME_SCHEMA,
    "Timestamp": s.TIMESTAMP_SCHEMA,
}
_BY_NAME: Final = {s.TIMESTAMP: "Timestamp", s.DATE: "Date", s.TIME: "Time"}
_PER_MILLI: Final = {"microseconds": 1000, "nanoseconds": 1_000_000}
_LONG: Final = 1 << 63


class TimestampConverter(PartTransformation):
    is_pure = True
    doc = "Converts times, of one field or of the whole, between text, Unix numbers, Date, Time and Timestamp."
    config_def = ConfigDef(
        text("field", "", HIGH, "The field; empty for the whole key or value."),
        text("target.type", REQUIRED, HIGH, "What it is to become.", OneOf(*_SCHEMAS)),
        text("format", "", MEDIUM, "The format of texts, in and out, in the letters of Java's SimpleDateFormat; UTC."),
        text(
            "unix.precision",
            "milliseconds",
            LOW,
            "What Unix numbers count. Below a millisecond nothing is kept.",
            OneOf("nanoseconds", "microseconds", "milliseconds", "seconds"),
        ),
        REPLACE_NULL,
    )

    def setup(self, config: Mapping[str, Any]) -> None:
        self._field, self._target = config["field"], config["target.type"]
        self._precision = config["unix.precision"]
        self._with_default = config["replace.null.with.default"]
        pattern = config["format"]
        if self._target == "string" and not pattern.strip():
            raise ConfigError("TimestampConverter requires format option to be specified when using string timestamps")
        self._format = DateFormat(pattern) if pattern.strip() else None

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.of(record)
        if schema is None:
            if value is None or not self._field:
                return self.put(record, None, self._converted(value, None))
            old_map = require_map(value, "converting timestamp formats")
            return self.put(record, None, {**old_map, self._field: self._converted(old_map.get(self._field), None)})
        if not self._field:
            target = _SCHEMAS[self._target]
            kind = _kind_of(schema)
            return self.put(record, target.as_optional() if schema.optional else target, self._converted(value, kind))
        old = None if value is None else require_struct(value, "converting timestamp formats")
        changed = self._schemas.get(schema) or self.remember(schema, self._changed(schema))
        return self.put(record, changed, None if old is None else self._filled(old, changed))

    def apply_columns(self, values: ValueColumns) -> ValueColumns | None:
        if self.part != "value" or not self._field:
            return None
        schema = values.schema
        changed = self._schemas.get(schema) or self.remember(schema, self._changed(schema))
        columns = self._carry(schema, changed).columns(values.columns)
        if columns is None:
            return None
        field = schema.field(self._field)
        if field is not None:
            made = changed.fields[field.position].schema
            columns[field.position] = self._column(columns[field.position], _kind_of(field.schema), made)
        return values.with_fields(changed, columns)

    def _column(self, column: "pa.Array", kind: str, made: Schema) -> "pa.Array":
        millis = millis_column(column, kind, self._precision)
        found = None if millis is None else from_millis(millis, self._target, self._precision)
        if found is not None:
            return found
        seen: dict[Any, Any] = {}  # times repeat, and texts take long

        def change(value: Any) -> Any:
            if value not in seen:
                seen[value] = self._converted(value, kind)
            return seen[value]

        return by_value(column, change, made)

    def _carry(self, schema: Schema, changed: Schema) -> Carried:
        carried = self._carried.get(schema)
        if carried is None or carried.schema is not changed:
            names = [each.name for each in schema.fields]
            carried = self.carried(schema, Carried(schema, changed, names, with_default=self._with_default))
        return carried

    def _changed(self, schema: Schema) -> Schema:
        if schema.type is not Type.STRUCT:
            raise DataError("Cannot list fields on non-struct type")
        target = _SCHEMAS[self._target]
        fields = [
            (
                each.name,
                (target.as_optional() if each.schema.optional else target) if each.name == self._field else each.schema,
            )
            for each in schema.fields
        ]
        made = s.struct(fields, optional=schema.optional, **basics(schema))
        return made if schema.default is None else with_default(made, self._filled(schema.default, made))

    def _filled(self, old: Struct, changed: Schema) -> Struct:
        values, field = self._carry(old.schema, changed).values(old), old.schema.field(self._field)
        if field is not None:
            values[field.position] = self._converted(values[field.position], _kind_of(field.schema))
        return Struct.of(changed, values)

    def _converted(self, value: Any, kind: str | None) -> Any:
        if value is None:
            return None
        return self._from_raw(self._to_raw(value, kind or _inferred(value)))

    def _to_raw(self, value: Any, kind: str) -> datetime:
        if kind == "string":
            if not isinstance(value, str) or self._format is None:
                raise DataError("A text and its format are needed to read a string timestamp")
            return self._format.parse(value)
        if kind == "unix":
            return millis_to_timestamp(self._unix_to_millis(value))
        if not isinstance(value, date | time | datetime):
            raise DataError(f"Expected {kind}, but found {type(value).__name__}")
        return millis_to_timestamp(millis_of(value))

    def _unix_to_millis(self, value: int) -> int:
        if self._precision == "seconds":
            return max(-_LONG, min(_LONG - 1, value * 1000))
        return _cut(value, _PER_MILLI.get(self._precision, 1))

    def _from_raw(self, moment: datetime) -> Any:
        match self._target:
            case "string":
                assert self._format is not None
                return self._format.format(moment)
            case "unix":
                millis = timestamp_to_millis(moment)
                if self._precision == "seconds":
                    return _cut(millis, 1000)
                return max(-_LONG, min(_LONG - 1, millis * _PER_MILLI.get(self._precision, 1)))
            case "Date":
                return moment.date()
            case "Time":
                return moment.time()
        return moment


def _cut(number: int, divisor: int) -> int:
    """Towards zero, as Java divides."""
    return number // divisor if number >= 0 else -(-number // divisor)


def _kind_of(schema: Schema) -> str:
    kind = _BY_NAME.get(schema.name or "")
    if kind is not None:
        return kind
    if schema.type is Type.STRING:
        return "string"
    if schema.type is Type.INT64:
        return "unix"
    raise ConnectError(f"Schema {schema} does not correspond to a known timestamp type format")


def _inferred(value: Any) -> str:
    if isinstance(value, date | time | datetime):
        return "Timestamp"
    if isinstance(value, int) and not isinstance(value, bool):
        return "unix"
    if isinstance(value, str):
        return "string"
    raise DataError(f"TimestampConverter does not support {type(value).__name__} objects as timestamps")
