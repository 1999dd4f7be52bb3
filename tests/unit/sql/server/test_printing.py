"""PRINT shows records by what their bytes can be, in ksqlDB's order, and says which formats are left."""

import struct
from typing import NamedTuple

import pytest

from headwater.sql.server.printing import NOTHING_SEEN, Printer, as_bytes


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 1_794_912_948_286
    partition: int = 0


def registered(data: bytes) -> tuple[str, str] | None:
    return ("AVRO", '{"id": 7}') if data == b"\0\0\0\0\1\x0e" else None


def formats(*records: Record) -> tuple[str, str]:
    key, value, *_ = Printer(registered).lines(records)
    return key.removeprefix("Key format: ").rstrip("\n"), value.removeprefix("Value format: ").rstrip("\n")


def test_a_record_with_a_number_as_key_and_json() -> None:
    assert Printer(registered).lines([Record(struct.pack(">i", 1), b'{"ITEM":"pen"}', partition=3)]) == [
        "Key format: KAFKA_INT or KAFKA_STRING\n",
        "Value format: JSON or KAFKA_STRING\n",
        'rowtime: 2026/11/17 10:55:48.286 Z, key: 1, value: {"ITEM":"pen"}, partition: 3\n',
    ]


@pytest.mark.parametrize(
    ("value", "names", "text"),
    [
        (b"pen", "KAFKA_STRING", "pen"),
        (b"\0\0\0\0\1\x0e", "AVRO or KAFKA_STRING", '{"id": 7}'),
        (struct.pack(">q", -5), "KAFKA_BIGINT or KAFKA_DOUBLE", "-5"),
        (b"\xff\xfe\xfd", "", "\\xFF\\xFE\\xFD"),
        (b"", "KAFKA_STRING", ""),
        (b"pen\nrowtime: forged\x1b[2J\ttab", "KAFKA_STRING", "pen\\nrowtime: forged\\x1b[2J\\ttab"),
        (b'{\r\n"a": 1}', "JSON or KAFKA_STRING", '{\\r\\n"a": 1}'),
        ("\u65e5\u9b31".encode(), "KAFKA_STRING", "\u65e5\u9b31"),
        (b"[1, 2", "KAFKA_STRING", "[1, 2"),
        (b"[" * 100_000, "KAFKA_STRING", "[" * 100_000),
    ],
)
def test_values(value: bytes, names: str, text: str) -> None:
    printer = Printer(registered)
    _, told, line = printer.lines([Record(None, value)])
    assert told == f"Value format: {names}\n"
    assert line.endswith(f", key: <null>, value: {text}, partition: 0\n")


def test_no_key_was_seen() -> None:
    assert formats(Record(None, b"{}"))[0] == NOTHING_SEEN


def test_a_format_that_one_record_cannot_have_is_gone_and_that_is_told() -> None:
    printer = Printer(registered)
    first = printer.lines([Record(b"k", b"{}")])
    assert first[1] == "Value format: JSON or KAFKA_STRING\n"
    assert len(printer.lines([Record(b"k", b"[]")])) == 1
    again = printer.lines([Record(b"k", b"pen")])
    assert again[1] == "Value format: KAFKA_STRING\n"
    assert len(printer.lines([Record(b"k", b"{}")])) == 1
    assert printer.lines([]) == []


def test_an_empty_text_strikes_off_nothing() -> None:
    printer = Printer(registered)
    assert printer.lines([Record(b"", b"")])[:2] == ["Key format: KAFKA_STRING\n", "Value format: KAFKA_STRING\n"]
    lines = printer.lines([Record(struct.pack(">i", 1), b"{}"), Record(b"", b"")])
    assert lines[:2] == ["Key format: KAFKA_INT or KAFKA_STRING\n", "Value format: JSON or KAFKA_STRING\n"]
    assert [line.partition(", ")[2] for line in lines[2:]] == [
        "key: 1, value: {}, partition: 0\n",
        "key: , value: , partition: 0\n",
    ]


def test_keys_of_windows() -> None:
    start = struct.pack(">q", 1_700_000_000_000)
    end = struct.pack(">q", 1_700_000_060_000)
    key, _, line = Printer(registered).lines([Record(b"pen" + start, None)])
    assert key == "Key format: HOPPING(KAFKA_STRING) or TUMBLING(KAFKA_STRING)\n"
    assert "key: [pen@1700000000000/-]," in line
    key, _, line = Printer(registered).lines([Record(struct.pack(">i", 9) + end + start, None)])
    assert key.startswith("Key format: SESSION(KAFKA_INT) or ")
    assert "key: [9@1700000000000/1700000060000]," in line


@pytest.mark.parametrize("key", [b"customer1", b"a-customer-with-a-long-name", b"8" * 36])
def test_a_long_text_is_no_window(key: bytes) -> None:
    assert "(" not in formats(Record(key, b"{}"))[0]


@pytest.mark.parametrize(
    ("timestamp_ms", "text"), [(-1, "N/A"), (0, "1970/01/01 00:00:00.000 Z"), (1 << 62, str(1 << 62))]
)
def test_rowtimes(timestamp_ms: int, text: str) -> None:
    assert Printer(registered).lines([Record(b"k", b"v", timestamp_ms)])[-1].startswith(f"rowtime: {text}, key: k")


def test_bytes_are_shown_without_what_would_disturb_a_terminal() -> None:
    assert as_bytes(b"a\\\x1b[31m\x00\xff") == "a\\x5C\\x1B[31m\\x00\\xFF"
