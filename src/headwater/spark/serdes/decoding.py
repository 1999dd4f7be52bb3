"""A batch of records with bytes into one with typed columns; rows that do not decode are told with a reason and left
out.

Pure but for the registry, which is asked once for each schema that a record names. What cannot be asked of it is an
error of the task, and no fault of a record. Neither is a version of the subject that the query's schema cannot read: it
would hold for all records to come, so the query ends (`SchemaEvolved`) whatever is to become of bad records.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from headwater.base.errors import UserError
from headwater.client.schema_registry import RegisteredSchema, SchemaRegistryError
from headwater.schemas import ParsedSchema, SchemaError, StoredSchema, incompatibilities
from headwater.schemas.columns import avro_columns, frame_ids
from headwater.schemas.model import DataError
from headwater.spark.serdes.json_types import json_spark_type, unreadable
from headwater.spark.serdes.json_values import json_value
from headwater.spark.serdes.source_plan import TypedColumn

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.schemas.avro.types import AvroType

_PREFIX_BYTES: Final = 5
_NOT_FOUND: Final = 404
Decode = Callable[["pa.Array"], "pa.Array"]
Reasons = dict[int, str]  # of rows that do not decode, by their number


class SchemaEvolved(UserError):
    """The subject has a version that the query's schema cannot read."""


class AskedRegistry(Protocol):
    """What is asked of a registry."""

    def schema_by_id(self, schema_id: int, subject: str | None = None) -> StoredSchema: ...
    def lookup(self, subject: str, schema: StoredSchema, *, deleted: bool = False) -> RegisteredSchema: ...
    def parsed(self, schema: StoredSchema) -> ParsedSchema: ...


class BadRecord(NamedTuple):
    row: int
    column: str
    reason: str


class ColumnDecoder(Protocol):
    def __call__(self, column: "pa.Array") -> "tuple[pa.Array, Reasons]":
        """An array of as many rows, null where one does not decode, and why it does not."""


class Writers:
    """The schemas that records were written with, as the registry tells them."""

    def __init__(self, column: TypedColumn, registry: AskedRegistry) -> None:
        self._column = column
        self._registry = registry

    def schema(self, schema_id: int) -> StoredSchema | str:
        """Or why a record that names it does not decode."""
        if schema_id < 0:
            return "it does not begin with the id of a schema"
        try:
            found = self._registry.schema_by_id(schema_id, self._column.format.subject or None)
        except SchemaRegistryError as error:
            if error.status != _NOT_FOUND:
                raise
            return f"the registry knows no schema {schema_id}"
        wanted = self._column.schema.schema_type
        return found if found.schema_type is wanted else f"the schema {schema_id} is {found.schema_type}, not {wanted}"

    def cannot_be_read(self, schema_id: int, writer: StoredSchema, why: str) -> str:
        """Raises SchemaEvolved, unless it is a schema of something else: that is a fault of the record that names
        it.
        """
        subject = self._column.format.subject
        try:
            if subject:
                version = self._registry.lookup(subject, writer, deleted=True).version
                raise evolved(self._column, f"version {version} of {subject!r} (id {schema_id})", why)
        except SchemaRegistryError as error:
            if error.status != _NOT_FOUND:
                raise
        return f"its schema {schema_id} cannot be read with {self._column.called}: {why}"


