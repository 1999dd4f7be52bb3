"""The words of a .proto file. Pure; linear in the text."""

import re
from typing import Final, NamedTuple

from headwater.schemas.model import SchemaError

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
    |(?P<identifier>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>0[xX][0-9A-Fa-f]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<symbol>[{}\[\]()<>=;,.:+/-])""",
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(rb"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_SIMPLE: Final = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class Token(NamedTuple):
    kind: str  # identifier, number, string, symbol, or end
    text: str
    position: int


def tokens(text: str) -> list[Token]:
    found = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise SchemaError(
                f"not a .proto file: {place(text, position)}: {text[position : position + 20]!r} is not understood"
            )
        if match.lastgroup != "space":
            found.append(Token(str(match.lastgroup), match[0], position))
        position = match.end()
    found.append(Token("end", "", position))
    return found


def place(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"line {line}, column {position - text.rfind(chr(10), 0, position)}"


def unescape(literal: str) -> bytes:
    """The bytes of a string literal with its quotes."""
    return _ESCAPE.sub(_unescaped, literal[1:-1].encode())


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code[:1] in b"x" and len(code) > 1:
        return bytes([int(code[1:], 16)])
    if code[:1] in b"uU" and len(code) > 1:
        number = int(code[1:], 16)
        return chr(number).encode("utf-8", "replace") if number < 0x110000 else b"?"
    if code[:1] in b"01234567":
        return bytes([int(code, 8) & 0xFF])
    return _SIMPLE.get(code, code)


def escape(data: bytes, quotes: str = '"') -> str:
    """Text in quotes that means these bytes; UTF-8 stays readable."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "".join(chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\{byte:03o}" for byte in data)
    else:
        text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
        text = _CONTROL.sub(lambda match: f"\\{ord(match[0]):03o}", text)
    return quotes + text.replace(quotes, f"\\{quotes}") + quotes
