"""An application goes on where the same one in Java stopped, and the reverse: topics, changelogs and offsets are Kafka
Streams' own.
"""

import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.support.dice import dice as throw_dice
from compat.support.java import classpath, java_command
from compat.support.streams_counter import make_app
from compat.support.streams_results import PARTITIONS, Results, send_words
from headwater.client import Admin, ConfigResource, KafkaError, NewTopic, ResourceType
from headwater.streams.slot.offset_metadata import decode_metadata
from headwater.streams.topics.plan import plan_topics
from headwater.testing import Broker

WORDS = ["a", "b", "c", "d"]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("words", PARTITIONS, 1), NewTopic("counts", PARTITIONS, 1)])
        yield broker


@contextmanager
def _java(broker: Broker, state: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Ends well with the block, unless it was killed."""
    command = [*java_command("384m"), "-cp", classpath(), "StreamsCount", broker.bootstrap_servers, str(state)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
        if process.poll() == -signal.SIGKILL:
            return
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 0
    finally:
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _configs(broker: Broker, topic: str) -> dict[str, str | None]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = admin.describe_configs([resource])[resource]
        assert not isinstance(found, KafkaError)
        return {entry.name: entry.value for entry in found if not entry.is_default}


def test_java_and_python_take_turns_in_one_application(broker: Broker, tmp_path: Path) -> None:
    results = Results(broker)
    try:
        with _java(broker, tmp_path / "java"):
            send_words(broker, WORDS * 10)
            results.until(40)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            committed = admin.list_group_offsets("counter")
        assert all(decode_metadata(each.metadata).partition_time > 0 for each in committed.values())
        app = make_app(broker.bootstrap_servers)
        ours = plan_topics(app.name, app.topology(), {"words": PARTITIONS}).internal
        assert {topic.name: dict(topic.config) for topic in ours} == {
            topic.name: _configs(broker, topic.name) for topic in ours
        }
        with app.run_here(state_dir=tmp_path / "python", commit_interval_ms=20):
            send_words(broker, WORDS * 5)
            results.until(60)
        with _java(broker, tmp_path / "java-again"):
            send_words(broker, WORDS * 2)
            results.until(68)
        assert results.counts == {word: list(range(1, 18)) for word in WORDS}
    finally:
        results.close()


@pytest.mark.soak(only=True)
@pytest.mark.timeout(3600)
def test_a_java_application_is_exact_though_it_and_its_broker_are_killed(broker: Broker, tmp_path: Path) -> None:
    """Of Kafka Streams alone, exactly once v2: our broker fences, aborts and commits for it."""
    dice, words, results = throw_dice(), list[str](), Results(broker)
    try:
        for number in range(8):
            with _java(broker, tmp_path / "java") as process:
                for _ in range(2):
                    more = dice.choices(WORDS, k=200)
                    send_words(broker, more)
                    results.until(len(words) + dice.randrange(1, 200))
                    words += more
                    if number % 2:
                        broker.kill()
                        broker.start()
                    results.until(len(words) - dice.randrange(1, 100))
                process.kill()
                process.wait()
        with _java(broker, tmp_path / "java"):
            results.until(len(words))
        assert results.counts == {word: list(range(1, n + 1)) for word, n in Counter(words).items()}
    finally:
        results.close()
