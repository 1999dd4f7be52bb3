"""Polling into columns: a RecordBatch of everything that is buffered, some columns decoded on the way.

`decode` names what a column holds: "json", "string" (UTF-8), "int", "long", "double" and the like (Java's forms),
`Json` or `Avro` with a schema, or any function of the column. Text, numbers and JSON are decoded as columns, with no
Python object per record; Avro (the extra `avro`) is read record by record, because fastavro knows no other way.
"""

import io
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.core import ConsumerCore
from headwater.client.consumer.errors import RecordDeserializationError
from headwater.client.serialization.lookups import LookupDeferred
from headwater.records.arrow import record_batch
from headwater.records.codec import ColumnBuilder
from headwater.records.columns import Columns

if TYPE_CHECKING:
    import pyarrow as pa


class Json(NamedTuple):
    """JSON objects, as a struct column. Without a schema, the types are what the first values look like."""

    schema: "pa.Schema | None" = None


class Avro(NamedTuple):
    """Avro, without the container: `schema` is the writer's, as a dictionary or as JSON.

    `header_bytes` come before the value: 5 in the form that schema registries have.
    """

    schema: Any
    header_bytes: int = 0


Decode: TypeAlias = "str | Json | Avro | Callable[[pa.Array], pa.Array]"

_WIDTHS: Final = {"short": 2, "int": 4, "integer": 4, "long": 8, "float": 4, "double": 8}
_NUMBER_TYPES: Final = {
    "short": "int16",
    "int": "int32",
    "integer": "int32",
    "long": "int64",
    "float": "float32",
    "double": "float64",
}


class ArrowTaker:
    """Of one `poll_arrow`: `take` under the lock, `batch` (with the decoding) without."""

    def __init__(
        self,
        core: ConsumerCore,
        submit: Callable[[Callable[[], Any]], Any],
        max_records: int,
        max_bytes: int,
        decode: Mapping[str, Decode] | None,
    ) -> None:
        self._core = core
        self._submit = submit
        self._builder = ColumnBuilder(True)
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._decode = decode
        self._made: pa.RecordBatch | None = None

    def take(self) -> int:
        self._core.give_back_iteration_buffer()
        return self._core.drain.take_columns(self._builder, self._max_records, self._max_bytes)

    def columns(self) -> Columns:
        """The rows, once, without Arrow."""
        return Columns._make(self._builder.finish())

    def batch(self) -> "pa.RecordBatch":
        """The rows. A row that cannot be decoded is raised once those before it were given; positions go with it. May
        be called again when a lookup was deferred. Whatever else is raised, all rows come again.
        """
        if self._made is None:
            self._made = record_batch(Columns._make(self._builder.finish()))
        if not self._decode:
            return self._made
        try:
            return self._decoded(self._made, self._decode)
        except LookupDeferred:
            raise
        except BaseException:
            self.give_back()
            raise

    def give_back(self) -> None:
        """Nobody got the rows: the next poll takes them again."""
        made = self._made
        if made is not None:
            self._submit(lambda: self._core.rewind(_places(made, 0)))

    def _decoded(self, made: "pa.RecordBatch", decode: "Mapping[str, Decode]") -> "pa.RecordBatch":
        try:
            return decoded(made, decode)
        except KafkaError as error:
            bad = first_bad(made, decode)
            if bad is None:
                raise
            if bad:
                before = decoded(made.slice(0, bad), decode)
                self._submit(lambda: self._core.rewind(_places(made, bad)))
                return before
            named = _named(made, error)
        rule = self._core.settings.bad_record
        if rule is None:
            raise named
        rule(named)
        self._submit(lambda: self._core.rewind(_places(made, 0) | {named.topic_partition: named.next_offset}))
        return decoded(made.slice(0, 0), decode)


def first_bad(batch: "pa.RecordBatch", decode: "Mapping[str, Decode]") -> int | None:
    """The first row that cannot be decoded by itself; None: each can, but not all of them as one column."""
    low, high = 0, batch.num_rows
    if not _fails(batch, decode):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if _fails(batch.slice(low, middle - low), decode):
            high = middle
        elif _fails(batch.slice(middle, high - middle), decode):
            low = middle
        else:
            return None
    return low


def _fails(batch: "pa.RecordBatch", decode: "Mapping[str, Decode]") -> bool:
    try:
        decoded(batch, decode)
    except KafkaError:
        return True
    return False


def _places(batch: "pa.RecordBatch", from_row: int) -> dict[TopicPartition, int]:
    """The first offset of each partition in the rows from `from_row` on."""
    import pyarrow as pa

    rows = pa.Table.from_batches([batch.slice(from_row).select(["topic", "partition", "offset"])])
    found = rows.group_by(["topic", "partition"]).aggregate([("offset", "min")]).to_pylist()
    return {TopicPartition(each["topic"], each["partition"]): each["offset_min"] for each in found}


def _named(batch: "pa.RecordBatch", error: KafkaError) -> RecordDeserializationError:
    row = batch.slice(0, 1).to_pylist()[0]
    return RecordDeserializationError(
        TopicPartition(row["topic"], row["partition"]),
        row["offset"],
        row["offset"] + 1,
        error.message or "it cannot be decoded",
        code=error.code,
        origin="column",
        key=row["key"],
        value=row["value"],
    )


