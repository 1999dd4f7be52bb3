"""What the console producer sends of the lines on stdin, and in which pieces."""

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
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


@pytest.mark.parametrize("option", ["--command-config", "--producer.config"])
@pytest.mark.parametrize(
    ("more", "settings"),
    [
        ([], {"acks": 1, "codec": 4}),
        (["--command-property", "acks=all"], {"acks": -1, "codec": 4}),
        (["--request-required-acks", "0", "--compression-codec"], {"acks": 0, "codec": 1}),
    ],
)
def test_settings_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, more: list[str], settings: dict[str, int]
) -> None:
    """Of a file of --command-config, acks and compression.type had no effect."""
    (tmp_path / "producer.properties").write_text("acks=1\ncompression.type=zstd\n")
    made: list[dict[str, int]] = []

    def writer(*_: object, **settings: int) -> Written:
        made.append(settings)
        return Written()

    admin = SimpleNamespace(describe_topic=lambda name, **_: SimpleNamespace(name=name))
    monkeypatch.setattr("headwater.cli.kafka.connecting.connected", lambda *_: nullcontext(admin))
    monkeypatch.setattr("headwater.client.record_writer.RecordWriter", writer)
    monkeypatch.setattr(console_producer, "_lines", lambda: iter(()))
    arguments = ["--bootstrap-server", "localhost:1", "--topic", "t", option, str(tmp_path / "producer.properties")]
    assert console_producer.script([*arguments, *more]) == 0
    assert made == [settings]
