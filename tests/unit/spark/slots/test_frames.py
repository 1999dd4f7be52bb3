"""Frames, and who may speak at all: over a pair of sockets of this process."""

import contextlib
import errno
import os
import socket
import threading
from collections.abc import Iterator
from struct import pack

import pytest

from headwater.spark.slots import frames
from headwater.spark.slots.frames import Channel, ChannelClosed, FrameBuffer
from headwater.spark.slots.message_codec import Heartbeat, Hello, MessageCodec

SECRET = b"s" * 32
CODEC = MessageCodec()


def test_frames_come_whole_however_they_were_cut() -> None:
    sent = b"".join(pack(">I", len(each)) + each for each in (b"one", b"", b"three"))
    buffer, found = FrameBuffer(), []
    for index in range(len(sent)):
        buffer.feed(sent[index : index + 1])
        while (frame := buffer.next()) is not None:
            found.append(frame)
    assert found == [b"one", b"", b"three"]


def test_a_frame_that_is_too_long_is_refused_before_it_is_there() -> None:
    buffer = FrameBuffer(10)
    buffer.feed(pack(">I", 11))
    with pytest.raises(ChannelClosed, match="11 bytes"):
        buffer.next()


class Meeting:
    """A listening lead with a secret, and what it made of who came."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._server.getsockname()
        self.channel: Channel | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        connection, _ = self._server.accept()
        try:
            self.channel = Channel.accepted(connection, SECRET, CODEC)
        except ChannelClosed as error:
            self.error = error
            connection.close()

    def join(self) -> None:
        self._thread.join()

    def close(self) -> None:
        self.join()
        self._server.close()
        if self.channel is not None:
            self.channel.close()


@pytest.fixture
def meeting() -> Iterator[Meeting]:
    meeting = Meeting()
    yield meeting
    meeting.close()


def test_who_knows_the_secret_may_speak(meeting: Meeting) -> None:
    slot = Channel.connected(meeting.address, SECRET, CODEC)
    meeting.join()
    assert meeting.channel is not None
    slot.send(Hello(1, "p" * 5000))
    assert meeting.channel.receive(30) == Hello(1, "p" * 5000)
    assert slot.receive(0) is None
    meeting.channel.send(Heartbeat())
    assert slot.receive(30) == Heartbeat()
    slot.close()
    with pytest.raises(ChannelClosed):
        meeting.channel.receive(30)


def test_a_stranger_may_not(meeting: Meeting) -> None:
    with pytest.raises(ChannelClosed):
        Channel.connected(meeting.address, b"t" * 32, CODEC)
    meeting.join()
    assert "does not know the secret" in str(meeting.error)


def test_a_lead_that_does_not_know_the_secret_is_not_believed() -> None:
    """It could send a program, which is unpickled."""
    server = socket.create_server(("127.0.0.1", 0))

    def pretend() -> None:
        connection, _ = server.accept()
        connection.sendall(pack(">I", 32) + bytes(32))
        connection.recv(100)
        connection.sendall(pack(">I", 32) + bytes(32))
        connection.close()

    thread = threading.Thread(target=pretend)
    thread.start()
    with pytest.raises(ChannelClosed, match="does not know the secret"):
        Channel.connected(server.getsockname(), SECRET, CODEC)
    thread.join()
    server.close()


def test_what_one_side_proved_does_not_serve_the_other(meeting: Meeting) -> None:
    """A stranger who sends back what he was sent proves nothing."""
    with socket.create_connection(meeting.address) as stranger:
        nonce = stranger.recv(36)[4:]
        stranger.sendall(pack(">I", 64) + nonce + nonce)
        meeting.join()
    assert "does not know the secret" in str(meeting.error)


def test_a_slot_that_is_cut_off_notices_as_soon_as_its_lead_does(meeting: Meeting) -> None:
    slot = Channel.connected(meeting.address, SECRET, CODEC)
    timeout_ms = slot._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    slot.close()
    assert timeout_ms == frames.SILENCE_S * 1000


def test_a_connection_that_the_network_gave_up_is_closed_not_silent(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ETIMEDOUT is a TimeoutError to Python, which once was taken for "nothing came in time"."""
    monkeypatch.setattr(frames, "SILENCE_S", 0.2)
    slot = Channel.connected(meeting.address, SECRET, CODEC)
    meeting.join()
    slot._socket.setblocking(False)
    with contextlib.suppress(BlockingIOError):  # until the other side, which reads nothing, takes nothing any more
        while True:
            slot._socket.send(bytes(1 << 16))
    with pytest.raises(ChannelClosed, match=os.strerror(errno.ETIMEDOUT)):
        slot.receive(60)
    slot.close()


def test_nothing_follows_a_frame_that_was_cut() -> None:
    """The other side would take what follows for the rest of it."""
    here, there = socket.socketpair()
    there.settimeout(30)
    channel = Channel(here, CODEC)
    here.settimeout(0)  # what the buffers do not take at once is too late
    with pytest.raises(ChannelClosed):
        channel.send(Hello(1, "p" * (8 << 20)))
    while there.recv(1 << 20):
        pass  # until the end, which is there
    with pytest.raises(ChannelClosed):
        channel.send(Heartbeat())
    channel.close()
    there.close()


def test_who_hangs_up_leaves_the_descriptor_to_the_thread_that_reads() -> None:
    """A closed one got the next slot's number: the reader of the slot that was sent away waited for the new one's
    words, and the end of the port for the reader.
    """
    here, there = socket.socketpair()
    channel = Channel(here, CODEC)
    channel.hang_up()
    others = socket.socketpair()  # would take the number, and says nothing
    with pytest.raises(ChannelClosed, match="was closed"):
        channel.receive(0.2)
    channel.close()
    for each in (there, *others):
        each.close()
