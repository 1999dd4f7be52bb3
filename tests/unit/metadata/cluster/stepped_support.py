"""A ZooKeeper that serves one request at a time, so that a test can change the nodes between any two of them."""

from collections import deque
from collections.abc import Callable, Sequence

from headwater.base.coordination import CoordinationError, Node, SessionState, Write, Written
from headwater.metadata.cluster.store import ClusterStore
from headwater.metadata.image import ClusterImage
from headwater.sim.clock import SimClock
from headwater.sim.scheduler import SimScheduler
from headwater.sim.zookeeper_tree import Changed, Tree
from unit.metadata.cluster.cluster_store_support import Answer, me


class SteppedCoordination:
    session_id = 1

    def __init__(self, tree: Tree) -> None:
        self.on_state: Callable[[SessionState], None] = lambda _state: None
        self.tree = tree
        self.transactions = 1000
        self.requests: deque[Callable[[], None]] = deque()
        self.served = 0
        self._watches: list[tuple[Changed, Callable[[], None]]] = []

    def start(self) -> None:
        self.requests.append(lambda: self.on_state(SessionState.CONNECTED))

    def close(self) -> None:
        self.requests.clear()

    def get(
        self,
        path: str,
        done: Callable[[Node | None, CoordinationError | None], None],
        watch: Callable[[], None] | None = None,
    ) -> None:
        def serve() -> None:
            if watch is not None:
                self._watches.append((Changed(path, children=False), watch))
            done(self.tree.get(path), None)

        self.requests.append(serve)

    def children(
        self,
        path: str,
        done: Callable[[list[str] | None, CoordinationError | None], None],
        watch: Callable[[], None] | None = None,
    ) -> None:
        def serve() -> None:
            if watch is not None:
                self._watches.append((Changed(path, children=True), watch))
            done(self.tree.children(path), None)

        self.requests.append(serve)

    def write(
        self, writes: Sequence[Write], done: Callable[[list[Written] | None, CoordinationError | None], None]
    ) -> None:
        def serve() -> None:
            try:
                written = self.change(writes)
            except CoordinationError as refused:
                done(None, refused)
            else:
                done(written, None)

        self.requests.append(serve)

    def change(self, writes: Sequence[Write], session_id: int = 1) -> list[Written]:
        """At once; watches are told."""
        self.transactions += 1
        written, changed = self.tree.apply(self.transactions, session_id, writes)
        told = [watch for waits_for, watch in self._watches if waits_for in changed]
        self._watches = [watch for watch in self._watches if watch[0] not in changed]
        for watch in told:
            watch()
        return written


class Stepped:
    """One broker's store on it."""

    def __init__(self, tree: Tree, broker_id: int = 5) -> None:
        self.clock = SimClock()
        self.scheduler = SimScheduler(self.clock)
        self.coordination = SteppedCoordination(tree)
        self.image = ClusterImage("new-cluster")
        self.store = ClusterStore(self.coordination, self.image, self.scheduler, broker_id, 1500)
        self.joined = Answer()
        self.is_active = False
        self.store.on_controller = self._controls
        self.store.connect(lambda _cluster_id: self.store.join(me(broker_id), self.joined))

    def _controls(self, is_controller: bool) -> None:
        self.is_active = is_controller

    def run(self, before: Callable[[int], None] = lambda _number: None) -> int:
        """Until nothing is left to do. `before` each request; how many there were."""
        while True:
            self.scheduler.run_due()
            if not self.coordination.requests:
                return self.coordination.served
            before(self.coordination.served)
            self.coordination.served += 1
            self.coordination.requests.popleft()()
