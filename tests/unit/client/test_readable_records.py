"""Records that name a schema are shown as JSON; all others as they stand, whatever the registry does."""

import uuid
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.cli.kafka.message_formatter import make_formatter
from headwater.cli.kafka.options import Options
from headwater.client.schema_registry import SchemaRegistryClient
from headwater.client.schema_registry.readable import RegisteredRecords
from headwater.client.types import FetchedRecord, Header

GUID = uuid.UUID(int=7)
PROTO = 'syntax = "proto3"; message A { int32 n = 1; } message B { string s = 1; }'
LIST = '{"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}'
ANSWERS: dict[str, Any] = {
    "/schemas/ids/1": {"schema": '"long"'},
    "/schemas/ids/2": {"schema": PROTO, "schemaType": "PROTOBUF"},
    "/schemas/ids/3": {"schema": "{}", "schemaType": "JSON"},
    "/schemas/ids/5": {"schema": LIST},
    f"/schemas/guids/{GUID}": {"schema": PROTO, "schemaType": "PROTOBUF"},
}


class Transport:
    def __init__(self, broken: bool = False) -> None:
        self.asked: list[str] = []
        self.broken = broken

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        self.asked.append(path)
        if self.broken:
            raise UserError("Nobody answers")
        return (200, ANSWERS[path]) if path in ANSWERS else (404, {"error_code": 40403, "message": "no"})

    def close(self) -> None: ...


def shown(transport: Transport, **settings: Any) -> RegisteredRecords:
    return RegisteredRecords(SchemaRegistryClient({}, transport=transport), **settings)


def record(key: bytes | None, value: bytes | None, *headers: Header) -> FetchedRecord:
    return FetchedRecord("t", 0, 0, 0, False, key, value, headers, 0, -1, -1, 0)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, None),
        (b"", b""),
        (b"text", b"text"),
        (b"\0\0\0\0\1\x0e", b"7"),
        (b"\0\0\0\0\1\x0e\x0e", b"\0\0\0\0\1\x0e\x0e"),  # more than the schema says
        (b"\0\0\0\0\2\0\x08\5", b'{"n": 5}'),
        (b"\0\0\0\0\2\2\2\x0a\1x", b'{"s": "x"}'),
        (b"\0\0\0\0\2\2\4\x0a\1x", b"\0\0\0\0\2\2\4\x0a\1x"),  # there is no third message
        (b'\0\0\0\0\3{"a":"\xc3\xa9"}', '{"a": "é"}'.encode()),
        (b"\0\0\0\0\3{", b"\0\0\0\0\3{"),
        (b"\0\0\0\0\4x", b"\0\0\0\0\4x"),  # nobody knows it
        (b"\0\0\0\0", b"\0\0\0\0"),
        (b"\1" + GUID.bytes + b"\0\x08\5", b'{"n": 5}'),
        (b"\1short", b"\1short"),
    ],
)
def test_what_is_shown(data: bytes | None, text: bytes | None) -> None:
    assert shown(Transport()).text(data) == text


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\0\3" + b"[" * 100_000 + b"]" * 100_000,
        b"\0\0\0\0\3" + b"[" * 700 + b"]" * 700,  # can be read, and not written
        b"\0\0\0\0\5" + b"\2" * 5_000 + b"\0",
    ],
    ids=["json", "json-to-write", "avro"],
)
def test_what_is_nested_too_deep_is_shown_as_it_stands(data: bytes) -> None:
    assert shown(Transport()).text(data) == data


def test_a_schema_in_a_header() -> None:
    value_of_b = Header("__value_schema_id", b"\1" + GUID.bytes + b"\2\2")
    key_of_a = Header("__key_schema_id", b"\1" + GUID.bytes + b"\0")
    (found,) = shown(Transport()).records([record(b"\x08\5", b"\x0a\1x", value_of_b, key_of_a)])
    assert (found.key, found.value) == (b'{"n": 5}', b'{"s": "x"}')


def test_only_the_parts_that_are_wanted() -> None:
    both = record(b"\0\0\0\0\1\2", b"\0\0\0\0\1\4")
    assert shown(Transport(), keys=False).records([both])[0][5:7] == (both.key, b"2")
    assert shown(Transport(), values=False).records([both])[0][5:7] == (b"1", both.value)


def test_each_schema_is_asked_for_once_and_unknown_ones_not_for_ever() -> None:
    transport = Transport()
    records = shown(transport)
    for _ in range(3):
        assert records.text(b"\0\0\0\0\1\2") == b"1"
        for number in range(1000, 1500):
            data = b"\0" + number.to_bytes(4, "big")
            assert records.text(data) == data
    assert len(transport.asked) == 101
    assert records.text(b"\0\0\0\0\1\2") == b"1"


def test_a_registry_that_does_not_answer() -> None:
    data = b"\0\0\0\0\1\2"
    with pytest.raises(UserError, match="Nobody answers"):
        shown(Transport(broken=True)).text(data)
    transport = Transport(broken=True)
    told: list[str] = []
    quiet = shown(transport, is_required=False, warn=told.append)
    assert [quiet.text(data) for _ in range(3)] == [data] * 3
    assert len(transport.asked) == 1
    assert told == ["records are shown as they stand: Nobody answers"]


def registry_of(monkeypatch: pytest.MonkeyPatch, *properties: str, formatter: str | None = None) -> list[Any]:
    """What the console consumer makes of its options: the registry, and the parts that are shown by it."""
    found: list[Any] = []

    def made(door: Any, *, keys: bool, values: bool, is_required: bool) -> RegisteredRecords:
        found.append((door.url, keys, values, is_required))
        return shown(Transport())

    monkeypatch.setattr("headwater.cli.registered_records.registered_records", made)
    given = {"bootstrap-server": ["far.example:9092"], "formatter-property": list(properties)}
    make_formatter(Options(given | ({"formatter": [formatter]} if formatter else {})))
    return found


def test_which_registry_the_console_consumer_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWATER_SCHEMA_REGISTRY_URL", raising=False)
    assert registry_of(monkeypatch) == []
    named = "schema.registry.url=http://r:1"
    assert registry_of(monkeypatch, named) == [("http://r:1", True, True, True)]
    assert registry_of(monkeypatch, named, "value.deserializer=o.a.k.StringDeserializer") == [
        ("http://r:1", True, False, True)
    ]
    both = ("key.deserializer=o.a.k.LongDeserializer", "value.deserializer=o.a.k.ByteArrayDeserializer")
    assert registry_of(monkeypatch, named, *both) == []
    confluent = "io.confluent.kafka.formatter.AvroMessageFormatter"
    assert registry_of(monkeypatch, formatter=confluent) == [("http://localhost:8081", True, True, True)]
    theirs = "value.deserializer=io.confluent.kafka.serializers.KafkaAvroDeserializer"
    assert registry_of(monkeypatch, theirs) == [("http://localhost:8081", True, True, True)]
    monkeypatch.setenv("HEADWATER_SCHEMA_REGISTRY_URL", "http://env:2")
    assert registry_of(monkeypatch) == [("http://env:2", True, True, False)]
