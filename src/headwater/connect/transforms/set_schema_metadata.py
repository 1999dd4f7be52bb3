"""SetSchemaMetadata: another name or version for the schema of a key or value."""

from collections.abc import Mapping
from typing import Any

from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, REPLACE_NULL, text, whole
from headwater.connect.data.record import ConnectRecord
from headwater.connect.data.runs import ValueColumns
from headwater.connect.data.schema import LOGICAL_NAMES, Schema
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError, DataError
from headwater.connect.transforms.base import PartTransformation, field_value


class SetSchemaMetadata(PartTransformation):
    is_pure = True
    doc = "Sets the name, the version, or both, of the schema of the key or value."
    config_def = ConfigDef(
        text("schema.name", None, HIGH, "The name."), whole("schema.version", None, HIGH, "The version."), REPLACE_NULL
    )

    def setup(self, config: Mapping[str, Any]) -> None:
        self._name, self._version = config["schema.name"], config["schema.version"]
        self._with_default = config["replace.null.with.default"]
        if self._name is None and self._version is None:
            raise ConfigError("Neither schema name nor version configured")

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.of(record)
        if schema is None:
            if value is None:
                return record
            raise DataError("Schema required for [updating schema metadata]")
        changed = self._changed(schema)
        if not isinstance(value, Struct):
            return self.put(record, changed, value)
        new = Struct(changed)
        for field in changed.fields:
            new.put(field.name, field_value(value, field, self._with_default))
        return self.put(record, changed, new)

    def apply_columns(self, values: ValueColumns) -> ValueColumns | None:
        changed = self._changed(values.schema)
        if self.part != "value" or changed.name in LOGICAL_NAMES:
            return None
        for field, column in zip(changed.fields, values.columns, strict=True):
            if column.null_count and field.schema.default is not None:
                return None
        return values.with_fields(changed, values.columns)

    def _changed(self, schema: Schema) -> Schema:
        return schema.changed(
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
        )
