"""The source that does nothing, and how batches become a figure."""

import pytest
from bench.spark_driver import at_share
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
