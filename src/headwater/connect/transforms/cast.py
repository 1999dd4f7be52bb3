"""Cast: fields, or all of the key or value, to another type."""

import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

from headwater.base.config.validators import ConfigValueError
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, REPLACE_NULL, REQUIRED, listing
from headwater.connect.data.java_text import Float32, java_float, java_string, to_float32, whole_to_float32
from headwater.connect.data.record import ConnectRecord
from headwater.connect.data.runs import ValueColumns
from headwater.connect.data.schema import DATE, TIME, TIMESTAMP, Field, Schema, Type
from headwater.connect.data.struct import Struct
from headwater.connect.data.validation import type_of, with_default
from headwater.connect.data.values import numeric_of, temporal_text
from headwater.connect.errors import ConfigError, DataError
from headwater.connect.transforms.base import Carried, PartTransformation, basics, require_map, require_struct
from headwater.connect.transforms.columns import WHOLE, by_value, cast_column

_FROM: Final = frozenset(Type) - {Type.ARRAY, Type.MAP, Type.STRUCT}
_TO: Final = _FROM - {Type.BYTES}
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_FRACTION: Final = re.compile(r"[+-]?(NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")


def parse_spec(entries: list[str]) -> dict[str | None, Type]:
    """Types by field; under None the type of the whole."""
    casts: dict[str | None, Type] = {}
    for entry in entries:
        parts = entry.rstrip(":").split(":")
        if len(parts) > 2:
            raise ConfigError.of("spec", entries, f"Invalid cast: {entry}")
        try:
            target = Type[parts[-1].strip().upper()]
        except KeyError:
            raise ConfigError(f"Invalid type found in casting spec: {parts[-1].strip()}", name="spec") from None
        if target not in _TO:
            raise ConfigError(f"Cast transformation does not support casting to {target.name}", name="spec")
        casts[parts[0].strip() if len(parts) == 2 else None] = target
    if None in casts and len(entries) > 1:
        raise ConfigError("A cast of the whole value can be the only one in its spec", name="spec")
    return casts


class _Spec:
    def check(self, name: str, value: object) -> None:
        if not isinstance(value, list) or not value:
            raise ConfigValueError(name, value, "Must specify at least one field to cast.", whole=True)
        try:
            parse_spec(value)
        except ConfigError as error:
            raise ConfigValueError(name, value, str(error), whole=True) from None

    def __str__(self) -> str:
        return "field:type pairs, or one type"


class Cast(PartTransformation):
    is_pure = True
    doc = "Casts fields, or the whole key or value, to another type: numbers, booleans and strings; bytes become base64 text."
    config_def = ConfigDef(
        listing(
            "spec",
            REQUIRED,
            HIGH,
            "field:type pairs, or one type for the whole. Types: int8, int16, int32, int64, float32, float64, boolean, string.",
            _Spec(),
        ),
        REPLACE_NULL,
    )

    def setup(self, config: Mapping[str, Any]) -> None:
        self._casts = parse_spec(config["spec"])
        self._whole = self._casts.get(None)
        self._with_default = config["replace.null.with.default"]

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.of(record)
        if value is None:
            return record
        if schema is None:
            return self.put(record, None, self._schemaless(value))
        if self._whole is not None:
            changed = self._schemas.get(schema) or self.remember(schema, self._changed(schema))
            return self.put(record, changed, cast(schema, value, self._whole))
        carried = self._carried.get(schema) or self.carried(schema, self._struct(schema, value))
        old = require_struct(value, "cast types")
        values = carried.values(old)
        for field in old.schema.fields:
            target = self._casts.get(field.name)
            if target is not None:
                values[field.position] = cast(field.schema, values[field.position], target)
        return self.put(record, carried.schema, Struct.of(carried.schema, values))

    def apply_columns(self, values: ValueColumns) -> ValueColumns | None:
        if self.part != "value" or self._whole is not None:
            return None
        schema = values.schema
        carried = self._carried.get(schema) or self.carried(schema, self._carry(schema, schema))
        columns = carried.columns(values.columns)
        if columns is None:
            return None
        for field in schema.fields:
            if field.name in self._casts:
                column, made = columns[field.position], carried.schema.fields[field.position].schema
                found = cast_column(column, field.schema, made)
                columns[field.position] = (
                    by_value(column, _caster(field.schema, made), made) if found is None else found
                )
        return values.with_fields(carried.schema, columns)

    def _struct(self, schema: Schema, value: Any) -> Carried:
        return self._carry(schema, require_struct(value, "cast types").schema)

    def _carry(self, schema: Schema, of_value: Schema) -> Carried:
        changed = self._changed(schema)
        names = [each.name for each in of_value.fields]
        return Carried(schema, changed, names, with_default=self._with_default)

    def _schemaless(self, value: Any) -> Any:
        if self._whole is not None:
            return cast(None, value, self._whole)
        old = require_map(value, "cast types")
        changes = {str(field): cast(None, old.get(str(field)), target) for field, target in self._casts.items()}
        return {**old, **changes}

    def _changed(self, schema: Schema) -> Schema:
        if self._whole is not None:
            made = Schema(self._whole, schema.optional, **basics(schema))
        else:
            if schema.type is not Type.STRUCT:
                raise DataError("Cannot list fields on non-struct type")
            fields = tuple(Field(each.name, each.position, self._field(each)) for each in schema.fields)
            made = Schema(Type.STRUCT, schema.optional, fields=fields, **basics(schema))
        if schema.default is not None:
            made = with_default(made, cast(schema, schema.default, made.type))
        return made

    def _field(self, field: Field) -> Schema:
        target = self._casts.get(field.name)
        if target is None:
            return field.schema
        made = Schema(target, field.schema.optional)
        if field.schema.default is None:
            return made
        return with_default(made, cast(field.schema, field.schema.default, target))


