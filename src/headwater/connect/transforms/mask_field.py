"""MaskField: fields become the zero of their type, or a text or number that is given."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, LOW, REPLACE_NULL, REQUIRED, NonEmptyList, NonEmptyText, listing, text
from headwater.connect.data.arrow_rows import plain
from headwater.connect.data.java_text import to_float32
from headwater.connect.data.record import ConnectRecord
from headwater.connect.data.runs import ValueColumns
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError
from headwater.connect.transforms.base import Carried, PartTransformation, require_map, require_struct

_ZEROS: Final[tuple[tuple[type, Any], ...]] = (  # in this order: a bool is an int, a datetime a date
    (bool, False),
    (int, 0),
    (float, 0.0),
    (Decimal, Decimal(0)),
    (datetime, datetime(1970, 1, 1, tzinfo=UTC)),
    (date, date(1970, 1, 1)),
    (time, time()),
    (str, ""),
)
_NESTED: Final = (Type.STRUCT, Type.ARRAY, Type.MAP)
_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


class MaskField(PartTransformation):
    is_pure = True
    doc = "Hides fields: each becomes the zero of its type (0, false, empty), or the replacement."
    config_def = ConfigDef(
        listing("fields", REQUIRED, HIGH, "The fields to hide.", NonEmptyList()),
        text("replacement", None, LOW, "What stands there instead: for numbers and strings only.", NonEmptyText()),
        REPLACE_NULL,
    )

    def setup(self, config: Mapping[str, Any]) -> None:
        self._fields, self._replacement = set(config["fields"]), config["replacement"]
        self._with_default = config["replace.null.with.default"]

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.of(record)
        if schema is None:
            old_map = require_map(value, "mask fields")
            return self.put(
                record, None, {**old_map, **{name: self._masked(old_map.get(name), None) for name in self._fields}}
            )
        old = require_struct(value, "mask fields")
        carried = self._carried.get(old.schema)
        if carried is None:
            names = [each.name for each in old.schema.fields]
            made = Carried(old.schema, old.schema, names, with_default=self._with_default)
            carried = self.carried(old.schema, made)
        new = Struct.of(old.schema, carried.values(old))
        for field in old.schema.fields:
            if field.name in self._fields:
                new.put(field.name, self._masked(new.get_without_default(field.name), field.schema))
        return self.put(record, schema, new)

    def apply_columns(self, values: ValueColumns) -> ValueColumns | None:
        """All values of a type become the same; nulls stay null."""
        if self.part != "value":
            return None
        import pyarrow as pa
        import pyarrow.compute as pc

        columns = list(values.columns)
        for field in values.schema.fields:
            column = columns[field.position]
            if column.null_count and field.schema.default is not None:
                return None
            if field.name in self._fields:
                if field.schema.type in _NESTED:
                    return None
                there = column.drop_null()
                if len(there):
                    masked = plain(field.schema, self._masked(there[0].as_py(), field.schema))
                    every = pa.repeat(pa.scalar(masked, column.type), len(column))
                    columns[field.position] = pc.if_else(column.is_valid(), every, pa.scalar(None, column.type))
        return values.with_fields(values.schema, columns)

    def _masked(self, value: Any, schema: Schema | None) -> Any:
        if value is None:
            return None
        return _zero(value) if self._replacement is None else _replaced(value, schema, self._replacement)


def _zero(value: Any) -> Any:
    for kind, zero in _ZEROS:
        if isinstance(value, kind):
            return zero
    if isinstance(value, list | tuple):
        return []
    if isinstance(value, dict):
        return {}
    raise DataError(f"Cannot mask value of type: {type(value).__name__}")


def _replaced(value: Any, schema: Schema | None, replacement: str) -> Any:
    if isinstance(value, str):
        return replacement
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise DataError(f"Cannot mask value of type {type(value).__name__} with custom replacement.")
    try:
        number = Decimal(replacement)
    except InvalidOperation:
        raise DataError(f"Unable to convert {replacement} to number") from None
    if not number.is_finite():
        raise DataError(f"Unable to convert {replacement} to number")
    if isinstance(value, Decimal):
        return number
    if isinstance(value, float):
        return to_float32(float(number)) if schema is not None and schema.type is Type.FLOAT32 else float(number)
    bits = _BITS[schema.type] if schema is not None else 64
    low = int(number) & (1 << bits) - 1
    return low - (1 << bits) if low >> bits - 1 else low
