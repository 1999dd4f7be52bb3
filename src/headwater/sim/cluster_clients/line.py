"""A client's connection to one broker: questions in order, each answered, or lost with the connection, or given up in
time.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from headwater.sim.clients.client import Ask
from headwater.sim.trace import Violation
from headwater.wire.headers import decode_response_header, encode_request_header
from headwater.wire.registry import response_class

if TYPE_CHECKING:
    from headwater.sim.cluster import ClusterWorld

PATIENCE_MS: Final = 1200  # beyond what the request itself asks to wait
Answered = Callable[[Any | None], None]


class Line:
    def __init__(self, world: "ClusterWorld", name: str, node_id: int) -> None:
        self._world = world
        self._name = name
        self._node_id = node_id
        self._waiting: dict[int, tuple[Ask, Answered]] = {}
        self._number = 0
        self._connection = world.reach(name, node_id, self._received, self._gone)

    @property
    def is_open(self) -> bool:
        return self._connection is not None

    def ask(self, ask: Ask, answered: Answered) -> None:
        assert self._connection is not None
        self._number += 1
        number = self._number
        header = encode_request_header(ask.request.KEY, ask.version, number, self._name)
        frame = header + b"".join(ask.request.encode(ask.version))
        self._world.note(
            f"{self._name} asks {self._node_id} {type(ask.request).__name__} v{ask.version} #{number} {crc32(frame):08x}"
        )
        self._connection.send(frame)
        if not ask.wants_answer:
            self._world.heap.call_later(5, lambda: answered(None))
            return
        self._waiting[number] = (ask, answered)
        patience_ms = PATIENCE_MS + max(getattr(ask.request, name, 0) for name in ("timeout_ms", "max_wait_ms"))
        self._world.heap.call_later(patience_ms, lambda: self._give_up(number))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.leave()
            self._gone("given up")

    def _give_up(self, number: int) -> None:
        if number in self._waiting:
            self._world.note(f"{self._name} waits no longer for {self._node_id}")
            self.close()

    def _received(self, data: bytes) -> None:
        if int.from_bytes(data[:4]) != len(data) - 4:
            raise Violation(f"{self._name} got {len(data) - 4} bytes in a frame of {int.from_bytes(data[:4])}")
        frame = data[4:]
        number = int.from_bytes(frame[:4])
        expected = next(iter(self._waiting))
        if number != expected:
            raise Violation(f"{self._name} got the answer to #{number}, and #{expected} comes first")
        ask, answered = self._waiting.pop(number)
        _, body_at = decode_response_header(frame, ask.request.KEY, ask.version)
        response = response_class(ask.request.KEY).decode(frame, body_at, ask.version)
        self._world.note(f"{self._name} gets #{number} of {self._node_id}: {len(data)} bytes {crc32(data):08x}")
        answered(response)

    def _gone(self, _why: str) -> None:
        self._connection = None
        waiting, self._waiting = self._waiting, {}
        for _, answered in waiting.values():
            answered(None)
