"""Clients that go on while a cluster suffers, and tell a history what they were told: writers, readers, a watch on
committed offsets.

`Workload` has them all on one topic. Its `finish` waits until everything sent is acknowledged and everything
acknowledged was read, until all replicas are in sync, and then holds the whole story against the history: by a last
reading, and by the files of every replica.
"""

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from chaos.support.cluster import Cluster
from chaos.support.history import Batch, History
from chaos.support.locked_up import Watched
from chaos.support.processes import WAIT_S
from compat.support.members import until
from compat.support.quick import lasting
from headwater.records.reader import read_batches

QUIET = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}
FATAL_FOR_READERS = {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION}
STEPS_KEPT = 60
PACE_S = lasting(0.006, 0.010)  # what is written while a test waits is most of what a test of a cluster costs


class Client(threading.Thread):
    """A thread that does its work in `step` until it is told to stop; what it raised is raised again by `stop`."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._must_stop = threading.Event()
        self._problem: BaseException | None = None
        self._is_lost = False

    def step(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        """The last thing that the thread does."""

    def run(self) -> None:
        try:
            while not self._must_stop.is_set():
                self.step()
        except BaseException as problem:  # noqa: BLE001
            self._problem = problem
        finally:
            self.end()

    def stop(self) -> None:
        self.give_up()
        if self._problem is not None:
            raise self._problem

    def tell(self, *, is_lost: bool) -> None:
        """To stop. `is_lost`: the test has failed, and nothing is worth waiting for, or its message would come after
        its time limit.
        """
        self._is_lost = self._is_lost or is_lost
        self._must_stop.set()

    def give_up(self) -> None:
        self.tell(is_lost=False)
        self.join()


class Steps(logging.Handler):
    """What librdkafka tells of its producer id, epochs and sequences. Where it takes a new epoch although a batch has
    no answer, a record may stand twice, and only it knows why it did.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=STEPS_KEPT)
        self.logger = logging.Logger(name, logging.DEBUG)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(f"{time.strftime('%H:%M:%S', time.gmtime(record.created))} {record.getMessage()}")

    def told(self) -> str:
        return f"{self.logger.name}:\n" + "\n".join(self._lines)


class Writer(Client):
    """An idempotent producer with acks=all, round robin over the partitions, until `stop`, which waits for every
    answer.
    """

    def __init__(self, name: str, bootstrap: str, topic: str, partitions: int, history: History, **config: Any) -> None:
        super().__init__(name)
        settings = {"linger.ms": 1, "enable.idempotence": True, "acks": "all", "retry.backoff.ms": 50}
        patience = {
            "message.timeout.ms": WAIT_S * 2000,
            "request.timeout.ms": 2000,
            "socket.timeout.ms": 10_000,
            "socket.connection.setup.timeout.ms": 5000,
        }
        steps = Steps(name)
        self.steps: Steps | None = steps
        about = {"debug": "eos", "log_level": 7, "logger": steps.logger}
        self._producer = Producer({"bootstrap.servers": bootstrap, **settings, **patience, **QUIET, **about, **config})
        self._topic, self._partitions, self._history = topic, partitions, history
        self._numbers = itertools.count()
        self.sent = 0
        self.last_acknowledged = -1  # the highest number
        self.refused: list[tuple[bytes, KafkaError]] = []
        self.acknowledged = 0

    def step(self) -> None:
        number = next(self._numbers)
        self.sent = number + 1
        value = f"{self.name}/{number}".encode()
        partition = number % self._partitions
        self._history.sent(self.name, value)

        def told(error: KafkaError | None, message: Any, value: bytes = value, partition: int = partition) -> None:
            if error is not None:
                self.refused.append((value, error))
            else:
                self.acknowledged += 1
                self.last_acknowledged = max(number, self.last_acknowledged)
                self._history.acknowledged(partition, message.offset(), value)

        while True:
            try:
                self._producer.produce(self._topic, value, partition=partition, on_delivery=told)
                break
            except BufferError:
                self._producer.poll(0.1)
                if self._must_stop.is_set():
                    break
        self._producer.poll(PACE_S)
        time.sleep(PACE_S)

    def end(self) -> None:
        if self._problem is None:
            deadline = time.monotonic() + WAIT_S
            while len(self._producer) and not self._is_lost and time.monotonic() < deadline:
                self._producer.flush(1)

    def stop(self) -> None:
        super().stop()
        assert len(self._producer) == 0, f"{len(self._producer)} records of {self.name} have no answer"
        assert not self.refused, f"{len(self.refused)} records were refused, first {self.refused[0]}"


