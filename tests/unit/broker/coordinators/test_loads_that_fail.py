"""A shard that cannot be loaded is tried again until it can, and is never asked before; a large one holds nobody up."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.coordinators.batches import build_decision
from headwater.broker.coordinators.hosted import Hosted
from headwater.broker.coordinators.loading import RECORDS_PER_TURN
from headwater.broker.coordinators.timers import Timers
from headwater.coordinator.effects import CoordinatorRecord, Effects
from headwater.coordinator.groups.classic.group import ClassicGroup
from headwater.coordinator.groups.shard import GroupShard
from headwater.coordinator.records.group_records import GroupMetadataValue, MemberMetadata, group_metadata_record
from headwater.coordinator.transactions.states import TransactionState
from headwater.replication.partition import Partition
from headwater.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.heartbeat import HeartbeatRequest
from headwater.wire.messages.init_producer_id import InitProducerIdRequest

SESSION_MS = 10_000
Hosting = Hosted[GroupShard]


@pytest.fixture(name="shop")
def shop_fixture(make_lab: Callable[..., Any]) -> Any:
    lab = make_lab(offsets_topic_num_partitions="1")
    lab.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["any"]))
    return lab


def write_groups(shop: Any, hosted: Hosting, count: int, members: int) -> None:
    """As another coordinator left them."""
    for number in range(count):
        value = GroupMetadataValue(protocol_type="consumer", generation=1, protocol="range", leader="member-0")
        value.members = [
            MemberMetadata(
                member_id=f"member-{member}",
                client_id="c",
                client_host="/h",
                rebalance_timeout=SESSION_MS,
                session_timeout=SESSION_MS,
                subscription=b"s" * 50,
                assignment=b"a" * 50,
            )
            for member in range(members)
        ]
        now_ms = shop.broker.now_ms()
        batch = build_decision([group_metadata_record(f"group-{number}", value)], now_ms, None)
        hosted.partition.append_internal(memoryview(batch), now_ms)


def beat(shop: Any, group: int, member: int) -> ErrorCode:
    request = HeartbeatRequest(group_id=f"group-{group}", generation_id=1, member_id=f"member-{member}")
    return ErrorCode(shop.ask(request).error_code)


def breaks(monkeypatch: pytest.MonkeyPatch, name: str, times: int) -> list[str]:
    """The first calls of a shard's method come to nothing after they have changed something; what is said of them."""
    original = getattr(GroupShard, name)
    calls: list[str] = []

    def broken(shard: GroupShard, *arguments: Any) -> Any:
        result = original(shard, *arguments)
        calls.append(name)
        if len(calls) <= times:
            raise ZeroDivisionError("a defect of ours")
        return result

    monkeypatch.setattr(GroupShard, name, broken)
    return calls


@pytest.mark.parametrize("method", ["replay", "timers_found", "loaded"])
def test_a_defect_while_loading_is_tried_again_with_growing_pauses(
    shop: Any, hosted: Hosting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    write_groups(shop, hosted, count=1, members=1)
    calls = breaks(monkeypatch, method, times=3)
    hosted.load()
    shop.settle()
    for pause_ms in (1_000, 2_000, 4_000):
        failures = len(calls)
        assert not hosted.is_loaded
        assert beat(shop, 0, 0) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        shop.clock.advance(pause_ms - 1)
        shop.settle()
        assert len(calls) == failures, "not before the pause is over"
        shop.clock.advance(1)
        shop.settle()
        assert len(calls) > failures
    assert beat(shop, 0, 0) is ErrorCode.NONE
    said = [record for record in caplog.records if "coordinator-not-loaded" in record.getMessage()]
    assert [record.levelname for record in said] == ["ERROR"] * 3
    assert "__consumer_offsets-0" in said[0].getMessage()
    assert "a defect of ours" in said[0].getMessage()
    assert "next_try_ms=4000" in said[2].getMessage()
    assert said[0].exc_info is not None, "a defect shows where it is"


def test_the_pauses_end_growing_and_begin_anew_after_a_success(
    shop: Any, hosted: Hosting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_groups(shop, hosted, count=1, members=1)
    breaks(monkeypatch, "replay", times=60)
    hosted.load()
    while not hosted.is_loaded:
        shop.settle()
        shop.clock.advance(32_000)
    assert "next_try_ms=32000" in caplog.text
    assert "next_try_ms=64000" not in caplog.text
    caplog.clear()
    breaks(monkeypatch, "replay", times=1)
    hosted.load()
    shop.settle()
    assert "next_try_ms=1000" in caplog.text


def test_a_shard_that_failed_goes_with_its_partition(
    shop: Any, hosted: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_groups(shop, hosted, count=1, members=1)
    calls = breaks(monkeypatch, "replay", times=1)
    hosted.load()
    shop.settle()
    hosted.close()
    shop.clock.advance(60_000)
    shop.settle()
    assert len(calls) == 1


def test_a_load_that_an_earlier_life_has_planned_is_void(
    shop: Any, hosted: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take the present one's decisions with it,
    and those that wait for replicas would be waited for in vain.
    """
    write_groups(shop, hosted, count=1, members=1)

    def failing(*_arguments: object) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    with monkeypatch.context() as broken:
        broken.setattr(type(hosted.partition), "append_internal", failing)
        hosted.run(Effects(records=[CoordinatorRecord(b"key", b"value")]))
    assert not hosted.is_loaded
    hosted.load()
    shop.settle()
    present = hosted.shard
    shop.clock.advance(60_000)
    shop.settle()
    assert hosted.is_loaded
    assert hosted.shard is present


def test_what_cannot_be_written_when_its_time_has_come_is_tried_again_after_a_pause(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that times out and whose record is too large for its log now, say: it was tried without end in one
    moment.
    """
    shop.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]))
    shop.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["id"]))
    begun = shop.ask(InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=5_000), 4)
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="id",
        v3_and_below_producer_id=begun.producer_id,
        v3_and_below_producer_epoch=begun.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
    )
    shop.ask(added, 3)
    tries: list[object] = []

    def failing(*arguments: object) -> None:
        tries.append(arguments)
        assert len(tries) < 10, "without end"
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)

    kept = Partition.append_internal
    monkeypatch.setattr(Partition, "append_internal", failing)
    shop.clock.advance(5_001)
    for count in (1, 2, 3):
        shop.settle()
        assert len(tries) == count
        shop.clock.advance(1_000)
    monkeypatch.setattr(Partition, "append_internal", kept)
    shop.settle()
    (hosted,) = [each for each in shop.broker.transactions.runtime.active() if each.shard.transactions]
    assert hosted.shard.transactions["id"].state is TransactionState.COMPLETE_ABORT


