"""Records as Kafka's DefaultMessageFormatter prints them:

    CreateTime:123 <TAB> Partition:0 <TAB> Offset:5 <TAB> Delivery:NOT_PRESENT <TAB> Epoch:NOT_PRESENT
        <TAB> headers <TAB> key <TAB> value

in one line. Each part is there if its `print.` property is true; the value is unless that is false. Between parts
stands `key.separator`.
"""

import struct
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

from headwater.base.errors import UserError
from headwater.cli.kafka.options import Options, Usage

if TYPE_CHECKING:
    from headwater.client.types import FetchedRecord

Deserializer = Callable[[bytes], bytes]

_NUMBERS: Final = {
    "ShortDeserializer": ">h",
    "IntegerDeserializer": ">i",
    "LongDeserializer": ">q",
    "FloatDeserializer": ">f",
    "DoubleDeserializer": ">d",
}


_REGISTRY_FORMATTERS: Final = ("AvroMessageFormatter", "JsonSchemaMessageFormatter", "ProtobufMessageFormatter")
_REGISTRY_DESERIALIZERS: Final = ("KafkaAvroDeserializer", "KafkaJsonSchemaDeserializer", "KafkaProtobufDeserializer")


class Formatter(Protocol):
    def write(self, records: "list[FetchedRecord]", *, skip_errors: bool) -> None: ...


def make_formatter(options: Options) -> Formatter:
    from headwater.cli.kafka.connecting import read_properties

    if "property" in options:
        sys.stdout.write(
            "Option --property is deprecated and will be removed in a future version. Use --formatter-property instead.\n"
        )
        sys.stdout.flush()
    properties = {k: v for path in options.all("formatter-config") for k, v in read_properties(path).items()}
    properties.update(options.properties("property", "formatter-property"))
    for name in ("key-deserializer", "value-deserializer"):
        if name in options:
            properties[name.replace("-", ".")] = options.get(name) or ""
    kind = options.get("formatter", "org.apache.kafka.tools.consumer.DefaultMessageFormatter") or ""
    short = kind.replace("$", ".").rsplit(".", 1)[-1]
    if short == "NoOpMessageFormatter":
        return _Silent()
    if short in ("DefaultMessageFormatter", "LoggingMessageFormatter", *_REGISTRY_FORMATTERS):
        return _typed(DefaultFormatter(_without_registered(properties)), properties, options, short)
    if short.endswith(("OffsetsMessageFormatter", "MetadataMessageFormatter", "LogMessageFormatter")):
        from headwater.cli.kafka.coordinator_formatter import FORMATTERS, line_of

        read = FORMATTERS.get(short)
        if read is not None:
            return _Lines(lambda record: line_of(read, record))
    raise Usage(kind)


def _typed(formatter: Formatter, properties: Mapping[str, str], options: Options, kind: str) -> Formatter:
    """Keys and values that name a schema, as JSON: by the registry in `schema.registry.url`, else by the one beside the
    brokers. A part whose deserializer was named is left to that one.
    """
    keys, values = (_is_registered(properties.get(f"{part}.deserializer")) for part in ("key", "value"))
    if not keys and not values:
        return formatter
    from headwater.cli.registry_calls import DEFAULT_URL, find_registry_beside
    from headwater.cli.settings import ConnectOptions, FoundDoor

    url = properties.get("schema.registry.url")
    is_asked_for = url is not None or kind in _REGISTRY_FORMATTERS or _names_registry(properties)
    door = None if url is None else FoundDoor(url, {})
    if door is None and "bootstrap-server" in options:
        door = find_registry_beside(ConnectOptions(options.get("bootstrap-server")))
    if door is None and is_asked_for:
        door = FoundDoor(DEFAULT_URL, {})  # Confluent's default, too
    if door is None:
        return formatter
    from headwater.cli.registered_records import registered_records

    return _Typed(formatter, registered_records(door, keys=keys, values=values, is_required=is_asked_for).records)


def _is_registered(deserializer: str | None) -> bool:
    return deserializer is None or deserializer.rsplit(".", 1)[-1] in _REGISTRY_DESERIALIZERS


def _names_registry(properties: Mapping[str, str]) -> bool:
    names = (properties.get("key.deserializer"), properties.get("value.deserializer"))
    return any(name is not None and _is_registered(name) for name in names)


def _without_registered(properties: Mapping[str, str]) -> dict[str, str]:
    """What is left for the plain formatter once keys and values are text."""
    return {
        name: text for name, text in properties.items() if not (name.endswith(".deserializer") and _is_registered(text))
    }


class _Typed:
    """Prints by another formatter what a function makes of the records."""

    def __init__(self, formatter: Formatter, typed: "Callable[[list[FetchedRecord]], list[FetchedRecord]]") -> None:
        self._formatter, self._typed = formatter, typed

    def write(self, records: "list[FetchedRecord]", *, skip_errors: bool) -> None:
        self._formatter.write(self._typed(records), skip_errors=skip_errors)


class _Silent:
    def write(self, records: "list[FetchedRecord]", *, skip_errors: bool) -> None: ...