def decoded(batch: "pa.RecordBatch", decode: Mapping[str, Decode]) -> "pa.RecordBatch":
    """The batch with some columns replaced by what they hold."""
    for name, form in decode.items():
        at = batch.schema.get_field_index(name)
        if at < 0:
            raise UserError(
                f"decode names a column {name!r}", "there is none", f"There are {', '.join(batch.schema.names)}"
            )
        batch = batch.set_column(at, name, decode_column(batch.column(at), form))
    return batch


def decode_column(column: "pa.Array", form: Decode) -> "pa.Array":
    if isinstance(form, Json):
        return _json(column, form.schema)
    if isinstance(form, Avro):
        return _avro(column, form)
    if callable(form):
        return form(column)
    if form == "json":
        return _json(column, None)
    if form in ("string", "str"):
        return _text(column)
    if form == "bytes":
        return column
    if form in _WIDTHS:
        return _numbers(column, form)
    raise UserError(
        f"decode cannot be {form!r}", "", f"It is json, string, {', '.join(_WIDTHS)}, Json(...) or Avro(...)"
    )


def _text(column: "pa.Array") -> "pa.Array":
    import pyarrow as pa

    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise _undecodable("text", error) from error


def _numbers(column: "pa.Array", form: str) -> "pa.Array":
    """All values side by side, their bytes swapped at once."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    width = _WIDTHS[form]
    lengths = pc.binary_length(column)
    if not pc.all(pc.equal(lengths, width), min_count=0).as_py():
        raise _undecodable(form, f"not all values have {width} bytes")
    filled = pc.fill_null(column, bytes(width)) if column.null_count else column
    joined = filled.cast(pa.binary(width)) if len(filled) else filled
    if not len(filled):
        return pa.array([], getattr(pa, _NUMBER_TYPES[form])())
    data = joined.buffers()[1]
    view = np.frombuffer(data, dtype=np.dtype(_NUMBER_TYPES[form]).newbyteorder(">"))
    numbers = view[joined.offset : joined.offset + len(joined)].astype(_NUMBER_TYPES[form])
    mask = np.asarray(column.is_null()) if column.null_count else None
    return pa.array(numbers, mask=mask)


def decode_json(column: "pa.Array", schema: "pa.Schema | None") -> "pa.Array":
    """Fields of the schema in its types, others in those that their values look like."""
    return _json(column, schema, others="infer")


def _json(column: "pa.Array", schema: "pa.Schema | None", others: str = "ignore") -> "pa.Array":
    """One document per line, read as a table by Arrow's own reader; null stays null."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.json

    kind = pa.struct(list(schema)) if schema is not None else None
    valid = column.drop_null() if column.null_count else column
    if not len(valid):
        return pa.nulls(len(column), kind or pa.null())
    if pc.any(pc.match_substring(valid, "\n")).as_py():
        valid = pa.array([_one_line(value) for value in valid.to_pylist()], pa.binary())
    lines = pc.binary_join(pa.ListArray.from_arrays([0, len(valid)], valid), b"\n")[0].as_buffer()
    options = pyarrow.json.ParseOptions(
        explicit_schema=schema, unexpected_field_behavior=others if schema is not None else "infer"
    )
    reading = pyarrow.json.ReadOptions(block_size=max(lines.size + 1, 1 << 20))
    try:
        table = pyarrow.json.read_json(pa.BufferReader(lines), read_options=reading, parse_options=options)
    except pa.ArrowInvalid as error:
        raise _undecodable("JSON", error) from error
    if table.num_rows != len(valid):
        raise _undecodable("JSON", f"{len(valid)} values held {table.num_rows} documents")
    structs = table.to_struct_array()
    found = structs.combine_chunks() if isinstance(structs, pa.ChunkedArray) else structs
    if isinstance(found, pa.ChunkedArray):
        found = pa.concat_arrays(found.chunks)
    if not column.null_count:
        return found
    places = pc.if_else(column.is_valid(), pc.subtract(pc.cumulative_sum(column.is_valid().cast(pa.int64())), 1), None)
    return found.take(places)


def _one_line(value: bytes) -> bytes:
    """A document of several lines, on one."""
    try:
        return json.dumps(json.loads(value), separators=(",", ":")).encode()
    except ValueError as error:
        raise _undecodable("JSON", error) from error


def _avro(column: "pa.Array", form: Avro) -> "pa.Array":
    import pyarrow as pa

    try:
        import fastavro
    except ImportError:
        raise UserError("Avro needs fastavro", "it is not installed", 'pip install "headwater[avro]"') from None
    schema = fastavro.parse_schema(json.loads(form.schema) if isinstance(form.schema, str) else form.schema)
    made: list[Any] = []
    for value in column.to_pylist():
        if value is None:
            made.append(None)
            continue
        try:
            made.append(fastavro.schemaless_reader(io.BytesIO(value[form.header_bytes :]), schema, None))
        except Exception as error:
            raise _undecodable("Avro", error) from error
    return pa.array(made)


def _undecodable(form: str, error: object) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"a column cannot be decoded as {form}: {error}")
