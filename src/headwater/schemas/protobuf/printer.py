"""From objects back to the text of a .proto file: one layout for everyone, which is what the registry stores and
compares. Pure.

`normalize` writes full names, options and imports in order, and fields by their numbers.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from headwater.schemas.protobuf.lexer import escape
from headwater.schemas.protobuf.types import (
    FIELD_NUMBER_MAX,
    Enum,
    Field,
    File,
    Message,
    Oneof,
    Option,
    Ranges,
    Service,
    Value,
)

_INT32_MAX: Final = (1 << 31) - 1


def print_file(file: File, normalize: bool = False, *, extensions: bool = True) -> str:
    """Without `extensions`: no declarations of any, no ranges for them, and no options that they define."""
    return "\n".join(_Printer(normalize, extensions).file(file)) + "\n"


class _Printer:
    def __init__(self, normalize: bool, extensions: bool) -> None:
        self._normalize = normalize
        self._with_extensions = extensions
        self._names_are_quoted = True  # reserved ones: protoc wants them so, and in editions only without

    def file(self, file: File) -> Iterator[str]:
        self._names_are_quoted = file.syntax != "editions"
        yield f'edition = "{file.edition}";' if file.syntax == "editions" else f'syntax = "{file.syntax}";'
        if file.package:
            yield f"package {file.package};"
        if file.imports:
            yield ""
            imports = sorted(file.imports, key=lambda each: each.path) if self._normalize else file.imports
            for each in imports:
                yield f"import {each.kind + ' ' if each.kind else ''}{escape(each.path.encode())};"
        if self._ordered(file.options):
            yield ""
            yield from self._option_lines(file.options)
        groups = {field.target for field in file.extensions if field.type == "group"}
        for message in file.messages:
            if message not in groups:
                yield ""
                yield from self._message(message)
        for enum in file.enums:
            yield ""
            yield from self._enum(enum)
        yield from self._extensions(file.extensions)
        for service in file.services:
            yield ""
            yield from self._service(service)

    def _ordered(self, options: list[Option]) -> list[Option]:
        if not self._with_extensions:  # Confluent's own say what a tool must know
            options = [each for each in options if not each.name.startswith("(") or each.name.startswith("(confluent.")]
        return sorted(options, key=lambda each: each.name) if self._normalize else options

    def _option_lines(self, options: list[Option]) -> Iterator[str]:
        for option in self._ordered(options):
            yield f"option {option.name} = {self._value(option.value)};"

    def _bracketed(self, options: list[Option]) -> str:
        parts = [f"{each.name} = {self._value(each.value)}" for each in self._ordered(options)]
        return f" [{', '.join(parts)}]" if parts else ""

    def _value(self, value: Value) -> str:
        return escape(value.data) if value.kind == "string" else value.text

    def _message(self, message: Message, head: str = "") -> Iterator[str]:
        yield (head or f"message {message.name}") + " {"
        groups = {field.target for field in (*message.fields, *message.extensions) if field.type == "group"}
        yield from _indented(self._option_lines(message.options))
        yield from _indented(self._ranges("reserved", message.reserved, FIELD_NUMBER_MAX))
        if self._with_extensions:
            yield from _indented(self._ranges("extensions", message.extension_ranges, FIELD_NUMBER_MAX))
        fields = sorted(message.fields, key=lambda each: each.number) if self._normalize else message.fields
        members = _by(fields, lambda field: field.oneof)
        oneofs = {each.name: each for each in message.oneofs}
        for field in fields:
            if not field.oneof:
                yield from _indented(self._field(field))
            elif members[field.oneof][0] is field:
                yield from _indented(self._oneof(oneofs[field.oneof], members[field.oneof]))
        for inner in message.messages:
            if inner not in groups:
                yield ""
                yield from _indented(self._message(inner))
        for enum in message.enums:
            yield ""
            yield from _indented(self._enum(enum))
        yield from _indented(self._extensions(message.extensions))
        yield "}"

    def _oneof(self, oneof: Oneof, fields: list[Field]) -> Iterator[str]:
        yield f"oneof {oneof.name} {{"
        yield from _indented(self._option_lines(oneof.options))
        for field in fields:
            yield from _indented(self._field(field))
        yield "}"

    def _field(self, field: Field) -> Iterator[str]:
        label = f"{field.label} " if field.label else ""
        if field.type == "group" and isinstance(field.target, Message):
            yield from self._message(
                field.target, f"{label}group {field.target.name} = {field.number}{self._bracketed(field.options)}"
            )
            return
        kind = (
            f"map<{field.map_key}, {self._type(field, field.map_value)}>"
            if field.type == "map"
            else self._type(field, field.type)
        )
        yield f"{label}{kind} {field.name} = {field.number}{self._bracketed(field.options)};"

    def _type(self, field: Field, name: str) -> str:
        return f".{field.target.full_name}" if self._normalize and field.target is not None else name

    def _enum(self, enum: Enum) -> Iterator[str]:
        yield f"enum {enum.name} {{"
        yield from _indented(self._option_lines(enum.options))
        yield from _indented(self._ranges("reserved", enum.reserved, _INT32_MAX))
        values = (
            sorted(enum.values, key=lambda each: (each.number != 0, each.number)) if self._normalize else enum.values
        )
        for value in values:
            yield f"  {value.name} = {value.number}{self._bracketed(value.options)};"
        yield "}"

    def _ranges(self, keyword: str, ranges: Ranges, high: int) -> Iterator[str]:
        by_options: dict[str, list[str]] = {}
        for a, b in ranges.numbers:
            described = self._bracketed(ranges.options.get((a, b), []))
            by_options.setdefault(described, []).append(str(a) if a == b else f"{a} to {'max' if b == high else b}")
        for described, numbers in by_options.items():
            yield f"{keyword} {', '.join(numbers)}{described};"
        if ranges.names:
            names = [escape(each.encode()) if self._names_are_quoted else each for each in ranges.names]
            yield f"{keyword} {', '.join(names)};"

    def _extensions(self, extensions: list[Field]) -> Iterator[str]:
        if not self._with_extensions:
            return
        for extendee, fields in _by(extensions, self._extendee).items():
            yield ""
            yield f"extend {extendee} {{"
            for field in fields:
                yield from _indented(self._field(field))
            yield "}"

    def _extendee(self, field: Field) -> str:
        return f".{field.extended.full_name}" if self._normalize and field.extended is not None else field.extendee

    def _service(self, service: Service) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from _indented(self._option_lines(service.options))
        for method in service.methods:
            types = [method.request, method.response]
            if self._normalize:
                types = [f".{each}" for each in (method.request_full_name, method.response_full_name)]
            request = f"{'stream ' if method.client_streaming else ''}{types[0]}"
            response = f"{'stream ' if method.server_streaming else ''}{types[1]}"
            line = f"  rpc {method.name} ({request}) returns ({response})"
            if self._ordered(method.options):
                yield line + " {"
                yield from _indented(_indented(self._option_lines(method.options)))
                yield "  }"
            else:
                yield line + ";"
        yield "}"


def _by(fields: list[Field], name: Callable[[Field], str]) -> dict[str, list[Field]]:
    found: dict[str, list[Field]] = {}
    for field in fields:
        found.setdefault(name(field), []).append(field)
    return found


def _indented(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield f"  {line}" if line else line
