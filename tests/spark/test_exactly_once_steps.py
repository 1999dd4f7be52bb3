"""The exactly-once protocol with its real driver, against a real broker, without Spark: cut off after every step.

A batch of two tasks is run up to some step and dropped there, as by a crash; then it is run again, and must be there
once. The next batch must follow.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from headwater.client import NewTopic, read
from headwater.client.admin import Admin
from headwater.spark.abandoned_transactions import abort_abandoned
from headwater.spark.exactly_once import (
    CommitAll,
    Digest,
    NotTheSame,
    Superseded,
    WriteDecision,
    commit_steps,
    task_steps,
)
from headwater.spark.writer.decision_topic import ensure_topics
from headwater.spark.writer.digest import RunningDigest
from headwater.spark.writer.options import SinkOptions
from headwater.spark.writer.protocol_driver import ProtocolDriver
from headwater.spark.writer.sink_clients import SinkClients
from headwater.testing import Broker

PATIENCE_S = 240
STEPS_OF_A_RUN = 30  # more than there are: the last cuts nothing off


class Crash(Exception):
    pass


class Run:
    """A query over batches of two tasks, each with one row; crashes when it has done `steps` steps, or before one."""

    def __init__(
        self,
        servers: str,
        topic: str,
        steps: int = 1000,
        before: Callable[[Any], bool] = lambda step: False,
        run_id: str = "",
    ) -> None:
        self.options = SinkOptions(servers, topic, "exactly-once", "test")
        self.query = topic
        self.steps = steps
        self.before = before
        self.run_id = run_id

    def batch(self, number: int, *, rows: str = "", tasks: int = 2) -> list[Any]:
        reports = self.tasks(number, rows=rows, tasks=tasks)
        self.commit(number, reports)
        return reports

    def tasks(self, number: int, *, rows: str = "", tasks: int = 2) -> list[Any]:
        reports = []
        for task in range(tasks):
            value = f"{number}/{task}{rows}".encode()
            batches = iter([pa.RecordBatch.from_pydict({"value": [value]})])
            reports.append(self._run(task_steps(number, task), batches))
        return reports

    def commit(self, number: int, reports: list[Any]) -> None:
        self._run(commit_steps(number, reports))

    def _run(self, steps: Any, batches: Iterator[pa.RecordBatch] | None = None) -> Any:
        clients = SinkClients(self.options)  # each its own: none of it is in one process
        driver = ProtocolDriver(self.options, self.query, clients, batches, run_id=self.run_id)

        def counted() -> Iterator[Any]:
            answer = None
            while True:
                if self.steps == 0:
                    raise Crash
                self.steps -= 1
                try:
                    step = steps.send(answer)
                except StopIteration as stop:
                    return stop.value
                if self.before(step):
                    raise Crash
                answer = yield step

        try:
            return driver.run(counted())
        finally:
            driver.close()
            clients.close()


@pytest.fixture
def output(broker: Broker, topic: str, create_topic: Callable[..., None]) -> Callable[[], list[str]]:
    """What a reader of committed records finds, with a client that others wrote."""
    create_topic(topic, 1)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        ensure_topics(admin)

    def read() -> list[str]:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
        consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while (message := consumer.poll(20)) is not None and message.error() is None:
            found.append(message.value().decode())
        consumer.close()
        return sorted(found)

    return read


def test_a_crash_after_any_step(broker: Broker, topic: str, output: Callable[[], list[str]]) -> None:
    expected: list[str] = []
    for steps in range(STEPS_OF_A_RUN):
        try:
            Run(broker.bootstrap_servers, topic, steps).batch(steps)
        except Crash:
            Run(broker.bootstrap_servers, topic).batch(steps)
        expected += [f"{steps}/0", f"{steps}/1"]
    assert output() == sorted(expected)


def test_a_batch_that_is_done_is_skipped(broker: Broker, topic: str, output: Callable[[], list[str]]) -> None:
    for _ in range(2):
        Run(broker.bootstrap_servers, topic).batch(0)
    Run(broker.bootstrap_servers, topic).batch(0, rows="other", tasks=3)
    assert output() == ["0/0", "0/1"]


def test_a_lost_transaction_is_replaced_by_the_same_rows_only(
    broker: Broker, topic: str, output: Callable[[], list[str]]
) -> None:
    """The driver dies when the point is committed and the second task's transaction is not; that one then times out."""
    second = f"test-{topic}-1"
    run = Run(
        broker.bootstrap_servers,
        topic,
        before=lambda step: isinstance(step, CommitAll) and step.producers[0].transactional_id == second,
    )
    with pytest.raises(Crash):
        run.batch(0)
    assert output() == ["0/0"]
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.fence_producers([second])
    with pytest.raises(NotTheSame):
        Run(broker.bootstrap_servers, topic).batch(0, rows="other")
    Run(broker.bootstrap_servers, topic).batch(0)
    assert output() == ["0/0", "0/1"]


