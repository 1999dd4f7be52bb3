"""What `headwater produce` writes of its input."""

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.base.errors import UserError
from headwater.cli.commands import produce
from headwater.cli.input_formats import input_parser
from headwater.cli.options import Target
from headwater.client.record_writer import RecordWriter
from headwater.client.types import OutgoingRecord

_DEFAULTS = produce._Defaults(None, (), None, None, tombstone=False)


class Written:
    """A writer that keeps the values."""

    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.is_flushed = False

    def write(self, records: Sequence[OutgoingRecord]) -> list[Any]:
        self.values += [record.value for record in records]
        self.is_flushed = False
        return [*records]

    def flush(self) -> None:
        self.is_flushed = True


@pytest.mark.parametrize(
    ("shape", "data", "said"),
    [
        ("json", b'{"value": "a"}\n{"value": "b"}\nnonsense\n{"value": "c"}\n', "Line 3 is not JSON"),
        ("%k:%v\\n", b"k:a\nk:b\nk", "The input ends inside record 3"),
        ("%k{hex}:%v\\n", b"00:a\n00:b\nx:c\n", "Record 3: b'x' is not hex"),
    ],
)
def test_records_in_front_of_one_that_cannot_be_read_are_written(
    monkeypatch: pytest.MonkeyPatch, shape: str, data: bytes, said: str
) -> None:
    """The error names the line, and it depended on how the input came how many of those before it were there."""

    def pieces(_descriptor: int) -> Iterator[bytes | None]:
        yield from (data, None)

    monkeypatch.setattr(produce, "_input", pieces)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(fileno=lambda: 0))
    writer = Written()
    target = cast(Target, SimpleNamespace(output="table"))
    with pytest.raises(UserError, match=said):
        produce._pump(target, input_parser(shape, None), _DEFAULTS, cast(RecordWriter, writer))
    assert writer.values == [b"a", b"b"]
    assert writer.is_flushed
