"""Functions of text."""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import re
import uuid as uuids
from typing import Any

import re2

from headwater.sql.budget import spend_text
from headwater.sql.functions.patterns import pattern
from headwater.sql.functions.registry import scalar
from headwater.sql.functions.text_units import counts_units, length_in_units
from headwater.sql.values import EvaluationError, parse_bytes

_CATEGORY = "STRING"
_SPACES = " \t\n\v\f\r"  # what Java's patterns take for white space
LENGTH_MAX = 4 * 1024 * 1024  # of what padding and repetition may make


@scalar("UCASE", "(value STRING) -> STRING", "The text in upper case.", category=_CATEGORY)
def ucase(value: str) -> str:
    return value.upper()


@scalar("LCASE", "(value STRING) -> STRING", "The text in lower case.", category=_CATEGORY)
def lcase(value: str) -> str:
    return value.lower()


@scalar("LEN", "(value STRING) -> INTEGER", "How long a text or how many bytes it is.", category=_CATEGORY)
def length(value: str) -> int:
    return length_in_units(value)


@scalar("LEN", "(value BYTES) -> INTEGER")
def length_of_bytes(value: bytes) -> int:
    return len(value)


@scalar("TRIM", "(value STRING) -> STRING", "The text without white space at both ends.", category=_CATEGORY)
def trim(value: str) -> str:
    return value.strip("".join(map(chr, range(33))))


@scalar("INITCAP", "(value STRING) -> STRING", "The first letter of each word in upper case.", category=_CATEGORY)
def initcap(value: str) -> str:
    """White space in front of the first word is lost, as in ksqlDB."""
    letters, first = [], True
    for letter in value.lower().lstrip(_SPACES):
        letters.append(letter.upper() if first else letter)
        first = letter in _SPACES
    return "".join(letters)


@scalar(
    "CONCAT",
    "(texts STRING...) -> STRING",
    "All texts, one after the other; NULLs are left out.",
    category=_CATEGORY,
    nulls=True,
)
def concat(*texts: str | None) -> str:
    given = [each for each in texts if each is not None]
    spend_text(sum(map(len, given)))
    return "".join(given)


@scalar("CONCAT", "(bytes BYTES...) -> BYTES", nulls=True)
def concat_bytes(*pieces: bytes | None) -> bytes:
    return b"".join(each for each in pieces if each is not None)


@scalar(
    "CONCAT_WS",
    "(separator STRING, texts STRING...) -> STRING",
    "All texts with a separator between them; NULLs are left out.",
    category=_CATEGORY,
    nulls=True,
)
def concat_ws(separator: str | None, *texts: str | None) -> str | None:
    _check_texts(texts)
    return None if separator is None else separator.join(each for each in texts if each is not None)


@scalar("CONCAT_WS", "(separator BYTES, bytes BYTES...) -> BYTES", nulls=True)
def concat_ws_bytes(separator: bytes | None, *pieces: bytes | None) -> bytes | None:
    _check_texts(pieces)
    return None if separator is None else separator.join(each for each in pieces if each is not None)


def _check_texts(given: tuple[str | bytes | None, ...]) -> None:
    if not given:
        raise EvaluationError("Function Concat_WS expects at least two input arguments.")


def _start(position: int, length_: int) -> int:
    """Where a substring begins: positions count from 1, negative ones from the end."""
    return min(max(position - 1, 0), length_) if position >= 0 else max(length_ + position, 0)


@scalar(
    "SUBSTRING",
    "(value STRING, position INTEGER) -> STRING",
    "A part of a text; positions begin at 1.",
    category=_CATEGORY,
)
@scalar("SUBSTRING", "(value BYTES, position INTEGER) -> BYTES")
@counts_units
def substring(value: Any, position: int) -> Any:
    return value[_start(position, len(value)) :]


@scalar("SUBSTRING", "(value STRING, position INTEGER, length INTEGER) -> STRING")
@scalar("SUBSTRING", "(value BYTES, position INTEGER, length INTEGER) -> BYTES")
@counts_units
def substring_of(value: Any, position: int, count: int) -> Any:
    start = _start(position, len(value))
    return value[start : start + max(count, 0)]


@scalar(
    "REPLACE",
    "(value STRING, old STRING, new STRING) -> STRING",
    "A text with a part replaced everywhere.",
    category=_CATEGORY,
)
def replace(value: str, old: str, new: str) -> str:
    spend_text(len(value) + value.count(old) * len(new))
    return value.replace(old, new)


