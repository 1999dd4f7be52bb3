"""The compiled codec against its twin in Python: the same outcome on whatever comes, errors included.

No deadlines: they run under sanitizers too.
"""

import array

import aiokafka.record.default_records as aio
import kafka.record.default_records as kp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.base.errors import ErrorCode, KafkaError
from headwater.records import pure
from headwater.records.batch import LOG_APPEND_TIME, BatchHeader
from headwater.records.builder import encode_records, finish_section
from headwater.records.columns import NO_STOP, BinaryColumn, HeadersColumn, Layout
from headwater.records.reader import Record
from headwater.records.reader import read_records as records_of_batch

compiled = pytest.importorskip("headwater.records._codec")

MAYBE_BYTES = st.none() | st.binary(max_size=40) | st.binary(min_size=120, max_size=140)
HEADERS = st.just(()) | st.lists(st.tuples(st.text(max_size=5), MAYBE_BYTES), max_size=3).map(tuple)
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMESTAMPS = st.integers(0, 1 << 45) | st.just(-1)
RECORDS = st.lists(st.builds(Record, st.just(0), TIMESTAMPS, MAYBE_BYTES, MAYBE_BYTES, HEADERS), max_size=8)
AWKWARD = st.sampled_from([0, 1, 2, 0x7E, 0x7F, 0x80, 0xFE, 0xFF]) | st.integers(0, 255)


@st.composite
def payloads(draw):
    """(payload, header): as it should be, damaged, cut off, or noise; under a header that may be wrong too."""
    records = draw(RECORDS)
    base_offset = draw(st.integers(0, 2**40))
    offset = base_offset
    for at, record in enumerate(records):
        records[at] = record._replace(offset=offset)
        offset += draw(st.integers(1, 3))
    base_timestamp = records[0].timestamp if records else 0
    payload = bytearray(encode_records(records, base_offset, base_timestamp))
    count, last_offset_delta = len(records), max(offset - base_offset, 0)
    damage = draw(st.sampled_from(["none", "none", "bytes", "bytes", "cut", "noise", "header"]))
    if damage == "bytes" and payload:
        for at in draw(st.lists(st.integers(0, len(payload) - 1), min_size=1, max_size=3)):
            payload[at] = draw(AWKWARD)
    elif damage == "cut":
        del payload[draw(st.integers(0, len(payload))) :]
    elif damage == "noise":
        payload = bytearray(draw(st.binary(max_size=100)))
    elif damage == "header":
        count = draw(st.integers(-1, 9) | st.just(2**31 - 1))
        base_offset = draw(st.sampled_from([base_offset, -1, 2**63 - 1, 2**63 - 3]))
        last_offset_delta = draw(st.sampled_from([last_offset_delta, 0, -1, 2**31 - 1]))
        base_timestamp = draw(INT64)
    attributes = draw(st.sampled_from([0, LOG_APPEND_TIME]))
    header = BatchHeader(
        base_offset, 0, 0, 2, 0, attributes, last_offset_delta, base_timestamp, draw(INT64), -1, -1, -1, count
    )
    return bytes(payload), header


def outcome(function, *arguments):
    try:
        return function(*arguments)
    except KafkaError as error:
        return error.code
    except (ValueError, OverflowError) as error:
        return type(error).__mro__[-4:]


@given(payloads())
@settings(max_examples=400, deadline=None)
def test_records_are_read_alike(batch):
    assert outcome(compiled.read_records, *batch) == outcome(pure.read_records, *batch)


@given(RECORDS.filter(bool))
@settings(max_examples=20, deadline=None)
def test_a_payload_cut_anywhere_is_refused_alike(records):
    records = [record._replace(offset=at) for at, record in enumerate(records)]
    payload = bytes(encode_records(records, 0, 0))
    header = BatchHeader(0, 0, 0, 2, 0, 0, len(records), 0, 0, -1, -1, -1, len(records))
    assert compiled.read_records(payload, header) == records
    for end in range(len(payload)):
        for codec in (compiled, pure):
            assert outcome(codec.read_records, payload[:end], header) == ErrorCode.CORRUPT_MESSAGE


