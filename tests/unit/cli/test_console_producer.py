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
