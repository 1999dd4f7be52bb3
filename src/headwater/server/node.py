"""A running broker: the loop, the kernel's ports, the listeners, and the order of start and stop."""

import gc
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headwater.base.config.broker import BrokerConfig
from headwater.base.config.listeners import Listener
from headwater.base.coordination import Coordination
from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import BrokerId
from headwater.base.peers import Peers
from headwater.broker.broker import Broker
from headwater.broker.config_changes import encode_passwords_again
from headwater.metadata.image import Endpoint
from headwater.server.assembly import Assembly
from headwater.server.disk import OsDisk
from headwater.server.hot_path import quick_writes
from headwater.server.listener import Server
from headwater.server.loop import Loop, SystemClock, SystemRandom
from headwater.server.metrics_endpoint import MetricsEndpoint
from headwater.server.pace import WorkerPace

if TYPE_CHECKING:
    from headwater.broker.known_schemas import KnownSchemas
    from headwater.server.membership import Membership
    from headwater.server.peers import PeerSocket
    from headwater.server.schema_source import RegistrySource
    from headwater.server.security.listener_security import ListenerSecurity
    from headwater.server.zookeeper.client import KazooCoordination

_SETTLE_MS: Final = 30_000
_LEAVE_MS: Final = 15_000
_DIRTY_SHARE: Final = (
    20  # of the memory: the kernel begins to write at a tenth of what is free, and throttles at a fifth
)

logger = logging.getLogger("headwater.server")


class StartInterrupted(Exception):
    """Somebody asked for a stop before the broker was up."""


