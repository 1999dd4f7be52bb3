"""A standalone Connect worker as a process: files to topics and back, offsets across restarts and with Apache's worker,
dead letters, restarts of what failed, and the REST answers beside those of Apache's connect-standalone.
"""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compat.support.java import LIBRARY, Java, classpath, java_command
from compat.support.local_cluster import PATIENCE_S, until
from headwater.base.ids import TopicPartition
from headwater.client import Consumer, Producer
from headwater.connect.runtime.java_map_file import decode, encode
from headwater.server.zookeeper.process import free_ports

CONFIG = Path(__file__).parents[2] / "config"
JSON_CONVERTERS = "key.converter=org.apache.kafka.connect.json.JsonConverter\nvalue.converter=org.apache.kafka.connect.json.JsonConverter\n"


class Door:
    """A worker's REST door."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data is not None else {}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read()
        return status, json.loads(text) if text else None

    def status(self, name: str) -> Any:
        return self.ask("GET", f"/connectors/{name}/status")[1]

    def metric(self, name: str, connector: str = "") -> float | None:
        """Of the worker, or of the first task of a connector; None: there is none."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=PATIENCE_S) as answer:
            text = answer.read().decode()
        labels = rf'\{{connector="{connector}",task="0"\}}' if connector else ""
        found = re.search(rf"^kafka_connect_{name}{labels} (\S+)$", text, re.MULTILINE)
        return None if found is None else float(found[1])

    def states(self, name: str) -> list[str]:
        found = self.status(name)
        return [found["connector"]["state"], *(task["state"] for task in found["tasks"])]


def properties(folder: Path, bootstrap: str, **more: str) -> Path:
    path = folder / "worker.properties"
    lines = {"bootstrap.servers": bootstrap, "offset.storage.file.filename": str(folder / "offsets"), "offset.flush.interval.ms": "100", "listeners": "http://127.0.0.1:0", "task.shutdown.graceful.timeout.ms": "30000", **more}  # fmt: skip
    path.write_text(JSON_CONVERTERS + "".join(f"{name}={value}\n" for name, value in lines.items()))
    return path


@contextmanager
def worker(folder: Path, bootstrap: str, *connectors: Path) -> Iterator[Door]:
    command = [
        sys.executable,
        "-m",
        "headwater.cli.main",
        "connect",
        "run",
        str(properties(folder, bootstrap)),
        *map(str, connectors),
    ]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        try:
            found = re.match(r"ready connect listeners=(http://\S+) ", process.stdout.readline())
            assert found is not None
            yield Door(found[1])
        finally:
            process.terminate()
            assert process.wait(PATIENCE_S) == 0


def read_topic(bootstrap: str, topic: str, count: int) -> list[Any]:
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found: list[Any] = []
        while len(found) < count:
            found += consumer.poll(PATIENCE_S)
        return found


def test_lines_go_to_a_topic_and_from_there_to_a_file_across_restarts(
    tmp_path: Path, broker_address: str, topic: str
) -> None:
    source, sink = tmp_path / "source.properties", tmp_path / "sink.properties"
    source.write_text(f"name={topic}-source\nconnector.class=FileStreamSource\nfile=in.txt\ntopic={topic}\n")
    sink.write_text(f"name={topic}-sink\nconnector.class=FileStreamSink\nfile=out.txt\ntopics={topic}\n")
    out = tmp_path / "out.txt"
    (tmp_path / "in.txt").write_text("foo\nbar\n")
    with worker(tmp_path, broker_address, source, sink) as door:
        until(lambda: out.exists() and out.read_text() == "foo\nbar\n", "both lines are there")
        until(
            lambda: door.ask("GET", f"/connectors/{topic}-sink/offsets")[1]["offsets"] != [],
            "its offsets are committed",
        )
        lag = door.ask("GET", f"/connectors/{topic}-sink/offsets")[1]["offsets"][0]
        assert lag["partition"] == {"kafka_topic": topic, "kafka_partition": 0}
        assert door.metric("worker_task_count") == door.metric("worker_task_startup_success_total") == 2
        assert door.metric("source_task_source_record_write_total", f"{topic}-source") == 2
        assert door.metric("sink_task_sink_record_send_total", f"{topic}-sink") == 2
        assert door.metric("sink_task_partition_count", f"{topic}-sink") == 1
        until(
            lambda: door.metric("sink_task_sink_record_active_count", f"{topic}-sink") == 0,
            "the commit covers all of it",
        )
    with (tmp_path / "in.txt").open("a") as file:
        file.write("last\n")
    with worker(tmp_path, broker_address, source, sink) as door:
        until(lambda: out.read_text() == "foo\nbar\nlast\n", "only the new line is")
        assert door.ask("GET", f"/connectors/{topic}-source/topics")[1] == {f"{topic}-source": {"topics": [topic]}}
    records = read_topic(broker_address, topic, 3)
    assert records[0].value == b'{"schema":{"type":"string","optional":false},"payload":"foo"}'
    assert len(records) == 3


