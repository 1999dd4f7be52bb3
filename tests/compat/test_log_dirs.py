"""Several log directories: replicas that move between them under load,
and one directory that cannot be used or fails.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient

from compat.support.broker import HeadwaterBroker
from compat.support.failing_disk import FailingBroker, ReadOnlyBroker
from compat.support.java import Java
from compat.support.local_cluster import until
from headwater.client import Admin
from headwater.client.admin.log_dirs import Replica

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
PATIENCE_S = 60

pytestmark = pytest.mark.timeout(400)  # longer than what `until` waits for


class TwoDirectories:
    """A broker with two log directories, and what a test asks of it."""

    def __init__(self, broker: HeadwaterBroker) -> None:
        self.broker = broker
        self.paths = [broker.directory / "a", broker.directory / "b"]
        broker.properties = {
            "log.dirs": ",".join(map(str, self.paths)),
            "log.segment.delete.delay.ms": "0",
            "log.segment.bytes": "1048576",
        }

    def create(self, topic: str, partitions: int = 1) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
            future.result(PATIENCE_S)

    def home(self, topic: str, partition: int = 0) -> Path:
        """Where its log stands now."""
        (path,) = [path for path in self.paths if (path / f"{topic}-{partition}").exists()]
        return path

    def other(self, path: Path) -> Path:
        return next(each for each in self.paths if each != path)

    def described(self) -> dict[str, Any]:
        with Admin({"bootstrap.servers": self.broker.bootstrap}) as admin:
            return {each.path: each for each in admin.describe_log_dirs([0])}

    def read(self, topic: str, count: int, partition: int = 0) -> list[bytes]:
        consumer = Consumer(
            {"bootstrap.servers": self.broker.bootstrap, "group.id": "reader", "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        found: list[bytes] = []
        end = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < end:
            found += [message.value() or b"" for message in consumer.consume(10_000, 0.2) if message.error() is None]
        consumer.close()
        return found

    def produce(self, topic: str, values: list[bytes], partition: int = 0) -> list[KafkaError | None]:
        """What was told of each."""
        return self._told_of(topic, values, partition, {})

    def produce_once(self, topic: str, value: bytes, partition: int) -> KafkaError | None:
        """What was told of it; nothing is tried again, so that a refusal is told soon."""
        settings = {"retries": 0, "message.timeout.ms": 10_000}
        return self._told_of(topic, [value], partition, settings)[0]

    def _told_of(
        self, topic: str, values: list[bytes], partition: int, settings: dict[str, Any]
    ) -> list[KafkaError | None]:
        common = {"bootstrap.servers": self.broker.bootstrap, "acks": "all", "message.timeout.ms": PATIENCE_S * 1000}
        producer = Producer(common | settings)
        told: list[KafkaError | None] = []
        for value in values:
            producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: told.append(error))
        assert producer.flush(2 * PATIENCE_S) == 0
        return told


class Writer:
    """Writes numbers until it is told to stop; every one of them is acknowledged, and in its order."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1})
        self._topic = topic
        self._stop = threading.Event()
        self.acknowledged = 0
        self.count = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            self._producer.produce(self._topic, b"%d" % self.count, partition=0, on_delivery=self._told)
            self.count += 1
            self._producer.poll(0.001)

    def _told(self, error: KafkaError | None, _message: Any) -> None:
        assert error is None, error
        self.acknowledged += 1

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(PATIENCE_S) == 0
        assert self.acknowledged == self.count


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Callable[..., TwoDirectories]]:
    made: list[HeadwaterBroker] = []

    def make(kind: type[HeadwaterBroker] = HeadwaterBroker) -> TwoDirectories:
        broker = kind(tmp_path, {})
        made.append(broker)
        return TwoDirectories(broker)

    yield make
    for broker in made:
        broker.kill()


def plan_for(path: Path, topic: str, target: Path) -> tuple[str, str]:
    moves = [{"topic": topic, "partition": 0, "replicas": [0], "log_dirs": [str(target)]}]
    path.write_text(json.dumps({"version": 1, "partitions": moves}))
    return "--reassignment-json-file", str(path)


def test_kafkas_tool_moves_a_replica_that_is_being_written(
    two: Callable[..., TwoDirectories], java: Java, topic: str, tmp_path: Path
) -> None:
    pair = two()
    pair.broker.start()
    pair.create(topic)
    filler = [b"x" * 1000] * 3000
    assert pair.produce(topic, filler) == [None] * 3000
    source = pair.home(topic)
    target = pair.other(source)
    file = plan_for(tmp_path / "plan.json", topic, target)

    def tool(main: str, *arguments: str) -> str:
        answer = java.tool(main, "--bootstrap-server", pair.broker.bootstrap, *arguments)
        assert answer.status == 0, answer
        return str(answer.stdout)

    def shown() -> list[tuple[bool, bool]]:
        """Of each replica: whether it is a future one, and whether it lags."""
        directories = json.loads(tool(LOG_DIRS, "--describe", "--topic-list", topic).strip().splitlines()[-1])
        found = [p for each in directories["brokers"][0]["logDirs"] for p in each["partitions"]]
        return sorted((p["isFuture"], p["offsetLag"] > 0) for p in found)

    with Writer(pair.broker.bootstrap, topic) as writer:
        started = tool(REASSIGN, "--execute", "--replica-alter-log-dirs-throttle", "10000", *file)
        assert f"log directory to {target} for replica {topic}-0 with broker 0" in started
        assert "is still in progress" in tool(REASSIGN, "--verify", "--preserve-throttles", *file)
        assert shown() == [(False, False), (True, True)]
        tool(REASSIGN, "--execute", "--additional", "--replica-alter-log-dirs-throttle", "1000000000", *file)
        done = f"Reassignment of replica {topic}-0-0 completed successfully."
        until(lambda: done in tool(REASSIGN, "--verify", *file), "the replica has moved")
        assert shown() == [(False, False)]
    assert pair.home(topic) == target
    until(lambda: not list(source.glob(f"{topic}-0*")), "the old one is gone")
    expected = filler + [b"%d" % number for number in range(writer.count)]
    assert pair.read(topic, len(expected)) == expected
    pair.broker.kill()
    pair.broker.start()
    assert pair.read(topic, len(expected)) == expected
    assert pair.home(topic) == target


