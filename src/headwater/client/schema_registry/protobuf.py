"""Protobuf through a schema registry: what confluent-kafka's ProtobufSerializer writes. Needs the extra `protobuf`.

ProtobufSerializer("http://localhost:8081", Order)         # Order: a class that protoc generated
ProtobufDeserializer("http://localhost:8081", Order)       # without a class, one is made of the writer's schema
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

from headwater.base.errors import UserError
from headwater.client.schema_registry.base import Headers, SchemaDeserializer, SchemaSerializer
from headwater.client.schema_registry.client import SchemaRegistryClient
from headwater.client.schema_registry.settings import SerdeSettings, registry_for
from headwater.schemas import Reference, SchemaType, StoredSchema
from headwater.schemas.model import DataError
from headwater.schemas.protobuf.wellknown import TEXTS

_FIRST: Final = (0,)


def _is_well_known(path: str) -> bool:
    return path in TEXTS or path.startswith(("google/protobuf/", "google/type/", "confluent/"))


def message_indexes(descriptor: Any) -> tuple[int, ...]:
    """The way to a message in its file: its place among the outermost messages, then within each."""
    indexes: list[int] = []
    current = descriptor
    while current.containing_type is not None:
        indexes.insert(0, [each.name for each in current.containing_type.nested_types].index(current.name))
        current = current.containing_type
    return (list(descriptor.file.message_types_by_name).index(current.name), *indexes)


class ProtobufSerializer(SchemaSerializer):
    schema_type = SchemaType.PROTOBUF

    def __init__(
        self,
        registry: SchemaRegistryClient | str | Mapping[str, Any],
        message_class: Any,
        *,
        conf: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(registry_for(registry), SerdeSettings.of(conf, settings))
        if not hasattr(message_class, "DESCRIPTOR"):
            raise UserError(
                f"{message_class!r} is not a class of Protobuf messages", "", "Give a class that protoc generated"
            )
        self._class = message_class
        self._indexes = message_indexes(message_class.DESCRIPTOR)
        self._schema: StoredSchema | None = None

    def serialize(self, topic: str, value: Any, headers: Headers = ()) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, self._class):
            raise TypeError(f"a {self._class.DESCRIPTOR.full_name} is wanted, not {type(value).__name__}")
        schema = None
        if not self.settings.use_latest_version and self.settings.use_schema_id is None:
            if self._schema is None:
                self._schema = self._with_references(self._class.DESCRIPTOR.file)
            schema = self._schema
        registered = self.schema_for(topic, schema, self._class.DESCRIPTOR.full_name)
        return self.framed(registered, value.SerializeToString(), headers, self._indexes)

    def _with_references(self, file: Any) -> StoredSchema:
        """A file as a descriptor, and what it imports registered (or found) under its path."""
        references = []
        for each in file.dependencies:
            if _is_well_known(each.name):
                continue
            inner = self._with_references(each)
            if self.settings.auto_register_schemas:
                self.registry.register(each.name, inner, normalize=self.settings.normalize_schemas)
            found = self.registry.lookup(each.name, inner, normalize=self.settings.normalize_schemas)
            references.append(Reference(each.name, each.name, found.version))
        return StoredSchema(base64.b64encode(file.serialized_pb).decode(), SchemaType.PROTOBUF, tuple(references))


class ProtobufDeserializer(SchemaDeserializer):
    schema_type = SchemaType.PROTOBUF

    def __init__(
        self,
        registry: SchemaRegistryClient | str | Mapping[str, Any],
        message_class: Any = None,
        *,
        conf: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(registry_for(registry), SerdeSettings.of(conf, settings))
        self._class = message_class

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = ()) -> Any:
        if data is None:
            return None
        schema_id, payload = self.unframed(bytes(data), headers)
        message_class = self._class
        if message_class is None:
            key = (schema_id.id, schema_id.guid, topic, schema_id.message_indexes)
            message_class = self.compiled(
                key, lambda: self._made(self._writer(schema_id, topic), schema_id.message_indexes)
            )
        message = message_class()
        try:
            message.ParseFromString(payload)
        except Exception as error:
            raise DataError(f"the record is not a {message.DESCRIPTOR.full_name}: {error}") from error
        return message

    def _writer(self, schema_id: Any, topic: str) -> StoredSchema:
        return self.writer_schema(schema_id, topic, serialized=True)

    def _made(self, schema: StoredSchema, indexes: tuple[int, ...]) -> Any:
        """A class for the writer's message, from the descriptors that the registry gives."""
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
        except ImportError as error:
            raise UserError(
                "Protobuf messages cannot be read", str(error), "pip install 'headwater[protobuf]'"
            ) from error
        pool = descriptor_pool.DescriptorPool()
        name = self._add(schema, "default.proto", pool, descriptor_pb2)
        try:
            descriptor = list(pool.FindFileByName(name).message_types_by_name.values())[indexes[0]]
            for index in indexes[1:]:
                descriptor = descriptor.nested_types[index]
        except IndexError as error:
            raise DataError(f"the schema has no message at {'.'.join(map(str, indexes))}") from error
        return message_factory.GetMessageClass(descriptor)

    def _add(self, schema: StoredSchema, name: str, pool: Any, descriptor_pb2: Any) -> str:
        file = descriptor_pb2.FileDescriptorProto.FromString(self._descriptor(schema, name))
        file.name = name
        for reference in schema.references:
            found = self.registry.version(reference.subject, reference.version, deleted=True).schema
            self._add(found, reference.name, pool, descriptor_pb2)
        for path in file.dependency:
            if _is_well_known(path):
                _add_well_known(path, pool, descriptor_pb2)
        pool.Add(file)
        return name

    def _descriptor(self, schema: StoredSchema, name: str) -> bytes:
        from headwater.schemas.protobuf import ProtobufSchema

        parsed = self.registry.parsed(schema)
        assert isinstance(parsed, ProtobufSchema)
        return parsed.descriptor(name)


def _add_well_known(path: str, pool: Any, descriptor_pb2: Any) -> None:
    """A file that everyone has: google.protobuf's own where it is loaded, else what its public definition says."""
    from headwater.schemas import parse
    from headwater.schemas.protobuf import ProtobufSchema

    try:
        pool.FindFileByName(path)
    except KeyError:
        pass
    else:
        return
    text = TEXTS.get(path)
    if text is None:
        raise DataError(f"the schema imports {path!r}, which is not known here")
    parsed = parse(SchemaType.PROTOBUF, text)
    assert isinstance(parsed, ProtobufSchema)
    file = descriptor_pb2.FileDescriptorProto.FromString(parsed.descriptor(path))
    for inner in file.dependency:
        _add_well_known(inner, pool, descriptor_pb2)
    pool.Add(file)
