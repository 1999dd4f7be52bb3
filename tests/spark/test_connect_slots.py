"""Connector tasks in slots of a Spark query: one worker of a group with one session for all tests here, whose slots are
killed.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compat.support.local_cluster import until
from compat.support.quick import lasting
from compat.test_connect_distributed import WorkerProcess, committed
from compat.test_connect_standalone import Door, properties
from headwater.client import Admin, NewTopic
from headwater.testing import Broker
from spark.support.class_archive import QUICK_JAVA

pytestmark = pytest.mark.spark

CONNECTORS = lasting(8, 30)
PATIENCE_S = 600  # for JVMs that begin on a busy machine
SECRET = "geheim-wie-nichts-sonst"


class Bench:
    """A worker with two slots, a file of secrets, and Spark's event log beside it."""

    def __init__(self, folder: Path, servers: str, java: str = "", master: str = "local[3]", **more: str) -> None:
        self.folder, self.servers = folder, servers
        self.log, self.secrets = folder / "events", folder / "secrets.properties"
        self.log.mkdir()
        self.secrets.write_text(f"password={SECRET}\n")
        settings = {
            "spark.master": master,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{self.log}",
            "spark.eventLog.compress": "false",
            "spark.driver.extraJavaOptions": java,
            "config.providers": "file",
            "config.providers.file.class": "FileConfigProvider",
            "config.providers.file.param.allowed.paths": str(folder),
            "producer.client.id": SECRET,  # of the worker's own properties
            "task.shutdown.graceful.timeout.ms": "60000",
            **more,
        }
        self.worker = WorkerProcess(folder, servers, "slots", **settings)
        self.door = self.worker.door
        self.first_answer = self.door.ask("GET", "/connectors")
        self.first_processes = descendants(self.worker.process.pid)

    def topic(self, name: str, partitions: int = 1) -> str:
        with Admin({"bootstrap.servers": self.servers}) as admin:
            admin.create_topics([NewTopic(name, partitions, 1)])
        return name

    def source(self, name: str, topic: str, lines: list[str], **more: str) -> Path:
        file = self.folder / f"{name}.txt"
        file.write_text("".join(f"{each}\n" for each in lines))
        self.create(name, {"connector.class": "FileStreamSource", "file": str(file), "topic": topic, **more})
        return file

    def create(self, name: str, config: dict[str, str]) -> None:
        code, answer = self.door.ask("POST", "/connectors", {"name": name, "config": config})
        assert code == 201, answer

    def delete(self, *names: str) -> None:
        for name in names:
            assert self.door.ask("DELETE", f"/connectors/{name}")[0] == 204

    def task(self, name: str) -> dict[str, Any]:
        tasks = self.door.ask("GET", f"/connectors/{name}/status")[1].get("tasks") or [{}]
        found: dict[str, Any] = tasks[0]
        return found

    def place(self, name: str) -> tuple[int, int] | None:
        """The slot and its process; None: it does not run."""
        task = self.task(name)
        found = re.fullmatch(r"spark \S+ \S+ slot (\d) \S+:(\d+)", task.get("runs_on", ""))
        return (int(found[1]), int(found[2])) if found is not None and task["state"] == "RUNNING" else None

    def running(self, name: str, but: int = 0) -> tuple[int, int]:
        """Its slot and process when it runs; not in the process `but`."""
        seen: list[tuple[int, int] | None] = []

        def is_there() -> bool:
            seen[:] = [self.place(name)]
            return seen[0] is not None and seen[0][1] != but

        self.until(is_there, lambda: str(self.task(name)))
        assert seen[0] is not None
        return seen[0]

    def until_state(self, name: str, state: str = "RUNNING") -> None:
        self.until(lambda: self.task(name).get("state") == state, lambda: f"{name} is {state}: {self.task(name)}")

    def until(self, condition: Callable[[], object], what: Callable[[], str]) -> None:
        give_up_at = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < give_up_at, what()
            time.sleep(0.2)  # the worker that is asked has other things to do

    def until_there(self, topic: str, lines: list[str]) -> None:
        self.until(
            lambda: len(committed(self.servers, topic)) >= len(lines), lambda: str(committed(self.servers, topic))
        )
        assert sorted(committed(self.servers, topic)) == sorted(lines)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, archived_classes: str) -> Iterator[Bench]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        java = f"{QUICK_JAVA} {archived_classes}".strip()
        bench = Bench(tmp_path_factory.mktemp("slots"), broker.bootstrap_servers, java)
        with bench.worker:
            yield bench