@scalar(
    "INSTR",
    "(value STRING, part STRING) -> INTEGER",
    "Where a part stands in a text, from 1; 0 if it is not there.",
    category=_CATEGORY,
    nulls=True,
)
def instr(value: str | None, part: str | None) -> int:
    return instr_nth(value, part, 1, 1)


@scalar("INSTR", "(value STRING, part STRING, position INTEGER) -> INTEGER", nulls=True)
def instr_from(value: str | None, part: str | None, position: int | None) -> int:
    return instr_nth(value, part, position, 1)


@scalar("INSTR", "(value STRING, part STRING, position INTEGER, occurrence INTEGER) -> INTEGER", nulls=True)
@counts_units
def instr_nth(value: str | None, part: str | None, position: int | None, occurrence: int | None) -> int:
    """A negative position counts from the end, and what is found stands all in front of it."""
    if position is None or occurrence is None:
        raise EvaluationError("INSTR needs a position and an occurrence that are not NULL")
    if value is None or part is None or occurrence < 1 or not 0 < abs(position) <= len(value):
        return 0
    if position > 0:
        return _nth(value, part, position - 1, occurrence) + 1
    at = _nth(value[::-1], part[::-1], -position - 1, occurrence)
    return len(value) - at - len(part) + 1 if at >= 0 else 0


def _nth(value: str, part: str, start: int, occurrence: int) -> int:
    """Where the part is found so many times from `start` on; those found may overlap. Without a part it is there."""
    at = start - 1
    for _ in range(occurrence if part else 1):
        at = value.find(part, at + 1)
        if at < 0:
            break
    return at