def test_a_connector_is_paused_resumed_stopped_and_set_back(tmp_path: Path, broker_address: str, topic: str) -> None:
    (tmp_path / "in.txt").write_text("a\nb\n")
    config = {
        "connector.class": "FileStreamSource",
        "file": "in.txt",
        "topic": topic,
        "value.converter": "StringConverter",
    }
    with worker(tmp_path, broker_address) as door:
        assert door.ask("POST", "/connectors", {"name": topic, "config": config})[0] == 201
        until(lambda: door.states(topic) == ["RUNNING", "RUNNING"], "it runs")
        read_topic(broker_address, topic, 2)
        assert door.ask("PUT", f"/connectors/{topic}/pause")[0] == 202
        until(lambda: door.states(topic) == ["PAUSED", "PAUSED"], "it is paused")
        assert door.ask("PUT", f"/connectors/{topic}/resume")[0] == 202
        until(lambda: door.states(topic) == ["RUNNING", "RUNNING"], "it runs again")
        assert door.ask("PUT", f"/connectors/{topic}/stop")[0] == 204
        assert door.states(topic) == ["STOPPED"]
        back = {"offsets": [{"partition": {"filename": "in.txt"}, "offset": {"position": 2}}]}
        assert door.ask("PATCH", f"/connectors/{topic}/offsets", back)[0] == 200
        assert door.ask("PUT", f"/connectors/{topic}/resume")[0] == 202
        assert [each.value for each in read_topic(broker_address, topic, 3)] == [b"a", b"b", b"b"]


