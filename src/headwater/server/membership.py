"""A broker's place in a cluster: its store on ZooKeeper, its controller, and the order of joining and leaving.

Joining: connect (whose cluster is this?), open the logs, listen, register, load the image, open partitions, serve.
Leaving: say so, wait until others lead what this broker led, then close the logs and end the session, which takes the
registration away at once. Owned by the broker's loop.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from headwater.base.config.broker import BrokerConfig
from headwater.base.coordination import Coordination
from headwater.base.errors import KafkaError
from headwater.base.ids import NO_TOPIC_ID
from headwater.base.ports import Disk, Scheduler
from headwater.broker.broker import Broker
from headwater.broker.config_changes import encode_passwords_again
from headwater.controller.controller import Controller
from headwater.controller.elections import counts, in_sync_epochs
from headwater.controller.failure_detector import FailureDetector
from headwater.metadata.cluster.store import ClusterStore
from headwater.metadata.image import BrokerState, Change, ClusterImage, PartitionState
from headwater.server import data_since

_LOOK_AGAIN_MS: Final = 20
_WITHOUT_ZOOKEEPER_MS: Final = 1000

logger = logging.getLogger("headwater.server")


class Membership:
    def __init__(
        self, config: BrokerConfig, image: ClusterImage, coordination: Coordination, scheduler: Scheduler, disk: Disk
    ) -> None:
        self._config = config
        self._image = image
        self._scheduler = scheduler
        self._disk = disk
        self._data_since = -1
        self.store = ClusterStore(
            coordination, image, scheduler, config.node_id(), config.int("zookeeper.session.timeout.ms")
        )
        self._broker: Broker | None = None
        self._has_loaded = False
        self._has_ceased = False
        self.is_connected = False  # ZooKeeper has answered

    def connect(self, done: Callable[[str], None]) -> None:
        """`done` gets the id of the cluster, and claims the log directories for it."""

        def connected(cluster_id: str) -> None:
            self.is_connected = True
            self._data_since = data_since.begin(self._disk, self._config.log_dirs())
            done(cluster_id)

        self.store.connect(connected)

    def join(self, broker: Broker, me: BrokerState, done: Callable[[KafkaError | None], None]) -> None:
        self._broker = broker
        is_watchful = self._config.bool("controller.quick.failover.enable")
        failure_detector = FailureDetector(
            self._image,
            broker.broker_id,
            broker.peers if is_watchful else None,
            lambda done: self.store.read_members(done),
            broker.clock.monotonic_ms,
            lambda: bool(broker.logs.online),
        )
        broker.controller = Controller(
            self._image,
            self.store,
            self._scheduler,
            broker.clock,
            self._config,
            broker.metrics.controller,
            failure_detector,
        )
        self.store.on_controller = self._controls
        self.store.on_applied = self._applied
        me.previous_epoch = self._previous_epoch(broker)
        me.free_bytes = sum(broker.disk.usage(directory.path)[1] for directory in broker.logs.online)
        me.data_since = self._data_since

        def joined(problem: KafkaError | None) -> None:
            if problem is None:
                epoch = self._image.brokers[me.broker_id].epoch
                data_since.settle(self._disk, self._config.log_dirs(), self._data_since, epoch)
            done(problem)

        self.store.join(me, joined)

    def _controls(self, active: bool) -> None:
        assert self._broker is not None
        assert self._broker.controller is not None
        if active:
            self._broker.controller.activate()
            encode_passwords_again(self._broker)
        else:
            self._broker.controller.deactivate()

    def leave(self, left: Callable[[], None]) -> None:
        def told(problem: KafkaError | None) -> None:
            if problem is not None:
                logger.warning("event=leaving-not-announced reason=%r", problem.message)
                left()
            else:
                self._wait_for_relief(left)

        self.store.stop_leading(told)

    def cease(self) -> None:
        """Nothing that comes from the cluster is followed any more: the logs are about to be closed."""
        self._has_ceased = True
        self.store.on_applied = lambda _changes: None
        self.store.on_controller = lambda _active: None
        if self._broker is None:
            return
        if self._broker.controller is not None:
            self._broker.controller.deactivate()
        if self._broker.replicas is not None:
            self._broker.replicas.close()

    def close(self) -> None:
        self.store.close()

    def _applied(self, changes: Sequence[Change]) -> None:
        broker = self._broker
        assert broker is not None
        try:
            if not self._has_loaded:
                self._has_loaded = True
                self._set_strays_aside(broker)
                broker.configure()  # which policy a topic without its own has
                broker.logs.cut_at_gaps()
            broker.apply(changes)
            broker.logs.topics_are_known = True
        finally:  # what goes wrong with this broker's own logs is nothing to the cluster
            if broker.controller is not None:
                broker.controller.on_changes(changes)

    def _previous_epoch(self, broker: Broker) -> int:
        """Of this broker's last life, if that lost nothing: every directory was closed cleanly under it."""
        epochs = {directory.last_broker_epoch for directory in broker.logs.directories}
        return epochs.pop() if len(epochs) == 1 and broker.logs.clean_start else -1

    def _set_strays_aside(self, broker: Broker) -> None:
        """What was deleted, made again or moved to other brokers while this one was away."""
        for partition, log in list(broker.logs.logs.items()):
            topic_id = self._image.ids_by_name.get(partition.topic)
            states = [] if topic_id is None else self._image.topics[topic_id].partitions
            is_ours = partition.partition < len(states) and broker.broker_id in states[partition.partition].replicas
            if not is_ours or log.topic_id not in (topic_id, NO_TOPIC_ID):
                logger.warning("event=stray-set-aside partition=%s directory=%s", partition, log.directory)
                try:
                    broker.logs.set_aside(partition)
                except Exception:  # the others are to go all the same
                    logger.exception("event=stray-not-set-aside partition=%s", partition)

    def _wait_for_relief(self, left: Callable[[], None], unconnected_ms: int = 0) -> None:
        """Without ZooKeeper nobody is relieved, and nobody hears that all others are leaving too; but it may be back in
        a moment.
        """
        if unconnected_ms >= _WITHOUT_ZOOKEEPER_MS:
            logger.warning("event=left-without-zookeeper note='some partitions are led from here still'")
            left()
        elif self._has_ceased or not any(self._could_go(state) for state in self._led()):
            left()
        else:
            now_ms = 0 if self.store.is_connected else unconnected_ms + _LOOK_AGAIN_MS
            self._scheduler.call_later(_LOOK_AGAIN_MS, lambda: self._wait_for_relief(left, now_ms))

    def _led(self) -> list[PartitionState]:
        me = self._config.node_id()
        return [state for topic in self._image.topics.values() for state in topic.partitions if state.leader == me]

    def _could_go(self, state: PartitionState) -> bool:
        """Another live broker that does not stop itself could lead it."""
        brokers = self._image.brokers
        return any(
            replica != state.leader
            and replica in brokers
            and not brokers[replica].is_stopping
            and counts(brokers[replica], epoch)
            for replica, epoch in in_sync_epochs(state).items()
        )
