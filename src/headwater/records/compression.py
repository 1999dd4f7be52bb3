"""The codecs of a record batch: one call to compress, one to decompress within a limit.

Decompression streams. A size that the data declares is never believed: at most `limit_bytes` of output (plus one piece)
is ever held, whatever a peer sent. Output past the limit is MESSAGE_TOO_LARGE, data that is no such stream, or ends
early, is CORRUPT_MESSAGE, a codec that Kafka does not have is UNSUPPORTED_COMPRESSION_TYPE.

    1  gzip    RFC 1952; several members are read as one stream
    2  snappy  written in the framing of the Java client (xerial): magic, two int32 versions, then blocks of raw snappy,
               each after its int32 length; read in that framing or as one block of raw snappy
    3  lz4     frame format, independent blocks (Java refuses linked ones)
    4  zstd    RFC 8878; several frames and skippable frames are read as one stream

The libraries are imported on first use: a broker that never decompresses never loads them. No state.
"""

from collections.abc import Iterator
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ports import Buffer

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
CODEC_IDS: Final = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
CODEC_NAMES: Final = {codec: name for name, codec in CODEC_IDS.items()}

_PIECE_BYTES: Final = 1 << 18
_STREAMS_MAX: Final = 64  # members or frames in a row; thousands of empty ones would only cost time
_GZIP_WINDOW_BITS: Final = 31  # 15, and 16 for the gzip wrapper
_GZIP_LEVEL: Final = -1
_LZ4_SLICE_BYTES: Final = 1 << 17
_ZSTD_LEVEL: Final = 3
_ZSTD_WINDOW_BYTES_MAX: Final = 1 << 27  # what level 22 asks for; memory of it is touched only as output grows
_ZSTD_SKIPPABLE: Final = 0x184D2A50  # the low four bits are free
_ZSTD_RLE_BLOCK: Final = 1
_ZSTD_BLOCKS_PER_PIECE: Final = 2
_SNAPPY_RATIO_MAX: Final = 22  # the densest element makes 64 bytes from 3
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES: Final = 32 * 1024


def compress(codec: int, data: Buffer, level: int | None = None) -> Buffer:
    """`data` as one stream of `codec`; `level` in the codec's own terms (snappy has none)."""
    if codec == NONE:
        return data
    if codec == GZIP:
        import zlib

        return zlib.compress(data, _GZIP_LEVEL if level is None else level, wbits=_GZIP_WINDOW_BITS)
    if codec == SNAPPY:
        return _compress_snappy(data)
    if codec == LZ4:
        import lz4.frame

        compressed: bytes = lz4.frame.compress(data, level or 0, block_linked=False, store_size=False)
        return compressed
    if codec == ZSTD:
        import zstandard

        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL if level is None else level).compress(data)
    raise _unknown(codec)


def decompress(codec: int, data: Buffer, limit_bytes: int) -> Buffer:
    """The content of `data`, if it is a whole stream of `codec` with at most `limit_bytes` in it."""
    assert limit_bytes >= 0
    if codec == NONE:
        if len(data) > limit_bytes:
            raise _too_large(limit_bytes)
        return data
    if codec == GZIP:
        return _gather(_gzip_pieces(data, limit_bytes), limit_bytes)
    if codec == SNAPPY:
        return _gather(_snappy_pieces(memoryview(data), limit_bytes), limit_bytes)
    if codec == LZ4:
        return _gather(_lz4_pieces(memoryview(data)), limit_bytes)
    if codec == ZSTD:
        return _gather(_zstd_pieces(memoryview(data)), limit_bytes)
    raise _unknown(codec)


def _gather(pieces: Iterator[bytes], limit_bytes: int) -> Buffer:
    """Joins the pieces, and stops asking for more of them once the limit is passed."""
    first = next(pieces, b"")
    if len(first) > limit_bytes:
        raise _too_large(limit_bytes)
    gathered = None
    for piece in pieces:
        if gathered is None:
            gathered = bytearray(first)
        if len(gathered) + len(piece) > limit_bytes:
            raise _too_large(limit_bytes)
        gathered += piece
    return first if gathered is None else gathered


def _gzip_pieces(data: Buffer, limit_bytes: int) -> Iterator[bytes]:
    import zlib

    rest: Buffer = data
    for _ in range(_STREAMS_MAX):
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        while not member.eof:
            try:
                piece = member.decompress(rest, min(limit_bytes + 1, _PIECE_BYTES))
            except zlib.error as error:
                raise _corrupt("gzip", error) from None
            rest = member.unconsumed_tail
            if not (piece or rest or member.eof):
                raise _corrupt("gzip", "it ends early")
            yield piece
        rest = member.unused_data
        if not rest:
            return
    raise _corrupt("gzip", f"more than {_STREAMS_MAX} members")


