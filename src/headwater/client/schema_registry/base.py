"""What the serializers of all three formats share: which schema a value is written with, where its id goes, and the way
back.

A serializer or deserializer owns what it has compiled; it may be used by many threads, which at worst compile the same
twice.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from headwater.base.errors import UserError
from headwater.client.schema_registry.client import RegisteredSchema, SchemaRegistryClient
from headwater.client.schema_registry.settings import SerdeSettings
from headwater.schemas import Reference, SchemaError, SchemaType, StoredSchema
from headwater.schemas.framing import KEY_HEADER, VALUE_HEADER, SchemaId, read_schema_id
from headwater.schemas.model import DataError

Headers = Any  # a list, to which a serializer may append; tuples come from consumers
SchemaKey = tuple[str, tuple[Reference, ...]]
_COMPILED_MAX: Final = 1_000


def schema_key(schema: StoredSchema) -> SchemaKey:
    """What stands for a schema among those that were compiled: the same text means something else with other
    references.
    """
    return schema.text, schema.references


class SchemaSerializer:
    """Finds or registers the schema of a value, and frames what was encoded."""

    schema_type: SchemaType

    def __init__(self, registry: SchemaRegistryClient, settings: SerdeSettings) -> None:
        self.registry = registry
        self.settings = settings
        self._registered: dict[str, RegisteredSchema] = {}

    def schema_for(self, topic: str, schema: StoredSchema | None, record_name: str | None) -> RegisteredSchema:
        """The schema that a value is written with: one given by id, the latest of the subject, or our own,
        registered.
        """
        settings = self.settings
        if settings.use_schema_id is not None:
            return RegisteredSchema(settings.use_schema_id, self.registry.schema_by_id(settings.use_schema_id))
        subject = settings.subject(topic, record_name)
        if settings.use_latest_version:
            return self.registry.latest(subject)
        if schema is None:
            raise UserError(
                f"A value for {topic!r} cannot be serialized",
                "no schema was given",
                "Give the serializer a schema, or set use.latest.version",
            )
        found = self._registered.get(subject)
        if found is None:
            ask = self.registry.register if settings.auto_register_schemas else self.registry.lookup
            found = ask(subject, schema, normalize=settings.normalize_schemas)
            if len(self._registered) >= _COMPILED_MAX:
                self._registered.clear()
            self._registered[subject] = found
        return found

    def framed(self, schema: RegisteredSchema, data: bytes, headers: Headers, indexes: tuple[int, ...] = ()) -> bytes:
        if self.settings.schema_id_location == "prefix":
            return SchemaId(schema.id, None, indexes).prefix() + data
        if schema.guid is None:
            raise UserError(
                "A schema's id cannot be written to a header",
                "this registry gives schemas no guid",
                "Use schema.id.location=prefix",
            )
        if not isinstance(headers, list):
            raise UserError("A schema's id cannot be written to a header", "this record's headers cannot be added to")
        headers.append(
            (KEY_HEADER if self.settings.is_key else VALUE_HEADER, SchemaId(None, schema.guid, indexes).header())
        )
        return data


class SchemaDeserializer:
    """Reads the frame, and finds the schema that a value was written with."""

    schema_type: SchemaType

    def __init__(self, registry: SchemaRegistryClient, settings: SerdeSettings) -> None:
        self.registry = registry
        self.settings = settings
        self._compiled: dict[Any, Any] = {}

    def unframed(self, data: bytes, headers: Headers) -> tuple[SchemaId, bytes]:
        """The header first, then the payload: as Confluent's deserializers look."""
        protobuf = self.schema_type is SchemaType.PROTOBUF
        name = KEY_HEADER if self.settings.is_key else VALUE_HEADER
        for header, value in headers.items() if isinstance(headers, Mapping) else headers or ():
            if header == name and value is not None:
                return read_schema_id(bytes(value), protobuf=protobuf)[0], data
        schema_id, position = read_schema_id(data, protobuf=protobuf)
        return schema_id, data[position:]

    def writer_schema(self, schema_id: SchemaId, topic: str, *, serialized: bool = False) -> StoredSchema:
        if schema_id.guid is not None:
            found = self.registry.schema_by_guid(schema_id.guid, serialized=serialized)
        else:
            assert schema_id.id is not None
            subject = None if self.settings.subject_name_strategy_needs_record() else self.settings.subject(topic, None)
            found = self.registry.schema_by_id(schema_id.id, subject, serialized=serialized)
        if found.schema_type is not self.schema_type:
            raise DataError(
                f"the record was written with a schema of the type {found.schema_type}, not {self.schema_type}"
            )
        return found

    def compiled(self, key: Any, make: Callable[[], Any]) -> Any:
        found = self._compiled.get(key)
        if found is None:
            try:
                found = make()
            except SchemaError as error:
                raise DataError(str(error)) from error
            if len(self._compiled) >= _COMPILED_MAX:
                self._compiled.clear()
            self._compiled[key] = found
        return found
