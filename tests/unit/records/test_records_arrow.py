"""Fetched stretches as Arrow, tables as batches."""

import datetime as dt
import subprocess
import sys

import pyarrow as pa
import pytest

from headwater.base.errors import ErrorCode
from headwater.records.arrow import (
    ArrowGatherer,
    TableColumns,
    batches_from_table,
    schema,
    visible_columns,
)
from headwater.records.batch import CRC_AT, crc_of
from headwater.records.builder import build_batch, finish_section
from headwater.records.columns import ANY_PARTITION
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.pure import murmur2
from headwater.records.reader import Record, read_records
from headwater.records.record import CorruptBatch
from headwater.records.visible import VisibleBatches

LIMIT = 1 << 20
RECORDS = [
    Record(5, 1000, b"k", b"v", (("a", b"1"), ("é", None))),
    Record(6, 1001, None, b""),
    Record(7, -1, b"", None, (("c", b""),)),
]


def stretch(records=RECORDS, **options) -> bytes:
    return bytes(build_batch(records, base_offset=records[0].offset, **options))


def marker(offset: int, committed: bool) -> bytes:
    end = EndTransactionMarker(committed=committed, coordinator_epoch=0)
    return bytes(build_end_transaction_marker(end, producer_id=7, producer_epoch=0, timestamp=1, base_offset=offset))


def test_the_schema_is_that_of_sparks_kafka_source():
    assert str(schema()) == (
        "key: binary\nvalue: binary\ntopic: string\npartition: int32\noffset: int64\n"
        "timestamp: timestamp[us, tz=UTC]\ntimestampType: int32\n"
        "headers: list<element: struct<key: string, value: binary>>\n"
        "  child 0, element: struct<key: string, value: binary>\n      child 0, key: string\n      child 1, value: binary"
    )


@pytest.mark.parametrize("codec", range(5))
def test_every_column_of_every_codec(codec):
    found, next_offset = visible_columns("orders", 3, stretch(codec=codec), 5, None, LIMIT)
    found.validate(full=True)
    assert next_offset == 8
    assert found.schema == schema()
    assert found.to_pydict() == {
        "key": [b"k", None, b""],
        "value": [b"v", b"", None],
        "topic": ["orders"] * 3,
        "partition": [3] * 3,
        "offset": [5, 6, 7],
        "timestamp": [
            dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms) for ms in (1000, 1001, -1)
        ],
        "timestampType": [0] * 3,
        "headers": [[{"key": "a", "value": b"1"}, {"key": "é", "value": None}], None, [{"key": "c", "value": b""}]],
    }


def test_position_stop_markers_and_aborted_transactions():
    data = (
        stretch([Record(0, 1, None, b"aborted"), Record(1, 1, None, b"aborted")], producer_id=7, transactional=True)
        + stretch([Record(2, 1, None, b"plain"), Record(3, 1, None, b"plain")])
        + marker(4, committed=False)
        + stretch([Record(5, 1, None, b"committed")], producer_id=7, transactional=True)
        + marker(6, committed=True)
    )

    def offsets(position, aborted, stop=None):
        seen = visible_columns("t", 0, data, position, aborted, LIMIT, stop)
        return seen.batch.column("offset").to_pylist(), seen.next_offset

    assert offsets(0, [(7, 0)]) == ([2, 3, 5], 7)
    assert offsets(0, None) == ([0, 1, 2, 3, 5], 7)
    assert offsets(3, [(7, 0)]) == ([3, 5], 7)
    assert offsets(0, [(7, 0)], stop=3) == ([2], 3)


def test_without_headers_there_is_no_such_column():
    found, _ = visible_columns("t", 0, stretch(), 5, None, LIMIT, headers=False)
    found.validate(full=True)
    assert found.schema == schema(headers=False)
    assert found.num_rows == 3


def test_nothing_is_a_record_batch_too():
    found, next_offset = visible_columns("t", 0, b"", 5, None, LIMIT)
    found.validate(full=True)
    assert (found.num_rows, next_offset, found.schema) == (0, 5, schema())


def test_several_partitions_in_one_record_batch_within_limits():
    gatherer = ArrowGatherer()
    first = VisibleBatches(stretch() + stretch([Record(8, 1, None, b"x")]), 5, None, LIMIT)
    assert not gatherer.append("a", 0, first, max_rows=3)
    assert (gatherer.row_count, gatherer.data_bytes, first.next_offset) == (3, 2, 8)
    assert not gatherer.append("a", 0, first, max_bytes=2)
    assert gatherer.append("a", 0, first)
    assert gatherer.append("bb", 1, VisibleBatches(stretch([Record(0, 1, None, None)]), 0, None, LIMIT))
    found = gatherer.finish()
    found.validate(full=True)
    assert found.column("topic").to_pylist() == ["a"] * 4 + ["bb"]
    assert found.column("partition").to_pylist() == [0] * 4 + [1]
    assert gatherer.row_count == 0
    assert gatherer.finish().num_rows == 0


