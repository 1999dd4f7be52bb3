"""`headwater stream` and `kafka-streams-application-reset`, beside Apache's own reset tool."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compat.support.java import Java
from compat.support.streams_results import PARTITIONS, Results, send_words
from headwater.cli.kafka.streams_application_reset import script
from headwater.cli.root import run
from headwater.cli.stream_files import load_app
from headwater.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from headwater.streams.query import connect
from headwater.testing import Broker

APP = """
from headwater.streams import App

app = App("counter", brokers={brokers!r}, key="text", value="text")
words = app.stream("words").select_key(lambda _, word: word)
words.group_by_key().count(store="counts").to_stream().to("counts")
"""
WORDS = ["a", "b", "a"]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("words", PARTITIONS, 1), NewTopic("counts", PARTITIONS, 1)])
        yield broker


@pytest.fixture
def app(broker: Broker, tmp_path: Path) -> Path:
    path = tmp_path / "counter.py"
    path.write_text(APP.format(brokers=broker.bootstrap_servers))
    return path


class Tail:
    """The committed records of a topic, from its first one."""

    def __init__(self, broker: Broker, topic: str, partitions: int) -> None:
        self._consumer = Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            allow_auto_create_topics=True,
        )
        self._consumer.assign([TopicPartition(topic, index) for index in range(partitions)])

    def read(self, count: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < count:
            found += self._consumer.poll(1.0)
        return found

    def __enter__(self) -> "Tail":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


class _Running:
    """A verb of `headwater stream` as a process, which prints a line when it is ready."""

    def __init__(self, process: "subprocess.Popen[str]", line: str) -> None:
        self.process = process
        self.line = line


@contextmanager
def _process(*arguments: str, killed: bool = False) -> Iterator[_Running]:
    code = "from headwater.cli.main import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "stream", *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("ready application=counter")
            yield _Running(process, line)
            process.send_signal(signal.SIGTERM)
            assert process.wait() == (-signal.SIGKILL if killed else 0)
        finally:
            process.kill()


def _run_until(app: Path, results: Results, total: int) -> None:
    with _process("run", str(app), "--state-dir", str(app.parent / "state")) as running:
        assert running.line == "ready application=counter tasks=4\n"
        results.until(total)


def _words(text: str) -> list[list[str]]:
    """Line by line; Apache's tool prints sets in no order."""
    return sorted(
        sorted(line.replace(",", " ").replace("[", " ").replace("]", " ").split()) for line in text.splitlines()
    )


def test_an_application_runs_and_is_reset(
    broker: Broker, app: Path, java: Java, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["stream", "describe", str(app)]) == 0
    assert "Sink: KSTREAM-SINK" in capsys.readouterr().out
    arguments = [
        "--bootstrap-server",
        broker.bootstrap_servers,
        "--application-id",
        "counter",
        "--input-topics",
        "words",
    ]
    results = Results(broker)
    try:
        send_words(broker, WORDS)
        _run_until(app, results, 3)
        theirs = java.tool("StreamsResetter", *arguments, "--dry-run")
        assert script([*arguments, "--dry-run"]) == theirs.status == 0
        assert _words(capsys.readouterr().out) == _words(theirs.stdout)
        assert script(arguments) == 0
        _run_until(app, results, 6)
        assert run(["stream", "reset", str(app), "-o", "json"]) == 0
        capsys.readouterr()
        _run_until(app, results, 9)
        assert java.tool("StreamsResetter", *arguments).status == 0
        _run_until(app, results, 12)
        assert results.counts == {"a": [1, 2] * 4, "b": [1] * 4}
    finally:
        results.close()


def test_queries_are_answered_by_the_run_and_by_a_process_beside_it(app: Path, broker: Broker) -> None:
    state = str(app.parent / "state")
    send_words(broker, WORDS)
    results = Results(broker)
    with _process("run", str(app), "--state-dir", state, "--queries", "0") as running:
        results.until(3)
        send_words(broker, ["a"])
        results.until(4)  # of a later commit: the ones before are saved
        seen = ({"a": 2, "b": 1}, {"a": 3, "b": 1})  # the last commit is saved now, or in a moment
        assert _asked(running.line) in seen
        with _process("serve", str(app), "--state-dir", state) as serving:
            assert _asked(serving.line) in seen
    with _process("serve", str(app), "--state-dir", state) as serving:
        assert _asked(serving.line) == {"a": 3, "b": 1}  # a clean stop commits everything
    results.close()


def _asked(line: str) -> dict[str, int]:
    """All counts, by the address and the secret that a `ready` line names."""
    words = dict(word.split("=", 1) for word in line.split()[1:])
    path = Path(words["token-file"])
    assert path.stat().st_mode & 0o077 == 0
    with connect(words["queries"], path.read_text().strip()) as application:
        counts = application.store("counts")
        assert counts.count() == len(counts.all())
        return {row["key"]: row["value"] for row in counts.all()}


