"""Brokers on machines of their own, as far as the kernel lets one machine be several: packets are lost between them,
both ways or one way.

Where there are no namespaces to be had, the proxy of the other tests cuts in the same places.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from chaos.support.cluster import Cluster
from chaos.support.namespaces import NAMED_SPACES, Namespaces, NotHere, inside, ip
from chaos.support.processes import WAIT_S
from chaos.support.separate import running_apart
from chaos.support.workload import Workload
from compat.support.members import until

SILENCE_S = 0.5


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_apart(tmp_path_factory.mktemp("apart")) as cluster:
        yield cluster


@pytest.mark.timeout(600)
def test_the_leader_is_cut_off_from_all_other_machines_and_not_from_its_clients(cluster: Cluster, topic: str) -> None:
    """It goes on answering whom it can, and may acknowledge nothing that the others do not have."""
    with Workload(cluster, topic) as workload:
        leader = cluster.leader(topic)
        cluster.cut_from_zookeeper(leader)
        for other in cluster.members:
            if other != leader:
                cluster.cut_between(leader, other)
        cluster.await_leader_other_than(leader, topic)
        workload.await_progress()
        cluster.heal()
        workload.await_progress()
        cluster.await_in_sync(topic)
        workload.finish()


@pytest.mark.timeout(600)
def test_nothing_from_the_leader_reaches_its_followers_while_they_reach_it(cluster: Cluster, topic: str) -> None:
    """It hears that they ask, and they get no answer: so they leave the in-sync replicas, and come back."""
    with Workload(cluster, topic, partitions=1) as workload:
        until(
            lambda: is_unheard(cluster, topic),
            lambda: f"{cluster.views(topic)}\n{cluster.logs()}",
            WAIT_S,
        )
        cluster.heal()
        workload.await_progress()
        cluster.await_in_sync(topic)
        workload.finish()


def is_unheard(cluster: Cluster, topic: str) -> bool:
    """Cuts the way from whoever leads now to the others: on a busy machine another may come to lead."""
    leader, _, in_sync = cluster.describe(topic)[0]
    for other in cluster.members:
        if leader in cluster.members and other != leader:
            cluster.cut_way(leader, other)
    return in_sync == [leader]


@pytest.fixture
def spaces() -> Iterator[Namespaces | None]:
    """None where the machine has none to give: then there is nothing to see to."""
    try:
        namespaces = Namespaces(["a", "b"])
    except NotHere:
        yield None
        return
    yield namespaces
    namespaces.close()


def test_a_lost_way_is_silent_one_way_only_and_found_again(spaces: Namespaces | None) -> None:
    if spaces is None:
        return
    with inside(spaces.space("a")), socket.socket(type=socket.SOCK_DGRAM) as one:
        one.bind((spaces.address("a"), 7000))
        with inside(spaces.space("b")):
            other = socket.socket(type=socket.SOCK_DGRAM)
            other.bind((spaces.address("b"), 7000))
        with other:
            spaces.lose("a", "b")
            other.sendto(b"to a", one.getsockname())
            one.settimeout(WAIT_S)
            assert one.recv(100) == b"to a"
            one.sendto(b"lost", other.getsockname())
            other.settimeout(SILENCE_S)
            with pytest.raises(TimeoutError):
                other.recv(100)
            spaces.find_all()
            one.sendto(b"found", other.getsockname())
            other.settimeout(WAIT_S)
            assert other.recv(100) == b"found"


def test_what_a_killed_process_left_behind_is_removed(spaces: Namespaces | None) -> None:
    if spaces is None:
        return
    script = "import os; from chaos.support.namespaces import Namespaces; print(Namespaces(['a']).space('a'), flush=True); os.kill(os.getpid(), 9)"
    left = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    ).stdout.strip()
    assert left
    assert (NAMED_SPACES / left).exists()
    Namespaces(["c"]).close()
    assert not (NAMED_SPACES / left).exists()
    bridge = left.removesuffix("a")
    assert bridge
    assert bridge not in ip("-o", "link", "show", "type", "bridge")
