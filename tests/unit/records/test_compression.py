"""Codecs: whole streams come back, anything else is an error with the right code, and nothing outgrows its limit."""

import subprocess
import sys
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard

from headwater.base.errors import ErrorCode, KafkaError
from headwater.records.compression import CODEC_IDS, GZIP, LZ4, SNAPPY, ZSTD, compress, decompress

CODECS = [GZIP, SNAPPY, LZ4, ZSTD]
TEXT = b"the quick brown fox " * 5000
LIMIT = 4 << 20


def code_of(codec: int, data: bytes, limit_bytes: int = LIMIT) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        decompress(codec, data, limit_bytes)
    return caught.value.code


@pytest.mark.parametrize("codec", CODEC_IDS.values())
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(3 << 20)])
def test_what_went_in_comes_out(codec, data):
    assert decompress(codec, memoryview(compress(codec, data)), len(data)) == data


@pytest.mark.parametrize("codec", CODEC_IDS.values())
def test_one_byte_over_the_limit_is_too_large(codec):
    assert code_of(codec, compress(codec, TEXT), len(TEXT) - 1) == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", CODECS)
def test_every_truncation_is_corrupt(codec):
    stream = compress(codec, b"abc" * 40)
    # A snappy stream in the Java framing may end after any whole block, also after none.
    whole = {len(compress(codec, b""))} if codec == SNAPPY else set()
    for end in set(range(len(stream))) - whole:
        assert code_of(codec, stream[:end]) == ErrorCode.CORRUPT_MESSAGE, end


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("junk", [b"\xff" * 40, b"no stream of any kind", b"\0" * 64])
def test_junk_is_corrupt(codec, junk):
    assert code_of(codec, junk) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", CODECS)
def test_bytes_after_the_stream_are_corrupt(codec):
    assert code_of(codec, compress(codec, TEXT) + b"trailing") == ErrorCode.CORRUPT_MESSAGE


def zstd_bomb() -> bytes:
    zeros = bytes(1 << 20)
    compressor = zstandard.ZstdCompressor(level=3, write_content_size=False).compressobj()
    return b"".join(compressor.compress(zeros) for _ in range(1024)) + compressor.flush()


@pytest.mark.parametrize(
    ("codec", "bomb"),
    [
        (GZIP, lambda: zlib.compress(bytes(1 << 28), wbits=31)),
        (SNAPPY, lambda: compress(SNAPPY, bytes(1 << 26))),
        (SNAPPY, lambda: bytes(cramjam.snappy.compress_raw(bytes(1 << 26)))),
        (LZ4, lambda: lz4.frame.compress(bytes(1 << 28), block_size=lz4.frame.BLOCKSIZE_MAX4MB)),
        (ZSTD, zstd_bomb),
    ],
    ids=["gzip", "snappy", "raw snappy", "lz4", "zstd"],
)
def test_a_bomb_takes_no_more_memory_than_the_limit_and_a_little(codec, bomb):
    stream = bomb()
    tracemalloc.start()
    try:
        assert code_of(codec, stream) == ErrorCode.MESSAGE_TOO_LARGE
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < LIMIT + (LIMIT >> 2) + (1 << 20)


def test_a_zstd_frame_that_declares_a_terabyte_is_not_believed():
    honest = zstandard.ZstdCompressor(write_content_size=True).compress(b"x" * 300)
    assert honest[4] & 0xC0 == 0x40  # the declared size is two bytes, less 256
    descriptor = (honest[4] & 0x3F) | 0xC0
    lying = honest[:4] + bytes([descriptor]) + (1 << 40).to_bytes(8, "little") + honest[7:]
    assert code_of(ZSTD, lying) == ErrorCode.CORRUPT_MESSAGE


def test_a_snappy_block_that_declares_more_than_it_can_hold_is_corrupt():
    declared_4_gib = b"\xff\xff\xff\xff\x0f"
    assert code_of(SNAPPY, declared_4_gib + b"\x00" * 8, 1 << 40) == ErrorCode.CORRUPT_MESSAGE


def test_raw_snappy_is_read_too():
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), LIMIT) == TEXT


def test_snappy_is_written_in_the_framing_of_the_java_client():
    stream = compress(SNAPPY, b"abc")
    assert stream[:16] == b"\x82SNAPPY\0" + b"\0\0\0\1" * 2
    assert int.from_bytes(stream[16:20], "big") == len(stream) - 20


def test_lz4_blocks_are_independent_because_java_refuses_linked_ones():
    info = lz4.frame.get_frame_info(compress(LZ4, TEXT))
    assert not info["block_linked"]


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_streams_in_a_row_are_one_stream(codec):
    assert decompress(codec, bytes(compress(codec, b"one")) + bytes(compress(codec, b"two")), LIMIT) == b"onetwo"


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_endless_empty_streams_are_refused_before_they_cost_time(codec):
    assert code_of(codec, bytes(compress(codec, b"")) * 1000) == ErrorCode.CORRUPT_MESSAGE


def test_a_skippable_zstd_frame_is_skipped_and_its_length_checked():
    frame = (0x184D2A53).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"12345"
    assert decompress(ZSTD, frame + bytes(compress(ZSTD, b"x")), LIMIT) == b"x"
    assert code_of(ZSTD, bytes(compress(ZSTD, b"x")) + frame[:-1]) == ErrorCode.CORRUPT_MESSAGE


def test_zstd_with_checksums_is_checked():
    stream = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(TEXT))
    assert decompress(ZSTD, bytes(stream), LIMIT) == TEXT
    stream[-1] ^= 1
    assert code_of(ZSTD, bytes(stream)) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_have_their_own_error(codec):
    assert code_of(codec, b"x") == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(KafkaError, match="UNSUPPORTED_COMPRESSION_TYPE"):
        compress(codec, b"x")


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_levels_are_heeded(codec):
    text = b"".join(b"%d %d %d\n" % (i, i * i, i * 7919 % 1013) for i in range(5000))
    assert len(compress(codec, text, 9)) < len(compress(codec, text, 1))


def test_importing_the_module_loads_no_codec():
    program = (
        "import sys, headwater.records.reader, headwater.records.builder;"
        "print([name for name in ('lz4', 'zstandard', 'cramjam') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=240)
    assert done.stdout.strip() == "[]"
