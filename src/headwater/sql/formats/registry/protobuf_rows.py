"""PROTOBUF: columns out of a message, a message out of columns, and rows by either.

The schemas that are made are ksqlDB's: a message `ConnectDefault1` with nested ones for STRUCTs. Without KEY_ or
VALUE_PROTOBUF_NULLABLE_REPRESENTATION a NULL is written as the default of its type, for proto3 cannot tell them apart.
A oneof is a STRUCT with the name of the oneof and `_0`, as in Connect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from headwater.schemas import ParsedSchema, SchemaType, StoredSchema
from headwater.schemas.model import DataError
from headwater.schemas.protobuf import ProtobufSchema
from headwater.schemas.protobuf.messages import compile_message_reader, compile_message_writer
from headwater.schemas.protobuf.types import Enum, Message, Option
from headwater.schemas.protobuf.types import Field as ProtoField
from headwater.schemas.protobuf.well_known_values import is_wrapper
from headwater.sql.coercion import row_reader
from headwater.sql.formats.port import Field, FormatOptions, Row
from headwater.sql.formats.registry.codec import Unsupported, name_of
from headwater.sql.formats.registry.proto_text import proto_text
from headwater.sql.language import types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.types import ArrayType, MapType, StructType, Type

_COLUMN_TYPES: Final = {
    "int32": types.INTEGER, "sint32": types.INTEGER, "sfixed32": types.INTEGER, "uint32": types.BIGINT, "fixed32": types.BIGINT,
    "int64": types.BIGINT, "uint64": types.BIGINT, "sint64": types.BIGINT, "fixed64": types.BIGINT, "sfixed64": types.BIGINT,
    "float": types.DOUBLE, "double": types.DOUBLE, "bool": types.BOOLEAN, "string": types.STRING, "bytes": types.BYTES,
}  # fmt: skip
_WELL_KNOWN: Final = {
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "google.type.Date": types.DATE,
    "google.type.TimeOfDay": types.TIME,
}
Convert = Callable[[Any], Any]


class ProtobufCodec:
    schema_type = SchemaType.PROTOBUF
    can_unwrap = False

    def schema(self, fields: Sequence[Field], *, wrapped: bool, options: FormatOptions) -> StoredSchema:
        del wrapped
        return StoredSchema(proto_text(fields, options), SchemaType.PROTOBUF)

    def columns(self, schema: ParsedSchema, *, single: str | None, upper: bool, full_name: str | None) -> list[Field]:
        del single
        message, _ = _message(schema, full_name)
        return _fields(message, upper)

    def reader(
        self, schema: ParsedSchema, fields: Sequence[Field], *, wrapped: bool, indexes: tuple[int, ...]
    ) -> Callable[[bytes], Row | None]:
        del wrapped
        message = _at(schema, indexes)
        decode, convert, grouped = (
            compile_message_reader(message),
            row_reader([(each.name, each.type) for each in fields]),
            _grouping(message),
        )
        return lambda data: convert(grouped(decode(data)))

    def writer(
        self, schema: ParsedSchema, fields: Sequence[Field], *, wrapped: bool, full_name: str | None
    ) -> tuple[Callable[[Row], bytes], tuple[int, ...]]:
        del wrapped
        message, indexes = _message(schema, full_name)
        encode = compile_message_writer(message)
        convert = _struct_writing(types.struct(*((each.name, each.type) for each in fields)), message)
        names = [each.name for each in fields]
        return lambda row: encode(convert(dict(zip(names, row, strict=True)))), indexes


# -- which message -----------------------------------------------------------------------------------------------------


def _message(schema: ParsedSchema, full_name: str | None) -> tuple[Message, tuple[int, ...]]:
    assert isinstance(schema, ProtobufSchema)
    if full_name is None:
        if len(schema.file.messages) > 1:
            names = ", ".join(each.full_name for each in schema.file.messages)
            raise SqlError(
                f"The schema has multiple schema definitions: {names}.",
                hint="Name one with VALUE_SCHEMA_FULL_NAME or KEY_SCHEMA_FULL_NAME in the WITH clause.",
            )
        if not schema.file.messages:
            raise SqlError("The schema has no message.")
        return schema.file.messages[0], (0,)
    for place, each in enumerate(schema.file.messages):
        if full_name in (each.full_name, each.name):
            return each, (place,)
    raise SqlError(
        f"Schema for message {full_name} does not exist in the registered schema.",
        hint=f"It has {', '.join(each.full_name for each in schema.file.messages)}.",
    )


def _at(schema: ParsedSchema, indexes: tuple[int, ...]) -> Message:
    assert isinstance(schema, ProtobufSchema)
    try:
        found = schema.file.messages[indexes[0]]
        for each in indexes[1:]:
            found = found.messages[each]
    except IndexError:
        raise DataError(f"the schema has no message at {'.'.join(map(str, indexes))}") from None
    return found


# -- columns out of a message ------------------------------------------------------------------------------------------


def _oneof_name(name: str) -> str:
    return f"{name}_0"


def _is_real_oneof(field: ProtoField) -> bool:
    return bool(field.oneof) and field.label != "optional"


def _fields(message: Message, upper: bool) -> list[Field]:
    found: list[Field] = []
    oneofs: dict[str, list[tuple[str, Type]]] = {}
    for each in message.fields:
        try:
            column = Field(name_of(each.name, upper), _column_type(each, upper))
        except (Unsupported, types.NoSuchType):
            continue
        if not _is_real_oneof(each):
            found.append(column)
            continue
        if each.oneof not in oneofs:
            oneofs[each.oneof] = []
            found.append(Field(_oneof_name(each.oneof), types.BOOLEAN))  # its place; its type is known at the end
        oneofs[each.oneof].append((column.name, column.type))
    made = {_oneof_name(name): types.struct(*inner) for name, inner in oneofs.items()}
    found = [Field(name_of(each.name, upper), made[each.name]) if each.name in made else each for each in found]
    if not found:
        raise SqlError("Schema does not include any columns with types that ksqlDB supports.")
    return found


def _column_type(field: ProtoField, upper: bool) -> Type:
    if field.type == "map":
        return types.mapping(types.STRING, _single_type(field, field.map_value, upper))
    single = _single_type(field, field.type, upper)
    return types.array(single) if field.label == "repeated" else single


def _single_type(field: ProtoField, kind: str, upper: bool) -> Type:
    target = field.target
    if isinstance(target, Enum):
        return types.STRING
    if isinstance(target, Message):
        if target.full_name in _WELL_KNOWN:
            return _WELL_KNOWN[target.full_name]
        if target.full_name == "confluent.type.Decimal":
            return _decimal(field.options)
        if is_wrapper(target):
            return _COLUMN_TYPES[target.fields[0].type]
        return types.struct(*((each.name, each.type) for each in _fields(target, upper)))
    if kind not in _COLUMN_TYPES:
        raise Unsupported(kind)
    return _COLUMN_TYPES[kind]


def _decimal(options: Sequence[Option]) -> Type:
    """Its digits stand in the field's options: (confluent.field_meta) = { params: [{ key: "precision", value: "4" },
    ...] }.
    """
    import re

    found = {"precision": 64, "scale": 0}
    for each in options:
        if "field_meta" in each.name:
            for entry in re.findall(r"\{([^{}]*)\}", each.value.text):
                parts = dict(re.findall(r'(key|value)\s*:\s*"([^"]*)"', entry))
                if parts.get("key") in found and parts.get("value", "").isdigit():
                    found[parts["key"]] = int(parts["value"])
    return types.decimal(found["precision"], found["scale"])


def _grouping(message: Message) -> Convert:
    """Fields of oneofs into the STRUCTs that they are."""
    inner = {
        each.name: _grouping(each.target)
        for each in message.fields
        if _is_struct(each) and isinstance(each.target, Message)
    }
    oneofs = {each.name: _oneof_name(each.oneof) for each in message.fields if _is_real_oneof(each)}
    if not oneofs and not any(inner.values()):
        return lambda value: value

    def convert(value: Any) -> Any:
        result: dict[str, Any] = {}
        for name, each in value.items():
            if name in inner and isinstance(each, dict):
                each = inner[name](each)
            if name not in oneofs:
                result[name] = each
            elif each is not None:
                result.setdefault(oneofs[name], {})[name] = each
        return result

    return convert


def _is_struct(field: ProtoField) -> bool:
    return (
        isinstance(field.target, Message)
        and field.label != "repeated"
        and field.type != "map"
        and field.target.full_name not in _WELL_KNOWN
        and not is_wrapper(field.target)
        and field.target.full_name != "confluent.type.Decimal"
        and any(_is_real_oneof(each) for each in field.target.fields)
    )


# -- values for a message ----------------------------------------------------------------------------------------------


def _writing(given: Type, field: ProtoField) -> Convert:
    if isinstance(given, ArrayType):
        item = _item_writing(given.item, field)
        return lambda value: [item(each) for each in value if each is not None]
    if isinstance(given, MapType):
        item = _item_writing(given.value, field)
        return lambda value: {
            key: None if each is None else item(each) for key, each in value.items() if key is not None
        }
    return _item_writing(given, field)


def _item_writing(given: Type, field: ProtoField) -> Convert:
    if isinstance(given, StructType) and isinstance(field.target, Message):
        return _struct_writing(given, field.target)
    return lambda value: value


def _struct_writing(given: StructType, message: Message) -> Convert:
    by_upper = {each.name.upper(): each for each in message.fields}
    exact = {each.name: each for each in message.fields}
    oneofs = {_oneof_name(each.oneof).upper() for each in message.fields if _is_real_oneof(each)}
    pairs: list[tuple[str, str, Convert]] = []
    for name, inner in given.fields:
        found = exact.get(name) or by_upper.get(name.upper())
        if found is not None:
            pairs.append((name, found.name, _writing(inner, found)))
        elif name.upper() in oneofs and isinstance(inner, StructType):
            pairs.append((name, "", _struct_writing(inner, message)))

    def convert(value: Mapping[str, Any]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, target, write in pairs:
            item = value.get(name)
            if item is not None and not target:
                result |= write(item)
            elif target:
                result[target] = None if item is None else write(item)
        return result

    return convert