FRAGILE = """
from headwater.streams import App

app = App("fragile", brokers={brokers!r}, key="text", value="text", on_error="dead_letter")
app.stream("words").map_values(lambda word: word if {accepts} else int(word)).to("counts", value="text")
"""


def test_dead_letters_are_listed_and_replayed(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "fragile.py"
    path.write_text(FRAGILE.format(brokers=broker.bootstrap_servers, accepts="word < 'x'"))
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for word in ("a", "x", "z"):
            producer.send("words", word.encode(), key=b"k", partition=1, headers=[("h", b"1")], timestamp_ms=77)
    with Tail(broker, "fragile-dead-letters", 1) as letters, load_app(path).run_here(state_dir=tmp_path / "state"):
        assert [record.value for record in letters.read(2)] == [b"x", b"z"]
    where = ["--bootstrap-server", broker.bootstrap_servers]
    assert run(["stream", "dlq", "list", str(path), "-o", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(each["key"], each["topic"], each["source_partition"], each["timestamp"]) for each in listed] == [
        ("k", "words", 1, 77)
    ] * 2
    assert run(["stream", "dlq", "show", "fragile", "--message", "'z'", *where]) == 0
    shown = capsys.readouterr().out
    assert "ValueError" in shown
    assert "Traceback" in shown
    assert "10: 'x'" not in shown
    assert run(["stream", "dlq", "replay", "fragile", "--dry-run", *where]) == 0
    assert run(["stream", "dlq", "replay", "fragile-dead-letters", "--at", f"0:{listed[1]['offset']}", *where]) == 0
    assert "is written to words-1" in capsys.readouterr().out
    with Tail(broker, "words", PARTITIONS) as words:
        again = words.read(4)[-1]
        assert (again.partition, again.key, again.value, again.timestamp_ms) == (1, b"k", b"z", 77)
        assert again.headers == (("h", b"1"),)
    path.write_text(FRAGILE.format(brokers=broker.bootstrap_servers, accepts="True"))
    with Tail(broker, "counts", PARTITIONS) as counts, load_app(path).run_here(state_dir=tmp_path / "state"):
        assert [record.value for record in counts.read(2)] == [b"a", b"z"]
    assert run(["stream", "dlq", "list", "nobody", *where]) == 1


def test_an_application_that_runs_is_not_reset(broker: Broker, app: Path, tmp_path: Path) -> None:
    with load_app(app).run_here(state_dir=tmp_path / "state"):
        assert run(["stream", "reset", str(app)]) == 1
        arguments = ["--bootstrap-server", broker.bootstrap_servers, "--application-id", "counter"]
        assert script([*arguments, "--input-topics", "words"]) == 1


def _status(state: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run(["stream", "status", "counter", "--state-dir", str(state), "-o", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_run_tells_its_status_and_one_that_was_killed_is_said_not_to_run(
    app: Path, broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    state, results = app.parent / "state", Results(broker)
    try:
        with _process("run", str(app), "--state-dir", str(state)) as running:
            send_words(broker, WORDS)
            results.until(3)
            give_up_at = time.monotonic() + 120
            found = _status(state, capsys)
            while [task["lag"] for task in found["tasks"]] != [0] * 4 or found["records"] < 6:
                assert time.monotonic() < give_up_at, found  # notes are a moment behind
                time.sleep(0.1)
                found = _status(state, capsys)
            assert found["state"] == "running"
            assert found["slots"][0]["tasks"] == ["0_0", "0_1", "1_0", "1_1"]
            assert found["process"].endswith(f":{running.process.pid}")
            read = {each["topic"]: each["position"] for task in found["tasks"][:2] for each in task["inputs"]}
            assert read == {"words": 1}  # of the second partition; the first has two
            assert run(["stream", "list", "--state-dir", str(state)]) == 0
            listed = capsys.readouterr().out.splitlines()[1].split()
            assert listed == ["counter", "running", "4", "1", "0", found["process"]]
        assert run(["stream", "status", str(app), "--state-dir", str(state)]) == 1
        assert "The application counter does not run" in capsys.readouterr().err
        with _process("run", str(app), "--state-dir", str(state), killed=True) as running:
            assert [task["restored_records"] for task in _status(state, capsys)["tasks"]] == [0] * 4  # it is all there
            running.process.kill()
        assert run(["stream", "status", "counter", "--state-dir", str(state)]) == 1
        assert "has ended without a word" in capsys.readouterr().err
        assert run(["stream", "list", "--state-dir", str(state)]) == 0
        assert capsys.readouterr().out.splitlines()[1].split() == ["counter", "not", "running", "-", "-", "-", "-"]
    finally:
        results.close()
