"""Format strings for records going out, as rpk has them: `-f '%t %p %o %k %v\\n'`.

    %t %k %v   topic, key, value                 %T %K %V   their lengths in bytes
    %p %o %e   partition, offset, leader epoch   %d         timestamp in ms;  %d{iso}  %d{%Y-%m-%d}
    %h{%k=%v } headers, once for each            %H         their number
    %x %y      producer id and epoch             %a %i      attributes, number of the record (from 1)
    %% %{ %}   the characters themselves         \\n \\t \\r \\\\ \\xNN

In braces, for text: base64, hex, json. For numbers: hex, big8..big64, little8..little64 (binary). A format is compiled
once into a list of pieces; rendering a record joins what each piece gives.
"""

import json
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, TypeAlias

from headwater.base.errors import UserError
from headwater.client.types import FetchedRecord, Header

Piece: TypeAlias = Callable[[FetchedRecord, int], bytes]
HeaderPiece: TypeAlias = Callable[[Header], bytes]

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "0": "\0"}
_BINARY_BYTES: Final = {"8": 1, "16": 2, "32": 4, "64": 8}

_NUMBERS: Final[dict[str, Callable[[FetchedRecord, int], int]]] = {
    "p": lambda record, _: record.partition,
    "o": lambda record, _: record.offset,
    "e": lambda record, _: record.leader_epoch,
    "T": lambda record, _: len(record.topic.encode()),
    "K": lambda record, _: len(record.key or b""),
    "V": lambda record, _: len(record.value or b""),
    "H": lambda record, _: len(record.headers),
    "x": lambda record, _: record.producer_id,
    "y": lambda record, _: record.producer_epoch,
    "a": lambda record, _: record.attributes,
    "i": lambda _, number: number,
}
_TEXTS: Final[dict[str, Callable[[FetchedRecord], bytes]]] = {
    "t": lambda record: record.topic.encode(),
    "k": lambda record: record.key or b"",
    "v": lambda record: record.value or b"",
}


class Token:
    """One piece of a format string: literal text, or a letter with what stands in its braces."""

    __slots__ = ("argument", "letter", "literal")

    def __init__(self, literal: str = "", letter: str = "", argument: str | None = None) -> None:
        self.literal = literal
        self.letter = letter
        self.argument = argument


def tokenize(text: str) -> list[Token]:
    """Splits a format into literals (escapes resolved, neighbours joined) and %-letters with their braces."""
    tokens: list[Token] = []
    literal: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "\\":
            character, at = _escape(text, at)
            literal.append(character)
        elif text[at] == "%":
            if at + 1 == len(text):
                raise _bad(text, "it ends in a single %; write %% for the character")
            letter = text[at + 1]
            at += 2
            if letter in "%{}":
                literal.append(letter)
                continue
            argument, at = _braces(text, at)
            if literal:
                tokens.append(Token("".join(literal)))
                literal = []
            tokens.append(Token(letter=letter, argument=argument))
        else:
            literal.append(text[at])
            at += 1
    if literal:
        tokens.append(Token("".join(literal)))
    return tokens


def _escape(text: str, at: int) -> tuple[str, int]:
    letter = text[at + 1 : at + 2]
    if letter == "x":
        digits = text[at + 2 : at + 4]
        try:
            return bytes([int(digits, 16)]).decode("ascii", "surrogateescape"), at + 4
        except ValueError:
            raise _bad(text, f"\\x wants two hexadecimal digits, not {digits!r}") from None
    if letter not in _ESCAPES:
        raise _bad(text, f"\\{letter} is not one of \\n \\t \\r \\0 \\\\ \\xNN")
    return _ESCAPES[letter], at + 2


def _braces(text: str, at: int) -> tuple[str | None, int]:
    """What stands in the braces at `at`, if any are there; braces may nest."""
    if text[at : at + 1] != "{":
        return None, at
    depth = 0
    for end in range(at, len(text)):
        if text[end] == "{" and text[end - 1] != "%":
            depth += 1
        elif text[end] == "}" and text[end - 1] != "%":
            depth -= 1
            if depth == 0:
                return text[at + 1 : end], end + 1
    raise _bad(text, "a brace is opened and not closed")


def compile_format(text: str) -> Callable[[FetchedRecord, int], bytes]:
    """A function (record, number from 1) -> bytes."""
    pieces = [_piece(text, token) for token in tokenize(text)]

    def render(record: FetchedRecord, number: int) -> bytes:
        return b"".join([piece(record, number) for piece in pieces])

    return render


