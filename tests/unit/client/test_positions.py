"""From what a person means to offsets."""

import pytest

from headwater.client.positions import (
    AtOffset,
    AtTime,
    Beginning,
    End,
    Last,
    PartitionOffsets,
    Start,
    Stop,
    start_offset,
    stop_offset,
)

LOG = PartitionOffsets(earliest=10, latest=100, at_start=40, at_stop=60)
YOUNG = PartitionOffsets(earliest=10, latest=100)  # no record is as young as the times asked for


@pytest.mark.parametrize(
    ("start", "offsets", "expected"),
    [
        (Beginning(), LOG, 10),
        (End(), LOG, 100),
        (AtOffset(50), LOG, 50),
        (AtOffset(3), LOG, 10),
        (AtOffset(500), LOG, 500),
        (Last(5), LOG, 95),
        (Last(1000), LOG, 10),
        (Last(0), LOG, 100),
        (AtTime(1), LOG, 40),
        (AtTime(1), YOUNG, 100),
    ],
)
def test_starts(start: Start, offsets: PartitionOffsets, expected: int) -> None:
    assert start_offset(start, offsets) == expected


@pytest.mark.parametrize(
    ("stop", "offsets", "expected"),
    [(None, LOG, None), (End(), LOG, 100), (AtOffset(70), LOG, 70), (AtTime(1), LOG, 60), (AtTime(1), YOUNG, 100)],
)
def test_stops(stop: Stop | None, offsets: PartitionOffsets, expected: int | None) -> None:
    assert stop_offset(stop, offsets) == expected
