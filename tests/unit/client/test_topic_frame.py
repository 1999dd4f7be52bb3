"""Where a read begins and ends, and the bar it shows."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pyarrow as pa
import pytest

from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client import topic_frame
from headwater.client.progress import Progress
from headwater.client.types import OffsetAt, Partition, Topic
from headwater.records.arrow import schema


class FakeReader:
    """Two partitions: offsets 10 to 100 and an empty one; one record per second since 2024-01-01."""

    began_ms = round(datetime(2024, 1, 1, tzinfo=UTC).timestamp() * 1000)

    def topic(self, name: str) -> Topic:
        return Topic(name, b"", False, [Partition(name, number, 0, 0, [], [], []) for number in range(2)])

    def ends(self, partitions: list[TopicPartition], *, earliest: bool) -> dict[TopicPartition, int]:
        return {each: (10 if earliest else 100) if each.partition == 0 else 0 for each in partitions}

    def offsets(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, OffsetAt | None]:
        found: dict[TopicPartition, OffsetAt | None] = {}
        for each, time_ms in times.items():
            offset = max(0, -(-(time_ms - self.began_ms) // 1000))
            found[each] = OffsetAt(offset, time_ms, 0) if each.partition == 0 and offset < 100 else None
        return found


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (10, 100)),
        ({"last": 5}, (95, 100)),
        ({"last": 500}, (10, 100)),
        ({"start": 40, "end": 50}, (40, 50)),
        ({"start": {0: 20}}, (20, 100)),
        ({"start": 3}, (10, 100)),
        ({"end": 700}, (10, 100)),
        ({"from_": "2024-01-01T00:00:30Z", "until": "2024-01-01T00:00:40Z"}, (30, 40)),
        ({"from_": datetime(2024, 1, 1, 0, 1, tzinfo=UTC)}, (60, 100)),
        ({"from_": FakeReader.began_ms + 1}, (10, 100)),
        ({"from_": "2025-01-01"}, None),
        ({"until": "2023-01-01"}, None),
        ({"start": 50, "end": 50}, None),
        ({"last": "1h"}, None),
        ({"last": timedelta(days=365 * 100)}, (10, 100)),
    ],
)
def test_where_a_read_begins_and_ends(given: dict[str, Any], expected: tuple[int, int] | None) -> None:
    asked = {"last": None, "from_": None, "until": None, "start": None, "end": None, **given}
    spans = topic_frame._spans(FakeReader(), "orders", None, **asked)  # type: ignore[arg-type]
    assert spans == ({} if expected is None else {TopicPartition("orders", 0): expected})


def test_a_partition_that_is_not_there() -> None:
    with pytest.raises(UserError, match="no partition 7"):
        topic_frame._spans(FakeReader(), "orders", [7], None, None, None, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1.5h", 5400), ("1d 2h", 93600), ("500ms", 0.5), ("2w", 1209600), ("3min", 180)]
)
def test_ages(text: str, seconds: float) -> None:
    assert topic_frame.age_of(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "1y", "h", "1h ago"])
def test_what_is_not_an_age(text: str) -> None:
    with pytest.raises(UserError, match="last cannot be"):
        topic_frame.age_of(text)


class RangesOfBytes:
    """Partition 3, offsets 40 to 43, in two batches; the one at 42 is no JSON."""

    def read_range(self, _partition: TopicPartition, _start: int, _end: int, *, lost: str) -> Iterator[pa.RecordBatch]:
        assert lost == "skip"
        for offsets, values in (([40, 41], [b'{"a":1}', b'{"a":2}']), ([42, 43], [b"{", b'{"a":4}'])):
            columns = {"partition": pa.array([3, 3], pa.int32()), "offset": pa.array(offsets, pa.int64())}
            made = {each.name: pa.nulls(2, each.type) for each in schema()} | columns | {"value": pa.array(values)}
            yield pa.RecordBatch.from_pydict(made, schema=schema())

    def close(self) -> None:
        pass


@pytest.mark.parametrize("whole", [True, False], ids=["to_arrow", "batches"])
def test_a_record_that_cannot_be_decoded_is_named_by_its_offset(whole: bool) -> None:
    """Of a topic of millions, "row 2" does not say which record to look at."""
    spans = {TopicPartition("orders", 3): (40, 44)}
    frame = topic_frame.Frame(cast("Any", RangesOfBytes()), "orders", spans, None, {"value": "json"}, False)
    with pytest.raises(KafkaError, match="orders-3 offset 42: a column cannot be decoded as JSON"):
        frame.to_arrow() if whole else list(frame.batches())


def test_contradictions_are_refused_before_anything_is_asked() -> None:
    with pytest.raises(UserError, match="more than one"):
        topic_frame.read("orders", last="1h", start=5)
    with pytest.raises(UserError, match="both were given"):
        topic_frame.read("orders", until="2024-01-01", end=5)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_comes_after_a_second_and_goes_at_the_end() -> None:
    now = [0.0]
    stream = Terminal()
    progress = Progress(200, "orders", stream=stream, clock=lambda: now[0])
    now[0] = 0.5
    progress.at(50)
    assert stream.getvalue() == ""
    now[0] = 2.0
    progress.at(100)
    assert "orders [###############               ]  50% 100 of 200 (50/s)" in stream.getvalue()
    progress.at(150)
    assert "150" not in stream.getvalue()  # a tenth of a second is soon enough
    progress.end()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_nobody_looks_on_nothing_is_shown() -> None:
    now = [0.0]
    for wanted, stream in ((None, io.StringIO()), (False, Terminal())):
        progress = Progress(200, "orders", wanted, stream=stream, clock=lambda: now[0])
        now[0] += 100
        progress.at(100)
        progress.end()
        assert stream.getvalue() == ""
