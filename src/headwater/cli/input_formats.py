"""Records coming in: bytes from stdin to records, without I/O, so that a record goes out as soon as it is whole.

Three shapes: lines (with a key before a separator, if asked for), JSON lines as `consume -f json` writes them, and a
format string as in `formats`: `%k %v\\n` reads up to each literal, `%K{big32}%V{big32}%k%v` reads lengths first. A
parser owns its unread bytes: `feed` gives the records that became whole, `finish` the last one, if its end was implied.
"""

import json
import re
from base64 import b64decode
from binascii import Error as Base64Error
from typing import Any, Final, Protocol

from headwater.base.errors import UserError
from headwater.cli import json_fields
from headwater.cli.formats import Token, binary_shape, literal_bytes, tokenize
from headwater.client.types import Header, OutgoingRecord

_ESCAPE: Final = re.compile(r"""\\(?:[abfnrtv\\'"]|[0-7]{1,3}|x[0-9a-fA-F]{2}|u(?![dD][89a-fA-F])[0-9a-fA-F]{4})""")
_UNFINISHED_BYTES_MAX: Final = 256 * 1024 * 1024  # one record; far above what a broker takes


class UnreadableInput(UserError):
    """`records`: those in front of what cannot be read, which nobody has had yet."""

    def __init__(self, problem: UserError, records: list[OutgoingRecord]) -> None:
        super().__init__(problem.what, problem.why, problem.hint)
        self.records = records


class InputParser(Protocol):
    """Both raise UnreadableInput."""

    def feed(self, data: bytes) -> list[OutgoingRecord]: ...

    def finish(self) -> list[OutgoingRecord]: ...


def input_parser(format_text: str | None, key_separator: str | None) -> InputParser:
    if format_text == "json":
        return JsonLines()
    if format_text is None:
        return Lines(None if key_separator is None else separator_bytes(key_separator))
    if key_separator is not None:
        raise UserError("Cannot use -k and -f together", "the format says where the key ends")
    return FormatInput(format_text)


def separator_bytes(text: str) -> bytes:
    r"""What was typed, with escapes resolved: `\t`, `\x1f`, `\u241f`. A backslash before anything else is itself."""
    if not text:
        raise UserError("The key separator is empty", "it says where the key ends")
    resolved = _ESCAPE.sub(lambda found: found[0].encode().decode("unicode_escape"), text)
    return resolved.encode("utf-8", "surrogateescape")


class Lines:
    """One record a line. A line without the separator has no key. A CR before the LF belongs to the line's end."""

    def __init__(self, key_separator: bytes | None) -> None:
        self._key_separator = key_separator
        self._rest = b""

    def feed(self, data: bytes) -> list[OutgoingRecord]:
        *lines, self._rest = (self._rest + data).split(b"\n")
        records = [self._record(line) for line in lines]
        _check_length(self._rest, records)
        return records

    def finish(self) -> list[OutgoingRecord]:
        rest, self._rest = self._rest, b""
        return [self._record(rest)] if rest else []

    def _record(self, line: bytes) -> OutgoingRecord:
        line = line.removesuffix(b"\r")
        if self._key_separator is not None:
            key, found, value = line.partition(self._key_separator)
            if found:
                return OutgoingRecord(value=value, key=key)
        return OutgoingRecord(value=line)


class JsonLines:
    """One JSON object a line: key, value, headers, partition, timestamp. Blank lines are skipped.

    Text is taken as UTF-8, `key_base64` and `value_base64` as bytes, any other JSON value as its own compact JSON.
    """

    def __init__(self) -> None:
        self._lines = Lines(None)
        self._number = 0

    def feed(self, data: bytes) -> list[OutgoingRecord]:
        try:
            lines = self._lines.feed(data)
        except UnreadableInput as problem:
            raise UnreadableInput(problem, self._records(problem.records)) from None
        return self._records(lines)

    def finish(self) -> list[OutgoingRecord]:
        return self._records(self._lines.finish())

    def _records(self, lines: list[OutgoingRecord]) -> list[OutgoingRecord]:
        records = []
        for line in lines:
            self._number += 1
            if line.value and line.value.strip():
                try:
                    records.append(record_from_json(line.value, self._number))
                except UserError as problem:
                    raise UnreadableInput(problem, records) from None
        return records