def test_a_bad_batch_takes_nothing_of_its_own_with_it():
    """Its CRC is right, and the damage is in its second record: the first must not be left behind."""
    bad = bytearray(stretch([Record(8, 1, None, b"x"), Record(9, 1, b"y", None, (("h", b""),))]))
    bad[-1] = 0x7F
    bad[CRC_AT : CRC_AT + 4] = crc_of(bad).to_bytes(4, "big")
    seen = visible_columns("t", 0, stretch() + bytes(bad), 5, None, LIMIT)
    seen.batch.validate(full=True)
    assert (seen.batch.column("offset").to_pylist(), seen.next_offset) == ([5, 6, 7], 8)
    with pytest.raises(CorruptBatch) as caught:
        visible_columns("t", 0, bytes(bad), 8, None, LIMIT)
    assert (caught.value.code, caught.value.next_offset) == (ErrorCode.CORRUPT_MESSAGE, 10)


def test_the_columns_outlive_the_gatherer_and_the_data():
    data = bytearray(stretch())
    found = visible_columns("t", 0, data, 5, None, LIMIT).batch
    data[:] = bytes(len(data))
    assert found.column("value").to_pylist() == [b"v", b"", None]


def produced(table, columns, *, partition_count=4, limit_bytes=1 << 16):
    """(partition, timestamp, key, value, headers) of all rows."""
    found = []
    for sections in batches_from_table(
        table, columns, partition_count=partition_count, limit_bytes=limit_bytes, now_ms=99
    ):
        for section in sections:
            found += [(section.partition, *record[1:]) for record in read_records(finish_section(section), LIMIT)]
    return found


def test_what_was_fetched_can_be_produced_again():
    fetched, _ = visible_columns("t", 0, stretch(), 5, None, LIMIT)
    columns = TableColumns("value", "key", "headers", "timestamp", "partition")
    assert produced(pa.Table.from_batches([fetched]), columns) == [(0, *record[1:]) for record in RECORDS]


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.large_binary(),
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)
def test_keys_and_values_of_every_kind_of_text_and_bytes(kind):
    column = pa.array(["rubbish", "one", None, "", "four"]).cast(kind)[1:]
    table = pa.table({"k": column, "v": column})
    found = produced(table, TableColumns("v", "k"))
    assert sorted(found, key=str) == sorted(
        [
            (ANY_PARTITION if key is None else (murmur2(key) & 0x7FFFFFFF) % 4, 99, key, key, ())
            for key in (b"one", None, b"", b"four")
        ],
        key=str,
    )


def test_a_table_of_many_chunks_and_a_slice_of_it():
    values = [b"%d" % at for at in range(100)]
    table = pa.concat_tables([pa.table({"value": pa.array(values[at : at + 7])}) for at in range(0, 100, 7)])
    assert [row[3] for row in produced(table, TableColumns())] == values
    assert [row[3] for row in produced(table.slice(10, 50), TableColumns())] == values[10:60]
    assert produced(table.slice(0, 0), TableColumns()) == []


def test_a_large_table_comes_piece_by_piece():
    table = pa.table({"value": pa.array([bytes(1 << 20)] * 70)})
    pieces = list(batches_from_table(table, TableColumns(), partition_count=1, limit_bytes=4 << 20, now_ms=0))
    assert len(pieces) > 1
    assert sum(section.record_count for sections in pieces for section in sections) == 70


@pytest.mark.parametrize(
    ("timestamps", "wanted"),
    [
        (pa.array([1_000_999, None], pa.timestamp("us", tz="UTC")), [1000, 99]),
        (pa.array([2, 3], pa.timestamp("s")), [2000, 3000]),
        (pa.array([5, None], pa.int64()), [5, 99]),
        (pa.array([5, 6], pa.int32()), [5, 6]),
    ],
)
def test_timestamps_of_any_unit(timestamps, wanted):
    table = pa.table({"value": pa.array([b"a", b"b"]), "at": timestamps})
    assert [row[1] for row in produced(table, TableColumns(timestamp="at"))] == wanted


def test_partitions_of_the_rows_own():
    table = pa.table({"value": pa.array([b"a", b"b", b"c"]), "p": pa.array([2, None, 0], pa.int64())})
    assert [(row[0], row[3]) for row in produced(table, TableColumns(partition="p"))] == [
        (ANY_PARTITION, b"b"),
        (0, b"c"),
        (2, b"a"),
    ]
    with pytest.raises(ValueError, match="partition"):
        produced(table, TableColumns(partition="p"), partition_count=2)


def test_columns_of_nothing():
    table = pa.table({"value": pa.nulls(2), "key": pa.nulls(2), "headers": pa.nulls(2)})
    assert produced(table, TableColumns("value", "key", "headers")) == [(ANY_PARTITION, 99, None, None, ())] * 2


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        (TableColumns("number"), TypeError),
        (TableColumns("value", headers="value"), TypeError),
        (TableColumns("value", timestamp="value"), TypeError),
        (TableColumns("value", partition="value"), TypeError),
        (TableColumns("value", headers="null_in_list"), ValueError),
        (TableColumns("value", headers="no_key"), ValueError),
        (TableColumns("absent"), KeyError),
    ],
)
def test_columns_that_are_no_records_are_refused(columns, error):
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "value": pa.array([b"a"]),
            "number": pa.array([1]),
            "null_in_list": pa.array([[None]], kind),
            "no_key": pa.array([[{"key": None, "value": b""}]], kind),
        }
    )
    with pytest.raises(error):
        produced(table, columns)


def test_a_poll_that_gets_nothing_does_not_load_pandas() -> None:
    """`pyarrow.array([])` does, where pandas is installed: half a second before the first record of a slot."""
    code = "import sys; from headwater.records.arrow import _no_rows; _no_rows(True); print('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
