"""Flatten: nested structs and maps become one level, with names joined by a delimiter. Arrays stay as they are."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import MEDIUM, text
from headwater.connect.data.record import ConnectRecord
from headwater.connect.data.runs import ValueColumns
from headwater.connect.data.schema import Schema, Type, struct
from headwater.connect.data.struct import Struct
from headwater.connect.data.validation import type_of, with_default
from headwater.connect.errors import DataError
from headwater.connect.transforms.base import PartTransformation, basics, require_map, require_struct

if TYPE_CHECKING:
    import pyarrow as pa


class Flatten(PartTransformation):
    is_pure = True
    doc = "Makes one level of nested structs or maps; names are joined by the delimiter. Arrays are not changed."
    config_def = ConfigDef(text("delimiter", ".", MEDIUM, "What stands between the names."))

    def setup(self, config: Mapping[str, Any]) -> None:
        self._delimiter = config["delimiter"]

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.of(record)
        if value is None:
            return record
        if schema is None:
            return self.put(record, None, dict(self._of_map(require_map(value, "flattening"), "")))
        old = require_struct(value, "flattening")
        changed = self._changed(schema)
        new = Struct(changed)
        self._fill(old, "", new)
        return self.put(record, changed, new)

    def apply_columns(self, values: ValueColumns) -> ValueColumns | None:
        """Where a null has a default to become, records say which."""
        if self.part != "value":
            return None
        changed, columns = self._changed(values.schema), list(_leaves(values.schema, values.columns))
        if any(each is None for each in columns):
            return None
        found = [each for each in columns if each is not None]
        if any(each.null_count and f.schema.default is not None for f, each in zip(changed.fields, found, strict=True)):
            return None
        return values.with_fields(changed, found)

    def _changed(self, schema: Schema) -> Schema:
        found = self._schemas.get(schema)
        if found is None:
            fields = self._fields(schema, "", schema.optional, schema.default)
            found = self.remember(schema, struct(fields, **basics(schema)))
        return found

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _of_map(self, value: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
        for key, each in value.items():
            name = self._name(prefix, key)
            if isinstance(each, dict):
                yield from self._of_map(each, name)
            elif each is None or type_of(each) not in (None, Type.STRUCT):
                yield name, each
            else:
                raise DataError(f"Flatten transformation does not support {type(each).__name__} (for field {name})")

    def _fields(
        self, schema: Schema, prefix: str, optional: bool, default: Struct | None
    ) -> Iterator[tuple[str, Schema]]:
        for field in schema.fields:
            name = self._name(prefix, field.name)
            inner_default = field.schema.default
            if inner_default is None and default is not None:
                inner_default = default.get(field.name)
            inner_optional = optional or field.schema.optional
            if field.schema.type is Type.STRUCT:
                yield from self._fields(field.schema, name, inner_optional, inner_default)
            elif field.schema.type is Type.MAP:
                raise DataError(
                    f"Flatten transformation does not support MAP for record with schemas (for field {name})."
                )
            else:
                made = replace(field.schema, optional=inner_optional, default=None)
                yield name, made if inner_default is None else with_default(made, inner_default)

    def _fill(self, old: Struct | None, prefix: str, new: Struct) -> None:
        for field in old.schema.fields if old is not None else ():
            assert old is not None
            name = self._name(prefix, field.name)
            if field.schema.type is Type.STRUCT:
                self._fill(old.get(field.name), name, new)
            else:
                new.put(name, old.get(field.name))


def _leaves(schema: Schema, columns: "list[pa.Array]") -> "Iterator[pa.Array | None]":
    """The columns of all fields that are no structs, in their order. None: a null there has a default."""
    for field, column in zip(schema.fields, columns, strict=True):
        if column.null_count and field.schema.default is not None:
            yield None
        elif field.schema.type is Type.STRUCT:
            yield from _leaves(field.schema, column.flatten())
        else:
            yield column
