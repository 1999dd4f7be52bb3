"""`headwater stream reprocess` against a broker: version 2 beside version 1 while it runs, compared, and switched."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.cli.root import run
from headwater.cli.stream_files import load_app
from headwater.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from headwater.streams.protocol.task_ownership import Replaced
from headwater.testing import Broker

VERSION = """
from headwater.streams import App

app = App({name!r}, brokers={brokers!r}, key="text", value="text")
words = app.stream("words").filter(lambda word: {rule}).select_key(lambda _, word: word)
words.group_by_key().count(store="counts").to_stream().map_values(str).to("totals", value="text")
"""
PARTITIONS = 2


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("words", PARTITIONS, 1), NewTopic("totals", PARTITIONS, 1)])
        yield broker


class Totals:
    """The output as its readers see it: the latest value of each key."""

    def __init__(self, broker: Broker) -> None:
        self._consumer = Consumer(
            bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        self._consumer.assign([TopicPartition("totals", index) for index in range(PARTITIONS)])
        self.now: dict[str, str] = {}

    def until(self, expected: dict[str, str]) -> None:
        while self.now != expected:
            for record in self._consumer.poll(1.0):
                if record.value is None:
                    self.now.pop(record.key.decode(), None)
                else:
                    self.now[record.key.decode()] = record.value.decode()

    def close(self) -> None:
        self._consumer.close()


def _send(broker: Broker, *words: str) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for word in words:
            producer.send("words", word.encode())


def _reprocess(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(["stream", "reprocess", *arguments, "-o", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["outputs"]
    return {name: found[name] for name in ("equal", "changed", "missing", "added")}


def test_version_2_is_compared_and_takes_the_place_of_version_1(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "one.py", tmp_path / "two.py"
    one.write_text(VERSION.format(name="counter", brokers=broker.bootstrap_servers, rule="word != 'b'"))
    two.write_text(VERSION.format(name="counter-v2", brokers=broker.bootstrap_servers, rule="word != 'c'"))
    state = ["--state-dir", str(tmp_path / "state")]
    totals = Totals(broker)
    _send(broker, "a", "b", "c", "a")
    first = load_app(one).run_here(state_dir=tmp_path / "first")
    totals.until({"a": "2", "c": "1"})
    different = {"equal": 1, "changed": 0, "missing": 1, "added": 1}
    assert _reprocess(capsys, str(two), "--beside", "counter", *state) == different
    assert first.running  # beside it, nobody was disturbed
    _send(broker, "a")
    totals.until({"a": "3", "c": "1"})
    assert (
        run(["stream", "reprocess", str(two), "--beside", str(one), "--switch", "--max-differences", "1", *state]) == 1
    )
    assert first.running
    assert _reprocess(capsys, str(two), "--beside", str(one), "--switch", *state) == different
    totals.until({"a": "3", "b": "1"})
    with pytest.raises(Replaced):
        first.wait()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert not [topic.name for topic in admin.list_topics() if topic.name.endswith("-shadow")]
    with load_app(two).run_here(state_dir=tmp_path / "state"):  # goes on where the shadow was
        _send(broker, "a", "b")
        totals.until({"a": "4", "b": "2"})
    assert run(["stream", "reprocess", str(two), "--beside", str(one), *state]) == 1  # it is no shadow any more
    assert "reset" in capsys.readouterr().err
    totals.close()
