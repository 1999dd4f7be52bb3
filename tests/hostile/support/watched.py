"""A broker in this process whose log is listened to: what hostile requests may do to it, and what they may not."""

import logging
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.base.config.broker import BrokerConfig
from headwater.broker.registry import APIS
from headwater.server.node import Node
from headwater.wire.headers import decode_response_header
from headwater.wire.registry import response_class

API_VERSIONS = 18
LINE_CHARACTERS_MAX = 3000
TURNS_TO_REST_MAX = 3000  # of 10 ms, for a closed connection to be noticed: the first nearly always
TURNS_MAX = 12  # for an answer; what is parked for longer stays so
PATIENT_TURNS_MAX = 3000  # of 10 ms: the kernel may keep bytes for a while on a machine that is busy


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Watched:
    """`send` gives a frame to the broker and looks at everything that came of it."""

    def __init__(self, node: Node, lines: Lines) -> None:
        self.node = node
        self.lines = lines
        self._socket: socket.socket | None = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self.node.loop.turn(0.001)

    def left_behind(self) -> dict[str, int]:
        """What is there of clients when none is connected: the same before a test and after it, or that test has left
        something.
        """
        self.close()
        for _ in range(TURNS_TO_REST_MAX):
            if self.node.connection_count() == 0:
                break
            self.node.loop.turn(0.01)
        buffers = self.node.server.buffers
        return {
            "connections": self.node.connection_count(),
            "reserved bytes": buffers.reserved_bytes,
            "allocated bytes": buffers.allocated_bytes,
        }

    def send(self, frame: bytes) -> bytes | None:
        """The answer, without its length; None if the connection was closed, or nothing has come yet."""
        return self._sent(frame, TURNS_MAX)

    def ask(self, frame: bytes) -> bytes:
        """The answer to what is answered without fail."""
        answer = self._sent(frame, PATIENT_TURNS_MAX)
        assert answer is not None
        return answer

    def _sent(self, frame: bytes, turns: int) -> bytes | None:
        self.lines.records.clear()
        try:
            return self._send(frame, turns)
        except BaseException:
            self.close()  # what failed here is not for the next one to find
            raise

    def _send(self, frame: bytes, turns: int) -> bytes | None:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self.node.endpoints[0].port))
            self._socket.setblocking(False)
        answer = b""
        view = memoryview(frame)
        for turn in range(PATIENT_TURNS_MAX):
            if turn >= turns and not self._closings():
                break
            try:
                if view:
                    view = view[self._socket.send(view) :]
            except BlockingIOError:
                pass
            except ConnectionError:
                view = view[:0]
            self.node.loop.turn(0.0005 if turn < TURNS_MAX else 0.01)
            try:
                piece = self._socket.recv(1 << 20)
            except BlockingIOError:
                continue
            except ConnectionError:
                piece = b""
            if not piece:
                self._was_closed()
                return None
            answer += piece
            if len(answer) >= 4 and len(answer) >= 4 + struct.unpack_from(">i", answer)[0]:
                self._check_lines(closed=False)
                return answer[4:]
        self._check_lines(closed=False)
        self.close()  # parked, or a frame that has not ended: it dies with its connection
        self._check_words()
        return None

    def _was_closed(self) -> None:
        self._check_lines(closed=True)
        self.close()

    def _closings(self) -> int:
        """How often the broker said that it closed this connection; of one before it, it may speak late."""
        assert self._socket is not None
        host, port = self._socket.getsockname()
        peer = f"event=connection-closed peer={host}:{port} "
        return sum(record.getMessage().startswith(peer) for record in self.lines.records)

    def _check_lines(self, *, closed: bool) -> None:
        self._check_words()
        assert self._closings() == closed, [record.getMessage() for record in self.lines.records]

    def _check_words(self) -> None:
        for record in self.lines.records:
            text = record.getMessage()
            assert record.levelno < logging.ERROR, f"{text}\n{record.exc_text or record.exc_info}"
            assert text.isprintable(), f"a log line with what a peer sent, not escaped: {text!r}"
            assert len(text) <= LINE_CHARACTERS_MAX, f"a log line of {len(text)} characters: {text[:300]}"


def check_answer(answer: bytes, key: int, version: int) -> None:
    """It is a response of that version: others must be able to read what we say to nonsense."""
    if key == API_VERSIONS and not APIS[key].serves[0] <= version <= APIS[key].serves[1]:
        version = 0
    correlation_id, at = decode_response_header(answer, key, version)
    assert correlation_id == 1
    response_class(key).decode(answer, at, version)


@contextmanager
def watched(directory: Path, **properties: object) -> Iterator[Watched]:
    settings = {
        "log.dirs": str(directory),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "2",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        **{name.replace("_", "."): str(value) for name, value in properties.items()},
    }
    logger, lines = logging.getLogger("headwater"), Lines()
    node = Node(BrokerConfig(settings))
    logger.addHandler(lines)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    node.start()
    observed = Watched(node, lines)
    try:
        yield observed
    finally:
        observed.close()
        node.close()
        logger.removeHandler(lines)
        logger.setLevel(level)
        logger.propagate = True
