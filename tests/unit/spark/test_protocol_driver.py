"""How the driver of the exactly-once writer writes decisions: where readers look for them, and never open for long."""

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.client.admin.transactions import TransactionDescription
from headwater.client.errors import BootstrapFailed
from headwater.client.partitioner import partition_for_key
from headwater.spark import exactly_once as protocol
from headwater.spark.writer import data_source_writers, decision_topic, protocol_driver, sink_clients
from headwater.spark.writer.decision_topic import DECIDING_TIMEOUT_MS, DECISIONS
from headwater.spark.writer.options import SinkOptions
from headwater.spark.writer.run_timeouts import timeout_of_run
from headwater.spark.writer.sink_clients import SinkClients

PARTITIONS = 4


class FakeProducer:
    made: ClassVar[list["FakeProducer"]] = []

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.sent: list[tuple[Any, ...]] = []
        self.closed = False
        FakeProducer.made.append(self)

    def init_transactions(self) -> None: ...

    def producer_identity(self) -> tuple[int, int]:
        return 7, FakeProducer.made.index(self)

    def close(self) -> None:
        self.closed = True

    def begin_transaction(self) -> None: ...

    def commit_transaction(self) -> None: ...

    def send(self, topic: str, value: bytes, *, key: bytes, partition: int | None = None) -> None:
        self.sent.append((topic, key, partition))


class Reader:
    def topic(self, name: str) -> Any:
        assert name == DECISIONS
        return SimpleNamespace(partitions=list(range(PARTITIONS)))


def decided(monkeypatch: pytest.MonkeyPatch, query: str = "q", **client: str) -> FakeProducer:
    """The producer of a driver that has written one decision, with these settings given by the user."""
    monkeypatch.setattr(protocol_driver, "ProducerClient", FakeProducer)
    monkeypatch.setattr(SinkClients, "reader", Reader())
    given = {name.replace("_", "."): text for name, text in client.items()}
    options = SinkOptions("localhost:9092", "out", "exactly-once", "headwater", given)
    driver = protocol_driver.ProtocolDriver(options, query, SinkClients(options))
    point = protocol.Producer("headwater-q-0", 1, 0)

    def steps() -> protocol.Steps:
        yield protocol.BeginDeciding()
        yield protocol.WriteDecision(protocol.Decision(7, {0: protocol.Entry(point, protocol.Digest(1, 2))}, 0, point))

    driver.run(steps())
    return FakeProducer.made[-1]


@pytest.mark.parametrize(
    ("given", "used"), [(None, DECIDING_TIMEOUT_MS), ("900000", DECIDING_TIMEOUT_MS), ("30000", 30_000)]
)
def test_no_decision_is_left_open_for_longer_than_readers_wait(
    monkeypatch: pytest.MonkeyPatch, given: str | None, used: int
) -> None:
    """What a user sets is meant for the transactions of tasks; but a broker may allow no more than that."""
    producer = decided(monkeypatch, **({} if given is None else {"transaction_timeout_ms": given}))
    assert int(producer.settings["transaction.timeout.ms"]) == used


