"""Typed records through a schema registry: a client of Confluent's API, and serializers for Avro, JSON Schema and
Protobuf.

The bytes are those of Confluent's own serializers: each reads what the other wrote.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headwater.client.schema_registry.avro import AvroDeserializer as AvroDeserializer
    from headwater.client.schema_registry.avro import AvroSerializer as AvroSerializer
    from headwater.client.schema_registry.client import RegisteredSchema as RegisteredSchema
    from headwater.client.schema_registry.client import SchemaRegistryClient as SchemaRegistryClient
    from headwater.client.schema_registry.columns import AvroColumns as AvroColumns
    from headwater.client.schema_registry.columns import AvroColumnSerializer as AvroColumnSerializer
    from headwater.client.schema_registry.errors import SchemaRegistryError as SchemaRegistryError
    from headwater.client.schema_registry.json_schema import JsonSchemaDeserializer as JsonSchemaDeserializer
    from headwater.client.schema_registry.json_schema import JsonSchemaSerializer as JsonSchemaSerializer
    from headwater.client.schema_registry.models import DecimalDigits as DecimalDigits
    from headwater.client.schema_registry.protobuf import ProtobufDeserializer as ProtobufDeserializer
    from headwater.client.schema_registry.protobuf import ProtobufSerializer as ProtobufSerializer
    from headwater.client.schema_registry.protobuf_columns import ProtobufColumns as ProtobufColumns
    from headwater.client.schema_registry.protobuf_columns import ProtobufColumnSerializer as ProtobufColumnSerializer
    from headwater.client.schema_registry.registry_columns import RegistryColumns as RegistryColumns

_HOMES: Final = {
    "AvroColumnSerializer": "columns",
    "AvroColumns": "columns",
    "AvroDeserializer": "avro",
    "AvroSerializer": "avro",
    "DecimalDigits": "models",
    "JsonSchemaDeserializer": "json_schema",
    "JsonSchemaSerializer": "json_schema",
    "ProtobufColumnSerializer": "protobuf_columns",
    "ProtobufColumns": "protobuf_columns",
    "ProtobufDeserializer": "protobuf",
    "ProtobufSerializer": "protobuf",
    "RegisteredSchema": "client",
    "RegistryColumns": "registry_columns",
    "SchemaRegistryClient": "client",
    "SchemaRegistryError": "errors",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
