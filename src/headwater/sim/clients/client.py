"""What all simulated clients share: a script, one connection at a time, and requests that may never be answered.

A script is a generator. It yields a number of milliseconds to wait, or a list of requests to send one behind the other
without waiting; it is resumed when each of them was answered or its connection is gone (None).
"""

import random
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from zlib import crc32

from headwater.broker.registry import APIS
from headwater.sim.catalog import Topic
from headwater.sim.trace import Violation
from headwater.wire.headers import decode_response_header, encode_request_header
from headwater.wire.messages.metadata import MetadataRequest, MetadataResponse
from headwater.wire.registry import response_class

if TYPE_CHECKING:
    from headwater.sim.network import SimConnection
    from headwater.sim.stage import Stage

ANSWER_WITHIN_MS: Final = 30_000  # beyond what the request itself asks to wait


class Ask(NamedTuple):
    request: Any
    version: int
    wants_answer: bool = True
    node_id: int = -1  # in a cluster, the broker that is meant, if not whichever it concerns


Script: TypeAlias = Generator[int | list[Ask], list[Any], None]
Steps: TypeAlias = Generator[int | list[Ask], list[Any], Any]


class SimClient:
    def __init__(self, world: "Stage", name: str) -> None:
        self.world = world
        self.name = name
        self.random = random.Random(f"{world.seed} {name}")
        self.is_stopping = False
        self.is_done = False
        self._connection: SimConnection | None = None
        self._correlation_id = 0
        self._awaited: dict[int, tuple[int, Ask]] = {}  # correlation id -> place in the answers
        self._answers: list[Any] = []
        self._deadline_ms = 0

    def start(self) -> None:
        self._script = self.script()
        self.world.heap.call_later(self.random.randint(0, 300), lambda: self._resume(None))

    def script(self) -> Script:
        raise NotImplementedError

    def check(self) -> None:
        if self._awaited and self.world.clock.monotonic_ms() > self._deadline_ms:
            names = ", ".join(type(ask.request).__name__ for _, ask in self._awaited.values())
            raise Violation(f"I16: {self.name} waits for ever for {names}")

    # The script's side

    def _resume(self, answers: list[Any] | None) -> None:
        try:
            step = next(self._script) if answers is None else self._script.send(answers)
        except StopIteration:
            self.is_done = True
            if self._connection is not None:
                self._connection.close("the client is done")
            return
        if isinstance(step, int):
            self.world.heap.call_later(step, lambda: self._resume([]))
        else:
            self._send(step)

    def _send(self, asks: Sequence[Ask]) -> None:
        self._answers = [None] * len(asks)
        if self._connection is None or self._connection.closed:
            self._connection = self.world.connect(self.name, self._received, self._lost)
        if self._connection is None:
            self.world.heap.call_later(self.random.randint(50, 400), lambda: self._resume(self._answers))
            return
        wait_ms = max(getattr(ask.request, name, 0) for ask in asks for name in ("timeout_ms", "max_wait_ms"))
        self._deadline_ms = self.world.clock.monotonic_ms() + wait_ms + ANSWER_WITHIN_MS
        for place, ask in enumerate(asks):
            self._correlation_id += 1
            header = encode_request_header(ask.request.KEY, ask.version, self._correlation_id, self.name)
            frame = header + b"".join(ask.request.encode(ask.version))
            self.world.note(
                f"{self.name} asks {type(ask.request).__name__} v{ask.version} #{self._correlation_id} {crc32(frame):08x}"
            )
            if ask.wants_answer:
                self._awaited[self._correlation_id] = (place, ask)
            self._connection.send(frame)
        if not self._awaited:
            self.world.heap.call_later(5, lambda: self._resume(self._answers))

    def _received(self, data: bytes) -> None:
        (size,) = (int.from_bytes(data[:4]),)
        if size != len(data) - 4:
            raise Violation(f"{self.name} got {len(data) - 4} bytes in a frame of {size}")
        frame = data[4:]
        correlation_id = int.from_bytes(frame[:4])
        expected = next(iter(self._awaited))
        if correlation_id != expected:
            raise Violation(f"{self.name} got the answer to #{correlation_id}, and #{expected} comes first")
        place, ask = self._awaited.pop(correlation_id)
        _, body_at = decode_response_header(frame, ask.request.KEY, ask.version)
        response = response_class(ask.request.KEY).decode(frame, body_at, ask.version)
        self.world.note(f"{self.name} gets #{correlation_id} {len(data)} bytes {crc32(data):08x}")
        self._answers[place] = response
        if not self._awaited:
            self.world.heap.call_later(0, lambda: self._resume(self._answers))

    def _lost(self, why: str) -> None:  # noqa: ARG002
        if self._awaited:
            self._awaited.clear()  # the answers that came before count, and at once: later they might not hold any more
            self.world.heap.call_later(0, lambda: self._resume(self._answers))

    # What scripts use

    def version(self, key: int, first: int = 0) -> int:
        """Any that the broker serves, from `first` on."""
        serves = APIS[key].serves
        return self.random.randint(max(first, serves[0]), serves[1])

    def metadata(self) -> Steps:
        """All topics; None if there was no answer."""
        expected = self.world.catalog.expected()
        (answer,) = yield [Ask(MetadataRequest(topics=None), self.version(MetadataRequest.KEY, 10))]
        if isinstance(answer, MetadataResponse):
            self.world.catalog.told(answer, expected)
        return answer

    def some_partitions(self, count_max: int) -> list[tuple[Topic, int]]:
        """Partitions that should be there."""
        all_of_them = [
            (topic, index) for topic in self.world.catalog.usable() for index in range(len(topic.partitions))
        ]
        self.random.shuffle(all_of_them)
        return all_of_them[: self.random.randint(1, count_max)]
