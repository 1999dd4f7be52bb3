"""F16: the broker's clock is set two hours forward and back while it runs. What waits for a time waits by another
clock.

Sessions and transactions last as long as they should, waits end, retention goes by the age of records, and nothing is
deleted because of a clock that was wrong for a moment. Records from the future of a broker whose clock is behind are
refused, as Kafka refuses them.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat.support.by_hand import Member
from compat.support.faults import Faults, FaultyBroker
from compat.support.members import until
from compat.support.quick import QUICK
from compat.support.raw import Raw, fetch, fetched
from compat.support.records import Ledger, read_all

HOUR_MS = 3_600_000
JUMPS = [2 * HOUR_MS, -2 * HOUR_MS, 0]
PATIENCE_S = 60
ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[FaultyBroker]:
    broker = FaultyBroker(tmp_path, {**QUICK, "log.retention.check.interval.ms": "100"})
    broker.faults = Faults(tmp_path / "faults")
    broker.start()
    yield broker
    broker.kill()


def create(broker: FaultyBroker, topic: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    for future in admin.create_topics([NewTopic(topic, 1, 1, config=ANY_TIME | settings)]).values():
        future.result(PATIENCE_S)


def transactional(broker: FaultyBroker, id_: str, timeout_ms: int = 60_000) -> Producer:
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": id_, "transaction.timeout.ms": timeout_ms}
    producer = Producer({**settings, "log_level": 0})
    producer.init_transactions(PATIENCE_S)
    return producer


def test_the_shift_is_seen_by_the_broker(broker: FaultyBroker, topic: str) -> None:
    """Or the other tests would prove nothing."""
    create(broker, topic, message_timestamp_type="LogAppendTime")
    told: list[int] = []
    for ahead_ms in JUMPS:
        broker.faults.set_clock(ahead_ms)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        producer.produce(topic, b"x", on_delivery=lambda _error, message: told.append(message.timestamp()[1]))
        assert producer.flush(PATIENCE_S) == 0
    now_ms = time.time_ns() // 1_000_000
    assert [round((at_ms - now_ms) / HOUR_MS) for at_ms in told] == [2, -2, 0]


def test_sessions_and_waits_do_not_go_by_the_clock_on_the_wall(broker: FaultyBroker, topic: str) -> None:
    create(broker, topic)
    member = Member(broker.bootstrap, "group", session_timeout_ms=120_000)
    silent = Member(broker.bootstrap, "silent", session_timeout_ms=6000)
    for ahead_ms in JUMPS:
        broker.faults.set_clock(ahead_ms)
        assert member.heartbeat() == 0
        with Raw(broker.bootstrap) as connection:  # parked, and answered when its time is over
            assert fetched(connection.call(fetch(topic, 0, wait_ms=300)))[0] == 0
        assert member.heartbeat() == 0
    broker.faults.set_clock(-2 * HOUR_MS)
    until(lambda: "silent" not in groups_with_members(broker), "a session never ends", PATIENCE_S)
    assert member.heartbeat() == 0
    for each in (member, silent):
        each.close()


def groups_with_members(broker: FaultyBroker) -> set[str]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    futures = admin.describe_consumer_groups(["group", "silent"], request_timeout=PATIENCE_S)
    return {name for name, future in futures.items() if future.result(PATIENCE_S).members}


@pytest.mark.parametrize("ahead_ms", JUMPS[:2])
def test_transactions_last_as_long_as_they_may(broker: FaultyBroker, topic: str, ahead_ms: int) -> None:
    create(broker, topic)
    patient, forgotten = transactional(broker, "patient"), transactional(broker, "forgotten", timeout_ms=2000)
    for producer, value in ((patient, b"kept"), (forgotten, b"aborted")):
        producer.begin_transaction()
        producer.produce(topic, value)
        assert producer.flush(PATIENCE_S) == 0
    broker.faults.set_clock(ahead_ms)
    patient.produce(topic, b"kept too")
    patient.commit_transaction(PATIENCE_S)  # its minute is not over
    # The other's two seconds are, some time: then everything is decided, and can be read.
    until(
        lambda: list(read_all(broker.bootstrap, topic).values()) == [b"kept", b"kept too"],
        lambda: broker.log[-2000:],
        PATIENCE_S,
    )
    patient.begin_transaction()
    patient.produce(topic, b"after")
    patient.commit_transaction(PATIENCE_S)
    broker.faults.set_clock(0)
    broker.kill()
    broker.start()
    assert sorted(read_all(broker.bootstrap, topic).values()) == [b"after", b"kept", b"kept too"]


def test_retention_and_producers_outlive_a_clock_that_is_wrong_for_a_moment(broker: FaultyBroker, topic: str) -> None:
    create(broker, topic, retention_ms=str(24 * HOUR_MS), segment_ms="1000")
    create(broker, f"{topic}.short", retention_ms=str(HOUR_MS))
    ledger, short = Ledger(broker.bootstrap, topic), Ledger(broker.bootstrap, f"{topic}.short")
    steady = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0})
    errors: list[object] = []
    assert short.write(3) == []
    for ahead_ms in JUMPS:
        broker.faults.set_clock(ahead_ms)
        assert ledger.write(3) == []
        for number in range(10):  # one whose sequence goes on
            steady.produce(topic, b"%d" % number, on_delivery=lambda error, _: errors.append(error) if error else None)
        assert steady.flush(PATIENCE_S) == 0
        if ahead_ms > 0:  # records of an hour ago may go, and do: retention has looked at both topics with that clock
            until(
                lambda: f"event=segments-deleted partition={topic}.short-0" in broker.log,
                lambda: broker.log[-2000:],
                PATIENCE_S,
            )
    assert errors == []
    ledger.check()
    assert len(read_all(broker.bootstrap, topic)) == len(ledger.acknowledged) + 10 * len(JUMPS)


def test_records_from_the_future_of_a_clock_that_is_behind_are_refused(broker: FaultyBroker, topic: str) -> None:
    create(broker, topic, message_timestamp_after_max_ms=str(HOUR_MS))
    ledger = Ledger(broker.bootstrap, topic)
    broker.faults.set_clock(-2 * HOUR_MS)
    assert ledger.write(2) == [KafkaError.INVALID_TIMESTAMP] * 2
    broker.faults.set_clock(0)
    assert ledger.write(2) == []
    ledger.check()
