"""The audit topic's writer: what becomes of events while it cannot be written, and which batches it makes."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId
from headwater.broker.audit import trail
from headwater.records.reader import read_records
from headwater.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from unit.broker.fake_peers import FakePeers

TOPIC = "audit"

# While it cannot be written


class Pretended(SimpleNamespace):
    """A broker of which the trail sees what the test wants."""

    def call_later(self, _after_ms: int, function: Any) -> None:
        self.due.append(function)

    def run_due(self) -> None:
        due, self.due = self.due, []
        for each in due:
            each()


def pretended(leader: int | None, peers: FakePeers | None = None) -> tuple[Any, trail.AuditTrail]:
    topic_id = bytes(16)
    partition = SimpleNamespace(leader=BrokerId(-1 if leader is None else leader), leader_epoch=0)
    appended: list[bytes] = []
    broker = Pretended(
        broker_id=BrokerId(1),
        config=SimpleNamespace(
            string=lambda _name: TOPIC,
            int=lambda _name: 1,
            topic_values=lambda overrides: {"max.message.bytes": 1 << 20, "segment.bytes": 1 << 30, **overrides},
        ),
        image=SimpleNamespace(
            ids_by_name={TOPIC: topic_id}, topics={topic_id: SimpleNamespace(partitions=[partition], config={})}
        ),
        peers=peers,
        now_ms=lambda: 1234,
        due=[],
        state=partition,
        appended=appended,
        partition=lambda _topic, _index: SimpleNamespace(append=lambda batch, _now: appended.append(bytes(batch))),
    )
    broker.scheduler = broker
    return broker, trail.AuditTrail(broker)


def names_in(batch: bytes) -> list[str]:
    return [json.loads(each.value or b"")["event"] for each in read_records(batch, 1 << 20)]


def test_events_wait_for_a_leader_and_the_oldest_are_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trail, "QUEUE_MAX", 3)
    broker, audit = pretended(None)
    for number in range(5):
        audit.record(f"e{number}", "User:a", "h")
        broker.run_due()
    assert caplog.text.count("event=audit-not-written") == 1
    assert audit.dropped == 2
    broker.state.leader = BrokerId(1)
    broker.run_due()
    assert [names_in(batch) for batch in broker.appended] == [["events-lost", "e2", "e3", "e4"]]
    assert (audit.written, broker.due) == (3, [])
    audit.record("e5", "User:a", "h")
    broker.run_due()
    assert names_in(broker.appended[1]) == ["e5"]


def test_events_go_to_the_leader_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail, "BATCH_MAX", 2)
    peers = FakePeers()
    broker, audit = pretended(2, peers)
    for number in range(3):
        audit.record(f"e{number}", "User:a", "h")
    broker.run_due()
    peers.take().fail()
    broker.run_due()
    asked = peers.take()
    assert asked.broker == 2
    batch = bytes(asked.request.topic_data[0].partition_data[0].records)
    assert names_in(batch) == ["e0", "e1"]
    asked.answer(answer(int(ErrorCode.NOT_LEADER_OR_FOLLOWER)))
    broker.run_due()
    peers.take().answer(answer(0))
    broker.run_due()
    asked = peers.take()
    assert names_in(bytes(asked.request.topic_data[0].partition_data[0].records)) == ["e2"]
    asked.answer(answer(0))
    assert (audit.written, audit.dropped, broker.due, peers.asked) == (3, 0, [], [])


def answer(code: int) -> ProduceResponse:
    part = PartitionProduceResponse(index=0, error_code=code, base_offset=0)
    return ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=[part])])


def test_what_waits_is_written_at_the_end_if_it_can_be() -> None:
    broker, audit = pretended(1)
    audit.record("e0", "User:a", "h")
    audit.flush()
    assert names_in(broker.appended[0]) == ["e0"]
    broker.state.leader = BrokerId(2)
    audit.record("e1", "User:a", "h")
    audit.flush()
    assert len(broker.appended) == 1


def test_a_log_that_takes_nothing_at_the_end_holds_up_nobody() -> None:
    broker, audit = pretended(1)

    def refuse(_batch: object, _now: int) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    broker.partition = lambda _topic, _index: SimpleNamespace(append=refuse)
    audit.record("e0", "User:a", "h")
    audit.flush()
    assert audit.written == 0


def test_what_peers_say_is_cut_and_escaped() -> None:
    broker, audit = pretended(1)
    audit.record("login-failed", "User:" + "x" * 5000, "h\n\0", reason="\ud800" + "y" * 5000, many=["z" * 900] * 900)
    broker.run_due()
    (record,) = read_records(broker.appended[0], 1 << 20)
    assert len(record.value or b"") < 100_000
    told = json.loads(record.value or b"")
    assert len(told["principal"]) == len(told["reason"]) == 258
    assert told["reason"].startswith("?y"), "half of a surrogate pair is no text"
    assert b"\n" not in (record.value or b"")


def test_names_of_any_language_are_short_and_nothing_in_them_moves_a_cursor() -> None:
    broker, audit = pretended(1)
    name = "\u5317\u4eac\x7f\x9b2J\u202e\u2028"
    audit.record("denied", "User:a", "h", name=name)
    broker.run_due()
    (record,) = read_records(broker.appended[0], 1 << 20)
    value = (record.value or b"").decode()
    assert json.loads(value)["name"] == name
    assert "\u5317\u4eac\\u007f\\u009b2J\\u202e\\u2028" in value


# Batches that fit


class Log:
    """A partition's log that takes batches of so many bytes."""

    def __init__(self, broker: Any, bytes_max: int, code: ErrorCode = ErrorCode.MESSAGE_TOO_LARGE) -> None:
        self.bytes_max = bytes_max
        self.code = code
        self.batches: list[list[str]] = []
        self.refused = 0
        broker.partition = lambda _topic, _index: self

    def append(self, batch: memoryview, _now_ms: int) -> None:
        if len(batch) > self.bytes_max:
            self.refused += 1
            raise KafkaError(self.code, f"a batch of {len(batch)} bytes")
        self.batches.append(names_in(bytes(batch)))

    @property
    def names(self) -> list[str]:
        return [name for batch in self.batches for name in batch]


