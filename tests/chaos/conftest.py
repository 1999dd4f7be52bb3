"""Clusters for the tests of what happens when parts of them fail. One cluster serves a file; each test has its own
topic.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.support.cluster import Cluster, running

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mine = item.path.is_relative_to(Path(__file__).parent)
        if mine and item.get_closest_marker("timeout") is None:  # long rounds say how long they are
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="module")
def shared_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A file may say how many BROKERS and ZooKeeper SERVERS it wants."""
    brokers, servers = getattr(request.module, "BROKERS", 3), getattr(request.module, "SERVERS", 1)
    with running(tmp_path_factory.mktemp("cluster"), brokers, servers) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """All brokers run and all links are whole, also after a test that failed in the middle."""
    yield shared_cluster
    shared_cluster.heal()
    shared_cluster.start_servers()
    shared_cluster.start(*(number for number, member in shared_cluster.members.items() if member.process is None))


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses. The topic does not exist yet."""
    name = request.node.originalname.removeprefix("test_")[:60]
    return f"{name}.{next(_numbers)}"
