"""Distributed Connect workers as processes: a group that shares connectors and takes over from workers that are killed
or asleep, exactly once; and the topics of an Apache Connect, taken over and given back.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

from compat.support.java import LIBRARY, classpath, java_command
from compat.support.local_cluster import PATIENCE_S, until
from compat.test_connect_standalone import Door, calls, free_port, plain
from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.client import Admin, Consumer

SEED = int(os.environ.get("HEADWATER_CHAOS_SEED", "1"))
ROUNDS = 30 if os.environ.get("HEADWATER_SOAK") else 2
QUICK = {
    "session.timeout.ms": "6000",  # the least that brokers allow
    "heartbeat.interval.ms": "300",
    "scheduled.rebalance.max.delay.ms": "0",
    "consumer.session.timeout.ms": "6000",  # of sinks, whose groups wait for the dead too
    "consumer.heartbeat.interval.ms": "300",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
}


class WorkerProcess:
    def __init__(self, folder: Path, bootstrap: str, group: str, **more: str) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "listeners": "http://127.0.0.1:0",
            **QUICK,
            **more,
        }
        sets = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        command = [sys.executable, "-m", "headwater.cli.main", "connect", "worker", *sets]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        with self.process.stdout:
            line = self.process.stdout.readline()
        found = re.match(r"ready connect listeners=(http://(\S+)) ", line)
        assert found is not None, line
        self.door, self.id = Door(found[1]), found[2]

    def __enter__(self) -> "WorkerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            assert self.process.wait(PATIENCE_S) == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)


def committed(bootstrap: str, topic: str) -> list[str]:
    """All that a reader of committed records sees."""
    settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    with Consumer(settings) as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        found: list[str] = []
        while consumer.position(partition) < end:
            found += [(each.value or b"").decode() for each in consumer.poll(1.0)]
        return found


def runs(door: Door, name: str) -> bool:
    status, found = door.ask("GET", f"/connectors/{name}/status")
    return (
        status == 200 and [found["connector"]["state"], *(each["state"] for each in found["tasks"])] == ["RUNNING"] * 2
    )


def owner(door: Door, name: str) -> str:
    return str(door.status(name)["tasks"][0]["worker_id"])


def test_lines_are_copied_once_though_workers_are_killed_and_sent_to_sleep(
    tmp_path: Path, broker_address: str, topic: str
) -> None:
    dice = Random(SEED)
    print(f"HEADWATER_CHAOS_SEED={SEED}")
    lines, number = [f"line {n}" for n in range(50)], 50
    file, out = tmp_path / "in.txt", tmp_path / "out.txt"
    file.write_text("".join(f"{each}\n" for each in lines))
    with ExitStack() as held:
        workers = [held.enter_context(WorkerProcess(tmp_path, broker_address, topic)) for _ in range(2)]
        source = {
            "connector.class": "FileStreamSource",
            "file": str(file),
            "topic": topic,
            "exactly.once.support": "required",
        }
        sink = {"connector.class": "FileStreamSink", "file": str(out), "topics": topic}
        assert workers[0].door.ask("POST", "/connectors", {"name": f"{topic}-in", "config": source})[0] == 201
        assert workers[1].door.ask("POST", "/connectors", {"name": f"{topic}-out", "config": sink})[0] == 201
        for turn in range(ROUNDS):
            for each in workers:
                until(lambda door=each.door: runs(door, f"{topic}-in") and runs(door, f"{topic}-out"), "all runs")
            running = owner(workers[0].door, f"{topic}-in")
            victim = next(each for each in workers if each.id == running)
            more = [f"line {n}" for n in range(number, number + dice.randint(1, 200))]
            number += len(more)
            lines.extend(more)
            with file.open("a") as appended:
                appended.write("".join(f"{each}\n" for each in more))
            asleep = turn % 2 == 1
            victim.process.send_signal(signal.SIGSTOP) if asleep else victim.kill()
            other = next(each for each in workers if each is not victim)
            until(
                lambda door=other.door, was=victim.id: runs(door, f"{topic}-in") and owner(door, f"{topic}-in") != was,
                "it runs elsewhere",
            )
            until(lambda: committed(broker_address, topic) == lines, "every line is there, once")
            if asleep:
                lines.append(f"awake {turn}")
                with file.open("a") as appended:
                    appended.write(f"awake {turn}\n")
                victim.process.send_signal(signal.SIGCONT)  # it goes on to write, and is fenced
                until(lambda door=victim.door: runs(door, f"{topic}-in"), "it is of the group again")
                until(lambda: committed(broker_address, topic) == lines, "what it had in its hands is not there twice")
            else:
                workers.remove(victim)
                workers.append(held.enter_context(WorkerProcess(tmp_path, broker_address, topic)))
        until(lambda: set(out.read_text().splitlines()) >= set(lines), "and all lines are in the other file")
        assert committed(broker_address, topic) == lines


def test_every_call_works_on_every_worker(tmp_path: Path, broker_address: str, topic: str) -> None:
    (tmp_path / "in.txt").write_text("a\nb\n")
    with (
        WorkerProcess(tmp_path, broker_address, topic) as first,
        WorkerProcess(tmp_path, broker_address, topic) as second,
    ):
        _every_call(first.door, second.door, topic)
        _every_call(second.door, first.door, topic)
        assert (first.door.metric("worker_rebalance_completed_rebalances_total") or 0) >= 2
        epoch = "worker_rebalance_epoch"
        until(lambda: first.door.metric(epoch) == second.door.metric(epoch), "both know the same generation")


def test_a_connector_with_an_offsets_topic_of_its_own(tmp_path: Path, broker_address: str, topic: str) -> None:
    (tmp_path / "in.txt").write_text("a\nb\n")
    own, one = f"{topic}-own", f"/connectors/{topic}"
    config = {"connector.class": "FileStreamSource", "file": "in.txt", "topic": topic, "offsets.storage.topic": own}
    at_4 = {"offsets": [{"partition": {"filename": "in.txt"}, "offset": {"position": 4}}]}
    with WorkerProcess(tmp_path, broker_address, topic) as worker:
        assert worker.door.ask("POST", "/connectors", {"name": topic, "config": config})[0] == 201
        until(lambda: worker.door.ask("GET", f"{one}/offsets")[1] == at_4, "both lines are read")
    assert '{"position":4}' in "".join(all_values(broker_address, own))
    with WorkerProcess(tmp_path, broker_address, topic) as worker:
        _append(tmp_path / "in.txt", "c")
        until(lambda: committed(broker_address, topic) == ["a", "b", "c"], "it goes on where the topic of its own says")
        without = {name: value for name, value in config.items() if name != "offsets.storage.topic"}
        until(lambda: worker.door.ask("PUT", f"{one}/config", without)[0] == 200, "the group is settled")
        _append(tmp_path / "in.txt", "d")
        until(lambda: committed(broker_address, topic) == ["a", "b", "c", "d"], "the worker's topic has a copy")


def all_values(bootstrap: str, topic: str) -> list[str]:
    with Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}) as consumer, Admin({"bootstrap.servers": bootstrap}) as admin:  # fmt: skip
        partitions = [TopicPartition(topic, each.partition) for each in admin.describe_topic(topic).partitions]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found: list[str] = []
        while any(consumer.position(each) < end for each, end in ends.items()):
            found += [(each.value or b"").decode() for each in consumer.poll(1.0)]
        return found


def _every_call(door: Door, other: Door, topic: str) -> None:
    config = {"connector.class": "FileStreamSource", "file": "in.txt", "topic": topic}
    one = f"/connectors/{topic}"
    status, made = door.ask("POST", "/connectors", {"name": topic, "config": config, "initial_state": "PAUSED"})
    assert (status, made["type"]) == (201, "source")
    assert other.ask("POST", "/connectors", {"name": topic, "config": config})[0] == 409
    assert door.ask("POST", "/connectors", {"name": topic, "config": {}})[0] in (400, 409)
    until(lambda: other.ask("GET", "/connectors")[1] == [topic], "the other knows it")
    until(lambda: _states(other, topic) == ["PAUSED", "PAUSED"], "it waits")
    assert other.ask("PUT", f"{one}/resume")[0] == 202
    until(lambda: _states(door, topic) == ["RUNNING", "RUNNING"], "it runs")
    position = {"partition": {"filename": "in.txt"}, "offset": {"position": 4}}
    until(lambda: other.ask("GET", f"{one}/offsets")[1] == {"offsets": [position]}, "both lines are read")
    assert door.ask("GET", f"{one}/topics")[1] == {topic: {"topics": [topic]}}
    assert door.ask("POST", f"{one}/tasks/0/restart")[0] == 204
    assert other.ask("POST", f"{one}/tasks/0/restart")[0] == 204
    status, plan = other.ask("POST", f"{one}/restart?includeTasks=true")
    assert (status, plan["tasks"][0]["state"]) == (202, "RESTARTING")
    assert other.ask("PATCH", f"{one}/config", {"batch.size": "7"})[1]["config"]["batch.size"] == "7"
    until(lambda: _task_config(door, topic).get("batch.size") == "7", "its task has it too")
    assert other.ask("DELETE", f"{one}/offsets")[0] == 400
    assert other.ask("PUT", f"{one}/stop")[0] == 204
    until(lambda: _states(door, topic) == ["STOPPED"], "it has stopped")
    assert other.ask("PATCH", f"{one}/offsets", {"offsets": [{**position, "offset": {"position": 2}}]})[0] == 200
    assert door.ask("GET", f"{one}/offsets")[1]["offsets"][0]["offset"] == {"position": 2}
    assert door.ask("DELETE", f"{one}/offsets")[0] == 200
    assert other.ask("GET", f"{one}/offsets")[1] == {"offsets": []}
    assert other.ask("PUT", "/admin/loggers/headwater.some?scope=cluster", {"level": "ERROR"})[0] == 204
    until(lambda: door.ask("GET", "/admin/loggers/headwater.some")[1].get("level") == "ERROR", "all have it")
    assert other.ask("DELETE", one)[0] == 204
    until(lambda: door.ask("GET", one)[0] == 404, "it is gone")
    until(lambda: door.ask("GET", f"{one}/status")[0] == 404, "and so is its status")
    assert other.ask("PUT", f"{one}/fence", [])[0] == 400  # no signature
    assert other.ask("PUT", f"{one}/pause")[0] == 404


def _states(door: Door, name: str) -> list[str]:
    status, found = door.ask("GET", f"/connectors/{name}/status")
    return [found["connector"]["state"], *(each["state"] for each in found["tasks"])] if status == 200 else []


def _task_config(door: Door, name: str) -> dict[str, str]:
    found: Any = door.ask("GET", f"/connectors/{name}/tasks")[1]
    return dict(found[0]["config"]) if found else {}


# Beside Apache's


@contextmanager
def apache_worker(folder: Path, bootstrap: str, group: str) -> Iterator[Door]:
    classpath()  # a skip where there are no jars
    port = free_port()
    topics = {
        f"{kind}.storage.topic": f"{group}-{named}"
        for kind, named in (("config", "configs"), ("offset", "offsets"), ("status", "status"))
    }
    replicas = {f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")}
    settings = {
        **QUICK,
        **topics,
        **replicas,
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "listeners": f"http://127.0.0.1:{port}",
        "exactly.once.source.support": "enabled",
        "plugin.discovery": "service_load",
    }
    path = folder / "apache.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    command = [*java_command("384m"), "-cp", f"{LIBRARY}/*", main, str(path)]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    door = Door(f"http://127.0.0.1:{port}")

    def answers() -> bool:
        assert process.poll() is None, "Apache's worker ended"
        try:
            return door.ask("GET", "/connectors/nobody")[1]["error_code"] == 404
        except (OSError, ValueError):
            return False

    try:
        until(answers, "Apache's worker answers")
        yield door
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def test_the_topics_of_apaches_workers_are_taken_over_and_given_back(
    tmp_path: Path, broker_address: str, topic: str
) -> None:
    file = tmp_path / "in.txt"
    file.write_text("ours\n")
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}
    paused = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out.txt"), "topics": "none"}
    with WorkerProcess(tmp_path, broker_address, topic) as worker:
        assert worker.door.ask("POST", "/connectors", {"name": "kept", "config": config})[0] == 201
        status, _ = worker.door.ask(
            "POST", "/connectors", {"name": "waits", "config": paused, "initial_state": "STOPPED"}
        )
        assert status == 201
        until(lambda: committed_if_there(broker_address, topic) == ["ours"], "ours has copied")
    _append(file, "apache's")
    with apache_worker(tmp_path, broker_address, topic) as door:
        until(lambda: runs(door, "kept"), "Apache's runs it")
        assert door.ask("GET", "/connectors/kept/config")[1] == {**config, "name": "kept"}
        until(lambda: _states(door, "waits") == ["STOPPED"], "and leaves the other stopped")
        until(lambda: committed(broker_address, topic) == ["ours", "apache's"], "it goes on where ours was")
        assert door.ask("PUT", "/connectors/kept/config", {**config, "batch.size": "9"})[0] == 200
        _refused(tmp_path, broker_address, topic)
        theirs = _answers(door, f"{topic}-rest")
        until(
            lambda: runs(door, "kept") and _task_config(door, "kept").get("batch.size") == "9", "it has its new config"
        )
    _append(file, "ours again")
    with WorkerProcess(tmp_path, broker_address, topic) as worker:
        until(lambda: runs(worker.door, "kept"), "ours runs it again")
        assert worker.door.ask("GET", "/connectors/kept/config")[1] == {**config, "batch.size": "9", "name": "kept"}
        assert sorted(worker.door.ask("GET", "/connectors")[1]) == ["kept", "waits"]
        until(
            lambda: committed(broker_address, topic) == ["ours", "apache's", "ours again"], "every line is there, once"
        )
        assert _answers(worker.door, f"{topic}-rest") == theirs


def _answers(door: Door, name: str) -> list[Any]:
    """To every call there is, about a connector that is made stopped, and about one that is not there."""
    found = []
    for method, path, body in calls(name):
        if path == f"/connectors/{name}/status":
            until(lambda: _states(door, name) == ["STOPPED"], "its status is told")
        if body is not None or (not path.startswith("/connectors?") and path != "/connectors"):  # others are in these
            found.append((method, path, plain(_settled(door, method, path, body))))
    return found


def _settled(door: Door, method: str, path: str, body: Any) -> tuple[int, Any]:
    """Apache's worker does nothing while its group is about to be balanced, and says so."""
    answers: list[tuple[int, Any]] = []

    def is_settled() -> bool:
        answers.append(door.ask(method, path, body))
        status, answer = answers[-1]
        return status != 409 or "rebalance" not in answer["message"]

    until(is_settled, f"{method} {path} is done")
    return answers[-1]


def _append(file: Path, line: str) -> None:
    with file.open("a") as appended:
        appended.write(f"{line}\n")


def committed_if_there(bootstrap: str, topic: str) -> list[str]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        if isinstance(admin.describe_topics([topic])[topic], KafkaError):
            return []
    return committed(bootstrap, topic)


def _refused(folder: Path, bootstrap: str, group: str) -> None:
    """A group has workers of one kind."""
    sets = [
        "--set",
        f"bootstrap.servers={bootstrap}",
        "--set",
        f"group.id={group}",
        "--set",
        "listeners=http://127.0.0.1:0",
    ]
    command = [sys.executable, "-m", "headwater.cli.main", "connect", "worker", *sets]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 1
    assert "does not take this worker" in ended.stderr
