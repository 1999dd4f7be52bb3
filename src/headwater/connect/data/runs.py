"""Runs: records that follow each other and have all but a few things in common, as columns.

A run is a sequence of records for whoever wants records: they are made when somebody looks at them, and stay the same
objects. Whoever wants columns has them without a Python object per record: converters, the producer, the file sink.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, overload

from headwater.client import ConsumerRecord
from headwater.connect.data.arrow_rows import arrow_type
from headwater.connect.data.record import ConnectRecord, SinkRecord, SourceRecord
from headwater.connect.data.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

RUN_RECORDS_MIN: Final = 16  # below, a run takes longer than its records one by one
R = TypeVar("R", bound=ConnectRecord)


class Column(NamedTuple):
    """Keys or values of a run. `schemas`, where they differ, has one for each."""

    schema: Schema | None
    values: list[Any]
    schemas: list[Schema | None] | None = None

    def schema_at(self, index: int) -> Schema | None:
        return self.schema if self.schemas is None else self.schemas[index]


class ArrowColumn:
    """Values of a run as Arrow has them, in the types of `arrow_rows`: all there, structs of one schema. Their values
    as Connect's are made when somebody looks at them.
    """

    schemas: None = None

    def __init__(self, schema: Schema, arrow: "pa.StructArray", make_values: Callable[[], list[Any]]) -> None:
        self.schema, self.arrow, self._make_values = schema, arrow, make_values
        self._values: list[Any] | None = None

    @property
    def values(self) -> list[Any]:
        if self._values is None:
            self._values = self._make_values()
        return self._values

    def schema_at(self, _index: int) -> Schema:
        return self.schema


class ValueColumns(NamedTuple):
    """The values of a run while transforms go over its columns: all there, in the types of `arrow_rows`. Their records
    have no headers. They are structs, but for what the last transform may have made of them.
    """

    schema: Schema
    columns: "list[pa.Array]"  # one for each field; of values that are no structs, one
    topic: str | None  # None: not the same for all
    partitions: "Callable[[], pa.Array]"
    offsets: "Callable[[], pa.Array]"
    timestamps_ms: "Callable[[], pa.Array]"  # null where a record has none

    def with_fields(self, schema: Schema, columns: "list[pa.Array]") -> "ValueColumns | None":
        """None: a field that is required has a null, which records tell better one by one."""
        for field, column in zip(schema.fields, columns, strict=True):
            if column.null_count and not field.schema.optional:
                return None
        return self._replace(schema=schema, columns=columns)

    def array(self) -> "pa.StructArray":
        import pyarrow as pa

        return pa.StructArray.from_arrays(self.columns, fields=list(arrow_type(self.schema)))


class _Run(Sequence[R]):
    _made: list[R] | None = None

    def _record(self, index: int) -> R:
        raise NotImplementedError

    def _records(self) -> list[R]:
        if self._made is None:
            self._made = [self._record(index) for index in range(len(self))]
        return self._made

    @overload
    def __getitem__(self, index: int) -> R: ...

    @overload
    def __getitem__(self, index: slice) -> list[R]: ...

    def __getitem__(self, index: int | slice) -> R | list[R]:
        return self._records()[index]

    def __iter__(self) -> Iterator[R]:
        return iter(self._records())


class SourceRun(_Run[SourceRecord]):
    """Records without headers, of one topic and one source partition. `offset_at(index)` is the source offset of a
    record; `keys` None: none has a key. A time, or one for each.
    """

    def __init__(
        self,
        topic: str,
        values: Sequence[Any],
        value_schema: Schema | None,
        *,
        source_partition: Mapping[str, Any] | None,
        offset_at: Callable[[int], Mapping[str, Any] | None],
        keys: Sequence[Any] | None = None,
        key_schema: Schema | None = None,
        timestamps_ms: int | Sequence[int | None] | None = None,
        partition: int | None = None,
    ) -> None:
        self.topic, self.values, self.value_schema = topic, values, value_schema
        self.source_partition, self._offset_at = source_partition, offset_at
        self.keys, self.key_schema = keys, key_schema
        self.timestamps_ms, self.partition = timestamps_ms, partition

    @classmethod
    def of(cls, records: Sequence[SourceRecord]) -> "SourceRun":
        """Of records that `alike` finds alike."""
        first, times = records[0], [each.timestamp_ms for each in records]
        made = cls(
            first.topic,
            [each.value for each in records],
            first.value_schema,
            source_partition=first.source_partition,
            offset_at=lambda index: records[index].source_offset,
            keys=[each.key for each in records],
            key_schema=first.key_schema,
            timestamps_ms=times,
            partition=first.partition,
        )
        made._made = list(records)
        return made

    def __len__(self) -> int:
        return len(self.values)

    @property
    def newest_offset(self) -> Mapping[str, Any] | None:
        """Of the last record that has one: a source may give an offset with some of them alone."""
        found = (self._offset_at(index) for index in reversed(range(len(self))))
        return next((each for each in found if each is not None), None)

    def _record(self, index: int) -> SourceRecord:
        times = self.timestamps_ms
        return SourceRecord(
            topic=self.topic,
            partition=self.partition,
            key_schema=self.key_schema,
            key=None if self.keys is None else self.keys[index],
            value_schema=self.value_schema,
            value=self.values[index],
            timestamp_ms=times if times is None or isinstance(times, int) else times[index],
            source_partition=self.source_partition,
            source_offset=self._offset_at(index),
        )


class _Likeness:
    """Records with equal ones follow each other into a run. Schemas are told apart by identity: that is cheap, and a
    source that makes one anew for each record has no runs.
    """

    __slots__ = ("_record",)

    def __init__(self, record: SourceRecord) -> None:
        self._record = record

    def __eq__(self, other: object) -> bool:
        mine, theirs = self._record, other._record if isinstance(other, _Likeness) else None
        return (
            theirs is not None
            and mine.topic == theirs.topic
            and mine.value_schema is theirs.value_schema
            and mine.key_schema is theirs.key_schema
            and mine.partition == theirs.partition
            and not mine.headers
            and not theirs.headers
            and (mine.source_partition is theirs.source_partition or mine.source_partition == theirs.source_partition)
        )

    __hash__ = None  # type: ignore[assignment]


def source_runs(records: Sequence[SourceRecord]) -> Iterator[Sequence[SourceRecord]]:
    """In their order: runs of those that are alike and enough, and lists of the others."""
    if isinstance(records, SourceRun):
        yield records
        return
    others: list[SourceRecord] = []
    for _, group in groupby(records, key=_Likeness):
        alike = list(group)
        if len(alike) < RUN_RECORDS_MIN or alike[0].headers:
            others += alike
            continue
        if others:
            yield others
            others = []
        yield SourceRun.of(alike)
    if others:
        yield others


class Transformed(NamedTuple):
    """Records that follow each other, and what transforms made of them: a run, or None where they all were dropped, or
    are to go one by one (`is_dropped` says which).
    """

    originals: Sequence[SourceRecord]
    run: SourceRun | None
    is_dropped: bool = False


def transformed_runs(originals: Sequence[SourceRecord], made: Sequence[SourceRecord | None]) -> Iterator[Transformed]:
    """In their order."""
    begin = 0
    for is_dropped, group in groupby(made, key=lambda each: each is None):
        end = begin + sum(1 for _ in group)
        if is_dropped:
            yield Transformed(originals[begin:end], None, is_dropped=True)
        else:
            at = begin
            for piece in source_runs([each for each in made[begin:end] if each is not None]):
                run = piece if isinstance(piece, SourceRun) else None
                yield Transformed(originals[at : at + len(piece)], run)
                at += len(piece)
        begin = end


class SinkRun(_Run[SinkRecord]):
    """Records of one topic, without headers, as converters made them of what the consumer gave."""

    def __init__(self, originals: Sequence[ConsumerRecord], keys: Column, values: Column | ArrowColumn) -> None:
        self.originals, self._keys = originals, keys
        self.values: Column | ArrowColumn = values

    @property
    def keys(self) -> Column:
        return self._keys

    def __len__(self) -> int:
        return len(self.originals)

    def _record(self, index: int) -> SinkRecord:
        original = self.originals[index]
        topic, partition, offset, timestamp_ms, timestamp_type = original[:5]
        return SinkRecord(
            topic=topic,
            partition=partition,
            key_schema=self.keys.schema_at(index),
            key=self.keys.values[index],
            value_schema=self.values.schema_at(index),
            value=self.values.values[index],
            timestamp_ms=timestamp_ms if timestamp_ms >= 0 else None,
            offset=offset,
            timestamp_type=timestamp_type,
            original_topic=topic,
            original_partition=partition,
            original=original,
        )


class TransformedSinkRun(SinkRun):
    """A run whose values went through transforms as columns. Records, with their topics and keys, are made by the same
    transforms one by one, if somebody looks at them; `make` gives them all.
    """

    def __init__(
        self,
        originals: Sequence[ConsumerRecord],
        schema: Schema,
        arrow: "pa.StructArray",
        make: Callable[[], list[SinkRecord]],
    ) -> None:
        made = cache(make)  # nothing here refers to the run: its memory goes with it
        self.originals, self._make = originals, made
        self.values = ArrowColumn(schema, arrow, lambda: [each.value for each in made()])

    @property
    def keys(self) -> Column:
        records = self._records()
        return Column(None, [each.key for each in records], [each.key_schema for each in records])

    def _records(self) -> list[SinkRecord]:
        return self._make()
