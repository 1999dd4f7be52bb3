"""Java's .properties syntax, for server.properties files that people already have.

A logical line may run over several natural ones when it ends in an odd number of backslashes. `#` and `!` open a
comment. The key ends at the first `=`, `:` or blank that no backslash protects. `\\t \\n \\r \\f \\uXXXX` are escapes;
before any other character the backslash just goes away.
"""

from collections.abc import Iterator
from typing import Final

from headwater.base.errors import UserError

_BLANK: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """The last of several settings of one key wins, as in Java."""
    result: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        result[_unescape(key, number)] = _unescape(value, number)
    return result


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number of the first natural line, the line with its continuations)."""
    parts: list[str] = []
    first = 0
    for number, natural in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        line = natural.lstrip(_BLANK)
        if not parts:
            if not line or line[0] in "#!":
                continue
            first = number
        if _continues(line):
            parts.append(line[:-1])
            continue
        yield first, "".join(parts) + line
        parts = []
    if parts:
        yield first, "".join(parts)


def _continues(line: str) -> bool:
    backslashes = len(line) - len(line.rstrip("\\"))
    return backslashes % 2 == 1


def _split(line: str) -> tuple[str, str]:
    at = 0
    while at < len(line) and line[at] not in "=:" and line[at] not in _BLANK:
        at += 2 if line[at] == "\\" else 1
    key, rest = line[:at], line[at:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return key, rest


def _unescape(text: str, line_number: int) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        character = text[at]
        if character != "\\":
            out.append(character)
            at += 1
            continue
        escaped = text[at + 1 : at + 2]
        if escaped == "u":
            digits = text[at + 2 : at + 6]
            if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                raise UserError(
                    f"Line {line_number}: malformed \\uXXXX",
                    "behind \\u stand no four hexadecimal digits",
                    "Write \\\\u for a backslash before a u",
                )
            out.append(chr(int(digits, 16)))
            at += 6
            continue
        out.append(_ESCAPES.get(escaped, escaped))
        at += 2
    joined = "".join(out)
    # Java writes characters beyond 16 bits as two \u escapes; put such pairs together again
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