def test_a_decision_is_written_where_it_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a user wants for the rows."""
    for query in ("a", "b", "c"):
        producer = decided(monkeypatch, query, partitioner_ignore_keys="true")
        key = f"headwater-{query}".encode()
        assert producer.sent == [(DECISIONS, key, partition_for_key(key, PARTITIONS))]


def test_settings_of_producers_are_not_for_the_clients_that_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """An admin client refuses a name that it does not know, and the sink could not be told how to compress."""
    seen: dict[str, dict[str, str]] = {}
    monkeypatch.setattr(sink_clients, "Admin", lambda settings: seen.setdefault("admin", settings))
    monkeypatch.setattr(sink_clients, "RangeReader", lambda settings: seen.setdefault("reader", settings))
    given = {"compression.type": "zstd", "linger.ms": "5", "client.id": "me"}
    clients = SinkClients(SinkOptions("localhost:9092", "out", "exactly-once", "headwater", given))
    shared = {"bootstrap.servers": "localhost:9092", "client.id": "me"}
    assert (clients.admin, clients.reader) == (seen["admin"], seen["reader"])
    assert seen == {"admin": shared, "reader": {**shared, "isolation.level": "read_committed"}}
    assert clients.settings == {**given, "bootstrap.servers": "localhost:9092"}


@pytest.mark.parametrize("step", [protocol.Begin(0), protocol.BeginDeciding()])
def test_a_cluster_that_allows_only_short_transactions_is_told_of(
    monkeypatch: pytest.MonkeyPatch, step: protocol.Step
) -> None:
    def refused(_: FakeProducer) -> None:
        raise KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, "no")

    monkeypatch.setattr(FakeProducer, "init_transactions", refused)
    monkeypatch.setattr(protocol_driver, "ProducerClient", FakeProducer)
    monkeypatch.setattr(SinkClients, "reader", Reader())
    options = SinkOptions("localhost:9092", "out", "exactly-once", "headwater")

    def steps() -> protocol.Steps:
        yield step

    with pytest.raises(UserError, match=r"kafka\.transaction\.timeout\.ms"):
        protocol_driver.ProtocolDriver(options, "q", SinkClients(options)).run(steps())


def test_a_task_waits_for_a_broker_that_is_away_when_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer gives up after a minute; a laptop's Spark does not try a task again."""
    answers: list[KafkaError | None] = [BootstrapFailed([]), BootstrapFailed([]), None]

    def away(_: FakeProducer) -> None:
        if (problem := answers.pop(0)) is not None:
            raise problem

    monkeypatch.setattr(protocol_driver, "_PAUSE_S", 0.0)
    monkeypatch.setattr(FakeProducer, "made", [])
    monkeypatch.setattr(FakeProducer, "init_transactions", away)
    monkeypatch.setattr(protocol_driver, "ProducerClient", FakeProducer)
    options = SinkOptions("localhost:9092", "out", "exactly-once", "headwater")
    found: list[protocol.Producer] = []

    def steps() -> protocol.Steps:
        found.append((yield protocol.Begin(3)))

    protocol_driver.ProtocolDriver(options, "q", SinkClients(options)).run(steps())
    assert found == [protocol.Producer("headwater-q-3", 7, 2)]
    assert [each.closed for each in FakeProducer.made] == [True, True, False]


OPTIONS = SinkOptions("localhost:9092", "out", "exactly-once", "headwater")


class OpenTransactions:
    """An admin client that knows of open transactions: a time-out for each task."""

    def __init__(self, *timeouts_ms: int) -> None:
        self.open = {f"headwater-q-{task}": timeout_ms for task, timeout_ms in enumerate(timeouts_ms)}

    def list_transactions(self, *, states: list[str]) -> list[Any]:
        assert states == ["Ongoing"]
        return [SimpleNamespace(transactional_id=each) for each in (*self.open, "another-0")]

    def describe_transactions(self, names: list[str]) -> dict[str, Any]:
        return {
            name: TransactionDescription(name, 0, 7, 1, "Ongoing", self.open[name], started_ms=1, partitions=[])
            for name in names
        }


def found(step: protocol.FindOpen, options: SinkOptions = OPTIONS) -> list[str]:
    def steps() -> protocol.Steps:
        return (yield step)

    return [
        each.transactional_id
        for each in protocol_driver.ProtocolDriver(options, "q", SinkClients(options)).run(steps())
    ]


