"""A column of Avro records, each with the id of its schema before it, into typed Arrow columns; and typed columns into such records.

    batch = consumer.poll_arrow(1, schema=AvroColumns("http://localhost:8081", subject="visits-value"))

    producer.send_arrow(table, "visits", value="visit", encode={"value": AvroColumnSerializer("http://localhost:8081", Visit, subject="visits-value")})

Records of several versions side by side all come out in the reader's schema: the one that was given, the latest of a subject when it is first
needed, or else that of the first record. Null stays null. Owns what it has compiled; for one thread at a time.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.client.schema_registry.avro import Given, stored_avro
from headwater.client.schema_registry.client import SchemaRegistryClient
from headwater.client.schema_registry.settings import registry_for
from headwater.schemas import SchemaError, SchemaType, StoredSchema
from headwater.schemas.avro import AvroSchema
from headwater.schemas.columns import NoColumns, avro_columns, avro_rows, frame_ids
from headwater.schemas.framing import SchemaId
from headwater.schemas.model import DataError

if TYPE_CHECKING:
    import pyarrow as pa

_PREFIX_BYTES = 5
_Name = TypeVar("_Name", int, bytes)


class FramedColumns:
    """A function of a binary column, for `poll_arrow`; a row that cannot be decoded is a KafkaError. Rows go by the ids of their schemas."""

    format_name = ""

    def __call__(self, column: "pa.Array") -> "pa.Array":
        import pyarrow as pa
        import pyarrow.compute as pc

        ids = frame_ids(column)
        found = [each for each in pc.unique(ids).to_pylist() if each is not None]
        if -1 in found:
            row = pc.index(ids, -1).as_py()
            raise self.undecodable(f"row {row} does not begin with the id of a schema")
        if not found:
            return pa.nulls(len(column), self.known_type() or pa.null())
        return in_groups(column, ids, found, self.decode)

    def known_type(self) -> "pa.DataType | None":
        """The type of the columns, if it is known before a record has come."""
        raise NotImplementedError

    def decode(self, schema_id: int, column: "pa.Array") -> "pa.Array":
        """Rows of one schema, and nulls."""
        raise NotImplementedError

    def undecodable(self, why: str) -> KafkaError:
        return KafkaError(ErrorCode.INVALID_RECORD, f"A column cannot be decoded as {self.format_name}: {why}")


def in_groups(
    column: "pa.Array", names: "pa.Array", found: list[_Name], decode: "Callable[[_Name, pa.Array], pa.Array]"
) -> "pa.Array":
    """Rows with the same name together, and back in their order. Nulls go with the first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(found) == 1:
        return decode(found[0], column)
    order, parts = [], []
    for number, name in enumerate(found):
        places = pc.indices_nonzero(pc.fill_null(pc.equal(names, name), number == 0))
        order.append(places)
        parts.append(decode(name, column.take(places)))
    back = pc.sort_indices(pa.concat_arrays(order))
    return pa.concat_arrays(parts).take(back)


class AvroColumns(FramedColumns):
    format_name = "Avro"

    def __init__(
        self, registry: SchemaRegistryClient | str | Mapping[str, Any], schema: Given = None, *, subject: str = ""
    ) -> None:
        self.registry = registry_for(registry)
        self._reader = stored_avro(schema)
        self._subject = subject
        self._decoders: dict[int, Callable[[pa.Array, int], pa.Array]] = {}

    def known_type(self) -> "pa.DataType | None":
        from headwater.schemas.columns.arrow import arrow_type

        reader = self._known_reader()
        return None if reader is None else arrow_type(self._parsed(reader).root)

    def decode(self, schema_id: int, column: "pa.Array") -> "pa.Array":
        decode = self._decoders.get(schema_id)
        if decode is None:
            decode = self._decoders[schema_id] = self._compile(schema_id)
        try:
            return decode(column, _PREFIX_BYTES)
        except DataError as error:
            raise self.undecodable(str(error)) from error

    def _compile(self, schema_id: int) -> "Callable[[pa.Array, int], pa.Array]":
        writer = self.registry.schema_by_id(schema_id, self._subject or None)
        if writer.schema_type is not SchemaType.AVRO:
            raise self.undecodable(f"the schema {schema_id} is {writer.schema_type}, not Avro")
        reader = self._known_reader()
        if reader is None:
            reader = self._reader = writer
        try:
            return avro_columns(self._parsed(writer).root, self._parsed(reader).root)
        except NoColumns as error:
            raise UserError(
                "These records cannot be read as columns", str(error), "Read them one by one, with AvroDeserializer"
            ) from error
        except SchemaError as error:
            raise self.undecodable(f"what was written with the schema {schema_id} cannot be read: {error}") from error

    def _known_reader(self) -> StoredSchema | None:
        if self._reader is None and self._subject:
            self._reader = self.registry.version(self._subject).schema
        return self._reader

    def _parsed(self, schema: StoredSchema) -> AvroSchema:
        parsed = self.registry.parsed(schema)
        assert isinstance(parsed, AvroSchema)
        return parsed


class AvroColumnSerializer:
    """A function of a column (of structs, for a record), for `send_arrow`: Avro with the schema's id before each value. Null stays null.

    The schema is registered under the subject when the first column comes; without a schema, the subject's latest version is written.
    """

    def __init__(
        self,
        registry: SchemaRegistryClient | str | Mapping[str, Any],
        schema: Given = None,
        *,
        subject: str,
        auto_register_schemas: bool = True,
        normalize_schemas: bool = False,
    ) -> None:
        self.registry = registry_for(registry)
        self._given = stored_avro(schema)
        self._subject = subject
        self._auto_register = auto_register_schemas
        self._normalize = normalize_schemas
        self._prefix = b""
        self._encode: Callable[[pa.Array, bytes], pa.Array] | None = None

    def __call__(self, column: "pa.Array") -> "pa.Array":
        if self._encode is None:
            self._prepare()
        assert self._encode is not None
        try:
            return self._encode(column, self._prefix)
        except DataError as error:
            raise UserError("A column cannot be encoded as Avro", str(error)) from error

    def _prepare(self) -> None:
        if self._given is None:
            registered = self.registry.version(self._subject)
        else:
            ask = self.registry.register if self._auto_register else self.registry.lookup
            registered = ask(self._subject, self._given, normalize=self._normalize)
        parsed = self.registry.parsed(registered.schema)
        if not isinstance(parsed, AvroSchema):
            raise UserError(
                "A column cannot be encoded as Avro", f"the schema of {self._subject!r} is {parsed.schema_type}"
            )
        self._prefix = SchemaId(registered.id).prefix()
        try:
            self._encode = avro_rows(parsed.root)
        except NoColumns as error:
            raise UserError(
                "A column cannot be encoded as Avro", str(error), "Send records one by one, with AvroSerializer"
            ) from error
