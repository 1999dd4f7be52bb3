"""The sink's way: typed columns of a frame into bytes, each with the id of its schema before it.

The driver registers the schemas when a batch is planned (`plan_sink`), so that what the registry refuses ends the query
before anything is written; ids travel to the tasks, which ask nobody. The same rows give the same bytes, which
exactly-once needs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.types import DataType, StructType

from headwater.base.errors import UserError
from headwater.client.schema_registry import RegisteredSchema, SchemaRegistryClient, SchemaRegistryError
from headwater.schemas import SchemaError, SchemaType, StoredSchema
from headwater.schemas.columns import NoColumns, avro_rows
from headwater.schemas.framing import SchemaId
from headwater.schemas.model import DataError
from headwater.spark.serdes.options import ColumnFormat, SerdeOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.schemas.avro.types import AvroType
    from headwater.schemas.columns.protobuf_shapes import MessageShape

Encode = Callable[["pa.Array"], "pa.Array"]


@dataclass(frozen=True, slots=True)
class SinkColumn:
    """A column, and how it is written. `schema` is Avro's, with all that it refers to written out; `type` is the
    column's.
    """

    format: ColumnFormat
    schema: str
    prefix: bytes
    type: DataType
    shape: "MessageShape | None" = None  # of Protobuf


def plan_sink(
    options: SerdeOptions, frame: StructType, registry: SchemaRegistryClient | None
) -> tuple[SinkColumn, ...]:
    planners = {"avro": _plan_avro, "json": _plan_json, "protobuf": _plan_protobuf}
    return tuple(
        planners[each.format](options, each, frame[each.column].dataType, registry)
        for each in options.formats
        if each.column in frame.names
    )


def _plan_avro(
    options: SerdeOptions, wanted: ColumnFormat, of_type: DataType, registry: SchemaRegistryClient | None
) -> SinkColumn:
    from headwater.schemas.avro import AvroSchema
    from headwater.spark.serdes.avro_types import avro_schema

    assert registry is not None  # the options say so
    made = StoredSchema(wanted.schema or avro_schema(of_type), SchemaType.AVRO)
    registered = _registered(options, wanted, made, registry)
    try:
        parsed = registry.parsed(registered.schema)
        if not isinstance(parsed, AvroSchema):
            raise SchemaError(f"the latest version of {wanted.subject!r} is {parsed.schema_type}, not Avro")
        empty = _no_rows(of_type)
        if wrong := misfit(empty.type, parsed.root):
            raise SchemaError(wrong)
        avro_rows(parsed.root)(empty, b"")
    except (SchemaError, NoColumns, DataError) as error:
        raise UserError(
            f"The column {wanted.column} cannot be written with the schema of {wanted.subject!r}",
            str(error),
            "Select or cast its fields",
        ) from error
    return SinkColumn(wanted, parsed.formatted("resolved"), SchemaId(registered.id).prefix(), of_type)


def _plan_protobuf(
    options: SerdeOptions, wanted: ColumnFormat, of_type: DataType, registry: SchemaRegistryClient | None
) -> SinkColumn:
    from headwater.schemas.columns.protobuf import protobuf_rows
    from headwater.spark.serdes.protobuf_messages import message_misfit, message_named

    assert registry is not None  # the options say so
    if not wanted.schema and not options.use_latest:
        raise UserError(
            f"There is no schema for the column {wanted.column}",
            "fields of Protobuf have numbers, and those of a frame have none",
            f"Give the .proto file with the option {wanted.column}.schema, or set use.latest.version to true",
        )
    registered = _registered(options, wanted, StoredSchema(wanted.schema, SchemaType.PROTOBUF), registry)
    try:
        found = message_named(wanted, registry.parsed(registered.schema))
        empty = _no_rows(of_type)
        if wrong := message_misfit(empty.type, found.shape):
            raise SchemaError(wrong)
        protobuf_rows(found.shape)(empty, b"")
    except (SchemaError, DataError) as error:
        raise UserError(
            f"The column {wanted.column} cannot be written with the schema of {wanted.subject!r}",
            str(error),
            "Select or cast its fields",
        ) from error
    return SinkColumn(wanted, "", SchemaId(registered.id, None, found.path).prefix(), of_type, found.shape)


def _plan_json(
    options: SerdeOptions, wanted: ColumnFormat, of_type: DataType, registry: SchemaRegistryClient | None
) -> SinkColumn:
    from headwater.spark.serdes.json_types import described_type, json_schema, unwritable

    made = json_schema(of_type)
    if registry is None:
        return SinkColumn(wanted, "", b"", of_type)
    registered = _registered(options, wanted, StoredSchema(wanted.schema or made, SchemaType.JSON), registry)
    if registered.schema.schema_type is not SchemaType.JSON:
        why = f"the latest version of {wanted.subject!r} is {registered.schema.schema_type}, not JSON"
    else:
        why = unwritable(described_type(registered.schema.text), of_type)
    if why:
        raise UserError(f"The column {wanted.column} cannot be written with the schema of {wanted.subject!r}", why)
    return SinkColumn(wanted, "", SchemaId(registered.id).prefix(), of_type)


def misfit(column: "pa.DataType", avro: "AvroType", path: str = "") -> str:
    """What a column has that the schema has not, or the other way round; "" if they fit. A field that may be null need
    not be there.
    """
    import pyarrow as pa

    from headwater.schemas.avro.types import Array, Map, Record, Union
    from headwater.schemas.columns.program import without_null

    if isinstance(avro, Union):
        inner = without_null(avro)
        return "" if inner is None else misfit(column, inner, path)
    if isinstance(avro, Record) and pa.types.is_struct(column):
        there = {each.name: each.type for each in column}
        if extra := sorted(there.keys() - avro.by_name.keys()):
            return f"the schema has no field {path}{extra[0]}"
        for name, field in avro.by_name.items():
            if name in there:
                if wrong := misfit(there[name], field.type, f"{path}{name}."):
                    return wrong
            elif not (isinstance(field.type, Union) and any(each.kind == "null" for each in field.type.branches)):
                return f"the field {path}{name} is missing"
    elif isinstance(avro, Array) and pa.types.is_list(column):
        return misfit(column.value_type, avro.items, path)
    elif isinstance(avro, Map) and pa.types.is_map(column):
        return misfit(column.item_type, avro.values, path)
    return ""


def _no_rows(of_type: DataType) -> "pa.Array":
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    return pa.array([], to_arrow_type(of_type, timezone="UTC"))


def _registered(
    options: SerdeOptions, wanted: ColumnFormat, made: StoredSchema, registry: SchemaRegistryClient
) -> RegisteredSchema:
    try:
        if options.use_latest:
            return registry.version(wanted.subject)
        return (registry.register if options.auto_register else registry.lookup)(wanted.subject, made)
    except SchemaRegistryError as error:
        if error.status == 0 or error.status >= 500:
            raise
        raise UserError(
            f"The schema of the column {wanted.column} is not taken under {wanted.subject!r}",
            error.what,
            f"Give the schema that you mean with the option {wanted.column}.schema, or select the fields that the subject has",
        ) from error


def encoded_batches(columns: tuple[SinkColumn, ...], rows: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
    """The same batches, these columns as bytes. Null stays null."""
    encoders = [(each, encoder(each)) for each in columns]
    for batch in rows:
        for column, encode in encoders:
            at = batch.schema.get_field_index(column.format.column)
            try:
                made = encode(batch.column(at))
            except DataError as error:
                subject = column.format.subject
                how = f"with the schema of {subject!r}" if subject else f"as {column.format.format}"
                raise UserError(f"The column {column.format.column} cannot be written {how}", str(error)) from error
            batch = batch.set_column(at, column.format.column, made)
        yield batch


def encoder(column: SinkColumn) -> Encode:
    if column.format.format == "json":
        return lambda array: _json_rows(array, column)
    if column.shape is not None:
        from headwater.schemas.columns.protobuf import protobuf_rows

        encode_messages = protobuf_rows(column.shape)
        return lambda array: encode_messages(array, column.prefix)
    from headwater.schemas.avro import parse_avro

    encode = avro_rows(parse_avro(column.schema, {}).root)
    return lambda array: encode(array, column.prefix)


def _json_rows(array: "pa.Array", column: SinkColumn) -> "pa.Array":
    import pyarrow as pa

    from headwater.spark.serdes.json_values import json_bytes

    try:
        values = array.to_pylist()
    except (OverflowError, ValueError):  # Spark's times have more years than Python's, and than JSON's
        raise DataError("it has a date or a time before the year 1 or after 9999") from None
    rows = [None if value is None else column.prefix + json_bytes(value, column.type) for value in values]
    return pa.array(rows, pa.binary())
