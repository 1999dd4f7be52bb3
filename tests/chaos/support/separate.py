"""A cluster whose brokers and ZooKeeper have a network namespace each: what is cut there is cut by the kernel.

Clients stay outside and reach the brokers through links (network.py) that are never cut. `running_apart` gives such a
cluster, or one behind the proxy where the machine has no namespaces to give: both take the same cuts.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos.support.cluster import SETTINGS, Cluster, running
from chaos.support.member import Member
from chaos.support.namespaces import Namespaces, NotHere, inside
from chaos.support.network import Network
from headwater.server.zookeeper import process as zookeeper

BROKERS = 3
CLIENT_PORT, INNER_PORT, ZOOKEEPER_PORT = 9092, 9093, 2181
ZOOKEEPER = "z"


def place_of(number: int) -> str:
    return f"b{number}"


class SeparateMember(Member):
    def __init__(self, number: int, directory: Path, network: Network, namespaces: Namespaces) -> None:
        super().__init__(number, directory, network, [])
        address = namespaces.address(place_of(number))
        self._space = namespaces.space(place_of(number))
        self.port = network.link((address, CLIENT_PORT)).port
        self._properties |= {
            "listeners": f"PLAINTEXT://{address}:{CLIENT_PORT},BETWEEN://{address}:{INNER_PORT}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap},BETWEEN://{address}:{INNER_PORT}",
            "zookeeper.connect": f"{namespaces.address(ZOOKEEPER)}:{ZOOKEEPER_PORT}",
        }

    def launch(self, settings: dict[str, str]) -> None:
        with inside(self._space):
            super().launch(settings)


class SeparateCluster(Cluster):
    def __init__(self, directory: Path, namespaces: Namespaces) -> None:
        self.directory = directory
        self.settings = dict(SETTINGS)
        self.network = Network()
        self.namespaces = namespaces
        with inside(namespaces.space(ZOOKEEPER)):
            host = namespaces.address(ZOOKEEPER)
            self.servers = [zookeeper.start(directory / "zookeeper", ZOOKEEPER_PORT, host=host)]
        self.members = {
            number: SeparateMember(number, directory / f"broker-{number}", self.network, namespaces)
            for number in range(1, BROKERS + 1)
        }
        self._paused = set()
        self._cut_off = set()

    def cut_from_zookeeper(self, number: int) -> None:
        self._cut_off.add(number)
        self.namespaces.lose(place_of(number), ZOOKEEPER)
        self.namespaces.lose(ZOOKEEPER, place_of(number))

    def cut_between(self, one: int, other: int) -> None:
        self.cut_way(one, other)
        self.cut_way(other, one)

    def cut_way(self, source: int, target: int) -> None:
        self.namespaces.lose(place_of(source), place_of(target))

    def heal(self) -> None:
        self.namespaces.find_all()
        super().heal()


@contextmanager
def running_apart(directory: Path) -> Iterator[Cluster]:
    """A cluster that serves, with three brokers."""
    try:
        namespaces = Namespaces([ZOOKEEPER, *(place_of(number) for number in range(1, BROKERS + 1))])
    except NotHere as why:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.warn(f"no network namespaces, so the proxy cuts instead: {why}", stacklevel=2)
        with running(directory, BROKERS) as cluster:
            yield cluster
        return
    try:
        cluster = SeparateCluster(directory, namespaces)
        try:
            cluster.start(*cluster.members)
            yield cluster
        finally:
            cluster.close()
    finally:
        namespaces.close()
