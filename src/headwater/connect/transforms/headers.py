"""Transforms of headers: DropHeaders, InsertHeader, HeaderFrom."""

from collections.abc import Mapping
from typing import Any

from headwater.base.config.validators import OneOf
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, REPLACE_NULL, REQUIRED, NonEmptyList, listing, text
from headwater.connect.data.record import ConnectRecord, Header, header
from headwater.connect.data.runs import ValueColumns
from headwater.connect.data.schema import Schema, SchemaAndValue, struct
from headwater.connect.data.struct import Struct
from headwater.connect.data.values import parse_text
from headwater.connect.errors import ConfigError, DataError
from headwater.connect.transforms.base import (
    PartTransformation,
    Transformation,
    basics,
    field_value,
    require_map,
    require_struct,
)


class DropHeaders(Transformation):
    is_pure = True
    doc = "Removes headers by their names."
    config_def = ConfigDef(listing("headers", REQUIRED, HIGH, "The names.", NonEmptyList()))

    def setup(self, config: Mapping[str, Any]) -> None:
        self._names = set(config["headers"])

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        return record.replaced(headers=tuple(each for each in record.headers if each.key not in self._names))

    def apply_columns(self, values: ValueColumns) -> ValueColumns:
        return values  # runs have no headers


class InsertHeader(Transformation):
    is_pure = True
    doc = "Adds a header to each record."
    config_def = ConfigDef(
        text("header", REQUIRED, HIGH, "The header's name."),
        text(
            "value.literal",
            REQUIRED,
            HIGH,
            "Its value; numbers, booleans, dates, `[..]` and `{..}` are what they look like.",
        ),
    )

    def setup(self, config: Mapping[str, Any]) -> None:
        self._header = header(config["header"], parse_text(config["value.literal"]))

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        return record.replaced(headers=(*record.headers, self._header))


class HeaderFrom(PartTransformation):
    is_pure = True
    doc = "Moves or copies fields of the key or value into headers."
    config_def = ConfigDef(
        listing("fields", REQUIRED, HIGH, "The fields.", NonEmptyList()),
        listing("headers", REQUIRED, HIGH, "The names of the headers, in the order of the fields.", NonEmptyList()),
        text(
            "operation",
            REQUIRED,
            HIGH,
            "`move` takes the fields away from the record, `copy` leaves them.",
            OneOf("move", "copy"),
        ),
        REPLACE_NULL,
    )

    def setup(self, config: Mapping[str, Any]) -> None:
        self._fields, self._headers = config["fields"], config["headers"]
        if len(self._fields) != len(self._headers):
            raise ConfigError("'fields' config must have the same number of elements as 'headers' config.")
        self._move = config["operation"] == "move"
        self._purpose = f"header {config['operation']}"
        self._with_default = config["replace.null.with.default"]

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.of(record)
        pairs = list(zip(self._fields, self._headers, strict=True))
        if schema is None:
            old_map = require_map(value, self._purpose)
            added = [Header(name, None, old_map.get(field)) for field, name in pairs]
            kept = {key: each for key, each in old_map.items() if not (self._move and key in self._fields)}
            return self.put(record, None, kept, headers=(*record.headers, *added))
        old = require_struct(value, self._purpose)
        added = []
        changed, new = (schema, old) if not self._move else self._without(schema, old)
        for field, name in pairs:
            found = schema.field(field)
            if found is None:
                raise DataError(f"Field does not exist: {field}")
            added.append(header(name, SchemaAndValue(found.schema, field_value(old, found, self._with_default))))
        return self.put(record, changed, new, headers=(*record.headers, *added))

    def _without(self, schema: Schema, old: Struct) -> tuple[Schema, Struct]:
        changed = self._schemas.get(schema)
        if changed is None:
            kept = ((each.name, each.schema) for each in schema.fields if each.name not in self._fields)
            changed = self.remember(schema, struct(kept, **basics(schema)))
        new = Struct(changed)
        for field in changed.fields:
            new.put(field.name, field_value(old, field, self._with_default))
        return changed, new
