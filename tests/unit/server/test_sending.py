"""`send_chunks`, compiled, and the outbox behind it: every byte in order, once, and every file let go of."""

import ctypes
import mmap
import os
import random
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.base.ports import FileSlice
from headwater.server import hot_fetch
from headwater.server import outbox as outbox_module
from headwater.server.disk import OsDisk, OsFile
from headwater.server.outbox import Outbox

BOTH = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "in Python"])

pytestmark = pytest.mark.skipif(not hot_fetch.COMPILED, reason="the hot path is not compiled")


class Line:
    """An outbox on one end of a connection, whose other end is read by hand."""

    def __init__(self, file: OsFile, content: bytes) -> None:
        self.file = file
        self.content = content
        self.near, self.far = socket.socketpair()
        for each in (self.near, self.far):
            each.setblocking(False)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
        self.outbox = Outbox(self.near, OsDisk(), lambda _problem: None)

    def slice(self, position: int, length: int) -> FileSlice:
        return FileSlice(self.file, position, length)

    def received(self) -> bytes:
        data = b""
        try:
            while piece := self.far.recv(1 << 16):
                data += piece
        except BlockingIOError:
            pass
        return data

    def drained(self) -> bytes:
        """All that it has to send."""
        data = self.received()
        while self.outbox.chunks:
            self.outbox.flush()
            data += self.received()
        return data

    def content_of(self, chunks: list[Any]) -> bytes:
        return b"".join(
            self.content[chunk.position : chunk.position + chunk.length] if isinstance(chunk, FileSlice) else chunk
            for chunk in chunks
        )


