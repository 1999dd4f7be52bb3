"""The network of a cluster: who reaches whom, and connections whose two directions delay, hold back and lose what they
carry.

A place is a broker ("1", "2", …) or a client (its name). When the way between two places is blocked, each connection
there is either reset, and both ends notice, or falls silent: then what is sent waits, and arrives when the way is free
again, as TCP would bring it, even if the sender has given up long ago. A new connection gets no answer; some blocks
refuse it, as a firewall may, and so does a machine that runs and whose broker does not. Owned by the world.
"""

import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.sim.network import SimConnection
from headwater.sim.peers import REFUSED, Refusal

if TYPE_CHECKING:
    from headwater.sim.cluster_node import ClusterNode
    from headwater.sim.stage import Stage

DELAYS_MS: Final = (0, 0, 1, 1, 2, 5, 20)
Pair = frozenset[str]


class Network:
    def __init__(self, world: "Stage") -> None:
        self.world = world
        self.delays_ms = DELAYS_MS
        self._blocked: dict[Pair, bool] = {}  # whether connections are refused there
        self._open: dict[ClusterConnection, None] = {}

    def is_blocked(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self._blocked

    def is_pair_blocked(self, pair: Pair) -> bool:
        return pair in self._blocked

    def block(self, pairs: list[Pair], *, refuses: bool = False) -> None:
        for pair in pairs:
            self._blocked[pair] = refuses
        for connection in list(self._open):
            if connection.pair in pairs and connection.draws_reset():
                connection.reset("the network is cut")

    def free(self, pairs: list[Pair] | None = None) -> None:
        """All of them, or these."""
        for pair in list(self._blocked) if pairs is None else pairs:
            self._blocked.pop(pair, None)
        for connection in list(self._open):
            if connection.pair not in self._blocked:
                connection.go_on()
                if connection.closed:
                    del self._open[connection]

    def connect(
        self, source: str, node: "ClusterNode", deliver: Callable[[bytes], None], gone: Callable[[str], None]
    ) -> "ClusterConnection | Refusal | None":
        """None: no answer comes."""
        refuses = self._blocked.get(frozenset((source, node.place)))
        if refuses is not None:
            return REFUSED if refuses else None
        if not node.is_serving:
            return REFUSED if node.is_machine_on else None
        connection = ClusterConnection(self, source, node, deliver, gone)
        self._open[connection] = None
        node.accept(connection)
        return connection

    def forget(self, connection: "ClusterConnection") -> None:
        """The broker's end is closed; while the way is blocked, the client's end has yet to hear of it."""
        if connection.pair not in self._blocked:
            self._open.pop(connection, None)


class _Direction:
    """One way of a connection: in order, each after a while, nothing while the way is blocked."""

    def __init__(self, network: Network, pair: Pair, chance: random.Random) -> None:
        self._network = network
        self._pair = pair
        self._chance = chance
        self._due_ms = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def send(self, arrival: Callable[[], None]) -> None:
        world = self._network.world
        now_ms = world.clock.monotonic_ms()
        self._due_ms = max(self._due_ms, now_ms + self._chance.choice(self._network.delays_ms))
        self._waiting.append(arrival)
        world.heap.call_later(self._due_ms - now_ms, self._arrive)

    def go_on(self) -> None:
        for _ in self._waiting:  # some have a timer of their own still: one too many finds nothing to do
            self._network.world.heap.call_later(self._chance.choice(self._network.delays_ms), self._arrive)

    def _arrive(self) -> None:
        if self._waiting and not self._network.is_pair_blocked(self._pair):
            self._waiting.popleft()()

    def clear(self) -> None:
        self._waiting.clear()


class ClusterConnection(SimConnection):
    """From a place to a broker."""

    _node: "ClusterNode"

    def __init__(
        self,
        network: Network,
        source: str,
        node: "ClusterNode",
        deliver: Callable[[bytes], None],
        gone: Callable[[str], None],
    ) -> None:
        super().__init__(node, source, deliver, self._closed_by_broker)
        self.pair = frozenset((source, node.place))
        self._network = network
        self._inward = _Direction(network, self.pair, self._chance)
        self._outward = _Direction(network, self.pair, self._chance)
        self._tell_client = gone
        self._client_is_there = True

    # The client's end

    def send(self, frame: bytes) -> None:
        self._inward.send(lambda: self._node.enter(lambda: self._arrived(frame)))

    def leave(self) -> None:
        """The client closes its end. What it has sent may arrive all the same, and the broker learns of it later."""
        self._client_is_there = False
        self._deliver = lambda _data: None
        self._inward.send(lambda: self._node.enter(lambda: self.close("the client has left")))

    def draws_reset(self) -> bool:
        return self._chance.random() < 0.5

    def reset(self, why: str) -> None:
        """Both ends notice, the broker when it runs."""
        self._inward.clear()
        self._outward.clear()
        self._notice(why)
        self._node.enter(lambda: self.close(why))

    def go_on(self) -> None:
        self._inward.go_on()
        self._outward.go_on()

    # The broker's end

    def _queue(self, chunks: list[Any]) -> None:
        self._out.append(chunks)
        self._outward.send(self._sent)

    def close(self, why: str, *, process_died: bool = False) -> None:
        self._node.has_run = True
        super().close(why, process_died=process_died)
        self._network.forget(self)

    def _closed_by_broker(self, why: str) -> None:
        self._outward.send(lambda: self._notice(why))

    def _notice(self, why: str) -> None:
        if self._client_is_there:
            self._client_is_there = False
            self._deliver = lambda _data: None  # a broker that stood still may answer all the same
            self._tell_client(why)


class ClientEnd:
    """A connection as another broker has it."""

    def __init__(self, connection: ClusterConnection) -> None:
        self.send = connection.send
        self._connection = connection

    def close(self, why: str) -> None:  # noqa: ARG002
        self._connection.leave()