def test_kafka_python_moves_a_replica(two: Callable[..., TwoDirectories], topic: str) -> None:
    pair = two()
    pair.broker.start()
    pair.create(topic)
    assert pair.produce(topic, [b"1", b"2"]) == [None, None]
    target = pair.other(pair.home(topic))
    client = KafkaAdminClient(bootstrap_servers=pair.broker.bootstrap)
    client.alter_replica_log_dirs({(topic, 0, 0): str(target)})
    client.close()
    until(lambda: (target / f"{topic}-0").exists(), "the replica has moved")
    assert pair.produce(topic, [b"3"]) == [None]
    assert pair.read(topic, 3) == [b"1", b"2", b"3"]


def test_a_move_that_a_kill_cut_short_is_finished(two: Callable[..., TwoDirectories], topic: str) -> None:
    pair = two()
    pair.broker.properties["replica.alter.log.dirs.io.max.bytes.per.second"] = "50000"
    pair.broker.start()
    pair.create(topic)
    values = [b"%d " % number * 100 for number in range(5000)]
    assert pair.produce(topic, values) == [None] * len(values)
    source = pair.home(topic)
    target = pair.other(source)
    with Admin({"bootstrap.servers": pair.broker.bootstrap}) as admin:
        admin.alter_replica_log_dirs({Replica(topic, 0, 0): str(target)})
    until(lambda: bool(list(target.glob("*-future/*.log"))), "copying has begun")
    pair.broker.kill()
    assert (source / f"{topic}-0").exists()
    pair.broker.properties["replica.alter.log.dirs.io.max.bytes.per.second"] = "1000000000"
    pair.broker.start()
    assert pair.produce(topic, [b"after"]) == [None]
    until(lambda: (target / f"{topic}-0").exists(), "it has begun again, and is there")
    assert pair.read(topic, len(values) + 1) == [*values, b"after"]
    until(lambda: not list(source.glob(f"{topic}-0*")) and not list(target.glob("*-future")), "nothing is left")


def test_without_a_read_only_directory_the_broker_goes_on(two: Callable[..., TwoDirectories], topic: str) -> None:
    pair = two(ReadOnlyBroker)
    assert isinstance(pair.broker, ReadOnlyBroker)
    pair.broker.start()
    pair.create(topic, 2)
    for partition in (0, 1):
        assert pair.produce(topic, [b"before"], partition) == [None]
    lost = next(partition for partition in (0, 1) if pair.home(topic, partition) == pair.paths[1])
    pair.broker.stop()

    pair.broker.read_only = pair.paths[1]
    pair.broker.start()
    assert pair.produce(topic, [b"meanwhile"], 1 - lost) == [None]
    error = pair.produce_once(topic, b"lost", lost)
    assert error is not None
    assert not (pair.paths[0] / f"{topic}-{lost}").exists()  # an empty one would have been taken for it
    assert {path: each.error == 0 for path, each in pair.described().items()} == {
        str(pair.paths[0]): True,
        str(pair.paths[1]): False,
    }
    assert pair.broker.log.count("event=log-directory-offline") == 1
    pair.create(f"{topic}.new", 3)
    pair.broker.stop()

    pair.broker.read_only = None
    pair.broker.start()
    assert pair.read(topic, 1, lost) == [b"before"]
    assert pair.read(topic, 2, 1 - lost) == [b"before", b"meanwhile"]


def test_a_directory_that_fails_takes_only_its_own_replicas_offline(
    two: Callable[..., TwoDirectories], topic: str
) -> None:
    pair = two(FailingBroker)
    assert isinstance(pair.broker, FailingBroker)
    pair.broker.failing = pair.paths[1]
    pair.broker.start()
    pair.create(topic, 2)
    for partition in (0, 1):
        assert pair.produce(topic, [b"before"], partition) == [None]
    lost = next(partition for partition in (0, 1) if pair.home(topic, partition) == pair.paths[1])
    pair.broker.fail()
    error = pair.produce_once(topic, b"lost", lost)
    assert error is not None
    assert pair.produce(topic, [b"meanwhile"], 1 - lost) == [None]
    assert pair.read(topic, 1, lost) == [b"before"]  # what is there can be read
    assert {path for path, each in pair.described().items() if each.error != 0} == {str(pair.paths[1])}
    pair.create(f"{topic}.new", 3)
    assert {pair.home(f"{topic}.new", partition) for partition in range(3)} == {pair.paths[0]}
    pair.broker.kill()

    pair.broker.repair()
    pair.broker.start()
    assert pair.produce(topic, [b"after"], lost) == [None]
    assert pair.read(topic, 2, lost) == [b"before", b"after"]
    assert pair.read(topic, 2, 1 - lost) == [b"before", b"meanwhile"]
