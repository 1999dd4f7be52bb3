"""Lines as Kafka's LineMessageReader reads them: [headers delimiter] [key separator] value. Pure.

    h1:v1,h2:v2<TAB>key<TAB>value        parse.headers=true, parse.key=true, everything else as it is by default

`null.marker` stands for null, as headers, as key or as value. A line that lacks what was asked for ends it all, unless
`ignore.error`: then what is there is taken as the rest.
"""

from collections.abc import Mapping
from typing import Final

from headwater.cli.kafka.options import Stop
from headwater.client.types import Header, OutgoingRecord

_KNOWN: Final = frozenset(
    (
        "topic",
        "parse.key",
        "parse.headers",
        "ignore.error",
        "key.separator",
        "headers.delimiter",
        "headers.separator",
        "headers.key.separator",
        "null.marker",
    )
)


class LineReader:
    """Owns the count of lines, for its errors."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        unknown = sorted(properties.keys() - _KNOWN)
        if unknown:
            raise Stop(1, f"The line reader has no property {unknown[0]!r}; it has {', '.join(sorted(_KNOWN))}.")
        self._parse_key = _is_true(properties, "parse.key")
        self._parse_headers = _is_true(properties, "parse.headers")
        self._ignore_error = _is_true(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t").encode()
        self._headers_delimiter = properties.get("headers.delimiter", "\t").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._header_key_separator = properties.get("headers.key.separator", ":").encode()
        marker = properties.get("null.marker")
        self._null_marker = None if marker is None else marker.encode()
        self._check_separators()
        self._line = 0

    def _check_separators(self) -> None:
        named = {
            "key.separator": self._key_separator,
            "headers.delimiter": self._headers_delimiter,
            "headers.separator": self._headers_separator,
            "headers.key.separator": self._header_key_separator,
        }
        for name, separator in named.items():
            if not separator:
                raise Stop(1, f"{name} may not be empty")
        for one, other in (
            ("headers.delimiter", "headers.separator"),
            ("headers.delimiter", "headers.key.separator"),
            ("headers.separator", "headers.key.separator"),
        ):
            if named[one] == named[other]:
                raise Stop(1, f"{one} and {other} may not be equal")
        for name in ("key.separator", "headers.separator", "headers.delimiter", "headers.key.separator"):
            if named[name] == self._null_marker:
                raise Stop(1, f"null.marker and {name} may not be equal")

    def record(self, line: bytes) -> OutgoingRecord:
        self._line += 1
        headers: tuple[Header, ...] = ()
        key: bytes | None = None
        rest = line
        if self._parse_headers:
            found, rest = self._split(rest, self._headers_delimiter, "headers delimiter", line)
            headers = self._headers(found)
        if self._parse_key:
            key, rest = self._split(rest, self._key_separator, "key separator", line)
        return OutgoingRecord(
            value=self._or_null(rest), key=None if key is None else self._or_null(key), headers=headers
        )

    def _split(self, text: bytes, separator: bytes, what: str, line: bytes) -> tuple[bytes | None, bytes]:
        first, found, rest = text.partition(separator)
        if found:
            return first, rest
        if self._ignore_error:
            return None, text
        raise _failed(f"No {what} found on line number {self._line}: '{line.decode(errors='replace')}'")

    def _headers(self, text: bytes | None) -> tuple[Header, ...]:
        if text is None or text == self._null_marker:
            return ()
        headers = []
        for pair in self._pairs(text):
            key, found, value = pair.partition(self._header_key_separator)
            if found and key == self._null_marker:
                name = key.decode(errors="replace")
                raise _failed(f"Header keys should not be equal to the null marker '{name}' as they can't be null")
            if found:
                headers.append(Header(key.decode(errors="replace"), self._or_null(value)))
            elif self._ignore_error:
                headers.append(Header(pair.decode(errors="replace"), None))
            else:
                name = pair.decode(errors="replace")
                raise _failed(f"No header key separator found in pair '{name}' on line number {self._line}")
        return tuple(headers)

    def _pairs(self, text: bytes) -> list[bytes]:
        """As Java splits: empty pairs at the end are none, but an empty text is one pair."""
        pairs = text.split(self._headers_separator)
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()
        return [] if text and pairs == [b""] else pairs

    def _or_null(self, text: bytes) -> bytes | None:
        return None if text == self._null_marker else text


def _is_true(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "false").strip().lower() == "true"


def _failed(message: str) -> Stop:
    return Stop(1, f"org.apache.kafka.common.KafkaException: {message}")