LAYOUT = Layout(Record, None, 0, 1, 2, 3, 4)


@given(payloads(), st.integers(0, 2**40), st.integers(0, 2**40) | st.just(NO_STOP))
@settings(deadline=None)
def test_records_of_ones_own_are_built_alike(batch, from_offset, stop_offset):
    template = Record(0, 0, None, None)
    arguments = (*batch, from_offset, stop_offset, LAYOUT, template)
    assert outcome(compiled.build_records, *arguments) == outcome(pure.build_records, *arguments)


def plain(columns):
    """The content of buffers instead of the buffers."""
    if columns is None or isinstance(columns, int):
        return columns
    return [plain(each) for each in columns] if isinstance(columns, tuple) else bytes(memoryview(columns))


@given(st.lists(st.tuples(payloads(), st.integers(0, 2**40) | st.just(0)), max_size=4), st.booleans())
@settings(max_examples=300, deadline=None)
def test_columns_are_gathered_alike(batches, headers):
    ours, twin = compiled.ColumnBuilder(headers), pure.ColumnBuilder(headers)
    for (payload, header), from_offset in batches:
        arguments = (payload, header, b"topic", 3, from_offset, NO_STOP)
        assert outcome(ours.append_batch, *arguments) == outcome(twin.append_batch, *arguments)
        assert (ours.row_count, ours.data_bytes) == (twin.row_count, twin.data_bytes)
    assert plain(ours.finish()) == plain(twin.finish())
    assert ours.row_count == 0
    assert plain(ours.finish()) == plain(twin.finish())


