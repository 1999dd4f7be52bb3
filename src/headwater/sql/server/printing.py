"""How PRINT shows records whose format nobody has named: by what their bytes can be.

Keys and values have a list of formats each, in ksqlDB's order. A format that cannot be what one record has is struck
off for good; a record is shown by the first that is left, and as bytes if none is. An empty text strikes off nothing
(ksqlDB's strikes off all: nothing but bytes comes behind it). A record is one line without control characters. Keys may
be windowed too (a start in the last eight bytes, or an end and a start). Where ksqlDB takes any eight bytes for a time,
here it has to be one before the year 10000: a plain text of nine letters is then no window.
"""

import contextlib
import json
import logging
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, Protocol

from headwater.base.printable import printable
from headwater.schemas import SchemaType

Registered = Callable[[bytes], tuple[str, str] | None]  # the format's name and the text of what names a schema
Decode = Callable[[bytes], str | None]  # None: it is not of this format

_log: Final = logging.getLogger("headwater.sql")
NOTHING_SEEN: Final = "¯\\_(ツ)_/¯ - no data processed"
_FORMATS: Final = {SchemaType.AVRO: "AVRO", SchemaType.PROTOBUF: "PROTOBUF", SchemaType.JSON: "JSON_SR"}
_NEVER: Final = "<null>"
_EMPTY: Final = "KAFKA_STRING"  # what an empty text alone can be
_INT, _BIGINT, _DOUBLE = struct.Struct(">i"), struct.Struct(">q"), struct.Struct(">d")
_TIME: Final = struct.Struct(">q")
_TIMES: Final = struct.Struct(">qq")
_LATEST_MS: Final = 253_402_300_800_000  # the year 10000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Printable(Protocol):
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def partition(self) -> int: ...


class _Format(NamedTuple):
    name: str
    decode: Decode


class _Side:
    """The formats that everything seen so far can have."""

    def __init__(self, formats: Iterable[_Format]) -> None:
        self._left = list(formats)
        self._seen = self._seen_empty = False

    @property
    def names(self) -> str:
        if self._seen:
            return " or ".join(each.name for each in self._left)
        return _EMPTY if self._seen_empty else NOTHING_SEEN

    def text(self, data: bytes | None) -> str:
        if data is None:
            return _NEVER
        if not data:
            self._seen_empty = True
            return ""
        self._seen = True
        found = [(each, text) for each in self._left if (text := each.decode(data)) is not None]
        self._left = [each for each, _ in found]
        return printable(found[0][1]) if found else as_bytes(data)


class Printer:
    """Of one PRINT. May ask the schema registry: not for the event loop."""

    def __init__(self, registered: Registered) -> None:
        plain = [*_registered_formats(registered), *_PLAIN]
        self._keys, self._values = _Side(_with_windows(plain)), _Side(plain)
        self._told = ""

    def lines(self, records: Sequence[Printable]) -> list[str]:
        """The formats too, where they are others than those that were told last."""
        shown = [
            f"rowtime: {_rowtime(each.timestamp_ms)}, key: {self._keys.text(each.key)}, "
            f"value: {self._values.text(each.value)}, partition: {each.partition}\n"
            for each in records
        ]
        formats = f"Key format: {self._keys.names}\nValue format: {self._values.names}\n"
        if not shown or formats == self._told:
            return shown
        self._told = formats
        return [*formats.splitlines(keepends=True), *shown]


def as_bytes(data: bytes) -> str:
    return "".join(chr(byte) if 0x20 <= byte < 0x7F and byte != ord("\\") else f"\\x{byte:02X}" for byte in data)


def _rowtime(timestamp_ms: int) -> str:
    if timestamp_ms < 0:
        return "N/A"
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return f"{moment:%Y/%m/%d %H:%M:%S}.{moment.microsecond // 1000:03d} Z"


def _json(data: bytes) -> str | None:
    text = _text(data)
    try:
        if text is not None:
            json.loads(text)
    except (ValueError, RecursionError):
        return None
    return text


def _text(data: bytes) -> str | None:
    try:
        return data.decode() or None
    except UnicodeDecodeError:
        return None


def _number(form: struct.Struct) -> Decode:
    return lambda data: str(form.unpack(data)[0]) if len(data) == form.size else None


_PLAIN: Final = (
    _Format("JSON", _json),
    _Format("KAFKA_INT", _number(_INT)),
    _Format("KAFKA_BIGINT", _number(_BIGINT)),
    _Format("KAFKA_DOUBLE", _number(_DOUBLE)),
    _Format("KAFKA_STRING", _text),
)


def _registered_formats(registered: Registered) -> Iterator[_Format]:
    for name in ("AVRO", "PROTOBUF", "JSON_SR"):

        def decode(data: bytes, name: str = name) -> str | None:
            found = registered(data)
            return found[1] if found is not None and found[0] == name else None

        yield _Format(name, decode)


def _with_windows(formats: Iterable[_Format]) -> Iterator[_Format]:
    for each in formats:
        yield _Format(f"SESSION({each.name})", _in_session(each.decode))
        yield _Format(f"HOPPING({each.name})", _in_window(each.decode))
        yield _Format(f"TUMBLING({each.name})", _in_window(each.decode))
        yield each


def _in_window(inner: Decode) -> Decode:
    def decode(data: bytes) -> str | None:
        if len(data) < _TIME.size:
            return None
        (start,) = _TIME.unpack_from(data, len(data) - _TIME.size)
        if not 0 <= start < _LATEST_MS or (key := inner(data[: -_TIME.size])) is None:
            return None
        return f"[{key}@{start}/-]"

    return decode


def _in_session(inner: Decode) -> Decode:
    def decode(data: bytes) -> str | None:
        if len(data) < _TIMES.size:
            return None
        end, start = _TIMES.unpack_from(data, len(data) - _TIMES.size)
        if not 0 <= start <= end < _LATEST_MS or (key := inner(data[: -_TIMES.size])) is None:
            return None
        return f"[{key}@{start}/{end}]"

    return decode


@contextlib.contextmanager
def registered(settings: Mapping[str, str]) -> Iterator[Registered]:
    """How PRINT reads what names a schema; nothing does where there is no registry, or it does not answer."""
    if "url" not in settings:
        yield lambda _: None
        return
    from headwater.client.schema_registry import SchemaRegistryClient  # a server without a registry does without
    from headwater.client.schema_registry.readable import RegisteredRecords

    with contextlib.closing(SchemaRegistryClient(dict(settings))) as client:
        records = RegisteredRecords(client, is_required=False, warn=_log.warning)

        def read(data: bytes) -> tuple[str, str] | None:
            found = records.read(data)
            return None if found is None else (_FORMATS[found[0]], found[1])

        yield read