def record_from_json(line: bytes, number: int) -> OutgoingRecord:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise UserError(f"Line {number} is not JSON", str(error)) from None
    if not isinstance(document, dict):
        raise UserError(f"Line {number} is not a JSON object", 'a record looks like {"key": "a", "value": "b"}')
    for name, bits in (("partition", 32), ("timestamp", 64)):
        if document.get(name) is not None:
            try:
                json_fields.number(document[name], bits)
            except TypeError:
                raise UserError(f"Line {number}: {name} is not a number of {bits} bits") from None
    return OutgoingRecord(
        value=_json_bytes(document, "value", number),
        key=_json_bytes(document, "key", number),
        headers=_json_headers(document.get("headers"), number),
        partition=document.get("partition"),
        timestamp_ms=document.get("timestamp"),
    )


def _json_bytes(document: dict[str, Any], name: str, number: int) -> bytes | None:
    if f"{name}_base64" in document:
        try:
            return b64decode(document[f"{name}_base64"], validate=True)
        except (Base64Error, TypeError, ValueError):
            raise UserError(f"Line {number}: {name}_base64 is not base64") from None
    value = document.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _json_headers(headers: Any, number: int) -> tuple[Header, ...]:
    """`{"a": "b"}`, or `[{"key": "a", "value": "b"}]` where a key may come twice."""
    if headers is None:
        return ()
    if isinstance(headers, dict):
        return tuple(Header(key, _json_bytes(headers, key, number)) for key in headers)
    if isinstance(headers, list) and all(
        isinstance(each, dict) and isinstance(each.get("key"), str) for each in headers
    ):
        return tuple(Header(each["key"], _json_bytes(each, "value", number)) for each in headers)
    raise UserError(f"Line {number}: headers are neither an object nor a list of keys and values")


class _NeedMore(Exception):
    """The bytes end inside a record."""


