"""Several brokers on one machine as everybody learns it: ZooKeeper, copies of server.properties, Kafka's scripts by
name.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.support.local_cluster import PATIENCE_S, gone, ports_in_a_row, until

pytestmark = pytest.mark.timeout(400)
CONFIG = Path(__file__).parents[2] / "config"
BIN = Path(sys.executable).parent

Run = Callable[..., str]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Run]:
    """`lab("kafka-topics.sh", ...)`: runs a script in a folder that has `config`, and gives its stdout."""
    environment = os.environ | {"HEADWATER_DATA_DIR": str(tmp_path / "home"), "LOG_DIR": str(tmp_path / "logs")}

    def run(script: str, *arguments: str, stdin: str = "", code: int | None = 0) -> str:
        ended = subprocess.run(
            [str(BIN / script), *arguments],
            cwd=tmp_path,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert code is None or ended.returncode == code, (ended.stdout, ended.stderr)
        return ended.stdout

    (tmp_path / "config").mkdir()
    yield run
    run("kafka-server-stop.sh", code=None)
    until(lambda: not list((tmp_path / "home" / "servers").glob("*.json")), "the brokers are gone")
    zookeepers = [int(path.stem) for path in (tmp_path / "home" / "zookeepers").glob("*.json")]
    run("zookeeper-server-stop.sh", code=None)
    until(lambda: all(gone(pid) for pid in zookeepers), "ZooKeeper is gone")


def _copy(tmp_path: Path, source: str, target: str, **changes: str) -> str:
    """`cp` and an editor: a line that sets one of these, or would but for its `#`, is replaced."""
    lines = (CONFIG / source).read_text().splitlines()
    for name, value in changes.items():
        key = name.replace("_", ".")
        at = next(at for at, line in enumerate(lines) if line.lstrip("#").startswith(f"{key}="))
        lines[at] = f"{key}={value}"
    (tmp_path / "config" / target).write_text("\n".join(lines) + "\n")
    return f"config/{target}"


def _pids(tmp_path: Path) -> list[int]:
    return [int(path.stem) for path in (tmp_path / "home" / "servers").glob("*.json")]


def test_three_brokers_from_copies_of_one_file(lab: Run, tmp_path: Path) -> None:
    port = ports_in_a_row(4)
    zookeeper = f"localhost:{port + 3}"
    lab(
        "zookeeper-server-start.sh",
        "-daemon",
        _copy(
            tmp_path, "zookeeper.properties", "zookeeper.properties", dataDir=f"{tmp_path}/zk", clientPort=str(port + 3)
        ),
    )
    for number in range(3):
        name = f"server-{number}.properties" if number else "server.properties"
        changes = {
            "broker_id": str(number),
            "listeners": f"PLAINTEXT://localhost:{port + number}",
            "log_dirs": f"{tmp_path}/kafka-logs-{number}",
            "zookeeper_connect": zookeeper,
        }
        path = _copy(tmp_path, "server.properties", name, **changes)
        lab("kafka-server-start.sh", "-daemon", path, "--override", "zookeeper.session.timeout.ms=15000")
    servers = ["--bootstrap-server", f"localhost:{port}"]
    topic = ["--topic", "the-replicated-topic"]

    create = ["--create", "--replication-factor", "3", "--partitions", "1", *topic]
    assert lab("kafka-topics.sh", *servers, *create) == "Created topic the-replicated-topic.\n"
    describe = [*servers, "--describe", *topic]
    until(lambda: "Leader: " in lab("kafka-topics.sh", *describe, code=None), "the broker knows the topic")
    described = lab("kafka-topics.sh", *describe)
    assert "ReplicationFactor: 3" in described
    replicas = described.split("Replicas: ")[1].split("\t")[0].split(",")
    assert sorted(replicas) == ["0", "1", "2"]

    lab("kafka-console-producer.sh", *servers, *topic, stdin="one\ntwo\n")
    read = ["--from-beginning", "--max-messages", "2", "--timeout-ms", str(PATIENCE_S * 1000)]
    assert lab("kafka-console-consumer.sh", *servers, *topic, *read) == "one\ntwo\n"

    before = _pids(tmp_path)
    assert len(before) == 3
    leader = described.split("Leader: ")[1].split("\t")[0]
    lab("kafka-server-stop.sh", f"--node-id={leader}")
    until(lambda: len(_pids(tmp_path)) == 2, "the leader is gone")
    others = ",".join(f"localhost:{port + number}" for number in range(3) if str(number) != leader)
    assert lab("kafka-console-consumer.sh", "--bootstrap-server", others, *topic, *read) == "one\ntwo\n"

    lab("kafka-server-stop.sh")
    until(lambda: all(gone(pid) for pid in before), "the brokers are gone")
    assert lab("kafka-server-stop.sh", code=1) == "No kafka server to stop\n"
