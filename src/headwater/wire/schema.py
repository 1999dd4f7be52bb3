"""How a message is declared: one class per message and struct, with the versions on its fields.

    class EpochEndOffset(Struct):
        epoch: int = field(INT32, default=-1)
        end_offset: int = field(INT64, default=-1)

    class FooRequest(Message, key=99, versions=(0, 4), flexible_since=2):
        topic_id: bytes = field(UUID, since=3)
        diverging_epoch: EpochEndOffset | None = field(EpochEndOffset, since=2, tag=0)

Classes have slots, a keyword-only constructor in which every field may be left out, equality and a repr. Nothing is
compiled when a class is made: constructors appear on first use, codecs on first use of a version (see `codec`).

The rules on values:

- Plain types only. A uuid is 16 bytes. `records` come out as a memoryview into the buffer that was decoded.
- Zero is the default, None where the field can be null in any version, an empty list for arrays.
- None for a field that this version cannot set to null is written as the empty value. Older versions mean that by it.
- A field that this version does not have is not written, and is its default after decoding.
- A tagged struct is None when it was not sent. Tagged fields are written when they differ from their default.

This module owns no state but the codecs cached on each message class.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Final, Self, TypeAlias, dataclass_transform

from headwater.base.ports import Buffer

Records: TypeAlias = Any
"""A memoryview once decoded. To encode: bytes, bytearray, memoryview, or anything with a length (a FileSlice)."""

Chunk: TypeAlias = Any
"""A piece of an encoded message: bytes, or the records object that was put in."""

LATEST: Final = 0x7FFF  # no version is higher: versions are int16


class FixedType:
    """A type of constant width. Neighbours are read and written by one `struct.Struct`."""

    __slots__ = ("format", "name", "size_bytes", "zero")

    def __init__(self, name: str, format_: str, size_bytes: int, zero: object) -> None:
        self.name = name
        self.format = format_
        self.size_bytes = size_bytes
        self.zero = zero

    def __repr__(self) -> str:
        return self.name


class SizedType:
    """A type with a length before it: int16 (string) or int32, or an unsigned varint of length + 1 when flexible."""

    __slots__ = ("length_format", "name", "zero")

    def __init__(self, name: str, length_format: str, zero: object) -> None:
        self.name = name
        self.length_format = length_format
        self.zero = zero

    def __repr__(self) -> str:
        return self.name


class Array:
    """Any number of elements of one type: int32 count, or an unsigned varint of count + 1 when flexible."""

    __slots__ = ("element",)

    def __init__(self, element: "FixedType | SizedType | type[Struct]") -> None:
        self.element = element

    def __repr__(self) -> str:
        return f"[]{getattr(self.element, '__name__', self.element)}"


INT8: Final = FixedType("int8", "b", 1, 0)
INT16: Final = FixedType("int16", "h", 2, 0)
UINT16: Final = FixedType("uint16", "H", 2, 0)
INT32: Final = FixedType("int32", "i", 4, 0)
UINT32: Final = FixedType("uint32", "I", 4, 0)
INT64: Final = FixedType("int64", "q", 8, 0)
FLOAT64: Final = FixedType("float64", "d", 8, 0.0)
BOOL: Final = FixedType("bool", "?", 1, False)
UUID: Final = FixedType("uuid", "16s", 16, bytes(16))
STRING: Final = SizedType("string", "h", "")
BYTES: Final = SizedType("bytes", "i", b"")
RECORDS: Final = SizedType("records", "i", b"")

FieldType: TypeAlias = "FixedType | SizedType | Array | type[Struct]"

_UNSET: Final = object()


class Field:
    """One declared field. `name` is filled in when its class is made."""

    __slots__ = ("default", "name", "nullable_since", "since", "tag", "tag_since", "type", "until")

    def __init__(
        self,
        type_: FieldType,
        since: int,
        until: int,
        nullable_since: int | None,
        tag: int | None,
        tag_since: int | None,
        default: object,
    ) -> None:
        self.name = ""
        self.type = type_
        self.since = since
        self.until = until
        self.nullable_since = nullable_since
        self.tag = tag
        self.tag_since = since if tag_since is None else tag_since
        self.default = self._default() if default is _UNSET else default

    def _default(self) -> object:
        """Immutable; an empty tuple stands for a new list, a struct class for a new struct."""
        if self.nullable_since is not None:
            return None
        if isinstance(self.type, Array):
            return ()
        if isinstance(self.type, type):
            return self.type if self.tag is None else None
        return self.type.zero

    def in_version(self, version: int) -> bool:
        return self.since <= version <= self.until

    def nullable_in(self, version: int) -> bool:
        return self.nullable_since is not None and version >= self.nullable_since

    def tagged_in(self, version: int) -> bool:
        return self.tag is not None and version >= self.tag_since


def field(
    type_: FieldType,
    *,
    since: int = 0,
    until: int = LATEST,
    nullable_since: int | None = None,
    tag: int | None = None,
    tag_since: int | None = None,
    default: object = _UNSET,
) -> Any:
    """Declares a field. Not named as a field specifier on purpose: so type checkers see a default on every field."""
    return Field(type_, since, until, nullable_since, tag, tag_since, default)


@dataclass_transform(kw_only_default=True)
class _StructMeta(type):
    """Turns declared fields into slots, and keeps their declarations in FIELDS."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        *,
        key: int | None = None,
        versions: tuple[int, int] | None = None,
        flexible_since: int = LATEST,
    ) -> "_StructMeta":
        fields = tuple((key_, value) for key_, value in namespace.items() if isinstance(value, Field))
        for field_name, declared in fields:
            declared.name = field_name
            del namespace[field_name]
        namespace["__slots__"] = tuple(field_name for field_name, _ in fields)
        namespace["FIELDS"] = tuple(declared for _, declared in fields)
        if key is not None:
            namespace.update(KEY=key, VERSIONS=versions, FLEXIBLE_SINCE=flexible_since, _decoders={}, _encoders={})
        return super().__new__(mcs, name, bases, namespace)