def test_a_large_shard_is_begun_a_little_in_each_turn(
    shop: Any, hosted: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups, members = 20, 100
    write_groups(shop, hosted, groups, members)
    done: list[str] = []
    add, set_timer = ClassicGroup.add, Timers.set
    monkeypatch.setattr(ClassicGroup, "add", lambda *_arguments: (done.append("read"), add(*_arguments))[1])
    monkeypatch.setattr(Timers, "set", lambda *_arguments: (done.append("timer"), set_timer(*_arguments))[1])
    hosted.load()
    most = 0
    while not hosted.is_loaded:
        before = len(done)
        shop.scheduler.run_one()
        most = max(most, len(done) - before)
    assert done.count("read") == groups * members
    assert done.count("timer") > groups * members
    assert most <= 2 * RECORDS_PER_TURN + members


def test_a_session_that_ends_while_a_shard_is_loaded_begins_anew(shop: Any, hosted: Hosting) -> None:
    write_groups(shop, hosted, count=1, members=500)
    hosted.load()
    while not hosted.is_loaded:
        shop.clock.advance(SESSION_MS)  # a turn takes longer than a session
        shop.scheduler.run_one()
    assert beat(shop, 0, 0) is ErrorCode.NONE
    shop.clock.advance(SESSION_MS - 1)
    shop.settle()
    assert beat(shop, 0, 499) is ErrorCode.NONE, "all have their whole time"
    shop.clock.advance(1)
    shop.settle()
    assert beat(shop, 0, 1) is ErrorCode.UNKNOWN_MEMBER_ID, "and no more than that"


def test_topics_that_come_while_a_shard_is_loaded_are_known_to_it(shop: Any, hosted: Hosting) -> None:
    write_groups(shop, hosted, count=1, members=1)
    hosted.load()
    assert not hosted.is_loaded
    topic = CreatableTopic(name="orders", num_partitions=3, replication_factor=1)
    created = shop.begin(CreateTopicsRequest(topics=[topic]))
    while not created.done:
        assert not hosted.is_loaded
        shop.disk.run()
    shop.settle()
    assert hosted.is_loaded
    assert "orders" in hosted.shard.state.topics.names.values()


def test_what_others_append_after_the_log_was_read_is_read_too(
    shop: Any, hosted: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_groups(shop, hosted, count=1, members=500)
    begun: list[None] = []
    set_timer = Timers.set
    monkeypatch.setattr(Timers, "set", lambda *_arguments: (begun.append(None), set_timer(*_arguments))[1])
    hosted.load()
    while not begun:
        shop.scheduler.run_one()
    assert not hosted.is_loaded
    write_groups(shop, hosted, count=2, members=1)
    shop.settle()
    assert beat(shop, 1, 0) is ErrorCode.NONE
