"""Which message of a Protobuf schema a column has, and whether a frame's column fits it. Pure."""

from typing import TYPE_CHECKING, NamedTuple

from headwater.client.schema_registry.protobuf_columns import message_at, path_of
from headwater.schemas import ParsedSchema, SchemaError
from headwater.schemas.columns.protobuf_shapes import FieldShape, Label, MessageShape, shape_of
from headwater.schemas.protobuf import ProtobufSchema
from headwater.spark.serdes.options import ColumnFormat

if TYPE_CHECKING:
    import pyarrow as pa


class NamedMessage(NamedTuple):
    path: tuple[int, ...]
    shape: MessageShape


def message_named(wanted: ColumnFormat, schema: ParsedSchema) -> NamedMessage:
    """The message that the options name, or the first. Raises SchemaError, NoColumns among them."""
    if not isinstance(schema, ProtobufSchema):
        raise SchemaError(f"the schema of {wanted.subject!r} is {schema.schema_type}, not Protobuf")
    path = path_of(schema, wanted.message)
    if path is None:
        raise SchemaError(f"it has no message {wanted.message}" if wanted.message else "it has no message")
    return NamedMessage(path, shape_of(message_at(schema, path)))


def message_misfit(column: "pa.DataType", shape: MessageShape, path: str = "") -> str:
    """The first field that the message has no place for; "" if there is none. What the column lacks is absent in the
    messages.
    """
    import pyarrow as pa

    if not pa.types.is_struct(column):
        return f"{path.rstrip('.') or 'it'} is {column}, not a struct"
    fields = {each.name: each for each in shape.fields}
    for each in column:
        if each.name not in fields:
            return f"the message {shape.name} has no field {path}{each.name}"
        if wrong := _field_misfit(each.type, fields[each.name], f"{path}{each.name}."):
            return wrong
    return ""


def _field_misfit(column: "pa.DataType", field: FieldShape, path: str) -> str:
    import pyarrow as pa

    if field.is_map or field.message is None:
        return ""  # the cast says what is wrong
    if field.label is Label.REPEATED:
        return message_misfit(column.value_type, field.message, path) if pa.types.is_list(column) else ""
    return message_misfit(column, field.message, path)