@pytest.mark.parametrize("given", [None, "60000"])
def test_what_one_run_has_begun_is_told_from_what_another_has(
    monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    """At the end of a query, the transactions of a successor in another process were aborted,
    and its batch was lost.
    """
    options = SinkOptions("localhost:9092", "out", "exactly-once", "headwater")
    if given is not None:
        options = SinkOptions("localhost:9092", "out", "exactly-once", "headwater", {"transaction.timeout.ms": given})
    monkeypatch.setattr(protocol_driver, "ProducerClient", FakeProducer)
    timeouts_ms = []
    for task, run in enumerate(("old", "new", "old", "")):

        def steps(task: int = task) -> protocol.Steps:
            yield protocol.Begin(task)

        protocol_driver.ProtocolDriver(options, "q", SinkClients(options), run_id=run).run(steps())
        timeouts_ms.append(int(FakeProducer.made[-1].settings["transaction.timeout.ms"]))
    monkeypatch.setattr(SinkClients, "admin", OpenTransactions(*timeouts_ms))
    assert found(protocol.FindOpen("old"), options) == ["headwater-q-0", "headwater-q-2"]
    assert found(protocol.FindOpen("new"), options) == ["headwater-q-1"]
    assert found(protocol.FindOpen(), options) == [f"headwater-q-{task}" for task in range(4)]


def test_the_time_out_of_a_run_is_its_own_and_hardly_shorter_than_what_is_allowed() -> None:
    runs = [f"run {number}" for number in range(1000)]
    taken = [timeout_of_run(900_000, run) for run in runs]
    assert taken == [timeout_of_run(900_000, run) for run in runs]
    assert all(840_000 <= each < 900_000 for each in taken)
    assert len(set(taken)) > 980
    assert timeout_of_run(900_000, "") == 900_000
    assert timeout_of_run(14, "too short to tell") == 14


class NeverStable:
    """A reader of decisions behind somebody's open transaction, which does not end. Time passes as it is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        time = SimpleNamespace(monotonic=lambda: self.now_s, sleep=self.sleep, time_ns=lambda: 0)
        monkeypatch.setattr(protocol_driver, "time", time)
        monkeypatch.setattr(decision_topic, "time", time)
        monkeypatch.setattr(SinkClients, "reader", self)
        monkeypatch.setattr(SinkClients, "admin", self)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def topic(self, _name: str) -> Any:
        return SimpleNamespace(partitions=[0])

    def ends(self, partitions: list[Any], *, earliest: bool) -> dict[Any, int]:
        assert earliest in (True, False)
        return dict.fromkeys(partitions, 0)

    def list_offsets(self, asked: dict[Any, Any]) -> dict[Any, Any]:
        return {each: SimpleNamespace(offset=1) for each in asked}


def test_an_abort_gives_up_when_decisions_cannot_be_read_for_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It took two minutes, in which the query could not end."""
    clock = NeverStable(monkeypatch)
    report = protocol.Open(0, protocol.Producer("headwater-q-0", 7, 1), protocol.Digest(1, 2))
    data_source_writers.ExactlyOnceWriter(OPTIONS).abort([data_source_writers.TaskReport("q", report)], 3)
    assert protocol_driver.ABORT_PATIENCE_S <= clock.now_s < protocol_driver.ABORT_PATIENCE_S + 1
    assert "end by their time-out" in capsys.readouterr().err


def test_a_task_that_fails_when_it_has_written_tells_its_own_error_and_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """An abort that came to nothing hid why the task had failed, and took three minutes."""
    clock = NeverStable(monkeypatch)

    def rows() -> Any:
        raise OSError("the input breaks")
        yield

    def written(_batch: int, _task: int) -> protocol.Steps:
        return protocol.Open(0, protocol.Producer("headwater-q-0", 7, 1), protocol.Digest(0, 0))
        yield

    monkeypatch.setattr(data_source_writers, "task_steps", written)
    monkeypatch.setattr(data_source_writers, "_place", lambda: ("q", "run", 3, 0))
    with pytest.raises(OSError, match="the input breaks"):
        data_source_writers.ExactlyOnceWriter(OPTIONS).write(rows())
    assert clock.now_s < protocol_driver.ABORT_PATIENCE_S + 1


def test_all_steps_of_an_abort_share_one_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that is slow was waited for anew at each transaction."""
    clock = NeverStable(monkeypatch)
    ended: list[float] = []

    def slow(_: Any) -> list[None]:
        clock.sleep(4.0)
        ended.append(clock.now_s)
        return [None]

    monkeypatch.setattr(clock, "run", slow, raising=False)

    def steps() -> protocol.Steps:
        for task in range(20):
            yield protocol.End(protocol.Producer(f"headwater-q-{task}", 7, 1), commit=False)

    with pytest.raises(KafkaError, match="no time left"):
        protocol_driver.ProtocolDriver(OPTIONS, "q", SinkClients(OPTIONS), patience_s=10.0).run(steps())
    assert ended == [4.0, 8.0, 12.0]


def test_clients_of_an_abort_wait_for_no_answer_longer_than_it_has_patience() -> None:
    limits_ms = SinkClients(OPTIONS, patience_s=10.0)._settings
    assert (limits_ms["default.api.timeout.ms"], limits_ms["request.timeout.ms"]) == (10_000, 10_000)
    short = SinkOptions("localhost:9092", "out", "exactly-once", "headwater", {"request.timeout.ms": "3000"})
    assert SinkClients(short, patience_s=10.0)._settings["request.timeout.ms"] == 3000
