"""A world of several brokers, a ZooKeeper and clients that find their way by metadata: one heap of events, one seed.

What must hold after every event is in `cluster_state.py` and `cluster_checks.py`, what clients may be told in
`cluster_history.py`. `finish` ends all faults, lets the clients come to an end, waits until every replica is in sync
again, reads everything back and compares the replicas byte for byte.
"""

import logging
import traceback
from collections.abc import Callable
from typing import Final

from headwater.broker.broker import Broker
from headwater.sim.clients.client import SimClient
from headwater.sim.cluster_checks import ClusterChecks
from headwater.sim.cluster_clients.administering import ClusterAdmin
from headwater.sim.cluster_clients.producing import ClusterIdempotentProducer, ClusterPlainProducer
from headwater.sim.cluster_clients.reading import ClusterAuditor, ClusterConsumer
from headwater.sim.cluster_faults import ClusterFaults, of_seed
from headwater.sim.cluster_history import ClusterCatalog, TrimmedHistory, is_lossy
from headwater.sim.cluster_injector import ClusterInjector
from headwater.sim.cluster_network import ClusterConnection, Network
from headwater.sim.cluster_node import SESSION_MS, ClusterNode
from headwater.sim.cluster_state import StateOfCluster
from headwater.sim.less import NOTHING, Less
from headwater.sim.network import SimConnection
from headwater.sim.peers import REFUSED
from headwater.sim.stage import Stage
from headwater.sim.trace import Violation
from headwater.sim.zookeeper import SimZooKeeper

_USUAL_FACTOR: Final = 2
_STEPS_BETWEEN_COUNTS: Final = 25  # of references to files, and looks at everything: both take a while
_SETTLE_WITHIN_MS: Final = 60_000
_SETTLE_STEPS_MAX: Final = 60_000

TopicToMake = tuple[str, int, dict[str, str]]  # name, replication factor, config


