"""The source that does nothing, and how batches become a figure."""

import pytest
from bench.spark_driver import at_share, turns
from bench.spark_floor import FloorReader
from pyspark.sql.streaming.datasource import ReadAllAvailable


def test_every_batch_has_one_row_more_of_the_declared_column() -> None:
    reader = FloorReader()
    start = reader.initialOffset()
    for number in (1, 2):
        end = reader.latestOffset(start, ReadAllAvailable())
        assert end == {"batches": number}
        (partition,) = reader.partitions(start, end)
        (batch,) = reader.read(partition)
        assert (batch.schema.names, batch.num_rows) == (["value"], 1)
        start = end


@pytest.mark.parametrize(("percent", "expected"), [(50, 51.0), (99, 100.0), (100, 100.0)])
def test_a_share_of_the_batches(percent: int, expected: float) -> None:
    assert at_share([float(each) for each in range(100, 0, -1)], percent) == expected


def test_every_source_is_measured_as_early_as_the_others() -> None:
    """A JVM gets quicker from query to query: whoever came first in each round was at 1.2 of another, and level with it
    in a fair order.
    """
    order = turns(("ours", "theirs", "nothing"), 2)
    assert {name for name, _ in order[:3]} == {"ours", "theirs", "nothing"}
    assert {number for _, number in order[:3]} == {0}, "what warms up does not count"
    at = {name: [at for at, (each, number) in enumerate(order) if each == name and number] for name, _ in order}
    assert {len(each) for each in at.values()} == {2}
    assert {sum(each) for each in at.values()} == {5 + 6}
