"""Other brokers, played by the test: what was asked of them is kept, and answered by a function or by hand."""

from collections.abc import Callable
from typing import Any, NamedTuple

from headwater.base.ids import BrokerId
from headwater.base.peers import Lane, Unreachable

Done = Callable[[Any | None, Unreachable | None], None]


class Asked(NamedTuple):
    broker: int
    lane: Lane
    request: Any
    version: int
    done: Done
    timeout_ms: int = 0
    origin: str = ""

    def answer(self, response: Any) -> None:
        """Over the bytes of its version, as it would come."""
        self.done(type(response).decode(b"".join(response.encode(self.version)), 0, self.version), None)

    def fail(self, *, is_refused: bool = False) -> None:
        self.done(None, Unreachable("reset", is_refused=is_refused))


class FakePeers:
    def __init__(self) -> None:
        self.on_lost: Callable[[BrokerId], None] = lambda _broker: None
        self.asked: list[Asked] = []
        self.forgotten: list[int] = []

    def ask(
        self,
        broker: BrokerId,
        lane: Lane,
        request: Any,
        version: int,
        done: Done,
        *,
        timeout_ms: int,
        origin: str = "",
    ) -> None:
        assert timeout_ms > 0
        decoded = type(request).decode(b"".join(request.encode(version)), 0, version)
        self.asked.append(Asked(broker, lane, decoded, version, done, timeout_ms, origin))

    def forget(self, broker: BrokerId) -> None:
        self.forgotten.append(broker)

    def close(self) -> None:
        pass

    def take(self) -> Asked:
        """The oldest that nobody has looked at; the test goes on from there."""
        return self.asked.pop(0)
