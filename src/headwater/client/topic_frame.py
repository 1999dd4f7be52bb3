"""A topic, or a stretch of it, as a frame: `headwater.read("orders", last="1h").to_pandas()`.

    headwater.read("orders")                                       all of it
    headwater.read("orders", last="1h")                            what came in the last hour (s, m, h, d, w)
    headwater.read("orders", last=1000)                            the last 1000 offsets of each partition
    headwater.read("orders", from_="2024-01-01", until="2024-02-01")
    headwater.read("orders", start={0: 500}, end={0: 900})         by offsets, of each partition
    headwater.read("orders", partitions=[0], columns=["key", "value"], decode={"value": "json"})

Where a read ends is settled when it begins: what is written later is not in it. Nothing is committed, no group joined.
The ends are looked up at once; the records come when the frame is used, and are kept after that.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.ranges import RangeReader
from headwater.client.progress import Progress

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

    from headwater.client.consumer.arrow import Decode
    from headwater.client.schema_registry import SchemaRegistryClient

_AGE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d|w)")
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_ROWS_SHOWN: Final = 10
REGISTRY_VARIABLE: Final = "HEADWATER_SCHEMA_REGISTRY_URL"  # as for commands
_NO_REGISTRY: Final = "none"

When = str | datetime | int | float
Offsets = int | Mapping[int, int]


def read(
    topic: str,
    *,
    last: "str | int | timedelta | None" = None,
    from_: When | None = None,
    until: When | None = None,
    start: Offsets | None = None,
    end: Offsets | None = None,
    partitions: Sequence[int] | None = None,
    columns: Sequence[str] | None = None,
    decode: "Mapping[str, Decode] | None" = None,
    schema_registry: "SchemaRegistryClient | str | Mapping[str, object] | None" = None,
    bootstrap_servers: "str | Sequence[str]" = "localhost:9092",
    progress: bool | None = None,
    **settings: object,
) -> "Frame":
    """See the module. `progress`: True, False, or (None) a bar if it takes long and somebody looks on.

    With a `schema_registry`, keys and values whose subjects (`topic-key`, `topic-value`) it has are typed columns,
    unless `decode` names them. Without one, it is that of HEADWATER_SCHEMA_REGISTRY_URL, if there is such a variable;
    "none" is none.
    """
    if sum(each is not None for each in (last, from_, start)) > 1:
        raise UserError("last, from_ and start say where to begin", "more than one of them was given")
    if until is not None and end is not None:
        raise UserError("until and end say where to stop", "both were given")
    if schema_registry is None:
        schema_registry = os.environ.get(REGISTRY_VARIABLE) or _NO_REGISTRY
    if schema_registry != _NO_REGISTRY:
        from headwater.client.schema_registry.registry_columns import columns_of_topic

        decode = {**columns_of_topic(schema_registry, topic), **(decode or {})}
    reader = RangeReader(bootstrap_servers=bootstrap_servers, **settings)
    try:
        spans = _spans(reader, topic, partitions, last, from_, until, start, end)
    except BaseException:
        reader.close()
        raise
    return Frame(reader, topic, spans, columns, decode, progress)


class Frame:
    """What `read` found: as Arrow, pandas or polars, or batch by batch. Reads once; `close` ends its connections
    early.
    """

    def __init__(
        self,
        reader: RangeReader,
        topic: str,
        spans: Mapping[TopicPartition, tuple[int, int]],
        columns: Sequence[str] | None,
        decode: "Mapping[str, Decode] | None",
        progress: bool | None,
    ) -> None:
        self.topic = topic
        self.spans = dict(spans)
        self._reader: RangeReader | None = reader
        self._columns = list(columns) if columns is not None else None
        self._decode = dict(decode or {})
        self._progress = progress
        self._table: pa.Table | None = None

    @property
    def offset_count(self) -> int:
        """How many offsets are in it; the records may be fewer."""
        return sum(end - start for start, end in self.spans.values())

    def batches(self) -> "Iterator[pa.RecordBatch]":
        """As they come: for more than memory holds. The frame is used up then."""
        if self._table is not None:
            yield from self._table.to_batches()
            return
        for batch in self._raw():
            yield self._shaped(batch)

    __iter__ = batches

    def to_arrow(self) -> "pa.Table":
        import pyarrow as pa

        if self._table is None:
            from headwater.records.arrow import schema

            table = pa.Table.from_batches(list(self._raw()), schema=schema())
            self._table = self._shaped_table(table)
        return self._table

    def to_pandas(self, **options: Any) -> "pandas.DataFrame":
        _need("pandas")
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> "polars.DataFrame":
        frame: polars.DataFrame = _need("polars").from_arrow(self.to_arrow())
        return frame

    def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def __enter__(self) -> "Frame":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __len__(self) -> int:
        return int(self.to_arrow().num_rows)

    def __repr__(self) -> str:
        return f"<headwater.read {self.topic}: {len(self.spans)} partitions, {self.offset_count} offsets>"

    def _repr_html_(self) -> str:
        table = self.to_arrow()
        head = table.slice(0, _ROWS_SHOWN)
        try:
            shown = str(head.to_pandas().to_html(index=False, max_cols=20))
        except ImportError:
            shown = _html(head.column_names, head.to_pylist())
        return f"<p>{_escape(self.topic)}: {table.num_rows} records</p>{shown}"

    # Inside

    def _raw(self) -> "Iterator[pa.RecordBatch]":
        reader = self._reader
        if reader is None:
            raise UserError(f"{self!r} was read already", "its batches are gone", "Call headwater.read() again")
        progress = Progress(self.offset_count, self.topic, self._progress)
        done = 0
        try:
            for partition, (start, end) in self.spans.items():
                for batch in reader.read_range(partition, start, end, lost="skip"):
                    yield batch
                    progress.at(done + batch.column("offset")[-1].as_py() + 1 - start)
                done += end - start
        finally:
            progress.end()
            self.close()

    def _shaped(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        from headwater.client.consumer.arrow import decoded

        try:
            shaped = decoded(batch, self._decode) if self._decode else batch
        except KafkaError as error:
            raise self._with_place(error, [batch]) from error
        return shaped.select(self._columns) if self._columns is not None else shaped

    def _shaped_table(self, table: "pa.Table") -> "pa.Table":
        """Decoded as a whole, so that types that are inferred are those of all records."""
        from headwater.client.consumer.arrow import decode_column

        raw = table
        for name, form in self._decode.items():
            at = table.schema.get_field_index(name)
            if at < 0:
                raise UserError(f"decode names a column {name!r}", "there is none", f"There are {table.column_names}")
            column = table.column(at).combine_chunks()
            if hasattr(column, "chunks"):  # more than 2 GiB
                column = column.chunk(0) if column.num_chunks == 1 else column
            try:
                table = table.set_column(at, name, decode_column(column, form))
            except KafkaError as error:
                raise self._with_place(error, raw.to_batches()) from error
        return table.select(self._columns) if self._columns is not None else table

    def _with_place(self, error: KafkaError, batches: "Iterable[pa.RecordBatch]") -> KafkaError:
        """The error of the first record that cannot be decoded, with its offset; as it is where each can by itself."""
        from headwater.client.consumer.arrow import decoded, first_bad

        for batch in batches:
            bad = first_bad(batch, self._decode)
            if bad is None:
                continue
            record = batch.slice(bad, 1)
            place = TopicPartition(self.topic, record.column("partition")[0].as_py())
            try:
                decoded(record, self._decode)
            except KafkaError as alone:
                error = alone
            return KafkaError(error.code, f"{place} offset {record.column('offset')[0].as_py()}: {error.message}")
        return error


def _spans(
    reader: RangeReader,
    topic: str,
    partitions: Iterable[int] | None,
    last: "str | int | timedelta | None",
    from_: When | None,
    until: When | None,
    start: Offsets | None,
    end: Offsets | None,
) -> dict[TopicPartition, tuple[int, int]]:
    numbers = [each.partition for each in reader.topic(topic).partitions]
    if partitions is not None:
        missing = sorted(set(partitions) - set(numbers))
        if missing:
            raise UserError(f"{topic} has no partition {missing[0]}", f"it has {len(numbers)}", "They count from 0")
        numbers = sorted(set(partitions))
    wanted = [TopicPartition(topic, number) for number in numbers]
    first, behind = reader.ends(wanted, earliest=True), reader.ends(wanted, earliest=False)
    begin_ms = None if from_ is None else _milliseconds(from_)
    if isinstance(last, str | timedelta):
        begin_ms = round((datetime.now(UTC) - age_of(last)).timestamp() * 1000)
    begins = reader.offsets(dict.fromkeys(wanted, begin_ms)) if begin_ms is not None else {}
    until_ms = None if until is None else _milliseconds(until)
    ends = reader.offsets(dict.fromkeys(wanted, until_ms)) if until_ms is not None else {}
    spans = {}
    for each in wanted:
        low, high = first[each], behind[each]
        if begin_ms is not None:
            found = begins[each]
            low = max(low, high if found is None else found.offset)
        elif isinstance(last, int):
            low = max(low, high - last)
        elif start is not None:
            low = max(low, _of(start, each.partition, low))
        if until_ms is not None:
            stop = ends[each]
            high = high if stop is None else min(high, stop.offset)
        elif end is not None:
            high = min(high, _of(end, each.partition, high))
        if low < high:
            spans[each] = (low, high)
    return spans


def _of(offsets: Offsets, partition: int, default: int) -> int:
    return offsets if isinstance(offsets, int) else offsets.get(partition, default)


def age_of(given: "str | timedelta") -> timedelta:
    if isinstance(given, timedelta):
        return given
    parts = _AGE.findall(given)
    if not parts or _AGE.sub("", given).strip():
        raise UserError(f"last cannot be {given!r}", "", 'It is a time such as "90s", "30m", "1h", "7d", or a number')
    return timedelta(seconds=sum(float(number) * _SECONDS[unit] for number, unit in parts))


def _milliseconds(when: When) -> int:
    """Text is ISO 8601; without a zone it is local time. Numbers are milliseconds since 1970."""
    if isinstance(when, int | float):
        return int(when)
    try:
        moment = when if isinstance(when, datetime) else datetime.fromisoformat(when)
    except ValueError:
        raise UserError(
            f"{when!r} is not a time", "", 'A time is written "2024-01-31" or "2024-01-31T12:00:00Z"'
        ) from None
    return round(moment.timestamp() * 1000)


def _need(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise UserError(f"This needs {name}", "it is not installed", f"pip install {name}") from None


def _html(names: list[str], rows: list[dict[str, Any]]) -> str:
    head = "".join(f"<th>{_escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{_escape(str(row[name]))}</td>" for name in names) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _escape(text: str) -> str:
    import html

    return html.escape(text)
