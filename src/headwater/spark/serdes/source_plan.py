"""What the source decides before it reads: the schema of each typed column, and Spark's type of it.

It is decided once, when the frame is made, and travels to all tasks: a version that is registered later changes no
column of a query.
"""

from dataclasses import dataclass, replace

from pyspark.sql.types import DataType

from headwater.base.errors import UserError
from headwater.client.schema_registry import SchemaRegistryClient, SchemaRegistryError
from headwater.schemas import SchemaError, SchemaType, StoredSchema
from headwater.spark.serdes.options import ColumnFormat, SerdeOptions


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """`version` is that of the subject; 0: the schema was given."""

    format: ColumnFormat
    schema: StoredSchema
    version: int
    type: DataType

    @property
    def called(self) -> str:
        """What messages call its schema."""
        given = f"the schema of the option {self.format.column}.schema"
        return f"version {self.version} of {self.format.subject!r}" if self.version else given


def plan_source(options: SerdeOptions, registry: SchemaRegistryClient | None) -> tuple[TypedColumn, ...]:
    planners = {"avro": _plan_avro, "json": _plan_json, "protobuf": _plan_protobuf}
    return tuple(planners[each.format](each, registry) for each in options.formats)


def _plan_json(wanted: ColumnFormat, registry: SchemaRegistryClient | None) -> TypedColumn:
    from headwater.spark.serdes.json_types import given_type, json_spark_type

    if wanted.schema:
        of_type = given_type(f"{wanted.column}.schema", wanted.schema)
        return TypedColumn(wanted, StoredSchema(wanted.schema, SchemaType.JSON), 0, of_type)
    assert registry is not None  # the options say so
    stored, version = latest_schema(wanted, registry)
    return TypedColumn(wanted, stored, version, json_spark_type(stored.text))


def _plan_avro(wanted: ColumnFormat, registry: SchemaRegistryClient | None) -> TypedColumn:
    from headwater.schemas.avro import AvroSchema
    from headwater.schemas.columns import NoColumns
    from headwater.schemas.columns.arrow import arrow_type
    from headwater.spark.serdes.avro_types import spark_type

    assert registry is not None  # the options say so
    stored, version = StoredSchema(wanted.schema, SchemaType.AVRO), 0
    if not wanted.schema:
        stored, version = latest_schema(wanted, registry)
    try:
        parsed = registry.parsed(stored)
        assert isinstance(parsed, AvroSchema)
        return TypedColumn(wanted, stored, version, spark_type(arrow_type(parsed.root)))
    except NoColumns as error:
        raise UserError(
            f"The column {wanted.column} cannot be typed",
            str(error),
            f"Read it as bytes: take the option {wanted.column}.format away",
        ) from error
    except SchemaError as error:
        raise UserError(f"The schema of the column {wanted.column} cannot be used", str(error)) from error


def _plan_protobuf(wanted: ColumnFormat, registry: SchemaRegistryClient | None) -> TypedColumn:
    from headwater.schemas.columns import NoColumns
    from headwater.schemas.columns.protobuf_arrow import message_type
    from headwater.spark.serdes.avro_types import spark_type
    from headwater.spark.serdes.protobuf_messages import message_named

    assert registry is not None  # the options say so
    stored, version = StoredSchema(wanted.schema, SchemaType.PROTOBUF), 0
    if not wanted.schema:
        stored, version = latest_schema(wanted, registry)
    try:
        found = message_named(wanted, registry.parsed(stored))
        of_type = spark_type(message_type(found.shape))
    except NoColumns as error:
        raise UserError(
            f"The column {wanted.column} cannot be typed",
            str(error),
            f"Read it as bytes: take the option {wanted.column}.format away",
        ) from error
    except SchemaError as error:
        raise UserError(f"The schema of the column {wanted.column} cannot be used", str(error)) from error
    return TypedColumn(replace(wanted, message=found.shape.name), stored, version, of_type)


def latest_schema(wanted: ColumnFormat, registry: SchemaRegistryClient) -> tuple[StoredSchema, int]:
    """The latest version of the subject, which must be of the format."""
    try:
        found = registry.version(wanted.subject)
    except SchemaRegistryError as error:
        if error.status != 404:
            raise
        raise UserError(
            f"There is no schema for the column {wanted.column}",
            f"the registry has no subject {wanted.subject!r}",
            f"Name it with the option {wanted.column}.subject, or give the schema with {wanted.column}.schema",
        ) from error
    if found.schema.schema_type.lower() != wanted.format:
        raise UserError(
            f"The column {wanted.column} is not {wanted.format}",
            f"version {found.version} of {wanted.subject!r} is {found.schema.schema_type}",
            f"Set the option {wanted.column}.format to it",
        )
    return found.schema, found.version
