"""Damage one kind at a time, refused by the compiled codec and by its twin; and nothing of it is left behind."""

import array

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.records import pure
from headwater.records.batch import BatchHeader
from headwater.records.columns import NO_STOP, BinaryColumn
from headwater.records.varint import put_varint

CODECS = [pure]
try:
    from headwater.records import _codec

    CODECS.append(_codec)
except ImportError:
    pass

WIDE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff"  # nine bytes of a varint of ten: 63 bits


def varint(number: int) -> bytes:
    out = bytearray()
    put_varint(out, number)
    return bytes(out)


def cell(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    *,
    timestamp: bytes = varint(0),
    offset: bytes = varint(0),
    key: bytes = cell(b"k"),
    value: bytes = cell(b"v"),
    headers: bytes = varint(0),
) -> bytes:
    body = b"\0" + timestamp + offset + key + value + headers
    return varint(len(body)) + body


def header_of(count: int, last_offset_delta: int = 5, base_timestamp: int = 0) -> BatchHeader:
    return BatchHeader(0, 0, 0, 2, 0, 0, last_offset_delta, base_timestamp, 0, -1, -1, -1, count)


def header_key(key: bytes) -> bytes:
    return varint(1) + cell(key) + cell(None)


@pytest.fixture(params=CODECS, ids=lambda module: module.__name__.rpartition(".")[2])
def codec(request):
    return request.param


FINE = {
    "as it should be": record(),
    "the last offset of the batch": record(offset=varint(5)),
    "a varint longer than it need be": record(offset=b"\x80\x00"),
    "a varint of 64 bits": record(timestamp=WIDE + b"\x01"),
    "nulls": record(key=cell(None), value=cell(None)),
    "headers": record(headers=varint(2) + cell(b"") + cell(b"") + cell("é€😀".encode()) + cell(None)),
    "the last code point": record(headers=header_key(b"\xf4\x8f\xbf\xbf")),
}

BAD = {
    "an offset past the last of the batch": record(offset=varint(6)),
    "a negative offset": record(offset=varint(-1)),
    "a varint of more than 64 bits": record(timestamp=WIDE + b"\x03"),
    "a varint of eleven bytes": record(timestamp=WIDE + b"\x80\x00"),
    "a key length of -2": record(key=varint(-2)),
    "a key longer than the record": record(key=varint(9) + b"k"),
    "a length of 2**62": record(value=varint(2**62) + b"v"),
    "a header count of -1": record(headers=varint(-1)),
    "a header count of 2**40": record(headers=varint(2**40)),
    "a header without a key": record(headers=varint(1) + cell(None) + cell(b"")),
    "a header without a value": record(headers=varint(1) + cell(b"a")),
    "more after the headers": record(headers=varint(0) + b"x"),
    "a stray byte": record(headers=header_key(b"\x80")),
    "an overlong form of two bytes": record(headers=header_key(b"\xc1\xbf")),
    "an overlong form of three bytes": record(headers=header_key(b"\xe0\x9f\xbf")),
    "an overlong form of four bytes": record(headers=header_key(b"\xf0\x8f\xbf\xbf")),
    "half of a surrogate pair": record(headers=header_key(b"\xed\xa0\x80")),
    "a code point over U+10FFFF": record(headers=header_key(b"\xf4\x90\x80\x80")),
    "a lead byte that there is not": record(headers=header_key(b"\xf5\x80\x80\x80")),
    "a character cut off": record(headers=header_key(b"\xe2\x82")),
    "a character whose third byte is none": record(headers=header_key(b"\xe2\x82\x41")),
    "a record of no length": b"\0" * 7,
    "a record of negative length": varint(-1) + b"\0" * 7,
    "bytes after the last record": record() + b"\0",
}


@pytest.mark.parametrize("payload", FINE.values(), ids=FINE)
def test_fine(codec, payload):
    assert len(codec.read_records(payload, header_of(1))) == 1


@pytest.mark.parametrize("payload", BAD.values(), ids=BAD)
def test_damaged(codec, payload):
    with pytest.raises(KafkaError) as caught:
        codec.read_records(payload, header_of(1))
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_a_timestamp_past_64_bits(codec):
    payload = record(timestamp=varint(2**63 - 1))
    assert codec.read_records(payload, header_of(1, base_timestamp=0))[0].timestamp == 2**63 - 1
    with pytest.raises(KafkaError):
        codec.read_records(payload, header_of(1, base_timestamp=1))


@pytest.mark.parametrize("before", [0, 1, 9], ids=lambda count: f"{count} rows before")
@pytest.mark.parametrize("headers_before", [False, True], ids=["", "headers before"])
def test_a_damaged_batch_leaves_no_trace_in_the_columns(codec, before, headers_before):
    """Nulls and headers of its good records came first; then rows without any must not inherit them."""
    plain, full = record(), record(key=cell(None), value=cell(None), headers=header_key(b"h"))
    good = (full if headers_before else plain) * before
    expected, builder = codec.ColumnBuilder(), codec.ColumnBuilder()
    for each in (expected, builder):
        each.append_batch(good, header_of(before), b"t", 0, 0, NO_STOP)
    for bad in BAD.values():
        with pytest.raises(KafkaError):
            builder.append_batch(full * 3 + bad, header_of(4), b"t", 0, 0, NO_STOP)
    for each in (expected, builder):
        each.append_batch(plain * 4 + full + plain, header_of(6), b"t", 0, 0, NO_STOP)
    assert content(builder.finish()) == content(expected.finish())


def content(columns):
    if columns is None or isinstance(columns, int):
        return columns
    return [content(each) for each in columns] if isinstance(columns, tuple) else bytes(memoryview(columns))


@pytest.mark.parametrize(
    "column",
    [
        BinaryColumn(None, array.array("i", [0, 3, 10]), b"123456789", 4, 0),
        BinaryColumn(None, array.array("i", [0, -1, 9]), b"123456789", 4, 0),
        BinaryColumn(None, array.array("i", [-5, 3, 9]), b"123456789", 4, 0),
        BinaryColumn(None, array.array("i", [5, 3, 9]), b"123456789", 4, 0),
        BinaryColumn(None, array.array("i", [0, 3]), b"123456789", 4, 0),
        BinaryColumn(None, array.array("i", [0, 3, 9]), b"123456789", 4, 1),
        BinaryColumn(None, array.array("i", [0, 3, 9]), b"123456789", 4, -1),
        BinaryColumn(None, array.array("i", [0, 3, 9]), b"123456789", 4, 2**62),
        BinaryColumn(None, array.array("i", [0, 3, 9]), b"123456789", 8, 0),
        BinaryColumn(None, array.array("i", [0, 3, 9]), b"123456789", 2, 0),
        BinaryColumn(b"", array.array("i", [0, 3, 9]), b"123456789", 4, 0),
        BinaryColumn(None, b"", b"", 4, 0),
    ],
)
def test_columns_that_point_outside_of_themselves_are_refused(codec, column):
    with pytest.raises(ValueError):
        codec.encode_columns(2, column, None, None, 0, None, 0, 1000)
    with pytest.raises(ValueError):
        codec.partition_keys(2, column, 3)
