"""Messages of Protobuf as columns see them: each field with its kind, what it is when it is absent, and what is inside
it. Pure.

A map is a repeated message of two fields. `google.protobuf.Timestamp` and `Duration` are times, the wrappers
(`Int64Value`, ...) values that may be null. A message that contains itself has no columns: `NoColumns`.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from headwater.schemas.columns.program import NoColumns
from headwater.schemas.protobuf.field_features import has_presence, is_delimited, is_packed
from headwater.schemas.protobuf.types import Enum, Field, Message


class Kind(IntEnum):
    """The numbers are those of native/protobuf.h."""

    DOUBLE = 0
    FLOAT = 1
    INT32 = 2
    INT64 = 3
    UINT32 = 4
    UINT64 = 5
    SINT32 = 6
    SINT64 = 7
    FIXED32 = 8
    FIXED64 = 9
    SFIXED32 = 10
    SFIXED64 = 11
    BOOL = 12
    STRING = 13
    BYTES = 14
    ENUM = 15
    MESSAGE = 16
    TIMESTAMP = 17
    DURATION = 18
    WRAPPER = 19


class Label(IntEnum):
    """What a field is when it is absent: zero, null, or an empty list."""

    IMPLICIT = 0
    EXPLICIT = 1
    REPEATED = 2


_WRAPPERS: Final = {
    "google.protobuf.DoubleValue": Kind.DOUBLE,
    "google.protobuf.FloatValue": Kind.FLOAT,
    "google.protobuf.Int64Value": Kind.INT64,
    "google.protobuf.UInt64Value": Kind.UINT64,
    "google.protobuf.Int32Value": Kind.INT32,
    "google.protobuf.UInt32Value": Kind.UINT32,
    "google.protobuf.BoolValue": Kind.BOOL,
    "google.protobuf.StringValue": Kind.STRING,
    "google.protobuf.BytesValue": Kind.BYTES,
}
FIELDS_MAX: Final = 20_000  # columns of one message; a few lines of text can name many


@dataclass(frozen=True, slots=True)
class FieldShape:
    name: str
    number: int
    kind: Kind
    label: Label
    wrapped: Kind | None = None  # of a wrapper
    message: "MessageShape | None" = None
    enum: Enum | None = None
    is_map: bool = False
    is_packed: bool = False
    is_delimited: bool = False
    oneof: str = ""


@dataclass(frozen=True, slots=True)
class MessageShape:
    name: str
    fields: tuple[FieldShape, ...]  # as they were declared: so are the columns

    @property
    def by_number(self) -> list[FieldShape]:
        return sorted(self.fields, key=lambda each: each.number)

    @property
    def oneofs(self) -> list[str]:
        return list(dict.fromkeys(each.oneof for each in self.fields if each.oneof))


@dataclass(slots=True)
class _Count:
    columns: int = 0


@dataclass(slots=True)
class _Shaper:
    count: _Count = field(default_factory=_Count)

    def message(self, message: Message, outer: tuple[Message, ...]) -> MessageShape:
        if message in outer:
            raise NoColumns(f"{message.full_name} contains itself, and so has no columns")
        fields = tuple(self.field(each, message, (*outer, message)) for each in message.fields)
        return MessageShape(message.full_name, fields)

    def field(self, each: Field, message: Message, outer: tuple[Message, ...]) -> FieldShape:
        self.count.columns += 1
        if self.count.columns > FIELDS_MAX:
            raise NoColumns(f"{message.full_name} has more than {FIELDS_MAX:,} columns, with those inside it")
        file = message.file
        if each.type == "map":
            key = FieldShape("key", 1, Kind[each.map_key.upper()], Label.IMPLICIT)
            inner = Field("value", 2, each.map_value, target=each.target)
            value = self._singular(inner, Label.IMPLICIT, outer)
            entry = MessageShape(f"{message.full_name}.{each.name}", (key, value))
            return FieldShape(each.name, each.number, Kind.MESSAGE, Label.REPEATED, message=entry, is_map=True)
        label = _label(each, message)
        shape = self._singular(each, label, outer)
        return FieldShape(
            shape.name,
            shape.number,
            shape.kind,
            label,
            shape.wrapped,
            shape.message,
            shape.enum,
            is_packed=is_packed(each, file),
            is_delimited=shape.kind is Kind.MESSAGE and is_delimited(each, file),
            oneof=each.oneof,
        )

    def _singular(self, each: Field, label: Label, outer: tuple[Message, ...]) -> FieldShape:
        target = each.target
        if isinstance(target, Enum):
            return FieldShape(each.name, each.number, Kind.ENUM, label, enum=target)
        if isinstance(target, Message):
            name = target.full_name
            if name == "google.protobuf.Timestamp":
                return FieldShape(each.name, each.number, Kind.TIMESTAMP, label)
            if name == "google.protobuf.Duration":
                return FieldShape(each.name, each.number, Kind.DURATION, label)
            if name in _WRAPPERS:
                return FieldShape(each.name, each.number, Kind.WRAPPER, label, _WRAPPERS[name])
            inner = self.message(target, outer)
            return FieldShape(each.name, each.number, Kind.MESSAGE, label, message=inner)
        return FieldShape(each.name, each.number, Kind[each.type.upper()], label)


def shape_of(message: Message) -> MessageShape:
    """Of a message whose file is resolved."""
    return _Shaper().message(message, ())


def _label(each: Field, message: Message) -> Label:
    if each.label == "repeated":
        return Label.REPEATED
    return Label.EXPLICIT if has_presence(each, message) else Label.IMPLICIT