class AvroDecoder:
    """Owns the programs that it has compiled, by the id of the writer's schema; for one thread at a time."""

    def __init__(self, column: TypedColumn, of_type: "pa.DataType", registry: AskedRegistry) -> None:
        self._column = column
        self._type = of_type
        self._registry = registry
        self._writers = Writers(column, registry)
        self._compiled: dict[int, Decode | str] = {}  # or why there is none

    def __call__(self, column: "pa.Array") -> "tuple[pa.Array, Reasons]":
        import pyarrow as pa
        import pyarrow.compute as pc

        ids = frame_ids(column)
        found = [each for each in pc.unique(ids).to_pylist() if each is not None]
        if not found:
            return pa.nulls(len(column), self._type), {}
        if len(found) == 1 and not column.null_count:
            return self._one_schema(found[0], column)
        reasons: Reasons = {}
        order = [pc.indices_nonzero(pc.is_null(ids))]
        parts = [pa.nulls(len(order[0]), self._type)]
        for schema_id in found:
            places = pc.indices_nonzero(pc.fill_null(pc.equal(ids, schema_id), False))
            decoded, bad = self._one_schema(schema_id, column.take(places))
            reasons |= {places[row].as_py(): why for row, why in bad.items()}
            order.append(places)
            parts.append(decoded)
        back = pc.sort_indices(pa.concat_arrays(order))
        return pa.concat_arrays(parts).take(back), reasons

    def _one_schema(self, schema_id: int, column: "pa.Array") -> "tuple[pa.Array, Reasons]":
        import pyarrow as pa

        decode = self._compiled.get(schema_id)
        if decode is None:
            decode = self._compiled[schema_id] = self._compile(schema_id)
        if isinstance(decode, str):
            return pa.nulls(len(column), self._type), dict.fromkeys(range(len(column)), decode)
        return salvage(decode, column, self._type)

    def _compile(self, schema_id: int) -> Decode | str:
        writer = self._writers.schema(schema_id)
        if isinstance(writer, str):
            return writer
        try:
            decode = avro_columns(_root(self._registry, writer), _root(self._registry, self._column.schema))
        except SchemaError as error:
            return self._writers.cannot_be_read(schema_id, writer, str(error))
        return lambda column: fitting(decode(column, _PREFIX_BYTES), self._type)


class ProtobufDecoder(AvroDecoder):
    """The same for messages: behind the id stands the path to the message, mostly the same in all rows."""

    def _compile(self, schema_id: int) -> Decode | str:
        from headwater.client.schema_registry.protobuf_columns import message_at, path_bytes
        from headwater.schemas.columns.protobuf import protobuf_columns
        from headwater.schemas.framing import read_indexes
        from headwater.schemas.protobuf import ProtobufSchema
        from headwater.spark.serdes.protobuf_messages import message_named

        stored = self._writers.schema(schema_id)
        if isinstance(stored, str):
            return stored
        writer, reader = self._registry.parsed(stored), self._registry.parsed(self._column.schema)
        assert isinstance(writer, ProtobufSchema)
        if wrong := incompatibilities(reader, writer):
            return self._writers.cannot_be_read(schema_id, stored, wrong[0].message)
        name = self._column.format.message
        decode = protobuf_columns(message_named(self._column.format, reader).shape)

        def checked(column: "pa.Array") -> "pa.Array":
            path = path_bytes(column[0].as_py())
            written = message_at(writer, read_indexes(path, 0)[0]).full_name
            if written != name:
                raise DataError(f"it is a {written}, not a {name}")
            return fitting(decode(column, _PREFIX_BYTES, path), self._type)

        return checked


class JsonDecoder:
    """Row by row. With a registry, the id of a schema stands before each value, and is looked at once."""

    def __init__(self, column: TypedColumn, of_type: "pa.DataType", registry: AskedRegistry | None) -> None:
        self._column = column
        self._type = of_type
        self._writers = None if registry is None else Writers(column, registry)
        self._known: dict[int, str] = {}  # why records with this id do not decode; "" if they do

    def __call__(self, column: "pa.Array") -> "tuple[pa.Array, Reasons]":
        import pyarrow as pa

        reasons: Reasons = {}
        made: list[object] = []
        for row, data in enumerate(column.to_pylist()):
            try:
                made.append(None if data is None else json_value(self._behind_id(data), self._column.type))
            except DataError as error:
                made.append(None)
                reasons[row] = str(error)
        return pa.array(made, self._type), reasons

    def _behind_id(self, data: bytes) -> bytes:
        if self._writers is None:
            return data
        framed = len(data) >= _PREFIX_BYTES and data[0] == 0
        schema_id = int.from_bytes(data[1:_PREFIX_BYTES], "big") if framed else -1
        if schema_id not in self._known:
            self._known[schema_id] = self._check(self._writers, schema_id)
        if self._known[schema_id]:
            raise DataError(self._known[schema_id])
        return data[_PREFIX_BYTES:]

    def _check(self, writers: Writers, schema_id: int) -> str:
        writer = writers.schema(schema_id)
        if isinstance(writer, str):
            return writer
        why = unreadable(self._column.type, json_spark_type(writer.text))
        return writers.cannot_be_read(schema_id, writer, why) if why else ""