def test_records_that_cannot_be_taken_go_to_the_dead_letter_topic(
    tmp_path: Path, broker_address: str, topic: str
) -> None:
    with Producer(bootstrap_servers=broker_address) as producer:
        for value in (b'{"a": 1}', b"not json", b'{"a": 2}'):
            producer.send(topic, value, key=b"k")
    config = {
        "connector.class": "FileStreamSink",
        "topics": topic,
        "file": "out.txt",
        "key.converter": "StringConverter",
        "value.converter.schemas.enable": "false",
        "value.converter": "JsonConverter",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{topic}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    with worker(tmp_path, broker_address) as door:
        assert door.ask("POST", "/connectors", {"name": topic, "config": config})[0] == 201
        (dead,) = read_topic(broker_address, f"{topic}-dead", 1)
        assert (dead.key, dead.value) == (b"k", b"not json")
        assert dead.header("__connect.errors.topic") == topic.encode()
        assert dead.header("__connect.errors.offset") == b"1"
        assert dead.header("__connect.errors.stage") == b"VALUE_CONVERTER"
        assert dead.header("__connect.errors.exception.class.name") == b"org.apache.kafka.connect.errors.DataException"
        until(lambda: (tmp_path / "out.txt").read_text() == "{a=1}\n{a=2}\n", "the others are taken")
        assert door.metric("task_error_total_records_skipped", topic) == 1
        assert door.metric("task_error_deadletterqueue_produce_requests", topic) == 1
        assert door.metric("sink_task_sink_record_read_total", topic) == 3
        assert door.metric("sink_task_sink_record_send_total", topic) == 2


def test_a_task_that_failed_is_started_again_and_says_so(tmp_path: Path, broker_address: str, topic: str) -> None:
    (tmp_path / "in.txt").mkdir()  # cannot be read
    config = {
        "connector.class": "FileStreamSource",
        "file": "in.txt",
        "topic": topic,
        "value.converter": "StringConverter",
    }
    with worker(tmp_path, broker_address) as door:
        door.ask("POST", "/connectors", {"name": topic, "config": config})
        door.ask("POST", "/connectors", {"name": f"{topic}-left", "config": {**config, "errors.restart": "false"}})
        until(lambda: door.states(topic) == ["RUNNING", "FAILED"], "it fails")
        until(lambda: door.states(f"{topic}-left") == ["RUNNING", "FAILED"], "both do")
        assert "this task is started again in" in door.status(topic)["tasks"][0]["trace"]
        assert "started again" not in door.status(f"{topic}-left")["tasks"][0]["trace"]
        (tmp_path / "in.txt").rmdir()
        (tmp_path / "in.txt").write_text("a\n")
        assert read_topic(broker_address, topic, 1)[0].value == b"a"
        until(lambda: door.states(topic) == ["RUNNING", "RUNNING"], "it runs by itself")
        assert door.states(f"{topic}-left") == ["RUNNING", "FAILED"]
        assert door.ask("POST", f"/connectors/{topic}-left/restart?includeTasks=true&onlyFailed=true")[0] == 202
        until(lambda: door.states(f"{topic}-left") == ["RUNNING", "RUNNING"], "the other one when it is told to")


def test_a_connector_that_cannot_be_started_ends_the_command_with_a_sentence(tmp_path: Path) -> None:
    bad = tmp_path / "bad.properties"
    bad.write_text("name=bad\nconnector.class=FileStreamSource\n")
    command = [
        sys.executable,
        "-m",
        "headwater.cli.main",
        "connect",
        "run",
        str(properties(tmp_path, "127.0.0.1:1")),
        str(bad),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 1
    assert 'Missing required configuration "topic"' in ended.stderr


# Beside Apache's


def test_the_file_of_offsets_is_apaches(tmp_path: Path) -> None:
    oracle = Java("ConnectOracle")
    try:
        entries = {f'["c",{{"filename":"f{n}"}}]'.encode(): f'{{"position":{n}}}'.encode() for n in range(40)}
        theirs, ours = tmp_path / "theirs", tmp_path / "ours"
        oracle.call("writeOffsets", file=str(theirs), offsets=[[k.hex(), v.hex()] for k, v in entries.items()])
        assert decode(theirs.read_bytes(), "theirs") == entries
        ours.write_bytes(encode(entries))
        read = oracle.call("readOffsets", file=str(ours), keys=[key.hex() for key in entries])
        assert {bytes.fromhex(key): bytes.fromhex(value) for key, value in read.items()} == entries
    finally:
        oracle.close()


@contextmanager
def apache_worker(folder: Path, bootstrap: str) -> Iterator[Door]:
    """Apache's own, from its jars."""
    classpath()  # a skip where there are no jars
    path = properties(folder, bootstrap, **{"plugin.discovery": "service_load", "listeners": "http://127.0.0.1:0"})
    port = free_port()
    path.write_text(path.read_text().replace("http://127.0.0.1:0", f"http://127.0.0.1:{port}"))
    command = [
        *java_command("384m"),
        "-cp",
        f"{LIBRARY}/*",
        "org.apache.kafka.connect.cli.ConnectStandalone",
        str(path),
    ]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    door = Door(f"http://127.0.0.1:{port}")

    def answers() -> bool:
        assert process.poll() is None, "Apache's worker ended"
        try:
            return door.ask("GET", "/connectors/nobody")[1]["error_code"] == 404
        except (OSError, ValueError):  # not yet, or not all of it
            return False

    try:
        until(answers, "Apache's worker answers")
        yield door
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def free_port() -> int:
    """Apache's worker does not tell which one it got for port 0. None of those that the system hands out while its JVM
    starts.
    """
    return free_ports(1)[0]


def calls(topic: str) -> list[tuple[str, str, Any]]:
    source = {"connector.class": "FileStreamSource", "file": "in.txt", "topic": topic}
    sink = {"connector.class": "FileStreamSink", "file": "out.txt", "topics": topic}
    regex = {"connector.class": "FileStreamSink", "file": "out.txt", "topics.regex": f"{topic}.*"}
    cast = {"transforms": "a,a", "transforms.a.type": "org.apache.kafka.connect.transforms.RegexRouter", "transforms.a.regex": "a", "transforms.a.replacement": "b"}  # fmt: skip
    one, two = f"/connectors/{topic}", f"/connectors/{topic}-sink"
    at = {"kafka_topic": topic, "kafka_partition": 0}
    position = [{"partition": {"filename": "in.txt"}, "offset": {"position": 3}}]
    return [
        ("GET", "/connectors", None),
        ("GET", "/connectors/x", None),
        ("GET", "/connectors/x/status", None),
        ("GET", "/connectors/x/offsets", None),
        ("DELETE", "/connectors/x", None),
        ("PUT", "/connectors/x/pause", None),
        ("GET", "/connectors/x/tasks/0/status", None),
        ("GET", "/nope", None),
        ("GET", "/health", None),
        ("POST", "/connectors", {"name": topic, "config": source, "initial_state": "STOPPED"}),
        ("POST", "/connectors", {"name": topic, "config": source}),
        ("POST", "/connectors", {"name": "bad", "config": {"connector.class": "FileStreamSource", "file": "in.txt"}}),
        ("POST", "/connectors", {"name": "bad", "config": {"name": "c", **source}}),
        ("POST", "/connectors", {"name": "bad", "config": {"connector.class": "FileStreamSink"}}),
        ("POST", "/connectors", {"name": " ", "config": source}),
        ("POST", "/connectors", {"name": "a\u0001b", "config": source}),
        ("POST", "/connectors", {"name": "bad", "config": {**source, "offsets.storage.topic": ""}}),
        ("POST", "/connectors", {"name": "bad", "config": {**source, **cast}}),
        ("POST", "/connectors", {"name": "bad", "config": {**sink, "errors.deadletterqueue.topic.name": topic}}),
        (
            "POST",
            "/connectors",
            {"name": "bad", "config": {**regex, "errors.deadletterqueue.topic.name": f"{topic}.x"}},
        ),
        ("GET", one, None),
        ("GET", f"{one}/config", None),
        ("GET", f"{one}/status", None),
        ("GET", f"{one}/tasks", None),
        ("PUT", f"{one}/config", {**source, "name": "z"}),
        ("PUT", f"{one}/config", {**source, "batch.size": "7"}),
        ("PATCH", f"{one}/config", {"batch.size": None}),
        ("PATCH", f"{one}/offsets", {"offsets": []}),
        ("PATCH", f"{one}/offsets", {"offsets": position}),
        ("PATCH", f"{one}/offsets", {"offsets": [{"partition": {"nope": "x"}, "offset": {"position": 3}}]}),
        *(
            ("PATCH", f"{one}/offsets", {"offsets": [{"partition": each, "offset": offset}]})
            for each, offset in OF_A_FILE
        ),
        ("GET", f"{one}/offsets", None),
        ("POST", "/connectors", {"name": f"{topic}-sink", "config": sink, "initial_state": "STOPPED"}),
        *(
            ("PATCH", f"{two}/offsets", {"offsets": [{"partition": {**at, **each}, "offset": offset}]})
            for each, offset in OF_A_SINK
        ),
        ("PATCH", f"{two}/offsets", {"offsets": [{"partition": {"kafka_topic": topic}, "offset": None}]}),
        ("GET", f"{two}/offsets", None),
        ("PATCH", f"{two}/offsets", {"offsets": [{"partition": at}]}),
        ("DELETE", f"{two}/offsets", None),
        ("GET", f"{two}/offsets", None),
        ("DELETE", two, None),
        ("DELETE", f"{one}/offsets", None),
        ("GET", f"{one}/offsets", None),
        ("GET", f"{one}/topics", None),
        ("PUT", f"{one}/topics/reset", None),
        ("GET", "/connectors?expand=info", None),
        ("GET", "/connector-plugins/Nope/config", None),
        ("GET", "/admin/loggers/no.such", None),
        ("PUT", "/admin/loggers/root", {}),
        ("DELETE", one, None),
        ("DELETE", one, None),
    ]


OF_A_FILE: list[tuple[Any, Any]] = [
    ({"filename": "in.txt"}, {"position": -1}),
    ({"filename": "in.txt"}, {"position": "1"}),
    ({"filename": "in.txt"}, {}),
    ({"nope": "in.txt"}, None),
]
OF_A_SINK: list[tuple[Any, Any]] = [
    ({"kafka_partition": "0", "more": 1}, {"kafka_offset": "1", "more": 2}),
    ({"kafka_partition": 0.5}, {"kafka_offset": 1}),
    ({"kafka_partition": True}, {"kafka_offset": 1}),
    ({"kafka_partition": None}, {"kafka_offset": 1}),
    ({"kafka_partition": 1 << 31}, {"kafka_offset": 1}),
    ({"kafka_topic": None}, {"kafka_offset": 1}),
    ({}, {"kafka_offset": 1.5}),
    ({}, {"kafka_offset": None}),
    ({}, {"kafka_offset": 10**20}),
    ({}, {"nope": 1}),
]


def plain(answer: Any) -> Any:
    """Without what differs by nature: versions, addresses, and the reason that ours adds to a sentence of Apache's."""
    if isinstance(answer, dict):
        return {name: plain(each) for name, each in answer.items() if name not in ("version", "worker_id")}
    if isinstance(answer, str):
        return re.sub(r"^(Failed to alter consumer group offsets for connector [^ :]+): .+", r"\1", answer)
    return [plain(each) for each in answer] if isinstance(answer, list | tuple) else answer


def test_rest_answers_are_those_of_apaches_standalone_worker(tmp_path: Path, broker_address: str, topic: str) -> None:
    with Producer(bootstrap_servers=broker_address) as producer:
        producer.send(topic, b"a record, so that the topic is there")
    answers = []
    for number, start in enumerate((apache_worker, worker)):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "in.txt").write_text("foo\nbar\n")
        with start(folder, broker_address) as door:
            answers.append([(method, path, plain(door.ask(method, path, body))) for method, path, body in calls(topic)])
            validated = door.ask("PUT", "/connector-plugins/FileStreamSource/config/validate", VALIDATED)[1]
            answers[-1].append((validated["groups"], _definitions(validated)))
    assert [(theirs, ours) for theirs, ours in zip(*answers, strict=True) if ours != theirs] == []


VALIDATED = {
    "connector.class": "FileStreamSource",
    "name": "q",
    "tasks.max": "2",
    "transforms": "t",
    "transforms.t.type": "RegexRouter",
    "transforms.t.regex": "a",
    "transforms.t.replacement": "b",
}
OURS_ALONE = {"errors.restart", "task.isolation"}
SET_BY_THE_WORKER = {"key.converter", "value.converter", "header.converter"}  # theirs shows the worker's as defaults


def _definitions(answer: dict[str, Any]) -> dict[str, Any]:
    found = {each["definition"]["name"]: each for each in answer["configs"]}
    parts = ("type", "required", "importance", "group")
    return {
        name: ({part: each["definition"][part] for part in parts}, each["value"]["errors"])
        for name, each in found.items()
        if name not in OURS_ALONE | SET_BY_THE_WORKER and not name.endswith("plugin.version")
    }
