"""A cluster of real processes: an ensemble of ZooKeeper servers, Headwater brokers, and links between them that can be
cut.

Brokers reach ZooKeeper and each other through links (network.py); clients reach them directly. Every broker keeps its
ports and its directory over its lives. All processes end with the context, and with the process that made them, however
that ends.
"""

import signal
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from chaos.support import asking
from chaos.support.asking import State
from chaos.support.member import Member
from chaos.support.network import EVERYONE, Network
from chaos.support.processes import WAIT_S
from compat.support.members import until
from compat.support.quick import QUICK
from headwater.base.errors import ErrorCode
from headwater.server.zookeeper import process as zookeeper

SESSION_MS = 4000  # shorter, and brokers lose theirs for want of a processor; ZooKeeper allows twenty ticks, 5000
MADE = {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}
TRY_AGAIN = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.INVALID_REPLICATION_FACTOR,  # a broker has just lost its session, and is about to have another
}
SETTINGS = QUICK | {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "zookeeper.connection.timeout.ms": str(WAIT_S * 1000),
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BETWEEN:PLAINTEXT",
    "inter.broker.listener.name": "BETWEEN",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.backoff.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}


class Cluster:
    """Made by `running`. Numbers of brokers begin with 1."""

    listener = "PLAINTEXT"  # that of clients
    client_settings: dict[str, str] = {}  # noqa: RUF012  # how librdkafka logs in there

    def __init__(self, directory: Path, brokers: int, servers: int, settings: dict[str, str]) -> None:
        self.directory = directory
        self.settings = SETTINGS | settings
        self.network = Network()
        addresses = self._start_servers(directory / "zookeeper", servers)
        self.members = {
            number: Member(number, directory / f"broker-{number}", self.network, addresses, self.listener)
            for number in range(1, brokers + 1)
        }
        self._paused: set[int] = set()
        self._cut_off: set[int] = set()

    @property
    def bootstrap(self) -> str:
        return ",".join(member.bootstrap for member in self.members.values())

    # Lives of brokers

    def start(self, *numbers: int) -> None:
        """Together; returns when they are ready, and every broker that is well knows of them: the controller among
        these.
        """
        self.launch(*numbers)
        for number in numbers:
            self.members[number].wait_until_ready()
        if numbers:
            until(lambda: self._are_known(numbers), lambda: f"{numbers} are not known\n{self.logs()}", WAIT_S)

    def launch(self, *numbers: int) -> None:
        for number in numbers:
            self.members[number].launch(self.settings)

    def kill(self, *numbers: int) -> None:
        for number in numbers:
            self._paused.discard(number)
            self.members[number].end(signal.SIGKILL)

    def stop(self, number: int) -> None:
        """A clean end; its status is 0."""
        status = self.members[number].end(signal.SIGTERM)
        assert status == 0, f"broker {number} ended with {status}; its log ends:\n{self.members[number].log[-4000:]}"

    def pause(self, number: int) -> None:
        self.members[number].send(signal.SIGSTOP)
        self._paused.add(number)

    def resume(self, number: int) -> None:
        self._paused.discard(number)
        self.members[number].send(signal.SIGCONT)

    # Links

    def cut_from_zookeeper(self, number: int) -> None:
        self._cut_off.add(number)
        for link in self.members[number].to_zookeeper:
            link.cut()

    def cut_between(self, one: int, other: int) -> None:
        """Neither reaches the other; both reach the rest."""
        self.members[one].inward.cut(self.members[other].name)
        self.members[other].inward.cut(self.members[one].name)

    def cut_way(self, source: int, target: int) -> None:
        """What the one sends does not reach the other. A proxy carries whole connections, and of those none does
        without answers.
        """
        self.cut_between(source, target)

    def heal(self) -> None:
        """Every link, and every broker that stands still."""
        for member in self.members.values():
            for link in (member.inward, *member.to_zookeeper):
                for who in (EVERYONE, *(other.name for other in self.members.values())):
                    link.heal(who)
        self._cut_off.clear()
        for number in list(self._paused):
            self.resume(number)

    # The ensemble

    def _start_servers(self, directory: Path, count: int) -> list[tuple[str, int]]:
        """Where they serve."""
        self.servers = (
            [zookeeper.start(directory, zookeeper.free_ports(1)[0])]
            if count == 1
            else zookeeper.start_ensemble(directory, count)
        )
        return [(server.host, server.port) for server in self.servers]

    def kill_server(self, index: int) -> None:
        self.servers[index].kill()

    def start_servers(self) -> None:
        """Those that do not run, on their directories and ports; all serve on return."""
        for index, server in enumerate(self.servers):
            if not server.is_alive:
                self.servers[index] = _start_again(server)
        zookeeper.await_servers(self.servers)

    # What clients are told

    def well(self) -> list[int]:
        """Those that run, do not stand still, and reach ZooKeeper: what they say is not old."""
        alive = [number for number, member in self.members.items() if member.is_alive]
        return [number for number in alive if number not in self._paused | self._cut_off]

    def _port(self, number: int = 0) -> "int | asking.Door":
        """Of one broker, or of one that is well; or how it is reached."""
        return self.members[number or self.well()[0]].port

    def make_topic(self, name: str, partitions: int, *, through: int = 0, replicas: int = 3, **config: str) -> None:
        """Through one broker, if that is given. Returns when all partitions have leaders and all replicas are in sync.

        Asks until it is there: a controller that loses its session in the middle, or has just come, may not know
        whether it is.
        """
        settings = {key.replace("_", "."): value for key, value in config.items()}

        def is_made() -> bool:
            with suppress(ConnectionError):
                code = ErrorCode(asking.create_topic(self._port(through), name, partitions, replicas, settings))
                assert code in MADE or code in TRY_AGAIN, code
                return code in MADE
            return False

        until(is_made, lambda: f"{name} cannot be made\n{self.logs()}", WAIT_S)
        self.await_in_sync(name, replicas)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Waits for one that lives."""
        return until(lambda: self._leader(topic, partition), f"{topic}-{partition} has no leader", WAIT_S)

    def _leader(self, topic: str, partition: int) -> int:
        found = self.describe(topic).get(partition)
        return found[0] if found is not None and found[0] > 0 and self.members[found[0]].is_alive else 0

    def await_leader_other_than(self, old: int, topic: str, partition: int = 0) -> int:
        return until(
            lambda: (new := self._leader(topic, partition)) != old and new,
            lambda: f"{topic}-{partition} is led by {old} still: {self.views(topic)}\n{self.logs()}",
            WAIT_S,
        )

    def controller(self) -> int:
        def found() -> int:
            number = asking.metadata(self._port()).controller_id
            return number if number in self.members and self.members[number].is_alive else 0

        return until(found, "there is no controller", WAIT_S)

    def describe(self, topic: str, number: int = 0) -> dict[int, State]:
        """Leader, replicas and in-sync replicas of each partition, as a broker sees it now."""
        return asking.describe(self._port(number), topic)

    def views(self, topic: str) -> dict[int, dict[int, State]]:
        """The same, as each broker that is well sees it."""
        return {number: self.describe(topic, number) for number in self.well()}

    def _are_known(self, numbers: Collection[int]) -> bool:
        views = (asking.metadata(self._port(number)).brokers for number in self.well())
        return all({broker.node_id for broker in view}.issuperset(numbers) for view in views)

    def await_in_sync(self, topic: str, replicas: int = 3) -> None:
        """Every living broker sees leaders, and that all replicas are in sync."""

        def are() -> bool:
            views = self.views(topic).values()
            return all(
                view and all(one[0] > 0 and len(set(one[2])) == replicas for one in view.values()) for view in views
            )

        until(are, lambda: f"{topic} is not in sync: {self.views(topic)}\n{self.logs()}", WAIT_S)

    def logs(self) -> str:
        return "\n".join(f"broker {number}:\n{member.log[-6000:]}" for number, member in self.members.items())

    def close(self) -> None:
        for member in self.members.values():
            member.end(signal.SIGKILL)
            member.let_ports_go()
        for server in self.servers:
            server.kill()
        self.network.close()


@contextmanager
def running(directory: Path, brokers: int = 3, servers: int = 1, **settings: str) -> Iterator[Cluster]:
    """A cluster that serves; names of settings with underscores for dots."""
    with started(
        Cluster(directory, brokers, servers, {name.replace("_", "."): value for name, value in settings.items()})
    ) as cluster:
        yield cluster


C = TypeVar("C", bound=Cluster)


@contextmanager
def started(cluster: C) -> Iterator[C]:
    try:
        cluster.start(*cluster.members)
        yield cluster
    finally:
        cluster.close()


def _start_again(server: zookeeper.ZooKeeperProcess) -> zookeeper.ZooKeeperProcess:
    members, number = _members(server.data_dir / "zoo.cfg"), 0
    if members:
        number = int((server.data_dir / "myid").read_text())
    return zookeeper.start(server.data_dir, server.port, number=number, members=members, is_awaited=False)


def _members(configuration: Path) -> list[zookeeper.Member]:
    """The ensemble as a server's own configuration has it."""
    members = []
    for line in configuration.read_text().splitlines():
        name, _, value = line.partition("=")
        if name.startswith("server."):
            host, peer_port, election_port = value.split(":")
            members.append(
                zookeeper.Member(int(name.removeprefix("server.")), host, int(peer_port), int(election_port))
            )
    return members
