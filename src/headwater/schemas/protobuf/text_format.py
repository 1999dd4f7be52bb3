"""Protobuf's text format, as it stands in the values of options: `{ doc: "x" tags: ["PII"] inner { a: 1 } }`. Pure.

Fields come as they stand: several of one name, or a list, are several fields. Which of them there are, and of what
type, only the message knows.
"""

from dataclasses import dataclass

from headwater.schemas.model import DEPTH_MAX, SchemaError
from headwater.schemas.protobuf.lexer import Token, escape, tokens, unescape
from headwater.schemas.protobuf.types import Value


@dataclass(frozen=True, slots=True)
class TextField:
    name: str  # or, of an extension, its full name in brackets
    value: "Value | tuple[TextField, ...]"


def parse_text_format(text: str) -> tuple[TextField, ...]:
    """Of an aggregate, with or without its braces. Raises SchemaError."""
    reader = _Reader(tokens(text))
    if reader.accept("{"):
        found = reader.fields("}", 1)
    else:
        found = reader.fields("", 1)
    if reader.token.kind != "end":
        raise reader.error()
    return found


def print_text_format(fields: tuple[TextField, ...]) -> str:
    """Words one space apart, as the parser of .proto files keeps them."""
    words = []
    for each in fields:
        name = " ".join(token.text for token in tokens(each.name)[:-1])
        if isinstance(each.value, tuple):
            words.append(f"{name} {print_text_format(each.value)}")
        elif each.value.kind == "string":
            words.append(f"{name} : {escape(each.value.data)}")
        else:
            sign = "- " if each.value.text.startswith("-") else ""
            words.append(f"{name} : {sign}{each.value.text.removeprefix('-')}")
    return " ".join(["{", *words, "}"])


class _Reader:
    def __init__(self, words: list[Token]) -> None:
        self._words = words
        self._next = 0

    @property
    def token(self) -> Token:
        return self._words[self._next]

    def error(self) -> SchemaError:
        return SchemaError(f"the value of an option is not understood at {self.token.text[:50]!r}")

    def accept(self, symbol: str) -> bool:
        if self.token.kind == "symbol" and self.token.text == symbol:
            self._next += 1
            return True
        return False

    def _take(self, kind: str) -> str:
        if self.token.kind != kind:
            raise self.error()
        self._next += 1
        return self._words[self._next - 1].text

    def fields(self, end: str, depth: int) -> tuple[TextField, ...]:
        if depth > DEPTH_MAX:
            raise SchemaError(f"the value of an option is nested more than {DEPTH_MAX} levels deep")
        found: list[TextField] = []
        while not (self.accept(end) if end else self.token.kind == "end"):
            name = self._name()
            is_marked = self.accept(":")
            if self.accept("["):
                while not self.accept("]"):
                    found.append(TextField(name, self._value(depth, is_marked=True)))
                    if not self.accept(",") and self.token.text != "]":
                        raise self.error()
            else:
                found.append(TextField(name, self._value(depth, is_marked=is_marked)))
            if not self.accept(","):
                self.accept(";")
        return tuple(found)

    def _name(self) -> str:
        if not self.accept("["):
            return self._take("identifier")
        parts = [self._take("identifier")]
        while not self.accept("]"):
            if not (self.accept(".") or self.accept("/")):
                raise self.error()
            parts += [self._words[self._next - 1].text, self._take("identifier")]
        return f"[{''.join(parts)}]"

    def _value(self, depth: int, *, is_marked: bool) -> Value | tuple[TextField, ...]:
        for begin, end in (("{", "}"), ("<", ">")):
            if self.accept(begin):
                return self.fields(end, depth + 1)
        if not is_marked:
            raise self.error()
        if self.token.kind == "string":
            parts: list[bytes] = []
            while self.token.kind == "string":
                parts.append(unescape(self._take("string")))
            data = b"".join(parts)
            return Value("string", data.decode("utf-8", "replace"), data)
        sign = "-" if self.accept("-") else ""
        if self.token.kind == "identifier":
            return Value("number" if sign else "identifier", sign + self._take("identifier"))
        return Value("number", sign + self._take("number"))