class Node:
    """Owned by the thread that calls `start`, `run` and `close`. A start that fails has closed everything again."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.loop = Loop()
        self.disk = OsDisk(self.loop.post)
        self.endpoints: list[Endpoint] = []
        self.metrics: MetricsEndpoint | None = None
        self.metrics_door: MetricsEndpoint | None = None  # for other machines
        self.exit_code = 0
        self._assembly: Assembly | None = None
        self._server: Server | None = None
        self._peers: Peers | None = None
        self._zookeeper: KazooCoordination | None = None
        self._schemas: tuple[RegistrySource, KnownSchemas] | None = None
        self._has_joined = False

    def start(self) -> None:
        """Opens and recovers the logs, then listens. Raises UserError, or StartInterrupted after `loop.stop()`."""
        try:
            self._start()
        except BaseException as problem:
            self.close()
            if isinstance(problem, OSError):
                raise UserError("The broker cannot start", str(problem), "check log.dirs and the disk") from problem
            raise

    def _start(self) -> None:
        clock = SystemClock()
        coordination = self._coordination()
        assembly = Assembly(
            self.config,
            disk=self.disk,
            clock=clock,
            random=SystemRandom(),
            scheduler=self.loop,
            dirty_bytes_max=_memory_bytes() // _DIRTY_SHARE,
            pace_of=WorkerPace,
            coordination=coordination,
            peers=self._peers,
        )
        assembly.on_all_failed = self._give_up
        ready: list[Broker] = []
        assembly.open(ready.append)
        self._assembly = assembly
        if assembly.membership is not None:
            self._wait_for_zookeeper(assembly.membership, clock)
        self._wait_for(lambda: bool(ready))  # recovery in worker processes
        self.broker = ready[0]
        self.broker.metrics.started_ms = clock.monotonic_ms()
        self.broker.quick_writes = quick_writes()
        self.broker.check_config = self._check_config
        self._find_registry()
        self.server = self._server = Server(self.loop, self.broker, self.disk)
        self._listen()
        self._join(assembly)
        if assembly.membership is None:  # in a cluster the controller does it
            encode_passwords_again(self.broker)
        self.server.accept_all()
        self._open_metrics(self.config.int("metrics.port"))
        self._open_metrics_door(self.config.string("metrics.listener"))

        # What is alive now stays: the collector need not walk over it again, and a young generation of a few thousand
        # objects is looked at rarely. Both keep its pauses out of the request path.
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 20, 50)

    def _coordination(self) -> Coordination | None:
        """A session with ZooKeeper, and connections to other brokers, if this one is to be in a cluster."""
        connect = self.config.string("zookeeper.connect")
        if not connect:
            return None
        from headwater.server.peers import LoopPeers
        from headwater.server.zookeeper.client import KazooCoordination
        from headwater.server.zookeeper.security import security_of

        security = security_of(self.config)
        self._peers = LoopPeers(self.loop, self._endpoint_of, f"broker-{self.config.node_id()}", self._socket_to())
        timeout_ms = self.config.int("zookeeper.session.timeout.ms")
        self._zookeeper = KazooCoordination(connect, timeout_ms, self.loop.post, security)
        return self._zookeeper

    def _socket_to(self) -> "Callable[..., PeerSocket] | None":
        if self.config.inter_broker_listener().protocol == "PLAINTEXT":
            return None
        from headwater.server.security.peer_security import PeerSecurity  # not for who needs none

        return PeerSecurity(self.config).socket_to

    def _check_config(self, candidate: BrokerConfig) -> None:
        from headwater.server.security.config_check import check_config  # not for who needs none

        check_config(self.config, candidate)

    def _find_registry(self) -> None:
        """The schema registry that is asked about records of topics with schema validation, if one is named."""
        urls = self._registry_urls()
        if urls:
            from headwater.server.schema_source import registry_address  # not for who needs none

            for url in urls:
                registry_address(url)
            self.broker.known_schemas = self._known_schemas

    def _registry_urls(self) -> list[str]:
        config = self.config
        return config.list("headwater.schema.registry.url") or config.list("confluent.schema.registry.url")

    def _known_schemas(self) -> "KnownSchemas":
        """Made when the first record is to be checked: most brokers never check one."""
        if self._schemas is None:
            from headwater.broker.known_schemas import KnownSchemas
            from headwater.server.schema_source import RegistrySource

            timeout_ms = self.config.int("headwater.schema.registry.timeout.ms")
            credentials = self.config.string("confluent.basic.auth.user.info")
            source = RegistrySource(self._registry_urls(), self.loop.post, timeout_ms, credentials)
            self._schemas = source, KnownSchemas(source, SystemClock())
        return self._schemas[1]

    def _endpoint_of(self, broker_id: BrokerId) -> tuple[str, int] | None:
        """Where a broker of the cluster is reached by the others."""
        assert self._assembly is not None
        broker = self._assembly.image.brokers.get(broker_id)
        if broker is None or not broker.endpoints:
            return None
        name = self.config.inter_broker_listener().name
        endpoint = next((each for each in broker.endpoints if each.listener == name), broker.endpoints[0])
        return endpoint.host, endpoint.port

    def _wait_for_zookeeper(self, membership: "Membership", clock: SystemClock) -> None:
        given = self.config.value("zookeeper.connection.timeout.ms")
        limit_ms = given if isinstance(given, int) else self.config.int("zookeeper.session.timeout.ms")
        give_up_ms = clock.monotonic_ms() + limit_ms
        self._wait_in_cluster(lambda: membership.is_connected or clock.monotonic_ms() > give_up_ms, membership)
        if not membership.is_connected:
            assert self._zookeeper is not None
            why = f"there was no session with it after {limit_ms / 1000:g} s (zookeeper.connection.timeout.ms)"
            raise UserError(
                f"ZooKeeper does not answer at {self.config.string('zookeeper.connect')}",
                f"{why}: {self._zookeeper.problem}" if self._zookeeper.problem else why,
                "start it, or set zookeeper.connect to where it is",
            )

    def _wait_in_cluster(self, is_done: Callable[[], bool], membership: "Membership") -> None:
        """At the start nobody waits for rights that are not given; a broker that has been up goes on trying."""
        zookeeper = self._zookeeper
        assert zookeeper is not None
        self._wait_for(lambda: is_done() or bool(zookeeper.login_problem or membership.store.refusal))
        if zookeeper.login_problem:
            raise UserError(
                f"ZooKeeper at {self.config.string('zookeeper.connect')} does not take the broker's login",
                zookeeper.login_problem,
                "see the section Client of the JAAS file in KAFKA_OPTS, or headwater.zookeeper.sasl.jaas.config",
            )
        if membership.store.refusal:
            raise UserError(
                membership.store.refusal,
                "" if zookeeper.has_login else "the broker has no login there",
                "log in as the owner of the nodes, or let zookeeper-security-migration change their ACLs",
            )

    def _join(self, assembly: Assembly) -> None:
        joined: list[KafkaError | None] = []
        assembly.join(self.broker, self.endpoints, joined.append)
        if assembly.membership is None:
            self._wait_for(lambda: bool(joined))
        else:
            self._wait_in_cluster(lambda: bool(joined), assembly.membership)
        if joined[0] is not None:
            raise UserError("The broker cannot join the cluster", str(joined[0]))
        self._has_joined = True

    def _wait_for(self, is_done: Callable[[], bool]) -> None:
        while not is_done():
            if self.loop.is_stopping:
                raise StartInterrupted
            self.loop.turn(1.0)

    @property
    def membership(self) -> "Membership | None":
        """Its place in a cluster, if it is in one."""
        return None if self._assembly is None else self._assembly.membership

    def connection_count(self) -> int:
        return self.server.connection_count

    @property
    def ready_line(self) -> str:
        listeners = ",".join(f"{e.listener}://{_in_url(e.host)}:{e.port}" for e in self.endpoints)
        line = f"ready broker={self.broker.broker_id} listeners={listeners}"
        return line if self.metrics is None else f"{line} metrics=http://127.0.0.1:{self.metrics.port}/metrics"

    def run(self) -> None:
        """Until `loop.stop()`."""
        self.loop.run()

    def close(self) -> None:
        """A clean shutdown: no new work, everything flushed, the marker written."""
        for endpoint in (self.metrics, self.metrics_door):
            if endpoint is not None:
                endpoint.close()
        if self._has_joined and self._assembly is not None and self._assembly.membership is not None:
            self._leave(self._assembly)
        if self._server is not None:
            self._server.close()
            self.broker.audit.flush()
        if self._schemas is not None:
            self._schemas[0].close()
        self.loop.drop_timers()
        # Commits, flushes and checkpoints that are under way come to their end first. One that finished behind the last
        # checkpoint would put an older recovery point in its place, beside the mark of a clean shutdown.
        if not self.loop.run_until(lambda: self.disk.is_idle, _SETTLE_MS):
            logger.error("event=disk-slow note='waiting for what is under way'")
        self.disk.close()
        if self._assembly is not None:
            self._assembly.close()
        if self._peers is not None:
            self._peers.close()
        self.loop.close()

    def _leave(self, assembly: Assembly) -> None:
        """Others lead what this broker led before it is gone; clients and followers are served until then."""
        if not self.config.bool("controlled.shutdown.enable"):
            return
        left: list[bool] = []
        assembly.leave(lambda: left.append(True))
        if not self.loop.run_until(lambda: bool(left), _LEAVE_MS):
            logger.warning("event=left-without-handover note='some partitions are led from here still'")

    def _give_up(self, why: str) -> None:
        """Every log directory has failed: a restart reads what is really there, going on would pretend."""
        logger.critical("event=giving-up reason=%r", why)
        self.exit_code = 1
        self.loop.stop()

    def _open_metrics(self, port: int) -> None:
        if port < 0:
            return
        try:
            self.metrics = MetricsEndpoint(self, "127.0.0.1", port)
        except OSError as problem:
            raise UserError(
                f"Cannot serve metrics on metrics.port={port}",
                problem.strerror or str(problem),
                "stop what uses the port, or choose another: metrics.port=0 takes a free one",
            ) from problem

    def _open_metrics_door(self, address: str | None) -> None:
        if not address:
            return
        from headwater.server.security.metrics_guard import (  # not for who needs none
            BadDynamicSettings,
            MetricsGuard,
            metrics_address,
        )

        listener = metrics_address(address)
        try:
            guard = MetricsGuard(self.broker, listener, self.loop)
        except BadDynamicSettings as problem:  # they can be mended only while the broker runs
            logger.error(
                "event=metrics-not-served listener=%s reason=%r note='until a restart'", listener, str(problem)
            )
            return
        try:
            self.metrics_door = MetricsEndpoint(self, listener.host, listener.port, guard)
        except OSError as problem:
            raise UserError(f"Cannot serve metrics on {address}", problem.strerror or str(problem)) from problem
        logger.info("event=metrics-served listener=%s port=%d", listener, self.metrics_door.port)

    def _security_of(self, listener: Listener) -> "ListenerSecurity | None":
        if listener.protocol == "PLAINTEXT":
            return None
        from headwater.server.security.listener_security import ListenerSecurity  # not for who needs none

        return ListenerSecurity(self.config, listener, self.broker.image, self.loop, SystemClock().now_ms)

    def _listen(self) -> None:
        advertised = {listener.name: listener for listener in self.config.advertised_listeners()}
        for listener in self.config.listeners():
            try:
                port = self.server.listen(
                    listener.name, listener.host, listener.port, accept=False, security=self._security_of(listener)
                )
            except OSError as problem:
                raise UserError(
                    f"Cannot listen on {listener.name}://{listener.host}:{listener.port}",
                    os.strerror(problem.errno) if problem.errno and problem.errno > 0 else str(problem),
                    "stop what uses the port, or choose another: --set listeners=PLAINTEXT://localhost:0 takes a free one",
                ) from problem
            told = advertised.get(listener.name, listener)
            self.endpoints.append(
                Endpoint(listener.name, told.host or os.uname().nodename, told.port or port, listener.protocol)
            )


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def raise_file_limit() -> None:
    """As many open files as we may have: every connection and every segment in use is one."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