class _Lines:
    """Prints what a function makes of each record."""

    def __init__(self, line: "Callable[[FetchedRecord], bytes]") -> None:
        self._line = line

    def write(self, records: "list[FetchedRecord]", *, skip_errors: bool) -> None:  # noqa: ARG002 (it has none)
        sys.stdout.buffer.write(b"".join(map(self._line, records)))
        sys.stdout.buffer.flush()


class DefaultFormatter:
    def __init__(self, properties: Mapping[str, str]) -> None:
        def wanted(part: str, default: str = "false") -> bool:
            return properties.get(f"print.{part}", default).strip().lower() == "true"

        self._parts: list[Callable[[FetchedRecord], bytes]] = []
        self._null = properties.get("null.literal", "null").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._key_separator = properties.get("key.separator", "\t").encode()
        self._line_separator = properties.get("line.separator", "\n").encode()
        self._key = _deserializer(properties.get("key.deserializer"))
        self._value = _deserializer(properties.get("value.deserializer"))
        self._header = _deserializer(properties.get("headers.deserializer"))
        for part, make in (
            ("timestamp", _timestamp),
            ("partition", lambda record: b"Partition:%d" % record.partition),
            ("offset", lambda record: b"Offset:%d" % record.offset),
            ("delivery", lambda _: b"Delivery:NOT_PRESENT"),
            ("epoch", lambda _: b"Epoch:NOT_PRESENT"),
            ("headers", self._headers_text),
            ("key", lambda record: self._or_null(record.key, self._key)),
        ):
            if wanted(part):
                self._parts.append(make)
        if wanted("value", "true"):
            self._parts.append(lambda record: self._or_null(record.value, self._value))

    def write(self, records: "list[FetchedRecord]", *, skip_errors: bool) -> None:
        out = sys.stdout.buffer
        pieces = []
        for record in records:
            try:
                pieces.append(self.text(record))
            except Unreadable as problem:
                if not skip_errors:
                    out.write(b"".join(pieces))
                    out.flush()
                    raise CannotPrint(record, str(problem), printed=len(pieces)) from None
        out.write(b"".join(pieces))
        out.flush()

    def text(self, record: "FetchedRecord") -> bytes:
        if not self._parts:
            return b""  # as there: each part brings the separator behind it
        return self._key_separator.join([part(record) for part in self._parts]) + self._line_separator

    def _headers_text(self, record: "FetchedRecord") -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self._headers_separator.join(
            header.key.encode() + b":" + self._or_null(header.value, self._header) for header in record.headers
        )

    def _or_null(self, data: bytes | None, read: Deserializer) -> bytes:
        return self._null if data is None else read(data)


class CannotPrint(UserError):
    """`printed`: how many of the records that came with it were printed, all those before it."""

    def __init__(self, record: "FetchedRecord", why: str, *, printed: int) -> None:
        super().__init__(
            f"Cannot print {record.topic}-{record.partition} offset {record.offset}",
            why,
            "Leave such records out with --skip-message-on-error, or print them with ByteArrayDeserializer",
        )
        self.printed = printed


class Unreadable(Exception):
    """Bytes that are not what their deserializer reads."""


def _timestamp(record: "FetchedRecord") -> bytes:
    if record.timestamp_ms < 0:
        return b"NO_TIMESTAMP"
    return b"%s:%d" % (b"LogAppendTime" if record.log_append_time else b"CreateTime", record.timestamp_ms)


def _deserializer(name: str | None) -> Deserializer:
    """Text and bytes go out as they are; numbers are read as Java writes them."""
    short = (name or "StringDeserializer").rsplit(".", 1)[-1]
    if short in ("StringDeserializer", "ByteArrayDeserializer", "BytesDeserializer", "ByteBufferDeserializer"):
        return bytes
    if short in _OTHERS:
        return _OTHERS[short]
    if short not in _NUMBERS:
        there = ", ".join(("StringDeserializer", "ByteArrayDeserializer", *_NUMBERS, *_OTHERS))
        raise Usage(f"The deserializer {name} is not here; there are {there}")
    layout = struct.Struct(_NUMBERS[short])

    def read(data: bytes) -> bytes:
        if len(data) != layout.size:
            raise Unreadable(f"Size of data received by {short} is not {layout.size}")
        return str(layout.unpack(data)[0]).encode()

    return read


def _boolean(data: bytes) -> bytes:
    if len(data) != 1:
        raise Unreadable("Size of data received by BooleanDeserializer is not 1")
    if data[0] > 1:
        raise Unreadable(f"Unexpected byte received by BooleanDeserializer: {data[0]}")
    return b"true" if data[0] else b"false"


def _uuid(data: bytes) -> bytes:
    try:
        return str(UUID(data.decode())).encode()
    except ValueError:
        raise Unreadable("The bytes received by UUIDDeserializer are no UUID as text") from None


_OTHERS: Final[dict[str, Deserializer]] = {"BooleanDeserializer": _boolean, "UUIDDeserializer": _uuid}
