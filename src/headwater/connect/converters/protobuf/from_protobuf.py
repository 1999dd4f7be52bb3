"""Protobuf's messages as Connect's schemas and values, by the rules of Confluent's converter. Pure.

Every field is optional unless `wrapper.for.nullables` or `optional.for.nullables` says how nulls are told apart. A
oneof is a struct with a field for each of its choices, called `<name>_<number>`; enums are strings; whole numbers
without a sign are int64.
"""

import re
from collections.abc import Callable
from datetime import UTC
from typing import Any, Final

from headwater.connect.converters.protobuf.to_protobuf import CONNECT_TYPE, ENUM, META, TAG, UNION, ProtobufOptions
from headwater.connect.data import logical
from headwater.connect.data import schema as s
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError
from headwater.schemas.protobuf.types import Enum, Field, Message
from headwater.schemas.protobuf.well_known_values import is_wrapper

_PAIRS: Final = re.compile(r'key\s*:\s*"([^"]*)"\s*[,;]?\s*value\s*:\s*"([^"]*)"')
_SCALARS: Final = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), s.INT32),
    **dict.fromkeys(("uint32", "fixed32", "int64", "uint64", "sint64", "fixed64", "sfixed64"), s.INT64),
    "float": s.FLOAT32,
    "double": s.FLOAT64,
    "bool": s.BOOLEAN,
    "string": s.STRING,
    "bytes": s.BYTES,
}
_LOGICAL: Final = {
    "google.type.Date": s.DATE_SCHEMA,
    "google.type.TimeOfDay": s.TIME_SCHEMA,
    "google.protobuf.Timestamp": s.TIMESTAMP_SCHEMA,
}
_SMALL: Final = {"int8": s.INT8, "int16": s.INT16}


def field_params(field: Field) -> dict[str, str]:
    """What `confluent.field_meta` notes of a field."""
    texts = (each.value.text for each in field.options if each.name.startswith(META))
    return dict(pair for text in texts for pair in _PAIRS.findall(text))


class SchemaReader:
    """Of one message."""

    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options

    def schema(self, message: Message, version: int | None = None) -> Schema:
        return self._struct(message, ()).changed(version=version)

    def _struct(self, message: Message, around: tuple[str, ...]) -> Schema:
        if message.full_name in around:
            raise DataError(f"The message {message.full_name} contains itself: Connect has no such schemas")
        around = (*around, message.full_name)
        fields = []
        for index, oneof in enumerate(message.oneofs):
            choices = [(each.name, self._field(each, around)) for each in message.fields if each.oneof == oneof.name]
            union = s.struct(choices, name=f"{UNION}.{oneof.name}", optional=True)
            fields.append((f"{oneof.name}_{index}", union))
        fields += [(each.name, self._field(each, around)) for each in message.fields if not each.oneof]
        return s.struct(fields, name=message.full_name if self._options.full_names else message.name)

    def _field(self, field: Field, around: tuple[str, ...]) -> Schema:
        entry = entry_of(field)
        if field.type == "map":
            made = s.map_of(self._kind(field, field.map_key, None, around), self._in_map(field, around))
        elif entry is not None:
            made = s.map_of(*(self._field(each, around).changed(parameters=None) for each in entry.fields))
        else:
            made = self._kind(field, field.type, field.target, around)
            if field.label == "repeated":
                made = s.array(made.as_optional(), optional=True)
        if self._is_optional(field):
            made = made.as_optional()
        return made.changed(parameters={**(made.parameters or {}), TAG: str(field.number)})

    def _in_map(self, field: Field, around: tuple[str, ...]) -> Schema:
        made = self._kind(field, field.map_value, field.target, around)
        return (
            made
            if self._options.wrapper_for_nullables and not isinstance(field.target, Message)
            else made.as_optional()
        )

    def _is_optional(self, field: Field) -> bool:
        if field.oneof:  # at most one of its choices is set, whatever the settings say
            return True
        if isinstance(field.target, Message | Enum) and field.type != "map":
            return True
        if self._options.optional_for_nullables:
            return field.label == "optional"
        return not self._options.wrapper_for_nullables

    def _kind(self, field: Field, kind: str, target: Message | Enum | None, around: tuple[str, ...]) -> Schema:
        if isinstance(target, Enum):
            values = {f"{ENUM}.{each.name}": str(each.number) for each in target.values}
            return s.STRING.changed(name=target.name, parameters={ENUM: target.name, **values})
        if isinstance(target, Message):
            return self._message(field, target, around)
        small = _SMALL.get(field_params(field).get(CONNECT_TYPE, "")) if _SCALARS.get(kind) is s.INT32 else None
        found = small or _SCALARS.get(kind)
        if found is None:
            raise DataError(f"The field {field.name} is of the type {kind}, which Connect has not got")
        return found

    def _message(self, field: Field, target: Message, around: tuple[str, ...]) -> Schema:
        known = _LOGICAL.get(target.full_name)
        if known is not None:
            return known
        if target.full_name == "confluent.type.Decimal":
            params = field_params(field)
            made = s.decimal_schema(int(params.get("scale", "0")))
            if "precision" in params:
                made = made.changed(
                    parameters={**(made.parameters or {}), "connect.decimal.precision": params["precision"]}
                )
            return made
        if self._options.wrapper_for_nullables and is_wrapper(target):
            return _SCALARS[target.fields[0].type]
        return self._struct(target, around)


