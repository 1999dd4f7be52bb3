"""Clusters of three brokers on this machine, each a process of its own: Headwater with a ZooKeeper, Apache Kafka with
its own quorum.

Both run with their defaults but for addresses, directories, three replicas of the internal topics, and no leaders that
move back by themselves in the middle of a measurement. With a session, both take a broker for gone after that time.
Everything that was started is ended with the context: killed, for nobody needs its files, and the last of a quorum
would wait a minute for the others.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from confluent_kafka.admin import AdminClient

from bench.brokers import (
    STOP_TIMEOUT_S,
    _first_line,
    _wait_for_port,
    apache_command,
    cpu_seconds,
    die_with_parent,
    format_directory,
    memory_mb,
)
from bench.requests import Broken, Calls
from headwater.server.zookeeper import process as zookeepers

BROKERS = 3
REPLICATED = (
    f"offsets.topic.replication.factor={BROKERS}",
    f"transaction.state.log.replication.factor={BROKERS}",
    "transaction.state.log.min.isr=2",
    "auto.leader.rebalance.enable=false",
)


@dataclass
class Member:
    """One broker: how to start it, and its process while it runs."""

    number: int
    port: int
    directory: Path
    command: list[str]
    process: "subprocess.Popen[str] | None" = None

    def start(self) -> float:
        """Milliseconds until it serves."""
        began = self.launch()
        self.wait_until_ready(began)
        return (time.perf_counter() - began) * 1e3

    def launch(self) -> float:
        """Without waiting for it; when it began."""
        self.directory.mkdir(parents=True, exist_ok=True)
        began = time.perf_counter()
        is_ours = "headwater" in self.command[0]
        with self.directory.with_suffix(".output").open("ab") as output:
            said = subprocess.PIPE if is_ours else output
            self.process = subprocess.Popen(
                self.command, stdout=said, stderr=output, text=True, preexec_fn=die_with_parent
            )
        return began

    def wait_until_ready(self, began: float) -> None:
        assert self.process is not None
        if self.process.stdout is None:
            _wait_for_port(self.port, self.process, self.directory)
        elif not _first_line(self.process, began).startswith("ready "):
            raise Broken(f"broker {self.number} did not get ready: {self._tail()}")

    def end(self, number: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(number)
        try:
            process.communicate(timeout=STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def signal(self, number: signal.Signals) -> None:
        """Without waiting for what comes of it."""
        assert self.process is not None
        self.process.send_signal(number)

    def _tail(self) -> str:
        return self.directory.with_suffix(".output").read_text(errors="replace")[-1000:]


@dataclass
class Cluster:
    name: str
    members: list[Member] = field(default_factory=list)
    helpers: list[int] = field(default_factory=list)  # pids that belong to it besides the brokers

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{member.port}" for member in self.members)

    def member(self, number: int) -> Member:
        return next(member for member in self.members if member.number == number)

    def controller(self) -> int:
        """The number of the broker that is the controller now."""
        live = [member for member in self.members if member.process is not None]
        if self.helpers:  # of Headwater: the metadata names it, where Apache Kafka names any broker
            admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
            return int(admin.list_topics(timeout=30).controller_id)
        with Calls(live[0].port) as calls:
            return calls.quorum_leader()

    @property
    def pids(self) -> list[int]:
        return [member.process.pid for member in self.members if member.process is not None]

    def memory_mb(self) -> float:
        return sum(memory_mb(pid) for pid in self.pids + self.helpers)

    def cpu_seconds(self) -> float:
        return sum(cpu_seconds(pid) for pid in self.pids + self.helpers)


class StartCluster(Protocol):
    def __call__(
        self, directory: Path, session_ms: int | None = None
    ) -> contextlib.AbstractContextManager[Cluster]: ...


@contextlib.contextmanager
def headwater_cluster(directory: Path, session_ms: int | None = None) -> Iterator[Cluster]:
    zookeeper_port, *ports = zookeepers.free_ports(1 + BROKERS)
    zookeeper = zookeepers.start(directory / "zookeeper", zookeeper_port, dies_with_parent=True)
    session = () if session_ms is None else (f"zookeeper.session.timeout.ms={session_ms}",)
    try:
        cluster = Cluster("headwater", helpers=[zookeeper.pid])
        for number, port in enumerate(ports, 1):
            command = [str(Path(sys.executable).with_name("headwater")), "broker", "start"]
            home = directory / f"broker-{number}"
            for setting in (
                f"broker.id={number}",
                f"listeners=PLAINTEXT://127.0.0.1:{port}",
                f"log.dirs={home}",
                f"zookeeper.connect=127.0.0.1:{zookeeper.port}",
                *session,
                *REPLICATED,
            ):
                command += ["--set", setting]
            cluster.members.append(Member(number, port, home, command))
        with _running(cluster):
            yield cluster
    finally:
        zookeeper.stop()


@contextlib.contextmanager
def apache_cluster(directory: Path, session_ms: int | None = None) -> Iterator[Cluster]:
    free = zookeepers.free_ports(2 * BROKERS)
    ports, controllers = free[:BROKERS], free[BROKERS:]
    session: tuple[str, ...] = ()
    if session_ms is not None:
        session = (f"broker.session.timeout.ms={session_ms}", f"broker.heartbeat.interval.ms={session_ms // 3}")
    voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers, 1))
    cluster = Cluster("Apache Kafka")
    directory.mkdir(parents=True, exist_ok=True)
    for number, (port, controller) in enumerate(zip(ports, controllers, strict=True), 1):
        home = directory / f"broker-{number}"
        properties = directory / f"server-{number}.properties"
        settings = (
            "process.roles=broker,controller",
            f"node.id={number}",
            f"controller.quorum.voters={voters}",
            "controller.listener.names=CONTROLLER",
            f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}",
            f"log.dirs={home}",
            *session,
            *REPLICATED,
        )
        properties.write_text("\n".join(settings) + "\n")
        format_directory(properties, directory / "format.output")
        cluster.members.append(Member(number, port, home, apache_command(properties)))
    with _running(cluster):
        yield cluster


@contextlib.contextmanager
def _running(cluster: Cluster) -> Iterator[None]:
    try:
        began = [member.launch() for member in cluster.members]  # most of a quorum must be there before one is ready
        for member, at in zip(cluster.members, began, strict=True):
            member.wait_until_ready(at)
        yield
    finally:
        for member in cluster.members:
            member.end(signal.SIGKILL)
        for member in cluster.members:
            shutil.rmtree(member.directory, ignore_errors=True)
        os.sync()