@counts_units
def _padded(value: Any, count: int, padding: Any, *, left: bool) -> Any:
    if not padding or count < 0:
        return None
    if count > LENGTH_MAX:
        raise EvaluationError(f"a padded value may have at most {LENGTH_MAX} characters")
    spend_text(count)
    missing = max(count - len(value), 0)
    filling = (padding * (missing // len(padding) + 1))[:missing]
    return filling + value[:count] if left else value[:count] + filling


@scalar(
    "LPAD",
    "(value STRING, length INTEGER, padding STRING) -> STRING",
    "Filled up at its left to a length.",
    category=_CATEGORY,
)
@scalar("LPAD", "(value BYTES, length INTEGER, padding BYTES) -> BYTES")
def lpad(value: Any, count: int, padding: Any) -> Any:
    return _padded(value, count, padding, left=True)


@scalar(
    "RPAD",
    "(value STRING, length INTEGER, padding STRING) -> STRING",
    "Filled up at its right to a length.",
    category=_CATEGORY,
)
@scalar("RPAD", "(value BYTES, length INTEGER, padding BYTES) -> BYTES")
def rpad(value: Any, count: int, padding: Any) -> Any:
    return _padded(value, count, padding, left=False)


@scalar(
    "SPLIT",
    "(value STRING, delimiter STRING) -> ARRAY<STRING>",
    "The parts of a text between delimiters.",
    category=_CATEGORY,
)
@scalar("SPLIT", "(value BYTES, delimiter BYTES) -> ARRAY<BYTES>")
def split(value: Any, delimiter: Any) -> list[Any]:
    if not value:
        return [value]
    if not delimiter:
        return list(value) if isinstance(value, str) else [bytes([each]) for each in value]
    return list(value.split(delimiter))


@scalar(
    "SPLIT_TO_MAP",
    "(value STRING, entryDelimiter STRING, kvDelimiter STRING) -> MAP<STRING, STRING>",
    "A text of key and value pairs as a map.",
    category=_CATEGORY,
)
def split_to_map(value: str, entry: str, pair: str) -> dict[str, str] | None:
    if not entry or not pair or entry == pair:
        return None
    result = {}
    for each in value.split(entry):
        key, found, rest = each.partition(pair)
        if found:
            result[key] = rest.split(pair)[0]
    return result


@scalar("CHR", "(codepoint INTEGER) -> STRING", "The character with this code point.", category=_CATEGORY)
def chr_(codepoint: int) -> str | None:
    return chr(codepoint) if 0 <= codepoint < 0x110000 else None


@scalar("CHR", "(escaped STRING) -> STRING")
def chr_escaped(escaped: str) -> str | None:
    r"""`\u0041`, and all that is escaped behind it, a pair of surrogates as one character."""
    if len(escaped) < 6 or not escaped.startswith("\\u"):
        return None
    text = _ESCAPED.sub(_unescaped, escaped)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_ESCAPED = re.compile(r"\\(?:u+\+?(?P<hex>[0-9A-Fa-f]{4})?|(?P<octal>[0-3]?[0-7]{1,2})|(?P<letter>.))", re.DOTALL)
_LETTERS = {"b": "\b", "n": "\n", "t": "\t", "f": "\f", "r": "\r"}


def _unescaped(found: re.Match[str]) -> str:
    if found["hex"]:
        return chr(int(found["hex"], 16))
    if found["octal"]:
        return chr(int(found["octal"], 8))
    if found["letter"]:
        return _LETTERS.get(found["letter"], found["letter"])
    raise EvaluationError(f"Less than 4 hex digits in unicode value: '{found[0]}'")


@scalar("MD5", "(value STRING) -> STRING", "The MD5 hash of a text, in hex.", category=_CATEGORY)
def md5(value: str) -> str:
    return hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()


@scalar("UUID", "() -> STRING", "A random UUID, or one of 16 bytes.", category=_CATEGORY)
def uuid() -> str:
    return str(uuids.uuid4())


@scalar("UUID", "(bytes BYTES) -> STRING")
def uuid_of(value: bytes) -> str | None:
    return str(uuids.UUID(bytes=value)) if len(value) == 16 else None


@scalar(
    "REGEXP_EXTRACT",
    "(pattern STRING, value STRING) -> STRING",
    "The first part that matches, or one of its groups.",
    category="REGULAR EXPRESSION",
)
def regexp_extract(text: str, value: str) -> str | None:
    return regexp_extract_group(text, value, 0)


@scalar("REGEXP_EXTRACT", "(pattern STRING, value STRING, group INTEGER) -> STRING")
def regexp_extract_group(text: str, value: str, group: int) -> str | None:
    compiled = pattern(text)
    found = compiled.search(value)
    if found is None or not 0 <= group <= compiled.groups:
        return None
    matched: str | None = found.group(group)
    return matched


@scalar(
    "REGEXP_EXTRACT_ALL",
    "(pattern STRING, value STRING) -> ARRAY<STRING>",
    "All parts that match, or one group of each.",
    category="REGULAR EXPRESSION",
)
def regexp_extract_all(text: str, value: str) -> list[str | None] | None:
    return regexp_extract_all_group(text, value, 0)


@scalar("REGEXP_EXTRACT_ALL", "(pattern STRING, value STRING, group INTEGER) -> ARRAY<STRING>")
def regexp_extract_all_group(text: str, value: str, group: int) -> list[str | None] | None:
    compiled = pattern(text)
    if not 0 <= group <= compiled.groups:
        return None
    return [found.group(group) for found in compiled.finditer(value)]


@scalar(
    "REGEXP_REPLACE",
    "(value STRING, pattern STRING, new STRING) -> STRING",
    "A text with all that matches replaced.",
    category="REGULAR EXPRESSION",
)
def regexp_replace(value: str, text: str, new: str) -> str:
    r"""Groups in `new` are Java's `$1` and `${name}`; behind `\` a sign stands for itself."""
    compiled = pattern(text)
    spend_text((len(value) + 1) * (len(new) + 1))

    def replacement(found: Any) -> str:  # of text without a match, nobody looks at it
        pieces = _replacement(new, compiled.groups)
        return "".join(piece if group is None else found.group(group) or "" for piece, group in pieces)

    try:
        return str(compiled.sub(replacement, value))
    except (IndexError, KeyError, re2.error) as error:
        raise EvaluationError(f"Invalid replacement '{new}': {error}") from None


_PIECE = re.compile(
    r"\\(?P<sign>.)|\$\{(?P<name>[A-Za-z][A-Za-z0-9]*)\}|\$(?P<number>[0-9]+)|(?P<text>[^\\$]+)", re.DOTALL
)


@functools.lru_cache(maxsize=256)
def _replacement(new: str, groups: int) -> tuple[tuple[str, int | str | None], ...]:
    """Text as it stands (without a group), and groups. A number has as many digits as there are groups for."""
    pieces: list[tuple[str, int | str | None]] = []
    at = 0
    while at < len(new):
        found = _PIECE.match(new, at)
        if found is None:
            raise EvaluationError(f"Invalid replacement '{new}': Illegal group reference")
        number = found["number"]
        if number is not None:
            digits = next((count for count in range(len(number), 1, -1) if int(number[:count]) <= groups), 1)
            pieces += [("", int(number[:digits])), (number[digits:], None)]
        else:
            pieces.append((found["sign"] or found["text"] or "", found["name"]))
        at = found.end()
    return tuple(pieces)


@scalar(
    "REGEXP_SPLIT_TO_ARRAY",
    "(value STRING, pattern STRING) -> ARRAY<STRING>",
    "The parts of a text between matches.",
    category="REGULAR EXPRESSION",
)
def regexp_split(value: str, text: str) -> list[str]:
    """A pattern that matches nothing at all splits as Java's own `split` does: nothing in front of the first letter,
    and no empty pieces at the end.
    """
    compiled = pattern(text)
    takes_nothing = compiled.fullmatch("") is not None
    pieces, at = [], 0
    for found in compiled.finditer(value):
        if takes_nothing and at == found.start() == found.end() == 0:
            continue
        if takes_nothing or found.end() > found.start():
            pieces.append(value[at : found.start()])
            at = found.end()
    pieces.append(value[at:])
    while takes_nothing and len(pieces) > 1 and not pieces[-1]:
        pieces.pop()
    return pieces


_ENCODINGS = ("hex", "ascii", "utf8", "base64")


@scalar(
    "ENCODE",
    "(value STRING, from STRING, to STRING) -> STRING",
    "A text from one encoding in another: hex, ascii, utf8, base64.",
    category=_CATEGORY,
)
def encode(value: str, source: str, target: str) -> str | None:
    source, target = source.lower(), target.lower()
    if source not in _ENCODINGS or target not in _ENCODINGS or source == target:
        raise EvaluationError(f"Supported input and output encodings are: {', '.join(_ENCODINGS)}")
    if source == "base64":
        data = _lenient_base64(value)
    else:
        data = to_bytes(_hex_digits(value) if source == "hex" else value, source)
    return data.hex() if target == "hex" else from_bytes(data, target)


def _hex_digits(value: str) -> str:
    if value.startswith("0x"):
        return value[2:] if len(value) % 2 == 0 else "0" + value[2:]
    if value[:2] in ("x'", "X'") and value.endswith("'") and len(value) > 2:
        return value[2:-1]
    return value


def _lenient_base64(value: str) -> bytes:
    """What is no sign of base64 is passed over, either alphabet is read, and padding is not needed."""
    digits = re.sub(r"[^A-Za-z0-9+/]", "", value.partition("=")[0].replace("-", "+").replace("_", "/"))
    digits = digits[: len(digits) - (len(digits) % 4 == 1)]
    return base64.b64decode(digits + "=" * (-len(digits) % 4))


@scalar(
    "TO_BYTES",
    "(value STRING, encoding STRING) -> BYTES",
    "The bytes that a text stands for: hex, utf8, ascii, base64.",
    category=_CATEGORY,
)
def to_bytes(value: str, encoding: str) -> bytes:
    try:
        match encoding.lower():
            case "hex":
                return binascii.unhexlify(value)
            case "utf8":
                return value.encode()
            case "ascii":
                return value.encode("ascii", "replace")
            case "base64":
                return parse_bytes(value)
    except (ValueError, binascii.Error) as error:
        raise EvaluationError(f"'{value}' is no {encoding}: {error}") from None
    raise EvaluationError(f"Unknown encoding type '{encoding}'. Supported formats are {', '.join(_ENCODINGS)}")


@scalar(
    "FROM_BYTES",
    "(value BYTES, encoding STRING) -> STRING",
    "Bytes as text: hex, utf8, ascii, base64.",
    category=_CATEGORY,
)
def from_bytes(value: bytes, encoding: str) -> str:
    match encoding.lower():
        case "hex":
            return value.hex().upper()
        case "utf8":
            return value.decode("utf-8", "replace")
        case "ascii":
            return value.decode("ascii", "replace")
        case "base64":
            return base64.b64encode(value).decode()
    raise EvaluationError(f"Unknown encoding type '{encoding}'. Supported formats are {', '.join(_ENCODINGS)}")