def _lz4_pieces(data: memoryview) -> Iterator[bytes]:
    import lz4.frame

    # The library sets aside as much as it is asked for at most: ask for little when little came. It copies the input
    # that it has not used yet, so it gets that in slices.
    piece_bytes = min(_PIECE_BYTES, max(1 << 16, 8 * len(data)))
    at = 0
    for _ in range(_STREAMS_MAX):
        frame = lz4.frame.LZ4FrameDecompressor()
        while not frame.eof:
            slice_bytes = _LZ4_SLICE_BYTES if frame.needs_input else 0
            taken = data[at : at + slice_bytes]
            at += len(taken)
            try:
                piece: bytes = frame.decompress(taken, piece_bytes)
            except (RuntimeError, ValueError, EOFError) as error:
                raise _corrupt("lz4", error) from None
            if at == len(data) and not (piece or taken or frame.eof):
                raise _corrupt("lz4", "it ends early")
            yield piece
        at -= len(frame.unused_data or b"")
        if at == len(data):
            return
    raise _corrupt("lz4", f"more than {_STREAMS_MAX} frames")


def _zstd_pieces(data: memoryview) -> Iterator[bytes]:
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    frame = decompressor.decompressobj()
    try:
        for piece in _zstd_blocks(data):
            if frame.eof:
                frame = decompressor.decompressobj()
            yield frame.decompress(piece)
    except zstandard.ZstdError as error:
        raise _corrupt("zstd", error) from None
    if not frame.eof:
        raise _corrupt("zstd", "it ends early")


def _zstd_blocks(data: memoryview) -> Iterator[memoryview]:
    """Cuts frames at the ends of their blocks. A block makes 128 KiB at most, so no piece of output is over 256 KiB."""
    import zstandard

    at = 0
    for _ in range(_STREAMS_MAX):
        if at == len(data):
            return
        if int.from_bytes(data[at : at + 4], "little") & ~0xF == _ZSTD_SKIPPABLE:
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            if at > len(data):
                raise _corrupt("zstd", "it ends early")
            continue
        checksum_bytes = 4 if zstandard.get_frame_parameters(data[at:]).has_checksum else 0
        end = at + zstandard.frame_header_size(data[at:])
        last = False
        while not last:
            for _ in range(_ZSTD_BLOCKS_PER_PIECE):
                if last:
                    break
                if end + 3 > len(data):
                    raise _corrupt("zstd", "it ends early")
                header = int.from_bytes(data[end : end + 3], "little")
                last = bool(header & 1)
                end += 3 + (1 if header >> 1 & 3 == _ZSTD_RLE_BLOCK else header >> 3)
            if last:
                end += checksum_bytes
            yield data[at:end]
            at = end
    raise _corrupt("zstd", f"more than {_STREAMS_MAX} frames")


def _compress_snappy(data: Buffer) -> bytes:
    from cramjam import snappy

    view = memoryview(data)
    out = bytearray(_XERIAL_HEADER)
    for at in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[at : at + _XERIAL_BLOCK_BYTES]))
        out += len(block).to_bytes(4, "big")
        out += block
    return bytes(out)


def _snappy_pieces(data: memoryview, limit_bytes: int) -> Iterator[bytes]:
    if bytes(data[:8]) != _XERIAL_MAGIC:
        yield _snappy_block(data, limit_bytes)
        return
    if len(data) < len(_XERIAL_HEADER):
        raise _corrupt("snappy", "it ends early")
    at = len(_XERIAL_HEADER)
    while at < len(data):
        begin = at + 4
        at = begin + int.from_bytes(data[at:begin], "big")
        if at > len(data):
            raise _corrupt("snappy", "it ends early")
        yield _snappy_block(data[begin:at], limit_bytes)


def _snappy_block(data: memoryview, limit_bytes: int) -> bytes:
    """One block. Its declared length is set aside by the library at once, so it is checked for what it can be."""
    import cramjam

    try:
        declared_bytes = cramjam.snappy.decompress_raw_len(data)
        if declared_bytes > len(data) * _SNAPPY_RATIO_MAX:
            raise _corrupt("snappy", f"{len(data)} bytes cannot hold {declared_bytes}")
        if declared_bytes > limit_bytes:
            raise _too_large(limit_bytes)
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise _corrupt("snappy", error) from None


def _corrupt(codec: str, why: object) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"not a {codec} stream: {why}")


def _too_large(limit_bytes: int) -> KafkaError:
    return KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"more than {limit_bytes} bytes when decompressed")


def _unknown(codec: int) -> KafkaError:
    return KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"no codec has the number {codec}")
