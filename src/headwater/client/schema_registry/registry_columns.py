"""A column of records of whatever format their schemas have: Avro, Protobuf or JSON, as the registry says.

    table = headwater.read("visits", schema_registry="http://localhost:8081").to_arrow()

The format is that of the subject's latest version, or of the first record where no subject is named. All records of a
column have one format. Owns what it has compiled; for one thread at a time.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headwater.base.errors import KafkaError
from headwater.client.schema_registry.client import SchemaRegistryClient
from headwater.client.schema_registry.columns import AvroColumns
from headwater.client.schema_registry.errors import SchemaRegistryError
from headwater.client.schema_registry.framed_columns import PREFIX_BYTES, FramedColumns
from headwater.client.schema_registry.settings import registry_for
from headwater.schemas import SchemaType

if TYPE_CHECKING:
    import pyarrow as pa

_NOT_FOUND = 404
_TRIED_FIELDS_MAX = 100  # one by one; of more, none keeps its type


class RegistryColumns(FramedColumns):
    format_name = "what its schema says"

    def __init__(self, registry: SchemaRegistryClient | str | Mapping[str, Any], *, subject: str = "") -> None:
        self.registry = registry_for(registry)
        self._subject = subject
        self._columns: FramedColumns | None = None

    def __call__(self, column: "pa.Array") -> "pa.Array":
        if self._columns is None and self._subject:
            self._columns = self._made(self.registry.version(self._subject).schema.schema_type)
        return super().__call__(column) if self._columns is None else self._columns(column)

    def known_type(self) -> "pa.DataType | None":
        return None if self._columns is None else self._columns.known_type()

    def decode(self, schema_id: int, column: "pa.Array") -> "pa.Array":
        if self._columns is None:
            self._columns = self._made(self.registry.schema_by_id(schema_id).schema_type)
        return self._columns.decode(schema_id, column)

    def _made(self, schema_type: SchemaType) -> FramedColumns:
        if schema_type is SchemaType.AVRO:
            return AvroColumns(self.registry, subject=self._subject)
        if schema_type is SchemaType.PROTOBUF:
            from headwater.client.schema_registry.protobuf_columns import ProtobufColumns

            return ProtobufColumns(self.registry, subject=self._subject)
        return _JsonColumns(self.registry, self._subject)


class _JsonColumns(FramedColumns):
    """Behind their ids, values of JSON: the types are those of the subject's latest schema, or of the first record's.
    What the schema leaves open is typed by what the values look like. So are, in one call, fields with a value that is
    none of the type: 1.0 is an integer to a JSON Schema, 2**63 too, and records of other versions may have another
    type.
    """

    format_name = "JSON"

    def __init__(self, registry: SchemaRegistryClient, subject: str) -> None:
        self.registry = registry
        self._subject = subject
        self._types: pa.Schema | None = None
        self._is_typed = False

    def _typed(self, schema_id: int) -> None:
        from headwater.schemas.columns.json_types import json_arrow_schema

        if not self._is_typed:
            registry = self.registry
            schema = registry.version(self._subject).schema if self._subject else registry.schema_by_id(schema_id)
            self._types, self._is_typed = json_arrow_schema(schema.text), True

    def __call__(self, column: "pa.Array") -> "pa.Array":
        import pyarrow as pa
        import pyarrow.compute as pc

        from headwater.schemas.columns import frame_ids

        ids = frame_ids(column)
        for schema_id in pc.unique(ids.drop_null()).to_pylist():
            if schema_id < 0:
                raise self.undecodable(f"row {pc.index(ids, -1).as_py()} does not begin with the id of a schema")
            found = self.registry.schema_by_id(schema_id).schema_type
            if found is not SchemaType.JSON:
                raise self.undecodable(f"the schema {schema_id} is {found}, not JSON")
            self._typed(schema_id)
        rows = [None if data is None else data[PREFIX_BYTES:] for data in column.to_pylist()]
        return _typed_json(pa.array(rows, pa.binary()), self._types)

    def known_type(self) -> "pa.DataType | None":
        return None

    def decode(self, schema_id: int, column: "pa.Array") -> "pa.Array":
        del schema_id
        return self(column)


def _typed_json(rows: "pa.Array", types: "pa.Schema | None") -> "pa.Array":
    """In these types, without those of the fields that have a value of another."""
    import pyarrow as pa

    from headwater.client.consumer.arrow import decode_json

    try:
        return decode_json(rows, types)
    except KafkaError:
        if types is None:
            raise
    held = [each for each in types if _has_type(rows, each)] if len(types) <= _TRIED_FIELDS_MAX else []
    found = decode_json(rows, pa.schema(held) if held else None)
    names = [each.name for each in found.type]
    ordered = [*(name for name in types.names if name in names), *(name for name in names if name not in types.names)]
    return pa.StructArray.from_arrays([found.field(name) for name in ordered], ordered, mask=found.is_null())


def _has_type(rows: "pa.Array", field: "pa.Field") -> bool:
    import pyarrow as pa

    from headwater.client.consumer.arrow import Json, decode_column

    try:
        decode_column(rows, Json(pa.schema([field])))
    except KafkaError:
        return False
    return True


def columns_of_topic(
    registry: SchemaRegistryClient | str | Mapping[str, Any], topic: str
) -> dict[str, RegistryColumns]:
    """For the key and the value of a topic, as far as it has subjects in the registry."""
    client = registry_for(registry)
    made = {}
    for side in ("key", "value"):
        subject = f"{topic}-{side}"
        try:
            client.version(subject)
        except SchemaRegistryError as error:
            if error.status != _NOT_FOUND:
                raise
            continue
        made[side] = RegistryColumns(client, subject=subject)
    return made
