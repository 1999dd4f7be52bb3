"""Transforms that move fields about: ExtractField, HoistField, ReplaceField, ValueToKey."""

from collections.abc import Mapping
from typing import Any

from headwater.base.config.validators import ConfigValueError, OneOf
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import (
    FIELD_SYNTAX,
    HIGH,
    MEDIUM,
    REPLACE_NULL,
    REQUIRED,
    NonEmptyList,
    listing,
    text,
)
from headwater.connect.data.record import ConnectRecord
from headwater.connect.data.runs import ValueColumns
from headwater.connect.data.schema import Schema, Type, struct
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError, DataError
from headwater.connect.transforms.base import (
    SCHEMAS_CACHED_MAX,
    Carried,
    PartTransformation,
    Transformation,
    basics,
    require_map,
    require_struct,
)
from headwater.connect.transforms.field_path import field_at, parse_path, value_in_map, value_in_struct


class ExtractField(PartTransformation):
    is_pure = True
    doc = "Takes one field out of the key or value and makes it the whole. A null stays null."
    config_def = ConfigDef(
        text("field", REQUIRED, MEDIUM, "The field to take out; with V2 of the syntax a path, as in `a.b`."),
        REPLACE_NULL,
        text(
            FIELD_SYNTAX,
            "V1",
            HIGH,
            "V1: the name of a field. V2: a path with dots; backticks around a name that has dots in it: `` `a.b`.c ``.",
            OneOf("V1", "V2", ignore_case=True),
        ),
    )

    def setup(self, config: Mapping[str, Any]) -> None:
        self._path = config["field"]
        self._steps = parse_path(self._path, config[FIELD_SYNTAX])
        self._with_default = config["replace.null.with.default"]

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.of(record)
        if schema is None:
            found = None if value is None else value_in_map(require_map(value, "field extraction"), self._steps)
            return self.put(record, None, found)
        old = None if value is None else require_struct(value, "field extraction")
        field = field_at(schema, self._steps)
        if field is None:
            raise DataError(f"Unknown field: {self._path}")
        found = None if old is None else value_in_struct(old, self._steps, self._with_default)
        return self.put(record, field.schema, found)

    def apply_columns(self, values: ValueColumns) -> ValueColumns | None:
        """A null on the way, or at its end, is for the records."""
        if self.part != "value":
            return None
        schema, columns = values.schema, values.columns
        for number, step in enumerate(self._steps):
            field = schema.field(step) if schema.type is Type.STRUCT else None
            if field is None or columns[field.position].null_count:
                return None
            schema, columns = field.schema, [columns[field.position]]
            if schema.type is Type.STRUCT:
                columns = columns[0].flatten()
            elif number < len(self._steps) - 1:
                return None
        return values._replace(schema=schema, columns=columns)


class HoistField(PartTransformation):
    is_pure = True
    doc = "Wraps the whole key or value into a struct (or a map) of one field."
    config_def = ConfigDef(text("field", REQUIRED, MEDIUM, "The name of that field."))

    def setup(self, config: Mapping[str, Any]) -> None:
        self._field = config["field"]

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.of(record)
        if schema is None:
            return self.put(record, None, {self._field: value})
        changed = self._schemas.get(schema) or self.remember(schema, struct([(self._field, schema)]))
        return self.put(record, changed, Struct(changed).put(self._field, value))

    def apply_columns(self, values: ValueColumns) -> ValueColumns | None:
        if self.part != "value":
            return None
        schema = values.schema
        changed = self._schemas.get(schema) or self.remember(schema, struct([(self._field, schema)]))
        return values.with_fields(changed, [values.array()])


def parse_renames(entries: list[str]) -> dict[str, str]:
    renames: dict[str, str] = {}
    for entry in entries:
        parts = entry.split(":")
        if len(parts) != 2 or not parts[1]:
            raise ConfigError.of("renames", entries, f"Invalid rename mapping: {entry}")
        renames[parts[0]] = parts[1]
    return renames