def descendants(pid: int) -> dict[int, str]:
    """Processes below one, with their commands."""
    parents: dict[int, list[int]] = {}
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                stat = (each / "stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(each.name))
    found: dict[int, str] = {}
    new = parents.get(pid, [])
    while new:
        for each in new:
            try:
                found[each] = Path(f"/proc/{each}/comm").read_text().strip()
            except OSError:
                continue
        new = [child for each in new for child in parents.get(each, []) if child not in found]
    return found


def test_the_door_answers_before_there_is_a_jvm_which_begins_with_the_first_connector(bench: Bench) -> None:
    assert bench.first_answer == (200, [])
    assert bench.first_processes == {}
    topic = bench.topic("first")
    bench.source("first", topic, ["a"])
    bench.until_there(topic, ["a"])
    assert "java" in descendants(bench.worker.process.pid).values()
    bench.delete("first")


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_many_connectors_share_two_slots_and_are_paused_stopped_and_restarted(bench: Bench) -> None:
    topic = bench.topic("shared")
    names = [f"shared-{number}" for number in range(CONNECTORS)]
    files = {name: bench.source(name, topic, [f"{name} first"]) for name in names}
    sink = bench.folder / "shared.out"
    bench.create("shared-sink", {"connector.class": "FileStreamSink", "file": str(sink), "topics": topic})
    for name in names:
        bench.until_state(name)
    bench.until_there(topic, [f"{name} first" for name in names])
    bench.until(lambda: len(sink.read_text().splitlines()) == CONNECTORS, sink.read_text)

    def load() -> list[int]:
        slots = [place[0] for name in (*names, "shared-sink") if (place := bench.place(name)) is not None]
        return sorted([slots.count(0), slots.count(1)])

    half = (CONNECTORS + 1) // 2
    bench.until(lambda: load() == [half, CONNECTORS + 1 - half], lambda: str(load()))
    assert bench.task(names[0])["worker_id"] == bench.worker.id
    sent, written = "sink_task_sink_record_send_total", "source_task_source_record_write_total"
    bench.until(lambda: bench.door.metric(sent, "shared-sink") == CONNECTORS, lambda: sent)
    bench.until(lambda: bench.door.metric(written, names[0]) == 1, lambda: written)

    one, other = names[:2]
    assert bench.door.ask("PUT", f"/connectors/{one}/pause")[0] == 202
    bench.until_state(one, "PAUSED")
    for name in (one, other):
        with files[name].open("a") as file:
            file.write(f"{name} second\n")
    bench.until_there(topic, [*(f"{name} first" for name in names), f"{other} second"])
    assert bench.door.ask("PUT", f"/connectors/{one}/resume")[0] == 202
    lines = [*(f"{name} first" for name in names), f"{one} second", f"{other} second"]
    bench.until_there(topic, lines)
    assert bench.door.ask("PUT", f"/connectors/{one}/stop")[0] == 204
    bench.until(lambda: bench.door.status(one)["tasks"] == [], lambda: str(bench.door.status(one)))
    assert bench.door.ask("PUT", f"/connectors/{one}/resume")[0] == 202
    bench.until_state(one)
    assert bench.door.ask("POST", f"/connectors/{other}/restart?includeTasks=true")[0] == 202
    for name in (one, other):
        with files[name].open("a") as file:
            file.write(f"{name} third\n")
    bench.until_there(topic, [*lines, f"{one} third", f"{other} third"])
    bench.delete("shared-sink", *names)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_killed_slot_is_replaced_and_each_line_is_there_once(bench: Bench) -> None:
    topic = bench.topic("killed")
    lines = [f"line {n}" for n in range(500)]
    file = bench.source("killed", topic, lines)
    beside = bench.source("beside", bench.topic("unharmed"), ["a"])
    for turn in range(lasting(2, 20)):
        victim = bench.running("killed")[1]
        more = [f"turn {turn} line {n}" for n in range(200)]
        with file.open("a") as appended:
            appended.write("".join(f"{each}\n" for each in more))
        lines += more
        os.kill(victim, signal.SIGKILL)
        bench.running("killed", but=victim)
        bench.until_there(topic, lines)
    with beside.open("a") as appended:
        appended.write("b\n")
    bench.until_there("unharmed", ["a", "b"])
    bench.delete("killed", "beside")


def test_an_isolated_task_has_a_slot_alone(bench: Bench) -> None:
    topic = bench.topic("alone")
    for name in ("common-1", "common-2"):
        bench.source(name, topic, [name])
        bench.until_state(name)
    bench.source("alone", topic, ["alone"], **{"task.isolation": "slot"})
    bench.until_state("alone")
    bench.source("alone-too", topic, ["alone-too"], **{"task.isolation": "slot"})
    bench.until(
        lambda: bench.task("alone-too").get("runs_on") == "waits for a slot of its own",
        lambda: str(bench.task("alone-too")),
    )

    def slots() -> list[int | None]:
        return [place and place[0] for place in map(bench.place, ("alone", "common-1", "common-2"))]

    bench.until(lambda: slots() in ([0, 1, 1], [1, 0, 0]), lambda: str(slots()))
    bench.delete("alone")
    bench.until_state("alone-too")
    bench.until_there(topic, ["common-1", "common-2", "alone", "alone-too"])
    bench.delete("alone-too", "common-1", "common-2")


def test_secrets_are_resolved_in_the_task_and_are_nowhere_in_spark(bench: Bench) -> None:
    topic = bench.topic("secret")
    transform = {
        "transforms": "hoist,insert",
        "transforms.hoist.type": "HoistField$Value",
        "transforms.hoist.field": "line",
        "transforms.insert.type": "InsertField$Value",
        "transforms.insert.static.field": "with",
        "transforms.insert.static.value": f"${{file:{bench.secrets}:password}}",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    bench.source("secret", topic, ["a"], **transform)
    bench.until_state("secret")
    bench.until_there(topic, [f'{{"line":"a","with":"{SECRET}"}}'])
    told = bench.log.rglob("*")
    texts = [each.read_bytes() for each in told if each.is_file()]
    assert any(b"headwater slots" in text for text in texts), "the log has the query"
    assert not any(SECRET.encode() in text for text in texts)
    bench.delete("secret")


def test_a_worker_alone_has_slots_if_it_is_told_to_and_they_end_when_it_is_killed(
    bench: Bench, tmp_path: Path, archived_classes: str
) -> None:
    topic = bench.topic("alone-worker")
    (tmp_path / "in.txt").write_text("a\nb\n")
    connector = tmp_path / "source.properties"
    connector.write_text(f"name=lines\nconnector.class=FileStreamSource\nfile={tmp_path}/in.txt\ntopic={topic}\n")
    strings = "org.apache.kafka.connect.storage.StringConverter"
    more = {
        "key.converter": strings,
        "value.converter": strings,
        "spark.master": "local[2]",
        "task.slots": "1",
        "spark.driver.extraJavaOptions": f"{QUICK_JAVA} {archived_classes}".strip(),
    }
    worker = properties(tmp_path, bench.servers, **more)
    command = [sys.executable, "-m", "headwater.cli.main", "connect", "run", str(worker), str(connector)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.match(r"ready connect listeners=(http://\S+) ", process.stdout.readline())
            assert found is not None
            door = Door(found[1])
            until(lambda: len(committed(bench.servers, topic)) == 2, "both lines")
            until(lambda: door.ask("GET", "/connectors/lines/offsets")[1]["offsets"] != [], "their offset is written")
            assert door.ask("GET", "/connectors/lines/offsets")[1]["offsets"][0]["offset"] == {"position": 4}
            runs_on = door.status("lines")["tasks"][0]["runs_on"]
            slot = int(runs_on.rpartition(":")[2])
            assert slot in descendants(process.pid)
        finally:
            process.kill()
    until(lambda: not Path(f"/proc/{slot}").exists(), "the slot ends")
