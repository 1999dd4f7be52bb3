"""Avro through a schema registry: byte for byte what confluent-kafka's AvroSerializer writes.

producer = Producer(..., value_serializer=AvroSerializer("http://localhost:8081", Order))     # a dataclass, or a
schema's text consumer = Consumer(..., value_deserializer=AvroDeserializer("http://localhost:8081", to=Order))
"""

from collections.abc import Callable, Mapping
from typing import Any

from headwater.client.schema_registry import models
from headwater.client.schema_registry.base import Headers, SchemaDeserializer, SchemaKey, SchemaSerializer, schema_key
from headwater.client.schema_registry.client import SchemaRegistryClient
from headwater.client.schema_registry.settings import SerdeSettings, registry_for
from headwater.schemas import ParsedSchema, SchemaType, StoredSchema
from headwater.schemas.avro import AvroSchema
from headwater.schemas.avro.decoding import compile_reader
from headwater.schemas.avro.encoding import compile_writer
from headwater.schemas.json_text import compact_json

Given = str | type | StoredSchema | None


def stored_avro(given: Given) -> StoredSchema | None:
    """A schema as text, as a class, or as it is."""
    if given is None or isinstance(given, StoredSchema):
        return given
    return StoredSchema(given if isinstance(given, str) else compact_json(models.avro_schema(given)), SchemaType.AVRO)


class AvroSerializer(SchemaSerializer):
    schema_type = SchemaType.AVRO

    def __init__(
        self,
        registry: SchemaRegistryClient | str | Mapping[str, Any],
        schema: Given = None,
        *,
        to_dict: Callable[[Any], Any] | None = None,
        conf: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """`schema` is text, a class, or a StoredSchema with references; none with `use.latest.version`. `to_dict` makes
        a dict of a value.
        """
        super().__init__(registry_for(registry), SerdeSettings.of(conf, settings))
        self._schema = stored_avro(schema)
        self._to_dict = to_dict or models.to_plain
        self._name = _avro(self.registry, self._schema).name if self._schema is not None else None
        self._writers: dict[SchemaKey, Callable[[Any], bytes]] = {}

    def serialize(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        if value is None:
            return None
        registered = self.schema_for(topic, self._schema, self._name)
        plain = self._to_dict(value)
        key = schema_key(registered.schema)
        write = self._writers.get(key)
        if write is None:
            write = self._writers[key] = _writer(_avro(self.registry, registered.schema))
        return self.framed(registered, write(plain), headers)


def _writer(schema: AvroSchema) -> Callable[[Any], bytes]:
    """A schema of bytes alone is written without a length, as Confluent's serializers do it."""
    if schema.root.kind == "bytes":
        return lambda value: (
            value if isinstance(value, bytes) else bytes(value) if not isinstance(value, str) else value.encode()
        )
    return compile_writer(schema.root)


def _reader(writer: AvroSchema, reader: AvroSchema | None) -> Callable[[bytes], Any]:
    if writer.root.kind == "bytes" and (reader is None or reader.root.kind == "bytes"):
        return lambda data: data
    return compile_reader(writer.root, None if reader is None else reader.root)


def _avro(registry: SchemaRegistryClient, schema: StoredSchema) -> AvroSchema:
    parsed: ParsedSchema = registry.parsed(schema)
    assert isinstance(parsed, AvroSchema), f"a schema of the type {parsed.schema_type}"
    return parsed


class AvroDeserializer(SchemaDeserializer):
    schema_type = SchemaType.AVRO

    def __init__(
        self,
        registry: SchemaRegistryClient | str | Mapping[str, Any],
        schema: Given = None,
        *,
        to: type | None = None,
        from_dict: Callable[[Any], Any] | None = None,
        conf: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """`schema` is the reader's; without one, values come as they were written. `to` is a class to make of them."""
        super().__init__(registry_for(registry), SerdeSettings.of(conf, settings))
        self._schema = stored_avro(schema if schema is not None else to)
        self._to = to
        self._from_dict = from_dict

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:
        if data is None:
            return None
        schema_id, payload = self.unframed(bytes(data), headers)
        reader = (
            self.registry.latest(self.settings.subject(topic, None)).schema
            if self.settings.use_latest_version
            else self._schema
        )
        key = (schema_id.id, schema_id.guid, topic, None if reader is None else schema_key(reader))
        read = self.compiled(key, lambda: self._compile(self.writer_schema(schema_id, topic), reader))
        value = read(payload)
        if self._from_dict is not None:
            return self._from_dict(value)
        return models.build(self._to, value) if self._to is not None else value

    def _compile(self, writer: StoredSchema, reader: StoredSchema | None) -> Callable[[bytes], Any]:
        return _reader(_avro(self.registry, writer), None if reader is None else _avro(self.registry, reader))