class Unexpected(logging.Handler):
    """Exceptions that were caught so that a broker goes on, and written down: in a simulation they are failures."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[0] is not None:
            self.seen.append(f"{record.getMessage()}: {''.join(traceback.format_exception(*record.exc_info))}")


class ClusterWorld(Stage):
    command = "make sim WORLD=cluster"
    faults: ClusterFaults

    def __init__(self, seed: int, faults: ClusterFaults | None = None, less: Less = NOTHING) -> None:
        super().__init__(seed, faults or of_seed(seed), less)
        count = self.stream("size").choice((3, 3, 3, 4, 5))
        self.node_ids = list(range(1, count + 1))
        self._any = self.stream("any broker")
        self.zookeeper = SimZooKeeper(self.heap, self.stream("zookeeper"))
        self.network = Network(self)
        self.nodes = [ClusterNode(self, node_id) for node_id in self.node_ids]
        self.state = StateOfCluster(self.zookeeper.tree, self.note)
        self.checks = ClusterChecks(self.nodes, self.state)
        self.catalog = ClusterCatalog(self.checks.committed)
        self._cut_from_zookeeper: set[int] = set()
        self._looked_at = 0
        self._checked = 0
        self._brokers: dict[int, Broker | None] = dict.fromkeys(self.node_ids)
        self._unexpected = Unexpected()
        self._injector = ClusterInjector(self)
        self.clients = self.present(self.cast())
        for node in self.nodes:
            if not node.start():
                raise Violation("a broker does not start on an empty disk")
        self._injector.start()
        for client in self.clients:
            client.start()

    # Who and what is there

    def cast(self) -> list[SimClient]:
        return [
            ClusterAdmin(self, "admin"),
            ClusterIdempotentProducer(self, "first"),
            ClusterIdempotentProducer(self, "second"),
            ClusterPlainProducer(self, "plain"),
            ClusterConsumer(self, "reader"),
            ClusterConsumer(self, "other"),
        ]

    def auditor(self) -> SimClient:
        return ClusterAuditor(self, "auditor")

    def topics_to_make(self) -> list[TopicToMake]:
        return [
            ("plain-safe", 3, {"min.insync.replicas": "2"}),
            ("plain-quick", 2, {}),
            ("durable", 2, {"flush.messages": "1"}),
        ]

    def replication_factor(self, topic: str) -> int:
        return next((factor for name, factor, _ in self.topics_to_make() if name == topic), _USUAL_FACTOR)

    def needs_no_care(self, topic: str) -> bool:
        """Nothing that happens to its replicas can break a promise: all is synced, or loss is allowed."""
        return topic.startswith("durable") or is_lossy(topic)

    def properties(self) -> dict[str, str]:
        return {
            "zookeeper.connect": "simulated",
            "zookeeper.session.timeout.ms": str(SESSION_MS),
            "replica.lag.time.max.ms": "800",
            "replica.fetch.wait.max.ms": "200",
            "replica.fetch.backoff.ms": "50",
            "replica.socket.timeout.ms": "1500",
            "leader.imbalance.check.interval.seconds": "2",
            "log.retention.check.interval.ms": "5000",
            "log.cleaner.backoff.ms": "300",
        }

    def node(self, node_id: int) -> ClusterNode:
        return self.nodes[node_id - 1]

    def broker_died(self) -> None:
        for topic in self.catalog.topics.values():
            for history in topic.partitions:
                if isinstance(history, TrimmedHistory):
                    history.broker_died()

    def lives(self) -> int:
        return sum(node.lives for node in self.nodes) + self.state.leader_changes

    # Running

    def run(self, steps: int) -> None:
        logger = logging.getLogger("headwater")
        logger.addHandler(self._unexpected)
        try:
            super().run(steps)
        finally:
            logger.removeHandler(self._unexpected)

    def step(self) -> None:
        self.run_event()
        for node in self.nodes:
            if node.has_run:
                node.after_event()

    def check(self) -> None:
        if self._unexpected.seen:
            raise Violation(f"an exception that nobody expected: {self._unexpected.seen[0]}")
        self._look()
        self._checked += 1
        if self._checked % _STEPS_BETWEEN_COUNTS == 0:
            self.checks.look()
            for node in self.nodes:
                node.check()

    def _look(self) -> None:
        """At all that the last event can have changed."""
        ran = [node for node in self.nodes if node.has_run]
        if self._looked_at != self.zookeeper.last_transaction:
            self._looked_at = self.zookeeper.last_transaction
            self.state.look()
            self.checks.look()
        elif not ran:
            return
        elif any(node.broker is not self._brokers[node.node_id] for node in ran):
            self.checks.look()
        else:
            for node in ran:
                if node.broker is not None:
                    self.checks.look_at(node)
        for node in ran:
            if self.story is not None:
                node.tell_changes()
            node.has_run = False
            self._brokers[node.node_id] = node.broker

    def finish(self) -> None:
        self.note("no more faults")
        self._injector.end()
        for client in self.clients:
            client.is_stopping = True
        self.until_done("come to an end")
        self._until_settled()
        self.is_finishing = True
        auditor = self.auditor()
        self.clients = [auditor]
        auditor.start()
        self.until_done("read everything")
        self._until_settled()
        self.checks.replicas_are_equal()
        self.topics_are_as_told()

    def topics_are_as_told(self) -> None:
        """With all faults gone: what was made is there, and what was deleted is not."""
        there = {key.topic_id for key in self.state.partitions}
        for topic in self.catalog.topics.values():
            if not topic.delete_asked and topic.topic_id not in there:
                raise Violation(f"the topic {topic.name} was made and is gone")
            if topic.delete_done and topic.topic_id in there:
                raise Violation(f"the topic {topic.name} was deleted and is there")

    def _until_settled(self) -> None:
        until_ms = self.clock.monotonic_ms() + _SETTLE_WITHIN_MS
        for _ in range(_SETTLE_STEPS_MAX):
            if not self.checks.unsettled():
                return
            self.step()
            self.check()
            if self.clock.monotonic_ms() > until_ms:
                break
        raise Violation(f"I16: with all faults gone, {self.checks.unsettled()}")

    # Connections

    def reach(
        self, source: str, node_id: int, deliver: Callable[[bytes], None], gone: Callable[[str], None]
    ) -> ClusterConnection | None:
        """For clients, to whom it is all one why there is none."""
        connection = self.network.connect(source, self.node(node_id), deliver, gone)
        return None if connection is REFUSED else connection

    def connect(
        self, client: str, deliver: Callable[[bytes], None], gone: Callable[[str], None]
    ) -> SimConnection | None:
        return self.reach(client, self._any.choice(self.node_ids), deliver, gone)

    @property
    def faults_struck(self) -> list[int]:
        return self._injector.strikes.struck

    # ZooKeeper

    def is_cut_from_zookeeper(self, node: ClusterNode) -> bool:
        return node.node_id in self._cut_from_zookeeper

    def cut_from_zookeeper(self, node: ClusterNode) -> None:
        if node.node_id not in self._cut_from_zookeeper:
            self._cut_from_zookeeper.add(node.node_id)
            if node.coordination is not None:
                self.zookeeper.cut_off(node.coordination)

    def let_to_zookeeper(self, node: ClusterNode) -> None:
        self._cut_from_zookeeper.discard(node.node_id)
        if node.coordination is not None:
            self.zookeeper.let_through(node.coordination)
