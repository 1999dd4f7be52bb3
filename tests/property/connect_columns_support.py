"""A sink's way of records by columns and one by one: what becomes of them in files and in data frames."""

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from headwater.base.ids import TopicPartition
from headwater.client import ConsumerRecord
from headwater.client.schema_registry.client import SchemaRegistryClient
from headwater.connect.connectors.topic_files.connector import TopicFilesConnector
from headwater.connect.converters.basic import StringConverter
from headwater.connect.converters.registry import RegistryConverter
from headwater.connect.data.record import SinkRecord
from headwater.connect.runtime.sink_conversion import SinkConversion
from headwater.connect.runtime.spark_conversion import Packing, records_of
from headwater.connect.runtime.tolerance import Tolerance
from headwater.testing.connect import SinkKit
from unit.connect.registry_memory import Memory

Polls = list[list[ConsumerRecord]]


def drawn_polls(draw: random.Random, value: Callable[[], bytes | None], damaged: Callable[[], bytes]) -> Polls:
    """Of a few values that come again, with one in some polls that is damaged."""
    polls, offset = [], 0
    for _ in range(draw.randint(1, 3)):
        pool = [value() for _ in range(4)]
        count, bad = draw.choice([9, 20, 33]), draw.choice([None, None, 5])
        poll = []
        for n in range(count):
            data = damaged() if n == bad else pool[n % len(pool)]
            poll.append(ConsumerRecord("t", 1, offset, draw.choice([-1, 0, 10]), 0, b"k", data, (), -1))
            offset += 1
        polls.append(poll)
    return polls


class Line:
    """The way of a sink's records, with errors tolerated. `schemas` are registered, from 1 on, as the registry's
    requests have them.
    """

    steps: tuple[()] = ()
    is_pure = True

    def __init__(self, converter: type[RegistryConverter], schemas: list[dict[str, str]], **settings: str) -> None:
        memory = Memory()
        for each in schemas:
            memory.register("t-value", each)

        class InMemory(converter):  # type: ignore[misc, valid-type]
            def connect(self, config: Mapping[str, Any]) -> SchemaRegistryClient:
                del config
                return SchemaRegistryClient({"latest.cache.ttl.sec": 0}, transport=memory)

        self.value = InMemory()
        self.value.configure({"schema.registry.url": "http://registry", **settings}, kind="value")
        self.key = StringConverter()
        self.key.configure({}, kind="key")
        self.header = self.key

    def transform(self, record: SinkRecord, _original: Any, _tolerance: Tolerance) -> SinkRecord:
        return record

    def conversion(self, *, columns: bool) -> SinkConversion:
        config = {"errors.retry.timeout": 0, "errors.retry.delay.max.ms": 0, "errors.tolerance": "all"}
        tolerance = Tolerance(config, [], lambda: 0, lambda _seconds: True)
        return SinkConversion(self, tolerance, columns=columns)  # type: ignore[arg-type]


def converted(line: Line, records: list[ConsumerRecord], *, columns: bool) -> Any:
    conversion = line.conversion(columns=columns)
    run = conversion.sink_run(records)
    return run if run is not None else [made for each in records if (made := conversion.sink_record(each)) is not None]


def files_of(
    line: Line, polls: list[list[ConsumerRecord]], config: dict[str, str], *, columns: bool
) -> tuple[Any, ...]:
    with tempfile.TemporaryDirectory() as folder, mock.patch("os.fsync"):
        kit = SinkKit(TopicFilesConnector, {"path": folder, "format": "parquet", "parquet.codec": "none", **config})
        kit.task.open([TopicPartition("t", 1)])
        for poll in polls:
            kit.task.put(converted(line, poll, columns=columns))
        places = {TopicPartition("t", number): 1 << 40 for number in (0, 1)}
        found = {str(each.relative_to(folder)): each.read_bytes() for each in Path(folder).rglob("*") if each.is_file()}
        return found, kit.task.pre_commit(places), [(record.offset, str(error)) for record, error in kit.reported]


def batch_of(records: list[ConsumerRecord]) -> pa.RecordBatch:
    moment = pa.array([datetime.fromtimestamp(max(0, each.timestamp_ms) / 1000, UTC) for each in records])
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.RecordBatch.from_arrays(
        [
            pa.array([each.key for each in records], pa.binary()),
            pa.array([each.value for each in records], pa.binary()),
            pa.array([each.topic for each in records]),
            pa.array([each.partition for each in records], pa.int32()),
            pa.array([each.offset for each in records], pa.int64()),
            moment.cast(pa.timestamp("us", tz="UTC")),
            pa.array([0] * len(records), pa.int32()),
            pa.nulls(len(records), headers),
        ],
        names=["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"],
    )


def unpacked(packing: Packing) -> Iterator[tuple[str, bytes, list[Any]]]:
    for chunk in packing.chunks():
        for row in chunk.to_pylist():
            with pa.ipc.open_stream(row["data"]) as stream:
                table = stream.read_all()
            assert table.num_rows == row["rows"]
            yield (
                row["topic"],
                row["columns"],
                [str(each) for each in table.to_pylist()],
            )  # as text: NaN is itself there


def check_files(line: Line, polls: Polls) -> None:
    """The same to the byte."""
    config = {"flush.size": "10"}
    assert files_of(line, polls, config, columns=True) == files_of(line, polls, config, columns=False)


def check_frames(line: Line, polls: Polls) -> int:
    """How many of the polls went by columns; each of them comes to the same one by one."""
    count = 0
    for poll in polls:
        rows, columns = Packing(nulls_fail=True), Packing(nulls_fail=True)
        batch = batch_of(poll)
        good = []
        conversion = line.conversion(columns=False)
        for record in records_of(batch):
            found = conversion.sink_record(record)
            if found is not None:
                good.append(found)
        try:
            for found in good:
                rows.add(found)
        except Exception:  # noqa: BLE001 - one that no column can hold: the batch is no matter of columns then
            assert not columns.add_columns(batch, line)  # type: ignore[arg-type]
            continue
        if columns.add_columns(batch, line):  # type: ignore[arg-type]
            count += 1
            assert list(unpacked(columns)) == list(unpacked(rows))
    return count