def binary_column(cells, wide, first):
    """`first` cells of rubbish come before."""
    cells = [b"rubbish"] * first + cells
    offsets, data, bits = [0], b"", 0
    for at, cell in enumerate(cells):
        data += cell or b""
        offsets.append(len(data))
        bits |= (cell is not None) << at
    validity = bits.to_bytes(len(cells) // 8 + 1, "little")
    return BinaryColumn(validity, array.array("q" if wide else "i", offsets), data, 8 if wide else 4, first)


def headers_column(lists, wide, first):
    lists = [(("rubbish", b""),)] * first + lists
    pairs = [pair for each in lists for pair in each]
    offsets = [0]
    for each in lists:
        offsets.append(offsets[-1] + len(each))
    keys = binary_column([key.encode() for key, _ in pairs], False, 0)._replace(validity=None)
    values = binary_column([value for _, value in pairs], True, 0)
    return HeadersColumn(
        None, array.array("q" if wide else "i", offsets), 8 if wide else 4, first, len(pairs), keys, values
    )


@given(
    RECORDS,
    st.booleans(),
    st.integers(0, 9),
    st.sampled_from([100, 200, 1 << 20]),
    st.lists(st.integers(-1, 3), min_size=8, max_size=8) | st.none(),
)
@settings(max_examples=200, deadline=None)
def test_columns_are_encoded_alike_and_others_can_read_them(records, wide, first, limit_bytes, partitions):
    count = len(records)
    rows = [] if partitions is None else partitions[:count]
    arguments = (
        count,
        binary_column([record.key for record in records], wide, first),
        binary_column([record.value for record in records], not wide, 0),
        headers_column([record.headers for record in records], wide, first),
        array.array("q", [record.timestamp for record in records]),
        None if partitions is None else array.array("i", rows),
        4,
        limit_bytes,
    )
    sections = compiled.encode_columns(*arguments)
    assert sections == pure.encode_columns(*arguments)
    found: dict[int, list[Record]] = {}
    for section in sections:
        batch = bytes(finish_section(section))
        assert section.record_count == 1 or len(batch) <= limit_bytes
        ours = records_of_batch(batch, 1 << 20)
        for library in (kp, aio):
            theirs = library.DefaultRecordBatch(bytearray(batch))
            assert theirs.validate_crc()
            assert [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs] == ours
        found.setdefault(section.partition, []).extend(ours)
    for partition, got in found.items():
        wanted = records if partitions is None else [r for r, p in zip(records, rows, strict=True) if p == partition]
        assert [record[1:] for record in got] == [record[1:] for record in wanted]
    assert sum(map(len, found.values())) == count


@given(st.lists(st.tuples(INT64, MAYBE_BYTES, MAYBE_BYTES, HEADERS), max_size=8), st.sampled_from([0, 200, 1 << 20]))
@settings(deadline=None)
def test_batches_grow_alike(records, limit_bytes):
    ours, twin = compiled.BatchAppender(limit_bytes), pure.BatchAppender(limit_bytes)
    for record in records:
        assert outcome(ours.append, *record) == outcome(twin.append, *record)
        for field in ("count", "size_bytes", "base_timestamp", "max_timestamp"):
            assert getattr(ours, field) == getattr(twin, field)
    assert ours.section(2) == twin.section(2)
    assert ours.section() == twin.section()


@given(st.lists(MAYBE_BYTES, max_size=20), st.booleans(), st.integers(0, 9), st.integers(1, 2**31 - 1))
@settings(deadline=None)
def test_keys_go_to_the_same_partitions(keys, wide, first, partition_count):
    column = binary_column(keys, wide, first)
    ours = compiled.partition_keys(len(keys), column, partition_count)
    assert ours == pure.partition_keys(len(keys), column, partition_count)
    for key in keys:
        if key is not None:
            assert compiled.murmur2(key) == pure.murmur2(key)


@given(st.binary(max_size=60), st.binary(max_size=10), st.binary(max_size=20), st.integers(0, 12), st.integers(0, 9))
@settings(deadline=None)
def test_columns_that_lie_about_their_size_are_refused_or_read_within_bounds(offsets, validity, data, rows, first):
    column = BinaryColumn(validity, offsets, data, 4, first)
    arguments = (rows, column, None, None, 0, None, 0, 1 << 20)
    assert outcome(compiled.encode_columns, *arguments) == outcome(pure.encode_columns, *arguments)
    assert outcome(compiled.partition_keys, rows, column, 5) == outcome(pure.partition_keys, rows, column, 5)


FRAMED = st.sampled_from(
    [b"", b"\0", b"\0\0\0\0\7x", b"\0\0\0\0\x08", b"\1" + bytes(16), b"\1" + bytes(20), b"\2abcdef"]
)
SCHEMA_HEADERS = st.lists(
    st.tuples(st.sampled_from(["__key_schema_id", "__value_schema_id", "x"]), st.none() | FRAMED), max_size=3
).map(tuple)


@given(st.lists(st.tuples(st.none() | FRAMED, st.none() | FRAMED, SCHEMA_HEADERS), max_size=8), st.booleans())
def test_both_find_the_same_schemas(fields, of_key):
    records = [Record(at, 0, key, value, headers) for at, (key, value, headers) in enumerate(fields)]
    payload = bytes(encode_records(records, 0, 0))
    header = BatchHeader(0, 0, 0, 2, 0, 0, len(records), 0, 0, -1, -1, -1, len(records))
    frames, places = compiled.schema_frames(payload, header, of_key)
    assert (frames, places) == pure.schema_frames(payload, header, of_key)
    assert len(places) == 4 * len(records)


@given(payloads(), st.booleans())
def test_both_find_the_same_schemas_in_whatever_comes(case, of_key):
    payload, header = case
    assert outcome(compiled.schema_frames, payload, header, of_key) == outcome(
        pure.schema_frames, payload, header, of_key
    )


def test_no_more_schemas_are_told_apart_than_the_limit():
    records = [Record(at, 0, None, bytes([0, 0, 0, at >> 8, at & 255])) for at in [*range(130), 5, 129]]
    payload = bytes(encode_records([each._replace(offset=at) for at, each in enumerate(records)], 0, 0))
    header = BatchHeader(0, 0, 0, 2, 0, 0, 132, 0, 0, -1, -1, -1, 132)
    frames, places = compiled.schema_frames(payload, header, False)
    assert len(frames) == 128
    assert list(memoryview(places).cast("i")) == [*range(128), -2, -2, 5, -2]
    assert (frames, places) == pure.schema_frames(payload, header, False)