def entry_of(field: Field) -> Message | None:
    """The message of a map that is written as entries, for keys that maps of Protobuf cannot have."""
    target = field.target
    if field.label != "repeated" or not isinstance(target, Message) or not target.name.endswith("Entry"):
        return None
    return target if [each.name for each in target.fields] == ["key", "value"] else None


Make = Callable[[Any], Any]


def message_value(schema: Schema, message: Message) -> Make:
    """From what was read, fields by name, to a struct."""
    fields = {field.name: field for field in message.fields}
    makers: list[Make] = []
    for each in schema.fields:
        if each.schema.type is Type.STRUCT and (each.schema.name or "").startswith(UNION):
            makers.append(_union(each.schema, fields))
        else:
            makers.append(_of_row(each.name, _value(each.schema, fields[each.name])))
    return lambda row: Struct.of(schema, [make(row) for make in makers])


def _of_row(name: str, make: Make) -> Make:
    return lambda row: make(row.get(name))


def _union(schema: Schema, fields: dict[str, Field]) -> Make:
    choices = [(each.name, _value(each.schema, fields[each.name])) for each in schema.fields]

    def make(row: Any) -> Struct | None:
        if all(row.get(name) is None for name, _ in choices):
            return None
        return Struct.of(schema, [each(row.get(name)) for name, each in choices])

    return make


def _value(schema: Schema, field: Field) -> Make:
    entry = entry_of(field)
    if schema.type is Type.MAP and entry is not None:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        key, value = _single(schema.key_schema, entry.fields[0]), _single(schema.value_schema, entry.fields[1])
        return lambda rows: {key(row["key"]): value(row["value"]) for row in rows}
    if schema.type is Type.MAP:
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        key, item = _present(schema.key_schema, None), _single(schema.value_schema, field)
        return lambda pairs: {key(name): item(each) for name, each in pairs.items()}
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        item = _single(schema.value_schema, field)
        return lambda items: [item(each) for each in items]
    return _single(schema, field)


def _single(schema: Schema, field: Field) -> Make:
    made = _present(schema, field.target)
    return lambda value: None if value is None else made(value)


def _present(schema: Schema, target: Message | Enum | None) -> Make:
    if schema.type is Type.STRUCT:
        assert isinstance(target, Message)
        inner = message_value(schema, target)
        return (lambda value: inner({"value": value})) if is_wrapper(target) else inner
    if schema.name == s.TIMESTAMP:
        return lambda time: logical.millis_to_timestamp(logical.timestamp_to_millis(time.replace(tzinfo=UTC)))
    if schema.type is Type.INT64:
        return lambda number: number - (1 << 64) if number >= 1 << 63 else number
    return str if isinstance(target, Enum) else lambda value: value
