"""ToLogicalTopicRouter: changes of several tables, in Debezium's envelope, into one topic.

Schemas are named after the new topic, so that rows of all those tables have the same ones; a key gets a field that says
which table it is of, for keys of different tables may be equal. ByLogicalTableRouter is its earlier name, which calls
that field otherwise.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from headwater.base.config.validators import OneOf
from headwater.connect.config.definition import ConfigDef
from headwater.connect.config.keys import LOW, REQUIRED, NonEmptyText, Pattern, flag, text, whole
from headwater.connect.data import schema as s
from headwater.connect.data.record import ConnectRecord
from headwater.connect.data.schema import Schema
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError
from headwater.connect.java_regex import compile_java, expand
from headwater.connect.transforms.base import SCHEMAS_CACHED_MAX, Transformation, require_struct

_PURPOSE: Final = "Updating schema"
_ROWS: Final = ("before", "after")
_NOT_AVROS: Final = re.compile(r"[^A-Za-z0-9_.]")


def _config_def(key_field: str) -> ConfigDef:
    return ConfigDef(
        text("topic.regex", REQUIRED, LOW, "A pattern of the topics that are routed, all of their names.", Pattern()),
        text("topic.replacement", REQUIRED, LOW, "The topic that they go to; `$1` is the pattern's first group.", NonEmptyText()),
        flag("key.enforce.uniqueness", True, LOW, "Whether keys get a field that says where they come from."),
        text("key.field.name", key_field, LOW, "The name of this field."),
        text("key.field.regex", None, LOW, "A pattern of the topic, all of its name, by which its value is made; it is the topic if there is none.", Pattern()),
        text("key.field.replacement", None, LOW, "What it is made of."),
        text("schema.name.adjustment.mode", "none", LOW, "avro: characters that Avro's names cannot have become underscores in the schemas' names.", OneOf("none", "avro", ignore_case=True)),
        whole("logical.destination.cache.size", 16, LOW, "Taken and not needed: as many schemas are kept as other transforms keep."),
    )  # fmt: skip


class ToLogicalTopicRouter(Transformation):
    is_pure = True
    doc = "Changes of several tables, in Debezium's envelope, into one topic."
    config_def = _config_def("__dbz__sourceIdentifier")

    def setup(self, config: Mapping[str, Any]) -> None:
        self._topics, self._topic = compile_java(config["topic.regex"]), config["topic.replacement"]
        given = (config["key.field.regex"] or "").strip()
        if given and not (config["key.field.replacement"] or "").strip():
            raise ConfigError("key.field.replacement must be non-empty if key.field.regex is set.", name="key.field.replacement")  # fmt: skip
        self._sources, self._source = compile_java(given) if given else None, config["key.field.replacement"]
        self._key_field = config["key.field.name"] if config["key.enforce.uniqueness"] else None
        self._for_avro = config["schema.name.adjustment.mode"].lower() == "avro"
        self._schemas: dict[tuple[Schema, str], Schema] = {}

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        found = self._topics.fullmatch(record.topic)
        topic = expand(found, self._topic) if found is not None else ""
        if not topic:
            return record
        changes: dict[str, Any] = {"topic": topic, "key_schema": None}
        if record.key is not None:
            key = self._key(require_struct(record.key, _PURPOSE), record.topic, topic)
            changes |= {"key_schema": key.schema, "key": key}
        schema = record.value_schema
        if record.value is not None and schema is not None and (schema.name or "").endswith(".Envelope"):
            value = self._envelope(require_struct(record.value, _PURPOSE), topic)
            changes |= {"value_schema": value.schema, "value": value}
        return record.replaced(**changes)

    def _key(self, old: Struct, source: str, topic: str) -> Struct:
        more = () if self._key_field is None else ((self._key_field, s.STRING),)
        made = _copied(old, self._named(old.schema, f"{topic}.Key", more))
        if self._key_field is not None:
            found = self._sources.fullmatch(source) if self._sources is not None else None
            made.put(self._key_field, source if found is None else expand(found, self._source))
        return made

    def _envelope(self, old: Struct, topic: str) -> Struct:
        row = next((field.schema for name in _ROWS if (field := old.schema.field(name)) is not None), None)
        named = None if row is None else self._named(row, f"{topic}.Value")
        made = Struct(self._enveloping(old.schema, named, f"{topic}.Envelope"))
        for field in old.schema.fields:
            value = old.get(field.name)
            if named is not None and field.name in _ROWS and value is not None:
                value = _copied(value, named)
            made.put(field.name, value)
        return made

    def _enveloping(self, schema: Schema, row: Schema | None, name: str) -> Schema:
        found = self._schemas.get((schema, name))
        if found is None:
            fields = [(each.name, row if row is not None and each.name in _ROWS else each.schema) for each in schema.fields]  # fmt: skip
            found = self._kept(schema, name, s.struct(fields, **self._of(schema, name)))
        return found

    def _named(self, schema: Schema, name: str, more: tuple[tuple[str, Schema], ...] = ()) -> Schema:
        found = self._schemas.get((schema, name))
        if found is None:
            fields = [*((each.name, each.schema) for each in schema.fields), *more]
            found = self._kept(schema, name, s.struct(fields, **self._of(schema, name)))
        return found

    def _of(self, schema: Schema, name: str) -> dict[str, Any]:
        adjusted = _NOT_AVROS.sub("_", name) if self._for_avro else name
        if self._for_avro and adjusted[:1].isdigit():
            adjusted = f"_{adjusted}"
        return {"name": adjusted, "optional": schema.optional, "version": schema.version, "doc": schema.doc, "parameters": schema.parameters}  # fmt: skip

    def _kept(self, schema: Schema, name: str, made: Schema) -> Schema:
        if len(self._schemas) >= SCHEMAS_CACHED_MAX:
            self._schemas.clear()
        self._schemas[schema, name] = made
        return made


class ByLogicalTableRouter(ToLogicalTopicRouter):
    is_pure = True
    config_def = _config_def("__dbz__physicalTableIdentifier")


def _copied(old: Struct, schema: Schema) -> Struct:
    made = Struct(schema)
    for field in old.schema.fields:
        made.put(field.name, old.get_without_default(field.name))
    return made