def _caster(schema: Schema, made: Schema) -> Callable[[Any], Any]:
    return lambda value: cast(schema, value, made.type)


def cast(schema: Schema | None, value: Any, target: Type) -> Any:
    if value is None:
        return None
    kind = schema.type if schema is not None else type_of(value)
    if kind not in _FROM:
        raise DataError(f"Cast transformation does not support casting from {kind and kind.name}")
    if target is Type.STRING:
        return _to_text(schema, value)
    if schema is not None and schema.name in (DATE, TIME, TIMESTAMP):
        value = numeric_of(value)
    try:
        if target in WHOLE:
            return _to_whole(value, WHOLE[target])
        if target is Type.BOOLEAN:
            return value.lower() == "true" if isinstance(value, str) else _to_whole(value, 64) != 0
        single = target is Type.FLOAT32
        if single and isinstance(value, int):
            rounded = whole_to_float32(value)
        else:
            number = _to_fraction(value)
            rounded = to_float32(number) if single else number
        return Float32(rounded) if single and schema is None else rounded
    except (ValueError, OverflowError):
        raise DataError(f"Value ({value}) was out of range for requested data type") from None


def _to_whole(value: Any, bits: int) -> int:
    if isinstance(value, str):
        if not _WHOLE.fullmatch(value):
            raise ValueError(value)
        number = int(value)
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError(value)
        return number
    if isinstance(value, float):  # as Java narrows: to an end of int or long, then the low bits
        wide = 64 if bits == 64 else 32
        if value != value:
            return 0
        limit = 1 << wide - 1
        value = limit - 1 if value >= limit else -limit if value < -limit else int(value)
    elif isinstance(value, bytes | bytearray | memoryview | date | time | datetime):
        raise DataError(f"Unexpected type in Cast transformation: {type(value).__name__}")
    return _low_bits(int(value), bits)


def _low_bits(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> bits - 1 else number


def _to_fraction(value: Any) -> float:
    if isinstance(value, str):
        found = _FRACTION.fullmatch(value.strip())
        if not found:
            raise ValueError(value)
        return float(value.strip().rstrip("fFdD")) if found[1] not in ("NaN", "Infinity") else float(found[0])
    if isinstance(value, bool | int | float | Decimal):
        return float(value)
    raise DataError(f"Unexpected type in Cast transformation: {type(value).__name__}")


def _to_text(schema: Schema | None, value: Any) -> str:
    if isinstance(value, date | time | datetime):
        return temporal_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(bytes(value)).decode("ascii")
    if schema is not None and schema.type is Type.FLOAT32:
        return java_float(value)
    return java_string(value)
