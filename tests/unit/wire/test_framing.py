"""A stream is cut into frames wherever its pieces happen to end."""

import pytest

from headwater.wire.errors import DecodeError
from headwater.wire.framing import Frames, frame

STREAM = b"\0\0\0\x03abc" + b"\0\0\0\x00" + b"\0\0\0\x02de"


@pytest.mark.parametrize("piece_bytes", range(1, len(STREAM) + 1))
def test_frames_come_out_whole_whatever_the_pieces(piece_bytes: int) -> None:
    frames = Frames()
    found = []
    for at in range(0, len(STREAM), piece_bytes):
        found += frames.feed(STREAM[at : at + piece_bytes])
    assert found == [b"abc", b"", b"de"]
    assert frames.pending_bytes == 0


def test_half_a_frame_waits() -> None:
    frames = Frames()
    assert frames.feed(b"\0\0\0\x03ab") == []
    assert frames.pending_bytes == 6
    assert frames.feed(memoryview(b"c\0")) == [b"abc"]
    assert frames.pending_bytes == 1


@pytest.mark.parametrize("length", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\x0b", b"HTTP"])
def test_a_length_beyond_the_limit_is_refused_at_once(length: bytes) -> None:
    with pytest.raises(DecodeError):
        Frames(limit_bytes=10).feed(length)


def test_the_limit_itself_is_allowed() -> None:
    assert Frames(limit_bytes=3).feed(b"\0\0\0\x03abc") == [b"abc"]


def test_a_message_is_framed_by_the_length_of_all_its_chunks() -> None:
    assert frame([b"ab", memoryview(b"cde")]) == [b"\0\0\0\x05", b"ab", b"cde"]
    assert frame([]) == [b"\0\0\0\0"]
