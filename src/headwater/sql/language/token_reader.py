"""A cursor over tokens, which the parsers share: look ahead, take, demand, and say what was expected instead."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from headwater.sql.language import types
from headwater.sql.language.errors import Position, SqlSyntaxError, did_you_mean
from headwater.sql.language.tokens import Kind, Token
from headwater.sql.language.types import Type

DEPTH_MAX: Final = 50  # of expressions, types and brackets within each other: deeper ones are refused, not overflowed

RESERVED: Final = frozenset(
    [
        "ADD",
        "ALL",
        "ALTER",
        "AND",
        "ANY",
        "ARRAY",
        "AS",
        "ASSERT",
        "BETWEEN",
        "BY",
        "CASE",
        "CAST",
        "CREATE",
        "CROSS",
        "DEFINE",
        "DELETE",
        "DESCRIBE",
        "DISTINCT",
        "DROP",
        "ELSE",
        "EMIT",
        "END",
        "ESCAPE",
        "EXISTS",
        "EXPLAIN",
        "EXTENDED",
        "FALSE",
        "FROM",
        "FULL",
        "FUNCTION",
        "FUNCTIONS",
        "GROUP",
        "HAVING",
        "IF",
        "IN",
        "INNER",
        "INSERT",
        "INTEGER",
        "INTO",
        "IS",
        "JOIN",
        "LEFT",
        "LIKE",
        "LIMIT",
        "LIST",
        "NOT",
        "NULL",
        "ON",
        "OR",
        "OUTER",
        "PARTITION",
        "PRINT",
        "PROPERTIES",
        "RENAME",
        "RIGHT",
        "RUN",
        "SCRIPT",
        "SELECT",
        "SET",
        "SHOW",
        "TABLE",
        "TERMINATE",
        "THEN",
        "TRUE",
        "UNDEFINE",
        "UNSET",
        "VALUES",
        "WHEN",
        "WHERE",
        "WITH",
        "WITHIN",
    ]
)

UNITS_MS: Final = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 7 * 86_400_000,
    "MONTH": 30 * 86_400_000,
    "YEAR": 365 * 86_400_000,
}


class TokenReader:
    """Owns the place in the tokens of one text. `custom` are types made by CREATE TYPE, by name."""

    def __init__(self, tokens: Sequence[Token], text: str, custom: dict[str, Type]) -> None:
        self._tokens = tokens
        self.text = text
        self.custom = custom
        self.at = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        return self._tokens[self.at]

    @property
    def at_end(self) -> bool:
        return self.token.kind is Kind.END

    @property
    def position(self) -> Position:
        return self.token.position

    def ahead(self, count: int = 1) -> Token:
        return self._tokens[min(self.at + count, len(self._tokens) - 1)]

    def take(self) -> Token:
        token = self.token
        if token.kind is not Kind.END:
            self.at += 1
        return token

    def is_word(self, *words: str) -> bool:
        """Whether the words follow each other here, as keywords."""
        return all(
            (token := self.ahead(count) if count else self.token).kind is Kind.NAME and token.text == word
            for count, word in enumerate(words)
        )

    def is_symbol(self, symbol: str) -> bool:
        return self.token.kind is Kind.SYMBOL and self.token.text == symbol

    def accept(self, *words: str) -> bool:
        """Takes the words if they follow each other here."""
        if not self.is_word(*words):
            return False
        self.at += len(words)
        return True

    def accept_symbol(self, symbol: str) -> bool:
        if not self.is_symbol(symbol):
            return False
        self.at += 1
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                raise self.unexpected(word)

    def expect_symbol(self, symbol: str) -> None:
        if not self.accept_symbol(symbol):
            raise self.unexpected(f"'{symbol}'")

    def name(self, what: str = "a name") -> str:
        """A name: quoted, or a word that is no keyword."""
        token = self.token
        if token.kind is Kind.QUOTED_NAME or (token.kind is Kind.NAME and token.text not in RESERVED):
            if not token.text:
                raise SqlSyntaxError("A name is empty.", position=token.position)
            return self.take().text
        if token.kind is Kind.NAME:
            raise SqlSyntaxError(
                f'"{token.text}" is a reserved keyword and it can\'t be used as an identifier.',
                hint="You can use it as an identifier by escaping it as '`" + token.text + "`'",
                position=token.position,
            )
        raise self.unexpected(what)

    def string(self, what: str = "a string") -> str:
        if self.token.kind is not Kind.STRING:
            raise self.unexpected(what)
        return self.take().text

    def integer(self, what: str = "a whole number") -> int:
        if self.token.kind is not Kind.INTEGER:
            raise self.unexpected(what)
        return int(self.take().text[:18])

    def duration_ms(self) -> int:
        """`10 SECONDS`."""
        count = self.integer("a number of time units")
        unit = self.token.text.removesuffix("S")
        if self.token.kind is not Kind.NAME or unit not in UNITS_MS:
            raise self.unexpected("a unit of time, such as SECONDS")
        self.take()
        return count * UNITS_MS[unit]

    @contextmanager
    def nested(self) -> Iterator[None]:
        """One level deeper; beyond DEPTH_MAX the statement is refused."""
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise SqlSyntaxError(f"Nested deeper than {DEPTH_MAX} levels.", position=self.position)
        try:
            yield
        finally:
            self._depth -= 1

    def unexpected(self, *expected: str) -> SqlSyntaxError:
        token = self.token
        what = "the end of the text" if token.kind is Kind.END else f"'{self.text[token.start : token.end]}'"
        return SqlSyntaxError(
            f"Syntax Error: found {what}, expected {' or '.join(expected)}.",
            hint=did_you_mean(token.text, expected, cutoff=0.7) if token.kind is Kind.NAME else "",
            position=token.position,
        )

    # -- types ---------------------------------------------------------------------------------------------------------

    def type(self) -> Type:
        """A type as statements write it."""
        with self.nested():
            position = self.position
            token = self.take()
            if token.kind not in (Kind.NAME, Kind.QUOTED_NAME):
                self.at -= 1 if token.kind is not Kind.END else 0
                raise self.unexpected("a type")
            word = token.text
            if token.kind is Kind.NAME and word in ("DECIMAL", "DEC", "NUMERIC"):
                return self._decimal(position)
            if token.kind is Kind.NAME and word == "ARRAY":
                self.expect_symbol("<")
                item = self.type()
                self.expect_symbol(">")
                return types.array(item)
            if token.kind is Kind.NAME and word == "MAP":
                return self._map()
            if token.kind is Kind.NAME and word == "STRUCT":
                return self._struct()
            if token.kind is Kind.NAME and word in types.NAMED:
                if word in ("VARCHAR", "STRING") and self.accept_symbol("("):
                    if self.token.kind is not Kind.INTEGER and not self.is_word("STRING"):
                        raise self.unexpected("STRING", "a whole number")
                    self.take()  # the length means nothing
                    self.expect_symbol(")")
                return types.NAMED[word]
            if word in self.custom:
                return self.custom[word]
            raise SqlSyntaxError(
                f"Cannot resolve unknown type: {word}",
                hint=did_you_mean(word, [*types.NAMED, "DECIMAL", "ARRAY", "MAP", "STRUCT", *self.custom]),
                position=position,
            )

    def _decimal(self, position: Position) -> Type:
        self.expect_symbol("(")
        precision = self.integer("a precision")
        self.expect_symbol(",")
        scale = self.integer("a scale")
        self.expect_symbol(")")
        try:
            return types.decimal(precision, scale)
        except types.NoSuchType as error:
            raise SqlSyntaxError(str(error), position=position) from None

    def _map(self) -> Type:
        self.expect_symbol("<")
        key = self.type()
        self.expect_symbol(",")
        value = self.type()
        self.expect_symbol(">")
        return types.mapping(key, value)

    def _struct(self) -> Type:
        fields: list[tuple[str, Type]] = []
        if self.accept_symbol("<>"):
            return types.struct()
        self.expect_symbol("<")
        while not self.is_symbol(">"):
            position = self.position
            name = self.name("the name of a field")
            if any(name == each for each, _ in fields):
                raise SqlSyntaxError(f"Duplicate field found in STRUCT: '{name}'", position=position)
            fields.append((name, self.type()))
            if not self.accept_symbol(","):
                break
        self.expect_symbol(">")
        return types.struct(*fields)
