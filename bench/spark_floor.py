"""A streaming source in Python that does nothing: what a micro-batch of any Python source takes, whatever it reads.

It always has one row more, in one partition, and asks nobody. What our source takes above it is ours; the rest is
Spark's: the log of offsets, the planning of a batch, and the way to the Python processes and back.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

FLOOR = "floor"


class FloorReader(DataSourceStreamReader):
    """Its offset is the number of batches so far."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"batches": 0}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        return {"batches": start["batches"] + 1}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:  # noqa: ARG002
        return [InputPartition(end["batches"])]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:  # noqa: ARG002
        yield pyarrow.record_batch({"value": pyarrow.array([b"nothing"], pyarrow.binary())})


class FloorSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FLOOR

    def schema(self) -> str:
        return "value binary"

    def streamReader(self, schema: Any) -> FloorReader:  # noqa: ARG002, N802
        return FloorReader()