class Reader(Client):
    """Reads every partition from the beginning. With a group it is a member that commits; else it is assigned
    everything.

    One commit is under way at a time: librdkafka would send those that failed again after later ones, and so commit
    less.
    """

    def __init__(
        self, name: str, bootstrap: str, topic: str, partitions: int, history: History, group: str = "", **config: Any
    ) -> None:
        super().__init__(name)
        self._history = history
        self._is_member = bool(group)
        self.next_offsets = dict.fromkeys(range(partitions), 0)
        self.problems: list[str] = []
        self._given_now: list[int] = []  # partitions, while it waits for records
        membership: dict[str, Any] = {"session.timeout.ms": 3000, "heartbeat.interval.ms": 300} if group else {}
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group or name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest" if group else "error",
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 50,
            **membership,
            **QUIET,
            **config,
        }
        self._watched: Watched | None = Watched(lambda: Consumer(settings))
        self._consumer = self._watched.consumer
        if group:
            self._consumer.subscribe([topic], on_assign=self._assigned)
        else:
            places = [TopicPartition(topic, partition, 0) for partition in range(partitions)]
            self._consumer.assign(places)
            self._assigned(self._consumer, places)

    def _assigned(self, _consumer: Any, places: list[Any]) -> None:
        for place in places:
            self._history.assigned(self.name, place.partition)
            self._given_now.append(place.partition)

    def step(self) -> None:
        """What `consume` gives when partitions were given out anew meanwhile may be of before or after that: nobody can
        tell.
        """
        self._given_now.clear()
        messages = self._consumer.consume(500, 0.1)
        given_now = set(self._given_now)
        for message in messages:
            error = message.error()
            if error is None:
                self._history.read(self.name, message.partition(), message.offset(), message.value())
                if message.partition() in given_now:
                    self._history.assigned(self.name, message.partition())
                self.next_offsets[message.partition()] = message.offset() + 1
            elif error.code() in FATAL_FOR_READERS:
                self.problems.append(str(error))
        if self._is_member:
            with suppress(KafkaException):  # nothing to commit, no coordinator, or another generation
                self._consumer.commit(asynchronous=False)

    def end(self) -> None:
        self._consumer.close()

    def is_locked_up(self) -> bool:
        """Then nothing more comes of it; what it read before counts."""
        return self._watched is not None and self.is_alive() and self._watched.is_locked_up(self.name)

    def give_up(self) -> None:
        self.tell(is_lost=False)
        while self.is_alive() and not self.is_locked_up():
            self.join(1)

    def stop(self) -> None:
        super().stop()
        assert not self.problems, f"{self.name} was told {self.problems[:5]}"


