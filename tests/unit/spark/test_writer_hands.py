"""How the driver of the exactly-once writer writes decisions: where readers look for them, and never open for long."""

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.client.errors import BootstrapFailed
from headwater.client.partitioner import partition_for_key
from headwater.spark import exactly_once as protocol
from headwater.spark.writer import asking, hands
from headwater.spark.writer.asking import Clients
from headwater.spark.writer.decisions import DECIDING_TIMEOUT_MS, DECISIONS
from headwater.spark.writer.options import SinkOptions

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
    monkeypatch.setattr(hands, "ProducerClient", FakeProducer)
    monkeypatch.setattr(Clients, "reader", Reader())
    given = {name.replace("_", "."): text for name, text in client.items()}
    options = SinkOptions("localhost:9092", "out", "exactly-once", "headwater", given)
    driver = hands.Hands(options, query, Clients(options))
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
    monkeypatch.setattr(asking, "Admin", lambda settings: seen.setdefault("admin", settings))
    monkeypatch.setattr(asking, "RangeReader", lambda settings: seen.setdefault("reader", settings))
    given = {"compression.type": "zstd", "linger.ms": "5", "client.id": "me"}
    clients = Clients(SinkOptions("localhost:9092", "out", "exactly-once", "headwater", given))
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
    monkeypatch.setattr(hands, "ProducerClient", FakeProducer)
    monkeypatch.setattr(Clients, "reader", Reader())
    options = SinkOptions("localhost:9092", "out", "exactly-once", "headwater")

    def steps() -> protocol.Steps:
        yield step

    with pytest.raises(UserError, match=r"kafka\.transaction\.timeout\.ms"):
        hands.Hands(options, "q", Clients(options)).run(steps())


def test_a_task_waits_for_a_broker_that_is_away_when_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer gives up after a minute; a laptop's Spark does not try a task again."""
    answers: list[KafkaError | None] = [BootstrapFailed([]), BootstrapFailed([]), None]

    def away(_: FakeProducer) -> None:
        if (problem := answers.pop(0)) is not None:
            raise problem

    monkeypatch.setattr(hands, "_PAUSE_S", 0.0)
    monkeypatch.setattr(FakeProducer, "made", [])
    monkeypatch.setattr(FakeProducer, "init_transactions", away)
    monkeypatch.setattr(hands, "ProducerClient", FakeProducer)
    options = SinkOptions("localhost:9092", "out", "exactly-once", "headwater")
    found: list[protocol.Producer] = []

    def steps() -> protocol.Steps:
        found.append((yield protocol.Begin(3)))

    hands.Hands(options, "q", Clients(options)).run(steps())
    assert found == [protocol.Producer("headwater-q-3", 7, 2)]
    assert [each.closed for each in FakeProducer.made] == [True, True, False]
