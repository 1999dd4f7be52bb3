"""Tasks of connectors of one's own in a worker: errors that are tolerated, puts that are repeated, workers that die;
the commands.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from compat.support.local_cluster import PATIENCE_S, until
from compat.test_connect_standalone import properties, read_topic, worker
from headwater.base.ids import TopicPartition
from headwater.cli.root import run
from headwater.client import Consumer, Producer
from headwater.connect.api import SinkConnector, SinkTask, SourceConnector, SourceTask
from headwater.connect.data.record import SinkRecord, SourceRecord
from headwater.connect.data.schema import STRING
from headwater.connect.errors import RetriableError
from headwater.testing.connect import ConnectWorker


class WordsTask(SourceTask):
    committed: ClassVar[list[Any]] = []

    def start(self, props: Mapping[str, str]) -> None:
        self._words = props["words"].split()
        self._topic = props["topic"]
        at = self.context.offset_reader.offset({})
        self._next = at["next"] if at is not None else 0

    async def poll(self) -> list[SourceRecord] | None:
        found = self._words[self._next :]
        self._next = len(self._words)
        return [
            SourceRecord(
                topic=self._topic, value_schema=STRING, value=word, source_partition={}, source_offset={"next": n}
            )
            for n, word in enumerate(found, self._next - len(found) + 1)
        ]

    def commit_record(self, record: SourceRecord, metadata: Any) -> None:
        self.committed.append((record.topic, record.value, metadata is not None))


class WordsConnector(SourceConnector):
    task_class = WordsTask


class KeepingTask(SinkTask):
    """Refuses the first put; keeps the rest."""

    kept: ClassVar[list[Any]] = []
    refused: ClassVar[threading.Event] = threading.Event()

    async def put(self, records: Sequence[SinkRecord]) -> None:
        if records and not self.refused.is_set():
            self.refused.set()
            self.context.timeout(20)
            raise RetriableError("not now")
        self.kept.extend((record.topic, record.value) for record in records)


class KeepingConnector(SinkConnector):
    task_class = KeepingTask


def test_records_that_a_transform_cannot_take_are_skipped_and_their_offsets_go_on(
    broker_address: str, topic: str
) -> None:
    config = {
        "connector.class": "Words",
        "words": "1 two 3",
        "topic": topic,
        "errors.tolerance": "all",
        "transforms": "number",
        "transforms.number.type": "Cast$Value",
        "transforms.number.spec": "int8",
    }
    with ConnectWorker(broker_address, {"Words": WordsConnector}) as connect:
        connect.create(topic, config)
        assert [each.value for each in read_topic(broker_address, topic, 2)] == [b"1", b"3"]
        connect.until(lambda: connect.herder.read_offsets(topic) == [{"partition": {}, "offset": {"next": 3}}])
        told = sorted(each[1:] for each in WordsTask.committed if each[0] == topic)
        assert told == [("1", True), ("3", True), ("two", False)]


def test_without_tolerance_the_task_fails_and_commits_what_came_before(broker_address: str, topic: str) -> None:
    config = {
        "connector.class": "Words",
        "words": "1 two 3",
        "topic": topic,
        "errors.restart": "false",
        "transforms": "number",
        "transforms.number.type": "Cast$Value",
        "transforms.number.spec": "int8",
    }
    with ConnectWorker(broker_address, {"Words": WordsConnector}) as connect:
        connect.create(topic, config)
        connect.until(lambda: connect.status(topic)["tasks"][0]["state"] == "FAILED")
        assert "Tolerance exceeded in error handler" in connect.status(topic)["tasks"][0]["trace"]
        assert connect.herder.read_offsets(topic) == [{"partition": {}, "offset": {"next": 1}}]


def test_a_put_that_asks_for_it_is_repeated_and_patterns_find_topics(broker_address: str, topic: str) -> None:
    with Producer(bootstrap_servers=broker_address) as producer:
        for number in range(5):
            producer.send(f"{topic}-a", f"v{number}".encode())
    config = {
        "connector.class": "Keeping",
        "topics.regex": f"{topic}-[ab]",
        "transforms": "route",
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": ".*-(.)",
        "transforms.route.replacement": "to-$1",
    }
    with ConnectWorker(broker_address, {"Keeping": KeepingConnector}) as connect:
        connect.create(topic, config)
        connect.until(lambda: len(KeepingTask.kept) >= 5)
        assert KeepingTask.kept == [("to-a", f"v{number}") for number in range(5)]
        assert KeepingTask.refused.is_set()
        here = {"kafka_topic": f"{topic}-a", "kafka_partition": 0}
        expected = [{"partition": here, "offset": {"kafka_offset": 5}}]
        connect.until(lambda: connect.herder.read_offsets(topic) == expected)


def end_of(bootstrap: str, topic: str) -> int:
    here = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        return consumer.end_offsets([here])[here]


def test_a_worker_that_is_killed_loses_no_line(tmp_path: Path, broker_address: str, topic: str) -> None:
    source = tmp_path / "source.properties"
    source.write_text(
        f"name={topic}\nconnector.class=FileStreamSource\nfile=in.txt\ntopic={topic}\nvalue.converter=StringConverter\n"
    )
    lines = tmp_path / "in.txt"
    lines.touch()
    command = [
        sys.executable,
        "-m",
        "headwater.cli.main",
        "connect",
        "run",
        str(properties(tmp_path, broker_address)),
        str(source),
    ]
    written = 0
    for _ in range(2):
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert process.stdout is not None
        with process.stdout:
            assert process.stdout.readline().startswith("ready")
            with lines.open("a") as file:
                file.writelines(f"{number}\n" for number in range(written, written + 500))
            written += 500
            read_topic(broker_address, topic, written - 400)  # in the midst of it
            os.kill(process.pid, signal.SIGKILL)
            process.wait(PATIENCE_S)
    with worker(tmp_path, broker_address, source) as door:
        end = {"offsets": [{"partition": {"filename": "in.txt"}, "offset": {"position": lines.stat().st_size}}]}
        until(lambda: door.ask("GET", f"/connectors/{topic}/offsets")[1] == end, "all is read")
    found = [int(each.value) for each in read_topic(broker_address, topic, end_of(broker_address, topic))]
    assert set(found) == set(range(written))  # some of them twice


def test_stdin_and_stdout(tmp_path: Path, broker_address: str, topic: str) -> None:
    source, sink = tmp_path / "source.properties", tmp_path / "sink.properties"
    strings = "value.converter=StringConverter\n"
    source.write_text(f"name={topic}-in\nconnector.class=FileStreamSource\ntopic={topic}\n{strings}")
    sink.write_text(f"name={topic}-out\nconnector.class=FileStreamSink\ntopics={topic}\n{strings}")
    command = [
        sys.executable,
        "-m",
        "headwater.cli.main",
        "connect",
        "run",
        str(properties(tmp_path, broker_address)),
        str(source),
        str(sink),
    ]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdout, process.stdin:
        try:
            assert process.stdout.readline().startswith("ready")
            process.stdin.write("typed\n")
            process.stdin.flush()
            assert process.stdout.readline() == "typed\n"
        finally:
            process.terminate()
            assert process.wait(PATIENCE_S) == 0


def test_the_commands(tmp_path: Path, broker_address: str, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.properties"
    file.write_text(
        f"name={topic}\nconnector.class=Datagen\ntopic={topic}\nquickstart=users\nmax.interval.ms=0\niterations=3\n"
    )
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps({"name": "bad", "connector.class": "FileStreamSource"}))
    with worker(tmp_path, broker_address) as door:
        at = ["--url", door.url, "-o", "json"]

        def typed(*words: str, code: int = 0) -> Any:
            assert run(["connect", *words, *at]) == code
            out = capsys.readouterr().out
            return json.loads(out) if out else None

        assert typed("validate", str(bad), code=1)["error_count"] == 1
        assert typed("validate", str(file))["error_count"] == 0
        assert typed("create", str(file))["name"] == topic
        assert typed("create", str(file), "--update")["name"] == topic
        assert typed("create", str(file), code=1) is None
        read_topic(broker_address, topic, 3)
        assert [each["connector"] for each in typed("list")] == [topic]
        assert typed("status", topic)["type"] == "source"
        for verb in ("pause", "resume", "stop"):
            typed(verb, topic)
        assert typed("offsets", topic)["offsets"] == [{"partition": {"task.id": "0"}, "offset": {"sequence": 3}}]
        back = {"offsets": [{"partition": {"task.id": "0"}, "offset": {"sequence": 2}}]}
        typed("offsets", topic, "--set", json.dumps(back))
        assert typed("offsets", topic) == back
        typed("offsets", topic, "--reset")
        typed("resume", topic)
        assert typed("restart", topic, "--include-tasks")["name"] == topic
        assert "FileStreamSinkConnector" in json.dumps(typed("plugins"))
        assert [each["name"] for each in typed("plugins", "RegexRouter", "--all")] == ["regex", "replacement"]
        typed("delete", topic)
        assert typed("list") == []
        assert typed("status", topic, code=1) is None
    assert run(["connect", "list", "--url", door.url]) == 1
    assert "No Connect worker answers" in capsys.readouterr().err
