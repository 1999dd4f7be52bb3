"""Filter, SetSchemaMetadata, RegexRouter and TimestampRouter."""

from collections.abc import Mapping
from typing import Any

from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import HIGH, REPLACE_NULL, REQUIRED, Pattern, text, whole
from headwater.connect.data.logical import millis_to_timestamp
from headwater.connect.data.record import ConnectRecord
from headwater.connect.data.runs import ValueColumns
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError, DataError
from headwater.connect.java_regex import compile_java, expand
from headwater.connect.transforms.base import PartTransformation, Transformation, field_value
from headwater.connect.transforms.date_format import DateFormat


class Filter(Transformation):
    is_pure = True
    doc = "Drops every record. With a predicate: every record that it is true for."

    def apply(self, record: ConnectRecord) -> None:
        del record

    def apply_columns(self, values: ValueColumns) -> ValueColumns:
        return values._replace(columns=[each.slice(0, 0) for each in values.columns])


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
        changed = schema.changed(
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
        )
        if not isinstance(value, Struct):
            return self.put(record, changed, value)
        new = Struct(changed)
        for field in changed.fields:
            new.put(field.name, field_value(value, field, self._with_default))
        return self.put(record, changed, new)


class RegexRouter(Transformation):
    is_pure = True
    doc = "Sends records to another topic: where the pattern matches all of the topic's name, its first match is replaced."
    config_def = ConfigDef(
        text("regex", REQUIRED, HIGH, "The pattern.", Pattern()),
        text("replacement", REQUIRED, HIGH, "What stands there instead; `$1` is the pattern's first group."),
    )

    def setup(self, config: Mapping[str, Any]) -> None:
        self._pattern, self._replacement = compile_java(config["regex"]), config["replacement"]

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        topic = record.topic
        if self._pattern.fullmatch(topic) is None:
            return record
        found = self._pattern.search(topic)
        return record.replaced(topic=topic[: found.start()] + expand(found, self._replacement) + topic[found.end() :])


class TimestampRouter(Transformation):
    is_pure = True
    doc = "Sends records to a topic with their timestamp in its name."
    config_def = ConfigDef(
        text("topic.format", "${topic}-${timestamp}", HIGH, "The name, with `${topic}` and `${timestamp}` in it."),
        text(
            "timestamp.format",
            "yyyyMMdd",
            HIGH,
            "The timestamp's format, in the letters of Java's SimpleDateFormat; UTC.",
        ),
    )

    def setup(self, config: Mapping[str, Any]) -> None:
        self._topic, self._format = config["topic.format"], DateFormat(config["timestamp.format"])

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        if record.timestamp_ms is None:
            raise DataError("Timestamp missing on record")
        stamp = self._format.format(millis_to_timestamp(record.timestamp_ms))
        topic = self._topic.replace("${topic}", record.topic)
        return record.replaced(topic=topic.replace("${timestamp}", stamp))
