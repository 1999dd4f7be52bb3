"""`headwater up --brokers 3`: three brokers and a ZooKeeper, what happens when one is killed, and the tools on them."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat.support.java import Java
from compat.support.local_cluster import COMMAND, PATIENCE_S, LocalCluster, gone, until

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("cluster"))
    # Leaders go back to preferred replicas only when a test asks for it.
    assert "Headwater is up: 3 brokers" in cluster.up("--set", "auto.leader.rebalance.enable=false")
    pids = cluster.pids()
    yield cluster
    pids += cluster.pids()
    stopped = cluster.headwater("down", "--timeout", str(PATIENCE_S - 10)).stdout
    assert [line.split(" at ")[0] for line in stopped.splitlines()] == [
        "Stopped broker 1",
        "Stopped broker 2",
        "Stopped broker 3",
        "Stopped ZooKeeper",
    ]
    assert [pid for pid in pids if not gone(pid)] == []
    for number in (1, 2, 3):
        assert (cluster.data_dir / f"broker-{number}" / ".kafka_cleanshutdown").exists()


@pytest.fixture
def cluster(running: LocalCluster) -> LocalCluster:
    """With all replicas in sync, whatever the test before did to it."""
    until(running.is_healthy, f"all in sync\n{running.logs()}")
    return running


def _create(cluster: LocalCluster, topic: str, partitions: int, **more: object) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new = NewTopic(topic, partitions, config={"min.insync.replicas": "2"}, **more)
    for future in admin.create_topics([new]).values():
        future.result(PATIENCE_S)
    for at in range(cluster.count):
        one = AdminClient({"bootstrap.servers": f"localhost:{cluster.port + at}"})
        until(lambda one=one: _is_known(one, topic, partitions), f"broker {at + 1} knows {topic}")  # type: ignore[misc]


def _is_known(admin: AdminClient, topic: str, partitions: int) -> bool:
    found = admin.list_topics(topic, PATIENCE_S).topics[topic].partitions.values()
    return len(found) == partitions and all(each.leader >= 0 for each in found)


def _partitions(cluster: LocalCluster, topic: str) -> Any:
    return json.loads(cluster.headwater("topic", "describe", topic, "-o", "json").stdout)[0]["partitions"]


def _leader(cluster: LocalCluster, topic: str) -> int:
    """Of its first partition; -1 while nobody can tell."""
    described = cluster.headwater("topic", "describe", topic, "-o", "json", code=None)
    return -1 if described.returncode else json.loads(described.stdout)[0]["partitions"][0]["leader"]


def test_status_lists_the_brokers_and_zookeeper(cluster: LocalCluster) -> None:
    status = cluster.status()
    assert [(each["id"], each["port"] - cluster.port, each["ready"]) for each in status["brokers"]] == [
        (1, 0, True),
        (2, 1, True),
        (3, 2, True),
    ]
    assert [each["log_dirs"] for each in status["brokers"]] == [
        [str(cluster.data_dir / f"broker-{number}")] for number in (1, 2, 3)
    ]
    assert status["zookeeper"]["ready"]
    assert not gone(status["zookeeper"]["pid"])
    assert "zookeeper: 127.0.0.1:" in cluster.headwater("status").stdout


def test_a_second_up_on_the_same_directory_says_so(cluster: LocalCluster) -> None:
    assert "Headwater is running already: 3 brokers" in cluster.up()
    result = cluster.headwater("up", "--brokers", "3", code=1)
    assert "Headwater is running already on" in result.stderr


def test_a_killed_broker_is_started_again_and_no_record_is_lost(
    cluster: LocalCluster, require: Callable[[str], None]
) -> None:
    require("kcat")
    _create(cluster, "kept", 3, replication_factor=3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5})
    failures: list[object] = []

    def produce(numbers: range) -> None:
        for number in numbers:
            producer.produce(
                "kept", str(number), on_delivery=lambda error, _: failures.append(error) if error else None
            )
            producer.poll(0)

    produce(range(2000))
    leader = _leader(cluster, "kept")
    before = next(each for each in cluster.status()["brokers"] if each["id"] == leader)
    produce(range(2000, 4000))
    os.kill(before["pid"], signal.SIGKILL)
    produce(range(4000, 6000))

    def is_back() -> bool:
        now = next(each for each in cluster.status()["brokers"] if each["id"] == leader)
        return bool(now["ready"] and now["pid"] != before["pid"] and now["restarts"] > before["restarts"])

    until(is_back, "the broker is started again")
    assert producer.flush(PATIENCE_S) == 0
    assert failures == []
    read = subprocess.run(
        ["kcat", "-C", "-b", cluster.bootstrap, "-t", "kept", "-o", "beginning", "-e", "-q"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert set(map(int, read.stdout.split())) == set(range(6000))
    log = (cluster.data_dir / "logs" / "up.log").read_text()
    assert f"headwater: broker {leader} died (signal SIGKILL); it is started again " in log
    assert f"headwater: broker {leader} is ready again at " in log


def test_partitions_move_with_a_throttle_that_goes_when_they_are_there(cluster: LocalCluster, tmp_path: Path) -> None:
    _create(cluster, "moved", 2, replica_assignment=[[1, 2], [2, 1]])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for number in range(500):
        producer.produce("moved", str(number), partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0
    plan = tmp_path / "plan.json"
    moves = [{"topic": "moved", "partition": at, "replicas": [3, 1]} for at in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    file = ("--reassignment-json-file", str(plan))

    started = cluster.script("reassign_partitions", "--execute", "--throttle", "1000000", *file)
    assert "Successfully started partition reassignments for moved-0,moved-1\n" in started.stdout, started
    assert "The inter-broker throttle limit was set to 1000000 B/s\n" in started.stdout

    done = "Reassignment of partition moved-0 is completed.\nReassignment of partition moved-1 is completed.\n"
    until(lambda: done in cluster.script("reassign_partitions", "--verify", *file).stdout, "the partitions have moved")
    assert cluster.script("reassign_partitions", "--list").stdout == "No partition reassignments found.\n"
    assert [each["replicas"] for each in _partitions(cluster, "moved")] == [[3, 1], [3, 1]]
    for kind, name in (("topics", "moved"), ("brokers", "1"), ("brokers", "3")):
        describe = ("--describe", "--entity-type", kind, "--entity-name", name)
        assert cluster.script("configs", *describe).returncode == 0
        until(
            lambda describe=describe: "throttled" not in cluster.script("configs", *describe).stdout,  # type: ignore[misc]
            f"the throttle of {name} is gone",
        )
    read = cluster.headwater("consume", "moved", "-e").stdout.split()
    assert sorted(map(int, read)) == list(range(500))


def test_the_preferred_leader_leads_again_when_it_is_asked_for(cluster: LocalCluster) -> None:
    _create(cluster, "led", 1, replica_assignment=[[2, 3, 1]])
    before = next(each for each in cluster.status()["brokers"] if each["id"] == 2)
    os.kill(before["pid"], signal.SIGKILL)
    until(lambda: _leader(cluster, "led") in (1, 3), "another leads")
    until(cluster.is_healthy, "all in sync")
    elected = cluster.script("leader_election", "--election-type", "preferred", "--topic", "led", "--partition", "0")
    assert elected.returncode == 0, elected
    assert elected.stdout == "Successfully completed leader election (PREFERRED) for partitions led-0\n"
    until(lambda: _leader(cluster, "led") == 2, "every broker knows")


def test_kafkas_own_tools_move_partitions_and_elect_leaders(cluster: LocalCluster, java: Java, tmp_path: Path) -> None:
    _create(cluster, "watched", 2, replica_assignment=[[1, 2], [2, 1]])
    plan = tmp_path / "plan.json"
    moves = [{"topic": "watched", "partition": at, "replicas": [3, 1]} for at in (0, 1)]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    file = ("--reassignment-json-file", str(plan))

    def theirs(main: str, *arguments: str) -> str:
        answer = java.tool(main, "--bootstrap-server", cluster.bootstrap, *arguments)
        assert answer.status == 0, answer
        return answer.stdout

    tool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    started = theirs(tool, "--execute", "--throttle", "10000000", *file)
    assert "Successfully started partition reassignments for watched-0,watched-1\n" in started
    done = "Reassignment of partition watched-0 is completed.\nReassignment of partition watched-1 is completed.\n"
    until(lambda: done in theirs(tool, "--verify", *file), "the partitions have moved")
    assert cluster.script("reassign_partitions", "--verify", *file).stdout == theirs(tool, "--verify", *file)
    election = ("--election-type", "preferred", "--topic", "watched", "--partition", "1")
    elected = theirs("org.apache.kafka.tools.LeaderElectionCommand", *election)
    assert "for partitions watched-1\n" in elected
    until(lambda: [each["leader"] for each in _partitions(cluster, "watched")][1] == 3, "every broker knows")


def test_a_topic_is_spread_over_all_brokers(cluster: LocalCluster) -> None:
    _create(cluster, "crowded", 6, replica_assignment=[[1, 2]] * 6)
    spread = ("cluster", "reassign", "--to", "all", "-t", "crowded")
    planned = cluster.headwater(*spread)
    assert "Nothing was changed" in planned.stderr
    assert all(sorted(each["replicas"]) == [1, 2] for each in _partitions(cluster, "crowded"))
    cluster.headwater(*spread, "--execute", "--wait")
    replicas = [broker for each in _partitions(cluster, "crowded") for broker in each["replicas"]]
    assert [replicas.count(broker) for broker in (1, 2, 3)] == [4, 4, 4]


def test_ctrl_c_stops_brokers_and_zookeeper(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, count=2)
    command = [*COMMAND, "up", "--no-registry", "--brokers", "2", "--port", str(cluster.port)]
    with subprocess.Popen(
        command, env=cluster.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "Headwater is up: 2 brokers\n", cluster.logs()
        pids = cluster.pids()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, errors) == (0, "")
    assert [pid for pid in pids if not gone(pid)] == []
    assert cluster.status()["brokers"] == []


def test_killed_hard_it_takes_all_with_it_and_comes_back_with_its_records(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, count=2)
    cluster.up()
    _create(cluster, "kept", 1, replication_factor=2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    producer.produce("kept", "before")
    assert producer.flush(PATIENCE_S) == 0
    pids = cluster.pids()
    os.kill(pids[-1], signal.SIGKILL)  # the supervisor
    until(lambda: all(gone(pid) for pid in pids), "nothing is left")
    try:
        cluster.up()
        until(cluster.is_healthy, "all in sync")
        assert cluster.headwater("consume", "kept", "-e").stdout == "before\n"
    finally:
        cluster.headwater("down", "--force")
