"""A .proto file as objects: what its text says, with names of types as they stand there until they are resolved.

The parser, or the reader of descriptors, builds them; `resolution` fills in what names mean; then nobody changes them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

SCALARS: Final = (
    "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
MAP_KEYS: Final = frozenset(SCALARS) - {"double", "float", "bytes"}
FIELD_NUMBER_MAX: Final = (1 << 29) - 1
_PART: Final = re.compile(r"\(([^()]*)\)|[^.()]+")  # of the name of an option

Label = Literal["", "optional", "required", "repeated"]


@dataclass(slots=True)
class Value:
    """The value of an option or a default."""

    kind: Literal["identifier", "number", "string", "aggregate"]
    text: str  # an aggregate with its braces
    data: bytes = b""  # of a string


@dataclass(slots=True)
class Option:
    name: str  # as written: java_package, (confluent.field_meta).doc
    value: Value
    encoded: bytes | None = field(default=None, compare=False)  # as it stands in descriptors, once that is known
    wire: tuple[int, list[int | bytes]] | None = None  # what a descriptor has under a number, until it has a name


@dataclass(slots=True, eq=False)
class Field:
    name: str
    number: int
    type: str  # a scalar, or a name as written; "map" for maps, "group" for groups
    label: Label = ""
    oneof: str = ""
    map_key: str = ""
    map_value: str = ""
    entry_place: int = 0  # of a map: how many messages stand before it, where protoc puts the message of its entries
    extendee: str = ""
    options: list[Option] = field(default_factory=list)
    target: "Message | Enum | None" = None  # what `type` (or map_value) names
    extended: "Message | None" = None  # what `extendee` names


@dataclass(slots=True, eq=False)
class EnumValue:
    name: str
    number: int
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Ranges:
    """`reserved` and `extensions`: ranges with both ends in them, and names."""

    numbers: list[tuple[int, int]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    options: dict[tuple[int, int], list[Option]] = field(default_factory=dict)  # of ranges of extensions


@dataclass(slots=True, eq=False)
class Enum:
    name: str
    values: list[EnumValue] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    reserved: Ranges = field(default_factory=Ranges)
    full_name: str = ""


@dataclass(slots=True)
class Oneof:
    name: str
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Message:
    name: str
    fields: list[Field] = field(default_factory=list)
    oneofs: list[Oneof] = field(default_factory=list)
    messages: list["Message"] = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
    extensions: list[Field] = field(default_factory=list)
    extension_ranges: Ranges = field(default_factory=Ranges)
    reserved: Ranges = field(default_factory=Ranges)
    options: list[Option] = field(default_factory=list)
    full_name: str = ""
    file: "File | None" = None

    @property
    def local_name(self) -> str:
        """Without the package."""
        package = self.file.package if self.file is not None else ""
        return self.full_name.removeprefix(f"{package}.") if package else self.full_name


@dataclass(slots=True)
class Method:
    name: str
    request: str
    response: str
    client_streaming: bool = False
    server_streaming: bool = False
    options: list[Option] = field(default_factory=list)
    has_braces: bool = False  # which protoc takes for options, also where there are none
    request_full_name: str = ""
    response_full_name: str = ""


@dataclass(slots=True)
class Service:
    name: str
    methods: list[Method] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Import:
    path: str
    kind: Literal["", "public", "weak"] = ""


@dataclass(slots=True, eq=False)
class File:
    syntax: str = "proto2"  # proto2, proto3 or editions
    edition: str = ""
    package: str = ""
    imports: list[Import] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
    extensions: list[Field] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)
    name: str = ""
    problem: str = ""  # the first option that is not known, or whose value does not fit


def all_messages(messages: list[Message]) -> Iterator[Message]:
    """The messages and those within them, outer ones first."""
    pending = list(reversed(messages))
    while pending:
        message = pending.pop()
        yield message
        pending += reversed(message.messages)


def name_parts(option_name: str) -> list[tuple[str, bool]]:
    """(a.b).c.d -> (a.b, an extension), (c, not), (d, not)"""
    return [(match[1] or match[0], match[1] is not None) for match in _PART.finditer(option_name)]
