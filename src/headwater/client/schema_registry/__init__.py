"""Typed records through a schema registry: a client of Confluent's API, and serializers for Avro, JSON Schema and
Protobuf.

The bytes are those of Confluent's own serializers: each reads what the other wrote.
"""

from typing import TYPE_CHECKING

from headwater.base.lazy import lazy_names

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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "headwater.client.schema_registry.avro": (
            "AvroDeserializer",
            "AvroSerializer",
        ),
        "headwater.client.schema_registry.client": (
            "RegisteredSchema",
            "SchemaRegistryClient",
        ),
        "headwater.client.schema_registry.columns": (
            "AvroColumnSerializer",
            "AvroColumns",
        ),
        "headwater.client.schema_registry.errors": ("SchemaRegistryError",),
        "headwater.client.schema_registry.json_schema": (
            "JsonSchemaDeserializer",
            "JsonSchemaSerializer",
        ),
        "headwater.client.schema_registry.models": ("DecimalDigits",),
        "headwater.client.schema_registry.protobuf": (
            "ProtobufDeserializer",
            "ProtobufSerializer",
        ),
        "headwater.client.schema_registry.protobuf_columns": (
            "ProtobufColumnSerializer",
            "ProtobufColumns",
        ),
        "headwater.client.schema_registry.registry_columns": ("RegistryColumns",),
    },
)