def run_all(broker: Any) -> None:
    for _ in range(200):
        if not broker.due:
            return
        broker.run_due()
    raise AssertionError("it is written again and again")


def test_a_batch_has_half_the_bytes_that_the_topic_takes() -> None:
    broker, audit = pretended(1)
    broker.image.topics[bytes(16)].config["max.message.bytes"] = 20_000
    log = Log(broker, 10_100)
    names = [f"e{number}" for number in range(500)]
    for name in names:
        audit.record(name, "User:a", "h", name="\u5317" * 250)
    run_all(broker)
    assert (log.names, log.refused, audit.written) == (names, 0, 500)
    assert len(log.batches[0]) > 5


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE])
@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_batch_that_is_too_large_is_halved_and_an_event_that_does_not_fit_is_dropped_and_counted(
    code: ErrorCode, at_the_end: bool, caplog: pytest.LogCaptureFixture
) -> None:
    broker, audit = pretended(1)
    log = Log(broker, 1000, code)
    for number in range(20):
        audit.record(f"e{number}", "User:a", "h", name="x" * 100)
    audit.record("large", "User:a", "h", names=["x" * 200] * 10)
    audit.record("last", "User:a", "h")
    if at_the_end:
        audit.flush()
    else:
        run_all(broker)
    assert log.names == [*(f"e{number}" for number in range(20)), "events-lost", "last"]
    assert (audit.written, audit.dropped) == (21, 1)
    assert caplog.text.count("event=audit-event-dropped") == 1


def test_a_batch_that_is_too_large_for_its_leader_elsewhere_is_halved() -> None:
    peers = FakePeers()
    broker, audit = pretended(2, peers)
    for number in range(3):
        audit.record(f"e{number}", "User:a", "h")
    broker.run_due()
    peers.take().answer(answer(int(ErrorCode.MESSAGE_TOO_LARGE)))
    broker.run_due()
    asked = peers.take()
    assert names_in(bytes(asked.request.topic_data[0].partition_data[0].records)) == ["e0"]
    asked.answer(answer(0))
    broker.run_due()
    asked = peers.take()
    assert names_in(bytes(asked.request.topic_data[0].partition_data[0].records)) == ["e1", "e2"]
    asked.answer(answer(0))
    assert (audit.written, audit.dropped, broker.due) == (3, 0, [])


def test_strangers_do_not_push_out_what_administrators_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trail, "QUEUE_MAX", 3)
    broker, audit = pretended(None)
    audit.record_change("c0", "User:root", "h")
    for number in range(10):
        audit.record(f"e{number}", "User:ANONYMOUS", "h")
        broker.run_due()
    audit.record_change("c1", "User:root", "h")
    audit.record("e10", "User:ANONYMOUS", "h")
    broker.state.leader = BrokerId(1)
    broker.run_due()
    assert [names_in(batch) for batch in broker.appended] == [["events-lost", "c0", "e8", "e9", "c1", "e10"]]
    assert audit.dropped == 8