class FormatInput:
    """Reads by a format string. The last literal of the format may be missing at the end of the input."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._data = b""
        self._number = 0
        self._check()

    def _check(self) -> None:
        sized: set[str] = set()
        for token, following in zip(self._tokens, [*self._tokens[1:], None], strict=True):
            letter = token.letter
            if letter and letter not in "kvKVpd":
                raise self._bad(f"%{letter} cannot be read; %k %v %K %V %p %d can")
            if letter in ("K", "V"):
                sized.add(letter.lower())
            needs_end = letter in tuple("kvKVpd") and letter not in sized and not binary_shape(token.argument or "")[0]
            if needs_end and following is not None and following.letter:
                raise self._bad(f"nothing says where %{letter} ends: put text after it, or its length before it")
        if not any(token.letter in ("k", "v") for token in self._tokens):
            raise self._bad("it reads neither a key nor a value")

    def feed(self, data: bytes) -> list[OutgoingRecord]:
        self._data += data
        return self._take(final=False)

    def finish(self) -> list[OutgoingRecord]:
        return self._take(final=True)

    def _take(self, *, final: bool) -> list[OutgoingRecord]:
        records: list[OutgoingRecord] = []
        at = 0
        while at < len(self._data):
            try:
                record, at = self._record(at, final=final)
            except UserError as problem:
                raise UnreadableInput(problem, records) from None
            except _NeedMore:
                if final:
                    cut = UserError(
                        f"The input ends inside record {self._number + 1}", f"it does not fit the format {self._text!r}"
                    )
                    raise UnreadableInput(cut, records) from None
                break
            self._number += 1
            records.append(record)
        self._data = self._data[at:]
        _check_length(self._data, records)
        return records

    def _record(self, at: int, *, final: bool) -> tuple[OutgoingRecord, int]:
        found: dict[str, bytes] = {}
        sizes: dict[str, int] = {}
        numbers: dict[str, int] = {}
        for index, token in enumerate(self._tokens):
            letter = token.letter
            if not letter:
                at = self._literal(token, at, last=final and index == len(self._tokens) - 1)
            elif letter in "KVpd":
                number, at = self._number_at(token, index, at, final=final)
                self._check_number(letter, number)
                (sizes if letter in "KV" else numbers)[letter.lower()] = number
            elif letter in sizes:
                at, begin = at + sizes[letter], at
                if at > len(self._data):
                    raise _NeedMore
                found[letter] = self._decoded(token, self._data[begin:at])
            else:
                raw, at = self._until(index, at, final=final)
                found[letter] = self._decoded(token, raw)
        record = OutgoingRecord(
            value=found.get("v"), key=found.get("k"), partition=numbers.get("p"), timestamp_ms=numbers.get("d")
        )
        return record, at

    def _literal(self, token: Token, at: int, *, last: bool) -> int:
        expected = literal_bytes(token.literal)
        actual = self._data[at : at + len(expected)]
        if actual == expected:
            return at + len(expected)
        if last and at == len(self._data):
            return at
        if expected.startswith(actual):
            raise _NeedMore
        raise UserError(
            f"Record {self._number + 1} does not fit the format {self._text!r}",
            f"{actual!r} stands where {expected!r} should",
        )

    def _until(self, index: int, at: int, *, final: bool) -> tuple[bytes, int]:
        """Up to the literal that follows, which is left for the next token; without one, all the rest."""
        if index + 1 == len(self._tokens):
            if not final:
                raise _NeedMore
            return self._data[at:], len(self._data)
        end = self._data.find(literal_bytes(self._tokens[index + 1].literal), at)
        if end < 0:
            if final and index + 2 == len(self._tokens):
                return self._data[at:], len(self._data)
            raise _NeedMore
        return self._data[at:end], end

    def _number_at(self, token: Token, index: int, at: int, *, final: bool) -> tuple[int, int]:
        size, order = binary_shape(token.argument or "")
        if size:
            if at + size > len(self._data):
                raise _NeedMore
            return int.from_bytes(self._data[at : at + size], "big" if order == "big" else "little"), at + size
        raw, at = self._until(index, at, final=final)
        try:
            return int(raw), at
        except ValueError:
            raise UserError(f"Record {self._number + 1}: {raw[:40]!r} is not a number") from None

    def _check_number(self, letter: str, number: int) -> None:
        """A length below 0 would lead back to what was read, and on from there for ever."""
        if letter in "KV":
            if number < 0:
                raise UserError(f"Record {self._number + 1}: {number} is no length")
            return
        try:
            json_fields.number(number, 32 if letter == "p" else 64)
        except TypeError:
            what = "partition" if letter == "p" else "timestamp"
            raise UserError(f"Record {self._number + 1}: {number} is no {what}") from None

    def _decoded(self, token: Token, raw: bytes) -> bytes:
        if token.argument is None:
            return raw
        try:
            return b64decode(raw, validate=True) if token.argument == "base64" else bytes.fromhex(raw.decode("ascii"))
        except ValueError:
            raise UserError(f"Record {self._number + 1}: {raw[:40]!r} is not {token.argument}") from None

    def _bad(self, why: str) -> UserError:
        return UserError(f"Cannot read by the format {self._text!r}", why, "See: headwater produce --help")


def _check_length(unfinished: bytes, records: list[OutgoingRecord]) -> None:
    if len(unfinished) > _UNFINISHED_BYTES_MAX:
        problem = UserError(
            "A record of the input does not end", f"more than {_UNFINISHED_BYTES_MAX} bytes are read of it"
        )
        raise UnreadableInput(problem, records)
