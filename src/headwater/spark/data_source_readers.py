"""The two readers of `format("headwater")`, a batch's and a stream's: what Spark asks of them, answered by the pure
parts and the client.

Spark makes these objects anew in many Python processes: to plan, one that lives as long as a streaming query (its
offsets), and one per task. So they hold options only, and open what they need where they are.
"""

import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from headwater.spark import stream_offsets
from headwater.spark.admin import tell_group
from headwater.spark.input_partitions import OffsetRange, ranges, split
from headwater.spark.offset_options import LogFacts
from headwater.spark.options import SourceOptions
from headwater.spark.schema import arrow_schema, source_schema
from headwater.spark.topic_logs import Meanwhile, TopicLogs

if TYPE_CHECKING:
    import pyarrow

    from headwater.base.ids import TopicPartition
    from headwater.client.session import Session
    from headwater.spark.serdes.source_plan import TypedColumn

_LEFT_ALONE_S: Final = 30.0  # a group whose coordinator gave no answer


class RangePartition(InputPartition):
    """What one task reads."""

    def __init__(self, wanted: OffsetRange) -> None:
        super().__init__(tuple(wanted))

    @property
    def wanted(self) -> OffsetRange:
        return OffsetRange(*self.value)


def _read(
    options: SourceOptions, schema: StructType, typed: "tuple[TypedColumn, ...]", partition: InputPartition
) -> Iterator["pyarrow.RecordBatch"]:
    from headwater.spark.partition_reader import read_range, read_typed_range

    if not isinstance(partition, RangePartition):  # an empty plan has a partition all the same, of Spark's own making
        return
    if typed:
        raw = source_schema(headers=True).names
        yield from read_typed_range(options, partition.wanted, typed, raw, arrow_schema(schema))
    else:
        yield from read_range(options, partition.wanted, schema.names)


class BatchReader(DataSourceReader):
    def __init__(self, options: SourceOptions, schema: StructType, typed: "tuple[TypedColumn, ...]" = ()) -> None:
        self._options = options
        self._schema = schema
        self._typed = typed

    def partitions(self) -> list[InputPartition]:
        options = self._options
        logs = TopicLogs(options)
        try:
            start = logs.offsets_at(options.starting, options.starting_option, or_latest=options.young_is_latest)
            end = logs.offsets_at(options.ending, options.ending_option, or_latest=True)
            if options.fail_on_data_loss:
                waiting = logs.held_back(start, end)  # nothing to read yet, and nothing lost
                ended = {each: offset for each, offset in end.items() if each not in waiting}
                stream_offsets.raise_losses(stream_offsets.past_their_end(start, ended))
        finally:
            logs.close()
        pieces = split(ranges(start, end), options.min_partitions, options.max_records_per_partition)
        return [RangePartition(each) for each in pieces]

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        return _read(self._options, self._schema, self._typed, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Its offsets are asked for in one process, from the start of the query to its end; that one owns the
    connection.
    """

    def __init__(self, options: SourceOptions, schema: StructType, typed: "tuple[TypedColumn, ...]" = ()) -> None:
        self._options = options
        self._schema = schema
        self._typed = typed
        self._logs: TopicLogs | None = None
        self._target: stream_offsets.PartitionOffsets | None = None
        self._seen: dict[TopicPartition, LogFacts] | None = None
        self._committed: dict[str, dict[str, int]] | None = None
        self._tell_group_at = 0.0
        self._moved_at = 0.0

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        options = self._options
        found = self._open().offsets_at(options.starting, options.starting_option, or_latest=options.young_is_latest)
        return stream_offsets.to_tree(found)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        facts = self._open().facts(must_exist=False)
        self._target = {each: fact.latest for each, fact in facts.items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch. All before `start` is done by now, so the consumer group is told beside."""
        begin = stream_offsets.from_tree(start)
        self._seen = facts = self._open().since(begin, self._group_commit(start))
        if self._waits(stream_offsets.lag(begin, facts), limit):
            return start
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        found = stream_offsets.advance(begin, facts, max_records=most, target=self._target)
        if self._options.fail_on_data_loss:
            stream_offsets.raise_losses(found.losses)
        self._open().accept_topics()
        for each in found.losses:
            sys.stderr.write(f"headwater source: {each}\n")
        return stream_offsets.to_tree(found.end)

    def _waits(self, lag: int, limit: ReadLimit) -> bool:
        """Whether `minOffsetsPerTrigger` are not there yet, and `maxTriggerDelay` is not over."""
        least = self._options.min_offsets_per_trigger
        now = time.monotonic()
        waited_ms = (now - self._moved_at) * 1000
        if least is not None and lag < least and self._moved_at and self._target is None:
            wanted_all = isinstance(limit, ReadAllAvailable) and self._options.max_offsets_per_trigger is not None
            if waited_ms < self._options.max_trigger_delay_ms and not wanted_all:
                return True
        self._moved_at = now
        return False

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return (
            None
            if self._seen is None
            else stream_offsets.to_tree({each: fact.latest for each, fact in self._seen.items()})
        )

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """From the two offsets alone: a batch that is tried again has the same tasks."""
        whole = ranges(stream_offsets.from_tree(start), stream_offsets.from_tree(end))
        pieces = split(whole, self._options.min_partitions, self._options.max_records_per_partition)
        return [RangePartition(each) for each in pieces]

    def read(self, partition: InputPartition) -> Iterator["pyarrow.RecordBatch"]:
        return _read(self._options, self._schema, self._typed, partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._commit_group(end)

    def stop(self) -> None:
        if self._logs is not None:
            self._logs.close()
            self._logs = None

    def _open(self) -> TopicLogs:
        if self._logs is None:
            self._logs = TopicLogs(self._options)
        return self._logs

    def _commit_group(self, done: dict[str, Any]) -> None:
        commit = self._group_commit(done)
        if commit is not None:
            self._open().admin.run(commit)

    def _group_commit(self, done: dict[str, Any]) -> Meanwhile | None:
        """Tells the consumer group, so that the lag shows in every tool, where no `query_listener` did so before; None:
        it knows.
        """
        group = self._options.group_id
        if group is None or done == self._committed or time.monotonic() < self._tell_group_at:
            return None

        async def commit(session: "Session") -> None:
            if await tell_group(session, group, stream_offsets.from_tree(done)):
                self._committed = done
            else:
                self._tell_group_at = time.monotonic() + _LEFT_ALONE_S

        return commit