@pytest.fixture
def line(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    if not request.getfixturevalue("compiled"):
        monkeypatch.setattr(outbox_module, "send_chunks", lambda *_: (0, 0))
    content = random.Random(1).randbytes(300_000)
    (tmp_path / "file").write_bytes(content)
    file = OsDisk().open(str(tmp_path / "file"))
    made = Line(file, content)
    yield made
    made.near.close()
    made.far.close()
    assert file._references == 1
    file.release()


@BOTH
@pytest.mark.parametrize("seed", range(5))
def test_all_comes_in_order_however_slowly_it_is_read(line: Line, compiled: bool, seed: int) -> None:
    chance = random.Random(seed)
    expected = received = b""
    for _ in range(30):
        chunks: list[Any] = []
        for _ in range(chance.randint(1, 4)):
            if chance.random() < 0.5:
                chunks.append(chance.randbytes(chance.choice((1, 100, 50_000))))
            else:
                position = chance.randrange(200_000)
                chunks.append(line.slice(position, chance.choice((1, 1000, 90_000))))
        expected += line.content_of(chunks)
        line.outbox.send(chunks)
        if chance.random() < 0.5:
            received += line.received()
        line.outbox.flush()
    assert received + line.drained() == expected


@BOTH
def test_what_the_socket_takes_at_once_does_not_wait(line: Line, compiled: bool) -> None:
    line.outbox.send([b"head", line.slice(0, 5000), b"tail"])
    if compiled:
        assert not line.outbox.chunks
        assert line.file._references == 1
    assert line.drained() == b"head" + line.content[:5000] + b"tail"


@BOTH
def test_it_waits_behind_what_was_there_before(line: Line, compiled: bool) -> None:
    line.outbox.put([b"first"])
    line.outbox.send([b"second", line.slice(0, 10)])
    assert line.received() == b""
    assert line.drained() == b"firstsecond" + line.content[:10]


@BOTH
def test_a_peer_that_is_gone_is_noticed_by_flush(line: Line, compiled: bool) -> None:
    line.far.close()
    line.outbox.send([b"head", line.slice(0, 1000)])
    with pytest.raises(OSError, match=r"pipe|reset"):
        line.outbox.flush()
    line.outbox.clear()


@BOTH
def test_a_file_that_lost_bytes_ends_the_stream(line: Line, compiled: bool) -> None:
    """A slice of what was truncated away: what came of it is not all, and nothing may follow."""
    chunks = [b"head", line.slice(0, 8000), b"tail"]
    line.file.truncate(5000)
    line.outbox.send(chunks)
    with pytest.raises(OSError, match="shorter"):
        line.outbox.flush()
    assert line.received() == b"head" + line.content[:5000]
    line.outbox.clear()


@BOTH
def test_a_file_whose_name_is_gone_is_sent_to_its_end(line: Line, compiled: bool) -> None:
    chunks = [b"head", line.slice(0, 200_000)]
    line.outbox.send(chunks)
    os.unlink(line.file.path)
    assert line.drained() == b"head" + line.content[:200_000]


def evicted(path: Path, content: bytes) -> OsFile | None:
    """A new file, none of whose pages is in memory any more. None if the kernel keeps them."""
    path.write_bytes(content)
    file = OsDisk().open(str(path))
    os.fsync(file.fileno())
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    pages = (ctypes.c_ubyte * (len(content) // mmap.PAGESIZE + 1))()
    with mmap.mmap(file.fileno(), len(content), flags=mmap.MAP_PRIVATE) as mapped:
        view = (ctypes.c_char * len(content)).from_buffer(mapped)
        asked = ctypes.CDLL(None).mincore(view, ctypes.c_size_t(len(content)), pages)
        del view
    if asked == 0 and not any(page & 1 for page in pages):
        return file
    file.release()
    return None


@pytest.mark.parametrize("compiled", [True])
def test_pages_that_are_not_in_memory_are_left_to_the_outbox(line: Line, compiled: bool, tmp_path: Path) -> None:
    """Where the file system can tell: else both take them for warm. A look starts a read-ahead, which makes a second
    one warm: so each has a file of its own, and the slice is too large to be looked at twice (once to be sent together
    with its head).
    """
    looked_at, sent = evicted(tmp_path / "looked at", line.content), evicted(tmp_path / "sent", line.content)
    files = [each for each in (looked_at, sent) if each is not None]
    if looked_at is not None and sent is not None:
        piece = FileSlice(looked_at, 100_000, 20_000)
        is_warm = outbox_module.is_warm(piece)
        piece.release()
        piece = FileSlice(sent, 100_000, 20_000)
        stopped = hot_fetch.send_chunks(line.near.fileno(), [b"head", piece])
        assert (stopped == (1, 0)) == (not is_warm)
        if stopped is not None:
            piece.release()
    for each in files:
        each.release()


@pytest.mark.parametrize("compiled", [True])
def test_chunks_of_another_kind_are_left_to_the_outbox(line: Line, compiled: bool) -> None:
    assert hot_fetch.send_chunks(line.near.fileno(), [b"head", memoryview(b"body")]) == (1, 0)
    closed = OsFile("nowhere", -1)
    piece = FileSlice(closed, 0, 10)
    assert hot_fetch.send_chunks(line.near.fileno(), [piece]) == (0, 0)


@pytest.mark.parametrize("compiled", [True])
@pytest.mark.parametrize("size", [1, 5000, 16_376, 16_377, 40_000])
def test_small_answers_wake_the_peer_once(line: Line, compiled: bool, size: int) -> None:
    """What comes as one message went out in one call."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        far.settimeout(30)
        chunks = [b"head", line.slice(7, size), b"tail"]
        expected = line.content_of(chunks)
        assert hot_fetch.send_chunks(near.fileno(), chunks) is None
        first = far.recv(1 << 20)
    assert (first == expected) == (len(expected) <= 16 << 10)
    assert expected.startswith(first)


@pytest.mark.parametrize("compiled", [True])
def test_a_small_answer_of_which_the_socket_takes_a_part(line: Line, compiled: bool) -> None:
    """Wherever the border lies between bytes and slices: the rest follows, and nothing twice. Only TCP takes parts of
    so little.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname(), timeout=30)
        far, _ = listener.accept()
    with near, far:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 10_000)
        near.setblocking(False)
        far.settimeout(30)
        outbox = Outbox(near, OsDisk(), lambda _problem: None)
        for number in range(100):
            expected = fill(near)
            received = far.recv(1000 * number) if number else b""
            chunks = [b"h" * 3000, line.slice(37 * number, 5000), b"t" * 3000]
            expected += line.content_of(chunks)
            outbox.send(chunks)
            while len(received) < len(expected):
                readable, _, _ = select.select([far], [near] if outbox.chunks else [], [], 30)
                outbox.flush()
                received += far.recv(1 << 16) if readable else b""
            assert received == expected
            assert not outbox.chunks


def fill(near: socket.socket) -> bytes:
    """Until it takes no more."""
    filled = b""
    try:
        while True:
            filled += bytes(near.send(bytes(4096)))
    except BlockingIOError:
        return filled
