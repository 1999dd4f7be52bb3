"""A batch read: its two ends, and what is said if they cannot be; and its columns."""

from collections.abc import Iterator
from typing import Any

import pyarrow
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.schemas import SchemaType, StoredSchema
from headwater.spark import data_source_readers, partition_reader
from headwater.spark.input_partitions import OffsetRange
from headwater.spark.options import parse_source_options
from headwater.spark.schema import source_schema
from headwater.spark.serdes.options import ColumnFormat
from headwater.spark.serdes.source_plan import TypedColumn

A0 = TopicPartition("a", 0)


def partitions(
    monkeypatch: pytest.MonkeyPatch,
    start: int,
    end: int,
    held_back: frozenset[TopicPartition] = frozenset(),
    **options: str,
) -> list[Any]:
    class FakeLogs:
        def __init__(self, _: object) -> None: ...

        def offsets_at(self, _: object, option: str, *, or_latest: bool) -> dict[TopicPartition, int]:
            del or_latest
            return {A0: start if option == "startingOffsets" else end}

        def held_back(self, *_: object) -> frozenset[TopicPartition]:
            return held_back

        def close(self) -> None: ...

    monkeypatch.setattr(data_source_readers, "TopicLogs", FakeLogs)
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "a", **options}
    return data_source_readers.BatchReader(
        parse_source_options(given, streaming=False), source_schema(headers=False)
    ).partitions()


def test_from_one_end_to_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [each.wanted[2:4] for each in partitions(monkeypatch, 3, 9, minPartitions="2")] == [(3, 6), (6, 9)]
    assert partitions(monkeypatch, 9, 9) == []


def test_a_start_behind_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="from offset 9, and ends at 3"):
        partitions(monkeypatch, 9, 3)
    assert partitions(monkeypatch, 9, 3, failOnDataLoss="false") == []


def test_a_start_behind_an_open_transaction_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch failed with `Data was lost before it could be read`, until the transaction was over."""
    assert partitions(monkeypatch, 9, 3, frozenset((A0,))) == []


NUMBER = StructType([StructField("n", LongType())])


@pytest.mark.parametrize(
    ("names", "read", "rows"),
    [
        (["topic", "offset"], ["topic", "offset"], [{"topic": "a", "offset": 5}]),
        (
            ["value", "offset"],
            ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"],
            [{"value": {"n": 7}, "offset": 5}],
        ),
    ],
)
def test_a_typed_column_that_schema_leaves_out_is_not_decoded(
    monkeypatch: pytest.MonkeyPatch, names: list[str], read: list[str], rows: list[dict[str, Any]]
) -> None:
    """Each task of `.schema("topic string, offset long")` failed: Column value does not exist in schema."""
    asked: list[list[str]] = []

    def read_range(_options: object, _wanted: object, columns: list[str]) -> Iterator[pyarrow.RecordBatch]:
        asked.append(columns)
        yield pyarrow.record_batch({"key": [b"k"], "value": [b'{"n": 7}'], "topic": ["a"], "offset": [5]}).select(
            [each for each in columns if each in {"key", "value", "topic", "offset"}]
        )

    monkeypatch.setattr(partition_reader, "read_range", read_range)
    typed = tuple(
        TypedColumn(ColumnFormat(each, "json", "", NUMBER.json()), StoredSchema("{}", SchemaType.JSON), 0, NUMBER)
        for each in ("key", "value")
    )
    given = {
        "kafka.bootstrap.servers": "h:1",
        "subscribe": "a",
        **{f"{each}.format": "json" for each in ("key", "value")},
        **{f"{each}.schema": NUMBER.json() for each in ("key", "value")},
    }
    all_columns = source_schema(headers=False, typed={"key": NUMBER, "value": NUMBER})
    reader = data_source_readers.BatchReader(
        parse_source_options(given, streaming=False), StructType([all_columns[each] for each in names]), typed
    )
    batches = list(reader.read(data_source_readers.RangePartition(OffsetRange("a", 0, 5, 6))))
    assert [row for batch in batches for row in batch.to_pylist()] == rows
    assert asked == [read]