def _piece(text: str, token: Token) -> Piece:
    letter, argument = token.letter, token.argument
    if not letter:
        literal = literal_bytes(token.literal)
        return lambda _record, _number: literal
    if letter in _TEXTS:
        take, encode = _TEXTS[letter], text_encoder(text, letter, argument)
        return lambda record, _number: encode(take(record))
    if letter in _NUMBERS:
        number_of, write = _NUMBERS[letter], number_writer(text, letter, argument)
        return lambda record, number: write(number_of(record, number))
    if letter == "d":
        show = _timestamp_writer(text, argument)
        return lambda record, _number: show(record.timestamp_ms)
    if letter == "h":
        return _headers_piece(text, argument)
    raise _bad(text, f"%{letter} is not one of %t %k %v %T %K %V %p %o %e %d %h %H %x %y %a %i %%")


def _headers_piece(text: str, argument: str | None) -> Piece:
    pieces: list[HeaderPiece] = []
    for token in tokenize("%k=%v " if argument is None else argument):
        if not token.letter:
            pieces.append(_header_literal(literal_bytes(token.literal)))
            continue
        if token.letter not in "kvKV":
            raise _bad(text, f"inside %h{{...}}, %{token.letter} is not one of %k %v %K %V")
        pieces.append(_header_piece(text, token))
    return lambda record, _number: b"".join([piece(header) for header in record.headers for piece in pieces])


def _header_literal(literal: bytes) -> HeaderPiece:
    return lambda _header: literal


def _header_piece(text: str, token: Token) -> HeaderPiece:
    letter = token.letter

    def part(header: Header) -> bytes:
        return header.key.encode() if letter in "kK" else (header.value or b"")

    if letter in "kv":
        encode = text_encoder(text, letter, token.argument)
        return lambda header: encode(part(header))
    write = number_writer(text, letter, token.argument)
    return lambda header: write(len(part(header)))


def text_encoder(text: str, letter: str, argument: str | None) -> Callable[[bytes], bytes]:
    if argument is None:
        return bytes
    encoders: dict[str, Callable[[bytes], bytes]] = {
        "base64": b64encode,
        "hex": lambda data: data.hex().encode(),
        "json": lambda data: json.dumps(data.decode("utf-8", "replace"), ensure_ascii=False).encode(),
    }
    if argument not in encoders:
        raise _bad(text, f"%{letter}{{{argument}}}: the braces take one of base64, hex, json")
    return encoders[argument]


def number_writer(text: str, letter: str, argument: str | None) -> Callable[[int], bytes]:
    if argument is None or argument == "ascii":
        return lambda number: b"%d" % number
    if argument == "hex":
        return lambda number: b"%x" % number
    size, order = binary_shape(argument)
    if not size:
        raise _bad(
            text, f"%{letter}{{{argument}}}: the braces take one of ascii, hex, big8 to big64, little8 to little64"
        )
    return lambda number: (number & ((1 << 8 * size) - 1)).to_bytes(size, "big" if order == "big" else "little")


def binary_shape(argument: str) -> tuple[int, str]:
    """'big32' -> (4, 'big'); (0, '') when it is no such thing."""
    for order in ("big", "little"):
        if argument.startswith(order) and argument[len(order) :] in _BINARY_BYTES:
            return _BINARY_BYTES[argument[len(order) :]], order
    return 0, ""


def iso_time(timestamp_ms: int) -> str:
    """'2026-01-31T12:00:00.123Z'; a record without a timestamp (-1) has '-'."""
    return _time_text(timestamp_ms, lambda when: f"{when:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z")


def _time_text(timestamp_ms: int, text: Callable[[datetime], str]) -> str:
    """Any int64 is a valid timestamp: one past the year 9999 is shown as the number it is."""
    if timestamp_ms < 0:
        return "-"
    seconds, milliseconds = divmod(timestamp_ms, 1000)
    try:
        when = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    return text(when.replace(microsecond=milliseconds * 1000))


def _timestamp_writer(text: str, argument: str | None) -> Callable[[int], bytes]:
    if argument == "iso":
        return lambda timestamp_ms: iso_time(timestamp_ms).encode()
    if argument is not None and "%" in argument:
        return lambda timestamp_ms: _time_text(timestamp_ms, lambda when: when.strftime(argument)).encode()
    return number_writer(text, "d", argument)


def literal_bytes(literal: str) -> bytes:
    """UTF-8; a \\xNN from 80 on came in as a surrogate and is that byte."""
    return literal.encode("utf-8", "surrogateescape")


def _bad(text: str, why: str) -> UserError:
    return UserError(f"Cannot read the format {text!r}", why, "See: headwater consume --help")
