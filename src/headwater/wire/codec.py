"""Compiles the codec of one message in one version: Python source from the schema, then `exec`.

The source is straight-line: arrays and structs are inlined as nested loops, neighbouring fields of constant width are
one `struct.Struct` call, and a length is part of the call for the fields before it. To see what runs:

    print(decoder_source(FetchRequest, 11).text())

`encoder` and `decoder` write the two halves; this module holds what they share and owns no state: the compiled
functions are cached on the message class.
"""

from collections.abc import Callable
from struct import Struct as Layout
from typing import Any

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ports import Buffer
from headwater.wire.schema import Array, Chunk, FieldType, FixedType, Message, SizedType


class Source:
    """Lines of Python under construction, and the names they use."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._variables = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    def indent(self) -> None:
        self._depth += 1

    def dedent(self) -> None:
        self._depth -= 1

    def variable(self, prefix: str) -> str:
        self._variables += 1
        return f"{prefix}{self._variables}"

    def name_for(self, prefix: str, value: object) -> str:
        """A global name for an object that the source needs; the same object gets the same name."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def layout(self, format_: str, operation: str) -> str:
        """A global name for `pack` or `unpack_from` of a precompiled struct."""
        name = f"{operation}_{format_.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = getattr(Layout(">" + format_), operation)
        return name

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def compile(self, function: str, title: str) -> Callable[..., Any]:
        namespace = dict(self.names)
        exec(compile(self.text(), f"<{title}>", "exec"), namespace)  # noqa: S102 - made from our own schema only
        compiled: Callable[..., Any] = namespace[function]
        return compiled


def size_bytes_min(type_: FieldType, version: int, flexible: bool) -> int:
    """The fewest bytes a value can take: what bounds the count of an array."""
    if isinstance(type_, FixedType):
        return type_.size_bytes
    if isinstance(type_, SizedType):
        return 1 if flexible else Layout(">" + type_.length_format).size
    if isinstance(type_, Array):
        return 1 if flexible else 4
    total = 1 if flexible else 0
    for field in type_.FIELDS:
        if field.in_version(version) and not field.tagged_in(version):
            nullable_struct = isinstance(field.type, type) and field.nullable_in(version)
            total += 1 if nullable_struct else size_bytes_min(field.type, version, flexible)
    return total


def decoder_source(cls: type[Message], version: int) -> Source:
    from headwater.wire.decoder import write_decoder

    return write_decoder(cls, _checked(cls, version), version >= cls.FLEXIBLE_SINCE)


def encoder_source(cls: type[Message], version: int) -> Source:
    from headwater.wire.encoder import write_encoder

    return write_encoder(cls, _checked(cls, version), version >= cls.FLEXIBLE_SINCE)


def compile_decoder(cls: type[Message], version: int) -> Callable[[Buffer, int], Any]:
    return decoder_source(cls, version).compile("decode", f"decode {cls.__name__} v{version}")


def compile_encoder(cls: type[Message], version: int) -> Callable[[Any], list[Chunk]]:
    return encoder_source(cls, version).compile("encode", f"encode {cls.__name__} v{version}")


def _checked(cls: type[Message], version: int) -> int:
    first, last = cls.VERSIONS
    if not first <= version <= last:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{cls.__name__} has versions {first} to {last}, not {version}")
    return version