@pytest.mark.parametrize("settled", [True, False], ids=["settled", "decided"])
def test_a_driver_that_wakes_up_late_cannot_write_over_what_was_decided_since(
    broker: Broker, topic: str, output: Callable[[], list[str]], settled: bool
) -> None:
    """It stops before it writes of batch 0; its successor settles that, decides batch 1, and dies before the second
    commit.
    """
    asleep, awake = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def sleeps(step: Any) -> bool:
        if isinstance(step, WriteDecision) and step.decision.settled is settled:
            asleep.set()
            assert awake.wait(PATIENCE_S)
        return False

    def late() -> None:
        try:
            Run(broker.bootstrap_servers, topic, before=sleeps).batch(0)
        except Superseded as error:
            errors.append(error)

    zombie = threading.Thread(target=late)
    zombie.start()
    assert asleep.wait(PATIENCE_S)
    Run(broker.bootstrap_servers, topic).batch(0)
    with pytest.raises(Crash):
        Run(broker.bootstrap_servers, topic, before=lambda step: isinstance(step, CommitAll)).batch(1)
    awake.set()
    zombie.join(PATIENCE_S)
    assert not zombie.is_alive()
    assert len(errors) == 1
    Run(broker.bootstrap_servers, topic).batch(1)
    assert output() == ["0/0", "0/1", "1/0", "1/1"]


def test_what_a_run_with_more_tasks_left_open_does_not_hold_readers_up(
    broker: Broker, topic: str, output: Callable[[], list[str]]
) -> None:
    """Four tasks have written when their driver dies; the batch is run again with two.
    Another query's are left alone.
    """
    for query in (topic, f"{topic}-2"):
        run = Run(broker.bootstrap_servers, topic, before=lambda step: isinstance(step, WriteDecision))
        run.query = query
        with pytest.raises(Crash):
            run.batch(0, tasks=4)

    def still_open(query: str) -> list[str]:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            names = [each.transactional_id for each in admin.list_transactions(states=["Ongoing"])]
        return [name for name in names if name in {f"test-{query}-{task}" for task in range(4)}]

    assert len(still_open(topic)) == len(still_open(f"{topic}-2")) == 4
    Run(broker.bootstrap_servers, topic).batch(0, tasks=2)
    assert still_open(topic) == []
    assert len(still_open(f"{topic}-2")) == 4
    other = Run(broker.bootstrap_servers, topic)
    other.query = f"{topic}-2"
    other.batch(0, tasks=1, rows=" of another")
    assert output() == ["0/0", "0/0 of another", "0/1"]


def test_a_broker_that_is_away_is_waited_for_before_any_step() -> None:
    topic = "away"
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(topic)])
            ensure_topics(admin)
        seen: list[str] = []
        starts: list[threading.Timer] = []

        def before(step: Any) -> bool:
            """Kills the broker before the first step of each kind; it comes back soon after."""
            if type(step).__name__ not in seen:
                seen.append(type(step).__name__)
                for start in starts:  # a step that needs no broker may come while it still starts
                    start.join()
                broker.kill()
                starts.append(threading.Timer(0.3, broker.start))
                starts[-1].start()
            return False

        Run(broker.bootstrap_servers, topic, before=before).batch(0)
        for start in starts:
            start.join()
        assert {"ReadDecision", "ReadProgress", "AllOpen", "FindOpen", "End", "CommitAll"} <= set(seen)
        records = read(topic, bootstrap_servers=broker.bootstrap_servers, progress=False).to_arrow()
        assert sorted(records.column("value").to_pylist()) == [b"0/0", b"0/1"]


def test_the_end_of_a_run_aborts_what_it_has_left_open_and_nothing_of_its_successor(
    broker: Broker, topic: str, output: Callable[[], list[str]]
) -> None:
    """The successor's transactions have the same names, and began before the end of the first run was heard of: they
    were aborted.
    """
    servers = broker.bootstrap_servers
    old = Run(servers, topic, run_id="old")
    old.tasks(0, tasks=3)
    successor = Run(servers, topic, run_id="new")
    reports = successor.tasks(0)  # fences the first two of the old run
    with Admin(bootstrap_servers=servers) as admin:

        def opened() -> list[str]:
            found = admin.list_transactions(states=["Ongoing"])
            return [each.transactional_id for each in found if each.transactional_id.startswith(f"test-{topic}-")]

        assert opened() == [f"test-{topic}-{task}" for task in range(3)]
        abort_abandoned(old.options, topic, "old", lambda: True)  # it has been started again in its own process
        assert len(opened()) == 3
        abort_abandoned(old.options, topic, "old", lambda: False)
        assert opened() == [f"test-{topic}-{task}" for task in range(2)]
    successor.commit(0, reports)
    assert output() == ["0/0", "0/1"]


def test_the_digest_does_not_know_how_rows_were_cut() -> None:
    table = pa.table(
        {
            "key": [b"a", None, b"", b"bc"],
            "value": ["x", "yy", None, "z"],
            "headers": pa.array([[{"key": "h", "value": b"1"}], None, [], [{"key": "i", "value": None}]]),
            "partition": pa.array([0, None, 2, 3], pa.int32()),
        }
    )

    def digest(*batches: pa.RecordBatch) -> Digest:
        running = RunningDigest()
        for batch in batches:
            running.add(batch)
        return running.result()

    whole = digest(*table.to_batches())
    assert digest(*table.to_batches(max_chunksize=1)) == whole
    assert digest(*table.slice(0, 3).to_batches(), *table.slice(3).to_batches()) == whole
    others = [table.slice(0, 3), table.take([1, 0, 2, 3])]
    others += [table.set_column(0, "key", pa.array([b"ab", None, b"", b"c"])), table.drop_columns(["headers"])]
    others.append(table.set_column(0, "key", pa.array([b"a", b"", None, b"bc"])))
    assert len({digest(*other.to_batches()) for other in others} | {whole}) == len(others) + 1
