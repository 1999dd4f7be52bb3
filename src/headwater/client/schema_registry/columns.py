"""A column of Avro records, each with the id of its schema before it, into typed Arrow columns; and typed columns into
such records.

    batch = consumer.poll_arrow(1, schema=AvroColumns("http://localhost:8081", subject="visits-value"))

    serializer = AvroColumnSerializer("http://localhost:8081", Visit, subject="visits-value")
    producer.send_arrow(table, "visits", value="visit", encode={"value": serializer})

Records of several versions side by side all come out in the reader's schema: the one that was given, the latest of a
subject when it is first needed, or else that of the first record. Null stays null. Owns what it has compiled; for one
thread at a time.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headwater.base.errors import UserError
from headwater.client.schema_registry.avro import Given, stored_avro
from headwater.client.schema_registry.client import RegisteredSchema, SchemaRegistryClient
from headwater.client.schema_registry.framed_columns import PREFIX_BYTES, ColumnSerializer, Encode, ReaderColumns
from headwater.schemas import SchemaError, SchemaType
from headwater.schemas.avro import AvroSchema
from headwater.schemas.columns import NoColumns, avro_columns, avro_rows
from headwater.schemas.framing import SchemaId
from headwater.schemas.model import DataError

if TYPE_CHECKING:
    import pyarrow as pa


class AvroColumns(ReaderColumns):
    format_name = "Avro"
    schema_type = SchemaType.AVRO

    def __init__(
        self, registry: SchemaRegistryClient | str | Mapping[str, Any], schema: Given = None, *, subject: str = ""
    ) -> None:
        super().__init__(registry, stored_avro(schema), subject)
        self._decoders: dict[int, Callable[[pa.Array, int], pa.Array]] = {}

    def known_type(self) -> "pa.DataType | None":
        from headwater.schemas.columns.arrow import arrow_type

        reader = self.known_reader()
        return None if reader is None else arrow_type(self.parsed_as(AvroSchema, reader).root)

    def decode(self, schema_id: int, column: "pa.Array") -> "pa.Array":
        decode = self._decoders.get(schema_id)
        if decode is None:
            decode = self._decoders[schema_id] = self._compile(schema_id)
        try:
            return decode(column, PREFIX_BYTES)
        except DataError as error:
            raise self.undecodable(str(error)) from error

    def _compile(self, schema_id: int) -> "Callable[[pa.Array, int], pa.Array]":
        writer = self.written_with(schema_id)
        reader = self.reader_beside(writer)
        try:
            return avro_columns(self.parsed_as(AvroSchema, writer).root, self.parsed_as(AvroSchema, reader).root)
        except NoColumns as error:
            raise UserError(
                "These records cannot be read as columns", str(error), "Read them one by one, with AvroDeserializer"
            ) from error
        except SchemaError as error:
            raise self.undecodable(f"what was written with the schema {schema_id} cannot be read: {error}") from error


class AvroColumnSerializer(ColumnSerializer):
    """Of structs, for a record."""

    format_name = "Avro"

    def __init__(
        self,
        registry: SchemaRegistryClient | str | Mapping[str, Any],
        schema: Given = None,
        *,
        subject: str,
        auto_register_schemas: bool = True,
        normalize_schemas: bool = False,
    ) -> None:
        super().__init__(
            registry, stored_avro(schema), subject, auto_register=auto_register_schemas, normalize=normalize_schemas
        )

    def compile(self, registered: RegisteredSchema) -> tuple[Encode, bytes]:
        parsed = self.parsed_as(AvroSchema, registered.schema)
        try:
            return avro_rows(parsed.root), SchemaId(registered.id).prefix()
        except NoColumns as error:
            raise self.unencodable(str(error), "Send records one by one, with AvroSerializer") from error
