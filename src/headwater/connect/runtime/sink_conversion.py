"""A record of Kafka as a sink sees it: converted and transformed, by the same code in a task's thread and in a task of
Spark.
"""

from collections.abc import Sequence

from headwater.client import ConsumerRecord
from headwater.connect.data.record import Header, SinkRecord
from headwater.connect.data.runs import RUN_RECORDS_MIN, ArrowColumn, SinkRun, TransformedSinkRun, ValueColumns
from headwater.connect.data.schema import Type
from headwater.connect.runtime.pipeline import Pipeline, class_name
from headwater.connect.runtime.tolerance import Skipped, Stage, Tolerance


class SinkConversion:
    """Owned by one task, as its pipeline is."""

    def __init__(self, pipeline: Pipeline, tolerance: Tolerance, *, columns: bool = False) -> None:
        """`columns`: whether who takes the runs wants values as Arrow's columns, where there are some."""
        self._pipeline, self._tolerance, self._columns = pipeline, tolerance, columns
        self._is_pure = pipeline.is_pure
        self._names = [class_name(each) for each in (pipeline.key, pipeline.value, pipeline.header)]

    def sink_run(self, records: list[ConsumerRecord]) -> Sequence[SinkRecord] | None:
        """What is left of them, all at once; a `SinkRun` where there are no transforms. None: these go one by one,
        because a transform may not be repeated, or because one, or a converter, raised: the record that is at fault is
        found, tried again and told by `sink_record`.
        """
        pipe = self._pipeline
        if not self._is_pure or len(records) < RUN_RECORDS_MIN or any(record.headers for record in records):
            return None
        topic = records[0].topic
        if any(record[0] != topic for record in records):
            return None
        try:
            keys = pipe.key.to_connect_run(topic, [record.key for record in records])
            data = [record.value for record in records]
            column = self._column(topic, data)
            run = SinkRun(records, keys, column or pipe.value.to_connect_run(topic, data))
            if pipe.steps:
                changed = None if column is None else self._tried(run, column)
                if changed is None:
                    return [each for each in pipe.transform_run(run) if each is not None]
                return changed
        except Exception:  # noqa: BLE001
            return None
        return run

    def _tried(self, run: SinkRun, column: ArrowColumn) -> Sequence[SinkRecord] | None:
        """An error is about a record, or about a value that records may have and columns not: the records tell."""
        try:
            return self._changed(run, column)
        except Exception:  # noqa: BLE001
            return None

    def _changed(self, run: SinkRun, column: ArrowColumn) -> Sequence[SinkRecord] | None:
        """By columns; the records, if somebody looks at them, as transforms make them one by one."""
        import pyarrow as pa

        records = run.originals
        changed = self._pipeline.transform_columns(
            ValueColumns(
                column.schema,
                column.arrow.flatten(),
                records[0].topic,
                lambda: pa.array([each.partition for each in records], pa.int32()),
                lambda: pa.array([each.offset for each in records], pa.int64()),
                lambda: pa.array(
                    [each.timestamp_ms if each.timestamp_ms >= 0 else None for each in records], pa.int64()
                ),
            )
        )
        if changed is None or changed.schema.type is not Type.STRUCT:
            return None
        if not len(changed.columns[0]):
            return []

        def made() -> list[SinkRecord]:
            return [each for each in self._pipeline.transform_run(run) if each is not None]

        return TransformedSinkRun(records, changed.schema, changed.array(), made)

    def _column(self, topic: str, data: list[bytes | None]) -> ArrowColumn | None:
        if not self._columns:
            return None
        import pyarrow as pa

        return self._pipeline.value.to_connect_columns(topic, pa.array(data, pa.binary()))

    def sink_record(self, record: ConsumerRecord) -> SinkRecord | None:
        """None: dropped by a transform, or given up and tolerated. Raises ConnectError by the tolerance."""
        topic, run, pipe = record.topic, self._tolerance.run, self._pipeline
        key_name, value_name, header_name = self._names
        try:
            key = run(Stage.KEY_CONVERTER, key_name, record, lambda: pipe.key.to_connect(topic, record.key))
            value = run(Stage.VALUE_CONVERTER, value_name, record, lambda: pipe.value.to_connect(topic, record.value))
            headers = run(
                Stage.HEADER_CONVERTER,
                header_name,
                record,
                lambda: tuple(Header(name, *pipe.header.to_connect(topic, data)) for name, data in record.headers),
            )
            made = SinkRecord(
                topic=topic,
                partition=record.partition,
                key_schema=key.schema,
                key=key.value,
                value_schema=value.schema,
                value=value.value,
                timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else None,
                headers=headers,
                offset=record.offset,
                timestamp_type=record.timestamp_type,
                original=record,
            )
            changed = pipe.transform(made, record, self._tolerance)
        except Skipped:
            return None
        assert changed is None or isinstance(changed, SinkRecord)
        return changed