class OffsetWatch(Client):
    """Asks for a group's committed offsets all the time."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, partitions: int, history: History, **config: Any
    ) -> None:
        super().__init__(f"watch of {group}")
        self._history, self._group = history, group
        self._places = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **QUIET, **config})
        self.answers = 0

    def step(self) -> None:
        try:
            found = self._consumer.committed(self._places, 5)
        except KafkaException:
            found = []  # there is no coordinator now
        for place in found:
            if place.error is None:
                self._history.committed(self._group, place.partition, max(place.offset, -1))
                self.answers += 1
        time.sleep(0.05)

    def end(self) -> None:
        self._consumer.close()


class Workload:
    """A topic of its own with two writers, a reader of everything, and, if asked for, a group of two with a watch on
    its offsets.
    """

    writer_class: type["Writer"] = Writer
    reader_class: type["Reader"] = Reader

    def __init__(
        self, cluster: Cluster, topic: str, partitions: int = 2, *, group: bool = False, **config: str
    ) -> None:
        self.cluster, self.topic, self.partitions = cluster, topic, partitions
        self.history = History()
        cluster.make_topic(topic, partitions, **({"min_insync_replicas": "2"} | config))
        about = (cluster.bootstrap, topic, partitions, self.history)
        login = cluster.client_settings
        self.writers = [self.writer_class(f"writer-{number}", *about, **login) for number in (1, 2)]
        self.reader = self.reader_class("reader", *about, **login)
        self._others: list[Client] = []
        if group:
            self._others += [self.reader_class(f"member-{number}", *about, group=topic, **login) for number in (1, 2)]
            self._others.append(OffsetWatch(cluster.bootstrap, topic, topic, partitions, self.history, **login))

    def __enter__(self) -> Self:
        for client in self._clients():
            client.start()
        self.await_progress(50)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients():
            client.tell(is_lost=kind is not None)
        for client in self._clients():
            client.give_up()

    def _clients(self) -> list[Client]:
        return [*self.writers, self.reader, *self._others]

    def await_progress(self, count: int = 100) -> None:
        """Until so many more records are acknowledged, some of each writer's."""
        wanted = {writer: writer.acknowledged + count // len(self.writers) for writer in self.writers}
        until(
            lambda: all(writer.acknowledged >= number for writer, number in wanted.items()),
            lambda: f"writing does not go on: {self.cluster.describe(self.topic)}\n{self.cluster.logs()}",
            WAIT_S,
        )

    def expect_silence(self, seconds: float) -> None:
        """Nothing that is sent from now on is acknowledged so soon. A writer may hear late of what was acknowledged
        before.
        """
        sent = {writer: writer.sent for writer in self.writers}
        time.sleep(seconds)
        early = {
            writer.name: writer.last_acknowledged for writer in self.writers if writer.last_acknowledged >= sent[writer]
        }
        assert not early, f"{early} were acknowledged: {self.cluster.views(self.topic)}\n{self.cluster.logs()}"

    def finish(self) -> None:
        """All brokers run and all links are whole: everything is settled, and then checked."""
        for writer in self.writers:
            writer.stop()
        self.cluster.await_in_sync(self.topic)
        logs, ends = read_all(self.cluster.bootstrap, self.topic, self.partitions, **self.cluster.client_settings)
        until(
            lambda: (
                all(self.reader.next_offsets[partition] >= end for partition, end in ends.items())
                or self.reader.is_locked_up()
            ),
            lambda: f"the reader stands at {self.reader.next_offsets}, the ends are {ends}; {self.reader.problems[:5]}",
            WAIT_S,
        )
        for client in (self.reader, *self._others):
            client.stop()
        self.history.ended(logs)
        check_replicas(self.cluster, self.history, self.topic, ends)
        assert not self.history.violations, f"{self.history.told()}\n{self._steps()}\n{self.cluster.logs()}"

    def _steps(self) -> str:
        """Of the producers, and the batches that hold something that stands twice: by another epoch than before, or
        by the same one?
        """
        told = [writer.steps.told() for writer in self.writers if writer.steps is not None]
        return "\n".join(told + batches_told(self.cluster, self.topic, self.history.twice))


def check_replicas(cluster: Cluster, history: History, topic: str, ends: dict[int, int]) -> None:
    """The files of every replica; all are in sync, nothing is written any more."""
    for partition, end in ends.items():
        folders = {number: member.log_dir / f"{topic}-{partition}" for number, member in cluster.members.items()}
        files = {number: read_files(folder) for number, folder in folders.items() if folder.exists()}
        history.replicas(partition, end, files)


def batches_told(cluster: Cluster, topic: str, places: Sequence[tuple[int, int]]) -> list[str]:
    """As the first replica has them."""
    told = []
    for partition, offset in places:
        folders = (member.log_dir / f"{topic}-{partition}" for member in cluster.members.values())
        for path in sorted(next(folder for folder in folders if folder.exists()).glob("*.log")):
            for _, header in read_batches(path.read_bytes()):
                if header.base_offset <= offset <= header.last_offset:
                    told.append(f"{topic}-{partition}: {header}")
    return told


def read_files(folder: Path) -> Sequence[Batch]:
    batches = []
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        for position, header in read_batches(data):
            content = data[position : position + header.size_bytes]
            batches.append(Batch(header.base_offset, header.last_offset, header.partition_leader_epoch, content))
    return batches


def read_all(
    bootstrap: str, topic: str, partitions: int, **config: Any
) -> tuple[dict[int, list[tuple[int, bytes]]], dict[int, int]]:
    """What a reader of committed records finds, and where each partition ends."""
    settings = {"isolation.level": "read_committed", "auto.offset.reset": "error", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "the last reader", **settings, **QUIET, **config})
    try:
        places = [TopicPartition(topic, partition, 0) for partition in range(partitions)]
        ends = {place.partition: consumer.get_watermark_offsets(place, WAIT_S)[1] for place in places}
        found: dict[int, list[tuple[int, bytes]]] = {partition: [] for partition in ends}
        open_ends = {partition for partition, end in ends.items() if end}
        consumer.assign(places)
        deadline = time.monotonic() + WAIT_S
        while open_ends:
            assert time.monotonic() < deadline, f"the end of {open_ends} is not reached"
            for message in consumer.consume(1000, 1):
                error = message.error()
                if error is None:
                    found[message.partition()].append((message.offset(), message.value()))
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_ends.discard(message.partition())
                elif error.code() in FATAL_FOR_READERS:
                    raise KafkaException(error)
        return found, ends
    finally:
        consumer.close()