def evolved(column: TypedColumn, version: str, why: str) -> SchemaEvolved:
    return SchemaEvolved(
        f"The schema of the column {column.format.column} has other versions than this query can read",
        f"the query took {column.called} when it was planned, and a record was written with {version}: {why}",
        f"Start the query again: it takes the latest version then. Or give a schema that reads both with {column.format.column}.schema",
    )


def _root(registry: AskedRegistry, stored: StoredSchema) -> "AvroType":
    from headwater.schemas.avro import AvroSchema

    parsed = registry.parsed(stored)
    assert isinstance(parsed, AvroSchema)
    return parsed.root


def fitting(column: "pa.Array", of_type: "pa.DataType") -> "pa.Array":
    """In the types that Spark has. What of a nanosecond Spark cannot hold is cut off; what is out of its range is an
    error.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.type == of_type:
        return column
    try:
        return column.cast(options=pc.CastOptions(of_type, allow_time_truncate=True))
    except pa.ArrowInvalid as error:
        raise DataError(str(error)) from error


def salvage(decode: Decode, column: "pa.Array", of_type: "pa.DataType") -> "tuple[pa.Array, Reasons]":
    """All rows that decode: those that do not are found by halving what cannot be decoded as a whole."""
    import pyarrow as pa

    reasons: Reasons = {}
    parts = []
    waiting = [(0, len(column))]
    while waiting:
        start, length = waiting.pop()
        try:
            parts.append(decode(column.slice(start, length)))
        except DataError as error:
            if length == 1:
                parts.append(pa.nulls(1, of_type))
                reasons[start] = str(error).removeprefix("row 0: ")
            else:
                half = length // 2
                waiting += [(start + half, length - half), (start, half)]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts), reasons


def decode_batch(
    batch: "pa.RecordBatch", decoders: Mapping[str, ColumnDecoder]
) -> "tuple[pa.RecordBatch, list[BadRecord]]":
    """The batch with typed columns, and its rows that do not decode: those are in it still, with nulls."""
    found: dict[int, BadRecord] = {}
    for name, decode in decoders.items():
        at = batch.schema.get_field_index(name)
        column, reasons = decode(batch.column(at))
        for row, reason in reasons.items():
            found.setdefault(row, BadRecord(row, name, reason))
        batch = batch.set_column(at, name, column)
    return batch, [found[row] for row in sorted(found)]


def column_decoders(
    columns: tuple[TypedColumn, ...], schema: "pa.Schema", registry: AskedRegistry | None
) -> dict[str, ColumnDecoder]:
    """By the name of the column; `schema` is what Spark wants in the end: columns that are not in it have none."""
    made: dict[str, ColumnDecoder] = {}
    for each in columns:
        if each.format.column not in schema.names:
            continue
        of_type = schema.field(each.format.column).type
        if each.format.format == "json":
            made[each.format.column] = JsonDecoder(each, of_type, registry)
        else:
            assert registry is not None  # the options say so
            kind = ProtobufDecoder if each.format.format == "protobuf" else AvroDecoder
            made[each.format.column] = kind(each, of_type, registry)
    return made
