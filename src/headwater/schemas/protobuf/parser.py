"""From the text of a .proto file to objects: proto2, proto3, and editions as far as their syntax goes. Pure.

One pass, by recursive descent; messages may be nested `DEPTH_MAX` deep. Names of types are resolved elsewhere.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, NoReturn

from headwater.schemas.json_text import limit_text
from headwater.schemas.model import DEPTH_MAX, NAME_LENGTH_MAX, SchemaError
from headwater.schemas.protobuf.lexer import Token, place, tokens, unescape
from headwater.schemas.protobuf.types import (
    FIELD_NUMBER_MAX,
    Enum,
    EnumValue,
    Field,
    File,
    Import,
    Label,
    Message,
    Method,
    Oneof,
    Option,
    Ranges,
    Service,
    Value,
)

_LABELS: Final[dict[str, Label]] = {"optional": "optional", "required": "required", "repeated": "repeated"}
_INT32_MAX: Final = (1 << 31) - 1
_RANGE_OPTIONS_MAX: Final = 1 << 21  # characters of options of all ranges of extensions, each range with its own


def parse_file(text: str) -> File:
    limit_text(text)
    return _Parser(text).file()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens(text)
        self._next = 0
        self._depth = 0
        self._range_options = 0

    # --- words

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _fail(self, why: str, token: Token | None = None) -> NoReturn:
        where = place(self._text, (token or self._token).position)
        raise SchemaError(f"not a .proto file: {where}: {why}")

    def _take(self) -> Token:
        token = self._token
        if token.kind == "end":
            self._fail("the file ends too early")
        self._next += 1
        return token

    def _accept(self, text: str) -> bool:
        if self._token.text == text and self._token.kind in ("symbol", "identifier"):
            self._next += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            if self._token.kind == "end":
                self._fail("the file ends too early")
            self._fail(f"{text!r} is wanted, not {self._token.text[:50]!r}")

    def _identifier(self) -> str:
        token = self._take()
        if token.kind != "identifier":
            self._fail(f"a name is wanted, not {token.text[:50]!r}", token)
        if len(token.text) > NAME_LENGTH_MAX:
            self._fail(f"a name has more than {NAME_LENGTH_MAX:,} characters", token)
        return token.text

    def _type_name(self) -> str:
        first = "." if self._accept(".") else ""
        return first + self._dotted_name()

    def _dotted_name(self) -> str:
        parts = [self._identifier()]
        while self._accept("."):
            parts.append(self._identifier())
        return ".".join(parts)

    def _string(self) -> bytes:
        token = self._take()
        if token.kind != "string":
            self._fail(f"text in quotes is wanted, not {token.text[:50]!r}", token)
        parts = [unescape(token.text)]
        while self._token.kind == "string":
            parts.append(unescape(self._take().text))
        return b"".join(parts)

    def _integer(self, low: int, high: int) -> int:
        negative = self._accept("-")
        token = self._take()
        try:
            number = int(token.text, 8 if token.text[:1] == "0" and token.text.isdigit() else 0)
        except ValueError:
            self._fail(f"a whole number is wanted, not {token.text[:50]!r}", token)
        number = -number if negative else number
        if not low <= number <= high:
            self._fail(f"{'-' if negative else ''}{token.text[:50]} is not from {low} to {high}", token)
        return number

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            self._fail(f"nested more than {DEPTH_MAX} levels deep")

    # --- the file

    def file(self) -> File:
        file = File()
        if self._token.text in ("syntax", "edition") and self._token.kind == "identifier":
            self._syntax(file)
        while self._token.kind != "end":
            self._statement(file)
        return file

    def _syntax(self, file: File) -> None:
        keyword = self._take().text
        self._expect("=")
        value = self._string().decode("utf-8", "replace")
        self._expect(";")
        if keyword == "edition":
            file.syntax, file.edition = "editions", value
        elif value in ("proto2", "proto3"):
            file.syntax = value
        else:
            self._fail(f"the syntax is proto2 or proto3, not {value[:50]!r}")

    def _statement(self, file: File) -> None:
        if self._accept(";"):
            return
        keyword = self._identifier()
        if keyword in ("export", "local"):  # edition 2024: who may import it
            keyword = self._identifier()
        match keyword:
            case "package":
                file.package = self._dotted_name()
                self._expect(";")
            case "import":
                self._import(file)
            case "option":
                file.options.append(self._option())
                self._expect(";")
            case "message":
                file.messages.append(self._message())
            case "enum":
                file.enums.append(self._enum())
            case "extend":
                file.extensions += self._extend(file.messages)
            case "service":
                file.services.append(self._service())
            case _:
                self._next -= 1
                self._fail(f"{keyword[:50]!r} does not begin anything that stands in a file")

    def _import(self, file: File) -> None:
        kind = self._take().text if self._token.text in ("public", "weak") else ""
        path = self._string().decode("utf-8", "replace")
        file.imports.append(Import(path, kind))  # type: ignore[arg-type]
        self._expect(";")

    # --- options

    def _option(self) -> Option:
        parts = [self._option_part()]
        while self._accept("."):
            parts.append(self._option_part())
        self._expect("=")
        return Option(".".join(parts), self._value())

    def _option_part(self) -> str:
        if self._accept("("):
            name = f"({self._type_name()})"
            self._expect(")")
            return name
        return self._identifier()

    def _value(self) -> Value:
        token = self._token
        if token.kind == "string":
            data = self._string()
            return Value("string", data.decode("utf-8", "replace"), data)
        if token.text == "{":
            return Value("aggregate", self._aggregate())
        sign = self._take().text if token.text in ("-", "+") else ""
        word = self._take()
        if word.kind == "identifier":
            self._next -= 1
            return Value("number" if sign else "identifier", ("-" if sign == "-" else "") + self._type_name())
        if word.kind != "number":
            self._fail(f"a value is wanted, not {word.text[:50]!r}", word)
        return Value("number", ("-" if sign == "-" else "") + word.text)

    def _aggregate(self) -> str:
        """Everything to the matching brace, its words one space apart."""
        words: list[str] = []
        depth = 0
        while True:
            token = self._take()
            words.append(token.text)
            if token.text in "{<[" and token.kind == "symbol":
                depth += 1
                if depth > DEPTH_MAX:
                    self._fail(f"nested more than {DEPTH_MAX} levels deep", token)
            elif token.text in "}>]" and token.kind == "symbol":
                depth -= 1
                if depth == 0:
                    return " ".join(words)

    def _bracketed_options(self) -> list[Option]:
        options: list[Option] = []
        if self._accept("["):
            options.append(self._option())
            while self._accept(","):
                options.append(self._option())
            self._expect("]")
        return options

    # --- messages

    def _message(self) -> Message:
        message = Message(self._identifier())
        self._body(message)
        return message

    def _body(self, message: Message) -> None:
        self._expect("{")
        self._deeper()
        while not self._accept("}"):
            self._member(message)
        self._depth -= 1

    def _member(self, message: Message) -> None:
        if self._accept(";"):
            return
        start = self._next
        keyword = self._token.text
        following = self._tokens[self._next + 1] if self._token.kind == "identifier" else self._token
        if keyword in ("export", "local") and following.text in ("message", "enum"):
            self._next += 1
            keyword, following = self._token.text, self._tokens[self._next + 1]
        # a keyword may be the name of a type as well: what follows decides
        named = following.kind == "identifier" and self._tokens[min(self._next + 2, len(self._tokens) - 1)].text == "{"
        nested: dict[str, Callable[[], None]] = {
            "message": lambda: message.messages.append(self._message()),
            "enum": lambda: message.enums.append(self._enum()),
            "oneof": lambda: self._oneof(message),
        }
        if keyword in nested and named:
            self._next += 1
            nested[keyword]()
        elif keyword == "extend":
            self._next += 1
            message.extensions += self._extend(message.messages)
        elif keyword == "option":
            self._next += 1
            message.options.append(self._option())
            self._expect(";")
        elif keyword == "reserved":
            self._next += 1
            self._reserved(message.reserved, 1, FIELD_NUMBER_MAX)
        elif keyword == "extensions":
            self._next += 1
            self._reserved(message.extension_ranges, 1, FIELD_NUMBER_MAX)
        else:
            self._next = start
            message.fields.append(self._field(message.messages))

    def _field(self, messages: list[Message], oneof: str = "") -> Field:
        label: Label = ""
        if self._token.text in _LABELS and not oneof:
            label = _LABELS[self._take().text]
        if self._token.text == "map" and self._tokens[self._next + 1].text == "<":
            field = self._map_field(label)
            field.entry_place = len(messages)
            return field
        if self._token.text == "group" and self._tokens[self._next + 1].kind == "identifier":
            return self._group(messages, label, oneof)
        field_type = self._type_name()
        field = Field(self._identifier(), 0, field_type, label, oneof)
        self._number_and_options(field)
        self._expect(";")
        return field

    def _number_and_options(self, field: Field) -> None:
        self._expect("=")
        field.number = self._integer(1, FIELD_NUMBER_MAX)
        field.options = self._bracketed_options()

    def _map_field(self, label: Label) -> Field:
        if label:
            self._fail("a map has no label")
        self._next += 2
        key = self._identifier()
        self._expect(",")
        value = self._type_name()
        self._expect(">")
        field = Field(self._identifier(), 0, "map", map_key=key, map_value=value)
        self._number_and_options(field)
        self._expect(";")
        return field

    def _group(self, messages: list[Message], label: Label, oneof: str) -> Field:
        self._next += 1
        message = Message(self._identifier())
        field = Field(message.name.lower(), 0, "group", label, oneof, map_value=message.name)
        self._number_and_options(field)
        messages.append(message)
        self._body(message)
        return field

    def _oneof(self, message: Message) -> None:
        oneof = Oneof(self._identifier())
        message.oneofs.append(oneof)
        self._expect("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            if self._accept("option"):
                oneof.options.append(self._option())
                self._expect(";")
            else:
                message.fields.append(self._field(message.messages, oneof.name))

    def _extend(self, messages: list[Message]) -> list[Field]:
        extendee = self._type_name()
        fields = []
        self._expect("{")
        while not self._accept("}"):
            if not self._accept(";"):
                field = self._field(messages)
                field.extendee = extendee
                fields.append(field)
        return fields

    def _reserved(self, ranges: Ranges, low: int, high: int) -> None:
        before = len(ranges.numbers)
        while True:
            if self._token.kind == "string":
                ranges.names.append(self._string().decode("utf-8", "replace"))
            elif self._token.kind == "identifier":
                ranges.names.append(self._identifier())
            else:
                start = self._integer(low, high)
                end = start
                if self._accept("to"):
                    end = high if self._accept("max") else self._integer(start, high)
                ranges.numbers.append((start, end))
            if not self._accept(","):
                break
        start_of_options = self._token.position
        options = self._bracketed_options()
        self._range_options += (len(ranges.numbers) - before) * (self._token.position - start_of_options)
        if self._range_options > _RANGE_OPTIONS_MAX:
            self._fail("too many ranges with too many options")
        for option in options:  # of extensions, each range has them
            for extent in ranges.numbers[before:]:
                ranges.options.setdefault(extent, []).append(replace(option))
        self._expect(";")

    # --- enums and services

    def _enum(self) -> Enum:
        enum = Enum(self._identifier())
        self._expect("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            following = self._tokens[self._next + 1].text if self._token.kind == "identifier" else ""
            if self._token.text == "option" and following != "=":
                self._next += 1
                enum.options.append(self._option())
                self._expect(";")
            elif self._token.text == "reserved" and following != "=":
                self._next += 1
                self._reserved(enum.reserved, -_INT32_MAX - 1, _INT32_MAX)
            else:
                value = EnumValue(self._identifier(), 0)
                self._expect("=")
                value.number = self._integer(-_INT32_MAX - 1, _INT32_MAX)
                value.options = self._bracketed_options()
                self._expect(";")
                enum.values.append(value)
        return enum

    def _service(self) -> Service:
        service = Service(self._identifier())
        self._expect("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            if self._accept("option"):
                service.options.append(self._option())
                self._expect(";")
            else:
                self._expect("rpc")
                service.methods.append(self._method())
        return service

    def _method(self) -> Method:
        method = Method(self._identifier(), "", "")
        method.client_streaming, method.request = self._streamed()
        self._expect("returns")
        method.server_streaming, method.response = self._streamed()
        if self._accept("{"):
            method.has_braces = True
            while not self._accept("}"):
                if not self._accept(";"):
                    self._expect("option")
                    method.options.append(self._option())
                    self._expect(";")
        else:
            self._expect(";")
        return method

    def _streamed(self) -> tuple[bool, str]:
        self._expect("(")
        streaming = self._token.text == "stream" and self._tokens[self._next + 1].text != ")" and self._accept("stream")
        name = self._type_name()
        self._expect(")")
        return streaming, name
