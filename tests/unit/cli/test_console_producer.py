"""What the console producer sends of the lines on stdin, and in which pieces."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from headwater.cli.kafka import console_producer
from headwater.cli.kafka.line_reader import LineReader
from headwater.cli.kafka.options import Stop
from headwater.client.record_writer import RecordWriter
from headwater.client.types import OutgoingRecord


class Written:
    """A writer that keeps the values of each write, and whether it was flushed behind them."""

    def __init__(self) -> None:
        self.values: list[list[bytes | None]] = []
        self.is_flushed = False

    def write(self, records: Sequence[OutgoingRecord]) -> list[Any]:
        self.values.append([record.value for record in records])
        self.is_flushed = False
        return []

    def flush(self) -> None:
        self.is_flushed = True


class Pieces:
    """Stdin that comes in these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.read = iter([*pieces, b""]).__next__

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"a\nb\r\nc"], [b"a", b"b", b"c"]),
        ([b"a\rb\n\rc"], [b"a", b"b", b"", b"c"]),
        ([b"a\r"], [b"a"]),
        ([b"a\r", b"\nb\r", b"c\n"], [b"a", b"b", b"c"]),
        ([b"a\r", b"\r\n"], [b"a", b""]),
        ([b"\r"], [b""]),
        ([b"ab", b"c\n\n"], [b"abc", b""]),
    ],
)
def test_a_line_ends_with_a_line_feed_a_carriage_return_or_both(
    monkeypatch: pytest.MonkeyPatch, pieces: list[bytes], lines: list[bytes]
) -> None:
    """As Java reads lines. A carriage return alone, or as the last byte, was taken for a part of the record."""
    stdin = Pieces(*pieces)
    monkeypatch.setattr("sys.stdin", stdin)
    monkeypatch.setattr("os.read", lambda _fd, _size: stdin.read())
    assert [line for found in console_producer._lines() for line in found] == lines


@pytest.mark.parametrize("one_by_one", [False, True])
def test_lines_before_one_that_cannot_be_read_are_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, one_by_one: bool
) -> None:
    """Nothing of the piece of stdin that the bad line stood in arrived, which may be thousands of good ones."""
    (tmp_path / "lines").write_bytes(b"a:1\nb:2\nno key\nc:3\n")
    writer = Written()
    reader = LineReader({"parse.key": "true", "key.separator": ":"})
    with (tmp_path / "lines").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with pytest.raises(Stop, match="No key separator found on line number 3: 'no key'"):
            console_producer._copy(reader, cast(RecordWriter, writer), one_by_one=one_by_one)
    assert [value for values in writer.values for value in values] == [b"1", b"2"]
    assert writer.is_flushed