class _Renames:
    def check(self, name: str, value: object) -> None:
        try:
            parse_renames(value if isinstance(value, list) else [])
        except ConfigError as error:
            raise ConfigValueError(name, value, str(error), whole=True) from None

    def __str__(self) -> str:
        return "old:new pairs"


class ReplaceField(PartTransformation):
    is_pure = True
    doc = "Drops fields, or keeps only some, and gives others another name."
    config_def = ConfigDef(
        listing("exclude", [], MEDIUM, "Fields to drop; counts before `include`."),
        listing("include", [], MEDIUM, "If given, only these fields stay."),
        listing("renames", [], MEDIUM, "Other names: old:new pairs.", _Renames()),
        REPLACE_NULL,
    )

    def setup(self, config: Mapping[str, Any]) -> None:
        self._exclude, self._include = set(config["exclude"]), set(config["include"])
        self._renames = parse_renames(config["renames"])
        self._old_names = {new: old for old, new in self._renames.items()}
        self._with_default = config["replace.null.with.default"]

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.of(record)
        if value is None:
            return record
        if schema is None:
            old_map = require_map(value, "field replacement")
            kept = {self._renames.get(name, name): each for name, each in old_map.items() if self._keeps(name)}
            return self.put(record, None, kept)
        old = require_struct(value, "field replacement")
        carried = self._carried.get(old.schema) or self.carried(old.schema, self._changed(old.schema))
        return self.put(record, carried.schema, Struct.of(carried.schema, carried.values(old)))

    def apply_columns(self, values: ValueColumns) -> ValueColumns | None:
        if self.part != "value":
            return None
        schema = values.schema
        carried = self._carried.get(schema) or self.carried(schema, self._changed(schema))
        kept = carried.columns(values.columns)
        return values.with_fields(carried.schema, kept) if kept else None

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _changed(self, schema: Schema) -> Carried:
        kept = (
            (self._renames.get(each.name, each.name), each.schema) for each in schema.fields if self._keeps(each.name)
        )
        made = struct(kept, **basics(schema))
        names = [self._old_names.get(field.name, field.name) for field in made.fields]
        return Carried(schema, made, names, with_default=self._with_default)


class ValueToKey(Transformation):
    is_pure = True
    doc = "Makes a new key of fields of the value."
    config_def = ConfigDef(
        listing("fields", REQUIRED, HIGH, "The fields of the value that make the key.", NonEmptyList()), REPLACE_NULL
    )

    def setup(self, config: Mapping[str, Any]) -> None:
        self._fields: list[str] = config["fields"]
        self._carried: dict[Schema, Carried] = {}
        self._with_default = config["replace.null.with.default"]

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        purpose = "copying fields from value to key"
        if record.value_schema is None:
            value = require_map(record.value, purpose)
            return record.replaced(key_schema=None, key={name: value.get(name) for name in self._fields})
        old = require_struct(record.value, purpose)
        carried = self._carry(old.schema)
        return record.replaced(key_schema=carried.schema, key=Struct.of(carried.schema, carried.values(old)))

    def apply_columns(self, values: ValueColumns) -> ValueColumns | None:
        """Values stay; keys are made with the records, if somebody looks at these."""
        return None if self._carry(values.schema).columns(values.columns) is None else values

    def _carry(self, of_value: Schema) -> Carried:
        carried = self._carried.get(of_value)
        if carried is None:
            schema = Schema(Type.STRUCT) if not self._fields else self._key_schema(of_value)
            carried = Carried(of_value, schema, self._fields, with_default=self._with_default)
            if len(self._carried) >= SCHEMAS_CACHED_MAX:
                self._carried.clear()
            self._carried[of_value] = carried
        return carried

    def _key_schema(self, schema: Schema) -> Schema:
        fields = []
        for name in self._fields:
            field = schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            fields.append((name, field.schema))
        return struct(fields)