class Struct(metaclass=_StructMeta):
    """A group of fields inside a message. Its versions are those of the message."""

    FIELDS: ClassVar[tuple[Field, ...]] = ()

    def __init__(self, **values: Any) -> None:
        cls = type(self)
        cls.__init__ = _compile_constructor(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{field.name}={_short(getattr(self, field.name))}" for field in self.FIELDS)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """A request or response body."""

    KEY: ClassVar[int]
    VERSIONS: ClassVar[tuple[int, int]]  # the first and the last, both included
    FLEXIBLE_SINCE: ClassVar[int]
    _decoders: ClassVar[dict[int, Callable[[Buffer, int], Any]]]
    _encoders: ClassVar[dict[int, Callable[[Any], list[Chunk]]]]

    @classmethod
    def decode(cls, buffer: Buffer, position: int, version: int) -> Self:
        """The message that stands between `position` and the end of `buffer`; DecodeError if anything else does."""
        decoder = cls._decoders.get(version)
        if decoder is None:
            from headwater.wire.codec import compile_decoder

            decoder = cls._decoders[version] = compile_decoder(cls, version)
        message: Self = decoder(buffer, position)
        return message

    def encode(self, version: int) -> list[Chunk]:
        """The body in pieces: records as the objects that were put in, all between them joined."""
        encoder = self._encoders.get(version)
        if encoder is None:
            from headwater.wire.codec import compile_encoder

            encoder = self._encoders[version] = compile_encoder(type(self), version)
        return encoder(self)


def _compile_constructor(cls: type[Struct]) -> Callable[..., None]:
    """An `__init__` with every field as a keyword, compiled because the generic one is five times slower."""
    namespace: dict[str, Any] = {"EMPTY": ()}
    parameters, body = [], []
    for declared in cls.FIELDS:
        name, value = declared.name, declared.name
        if declared.default == ():
            parameters.append(f"{name}=EMPTY")
            value = f"[] if {name} is EMPTY else {name}"
        elif isinstance(declared.default, type):
            namespace[f"new_{name}"] = declared.default
            parameters.append(f"{name}=EMPTY")
            value = f"new_{name}() if {name} is EMPTY else {name}"
        else:
            parameters.append(f"{name}={declared.default!r}")
        body.append(f"self.{name} = {value}")
    star = ", *, " if parameters else ""
    source = f"def __init__(self{star}{', '.join(parameters)}):\n    " + "\n    ".join(body or ["pass"])
    exec(source, namespace)  # noqa: S102 - the source is made from declarations in this package only
    constructor: Callable[..., None] = namespace["__init__"]
    return constructor


def _short(value: object) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)) and len(value) > 32:
        return f"<{len(value)} bytes>"
    return repr(value)
