"""The Peers port in a simulated world: the lanes of `server/peer_lane.py` over connections that the world makes, delays
and cuts.

`connect` is the world's: given a broker and the two ends of ours (`deliver` for answers with their length, `gone` for
the end of the connection), it gives a connection to that broker's node, REFUSED when nobody listens there, or None when
nobody can be reached. Bytes of an answer are overwritten when its callback returns, as a buffer that is used again
would be. Owned by the process that asks, and closed with it.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from headwater.base.ids import BrokerId
from headwater.base.peers import Lane
from headwater.base.ports import Clock, Scheduler
from headwater.broker.origins import client_id_on
from headwater.server.peer_lane import Done, PeerLane

_LENGTH_BYTES = 4


class Link(Protocol):
    """What `SimConnection` has for its client."""

    def send(self, frame: bytes) -> None: ...

    def close(self, why: str) -> None: ...


class Refusal(Enum):
    REFUSED = "the host says that nobody listens there"


REFUSED = Refusal.REFUSED
Connect = Callable[[BrokerId, Callable[[bytes], None], Callable[[str], None]], Link | Refusal | None]


class SimPeers:
    def __init__(self, scheduler: Scheduler, clock: Clock, client_id: str, connect: Connect) -> None:
        self.on_lost: Callable[[BrokerId], None] = lambda _broker: None
        self._scheduler = scheduler
        self._clock = clock
        self._client_id = client_id
        self._connect = connect
        self._lanes: dict[tuple[BrokerId, Lane], PeerLane] = {}

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
        found = self._lanes.get((broker, lane))
        if found is None:
            found = PeerLane(
                self._scheduler,
                self._clock,
                lambda asking: self._dial(broker, asking),
                client_id_on(lane, self._client_id),
                lambda: self.on_lost(broker),
            )
            self._lanes[broker, lane] = found
        found.ask(request, version, done, timeout_ms, origin)

    def _dial(self, broker: BrokerId, lane: PeerLane) -> "SimWire | None":
        wire = SimWire(lane)
        link = self._connect(broker, wire.deliver, wire.gone)
        if link is None:
            return None
        if link is REFUSED:
            self._scheduler.call_soon(wire.refused)
            return wire
        wire.link = link
        self._scheduler.call_soon(wire.open)
        return wire

    def forget(self, broker: BrokerId) -> None:
        for key in [key for key in self._lanes if key[0] == broker]:
            self._lanes.pop(key).drop("the broker is gone")

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()


class SimWire:
    def __init__(self, lane: PeerLane) -> None:
        self._lane = lane
        self.link: Link | None = None
        self._is_closed = False

    def open(self) -> None:
        if not self._is_closed:
            self._lane.opened(self)

    def send(self, frame: bytes) -> None:
        if self.link is not None:
            self.link.send(frame)

    def deliver(self, frame: bytes) -> None:
        if self._is_closed:
            return
        buffer = bytearray(frame)
        view = memoryview(buffer)
        self._lane.received(self, view[_LENGTH_BYTES:])
        buffer[:] = bytes(len(buffer))

    def gone(self, why: str) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._lane.lost(self, why)

    def refused(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._lane.lost(self, REFUSED.value, is_refused=True)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            if self.link is not None:
                self.link.close("the asking broker closed it")
