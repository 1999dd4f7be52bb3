"""A batch read: its two ends, and what is said if they cannot be."""

from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.spark import data_source_readers
from headwater.spark.options import parse_source_options
from headwater.spark.schema import source_schema

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
