"""An exception that nobody meant, while a shard decides: it is made anew from its log, and goes on with all its members
and timers.
"""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.broker.coordinators.hosted import Hosted
from headwater.coordinator.effects import Effects
from headwater.coordinator.groups.shard import GroupShard
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.heartbeat import HeartbeatRequest
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headwater.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from headwater.wire.messages.sync_group import SyncGroupRequest

SESSION_MS = 10_000
INITIAL_DELAY_MS = 3_000
PAUSE_MS = 1_000
Hosting = Hosted[GroupShard]


@pytest.fixture(name="shop")
def shop_fixture(make_lab: Callable[..., Any]) -> Any:
    lab = make_lab(offsets_topic_num_partitions="1")
    lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]))
    lab.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["any"]))
    return lab


def wait(shop: Any, delay_ms: int) -> None:
    for _ in range(delay_ms // 100):
        shop.clock.advance(100)
        shop.settle()


def begin_to_join(shop: Any, group: str) -> Any:
    return shop.begin(
        JoinGroupRequest(
            group_id=group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        3,
    )


def stable_member(shop: Any, group: str) -> str:
    joining = begin_to_join(shop, group)
    wait(shop, INITIAL_DELAY_MS)
    member_id: str = joining.response.member_id
    request = SyncGroupRequest(group_id=group, generation_id=1, member_id=member_id)
    assert shop.ask(request).error_code == 0
    return member_id


def beat(shop: Any, group: str, member_id: str) -> ErrorCode:
    return ErrorCode(shop.ask(HeartbeatRequest(group_id=group, generation_id=1, member_id=member_id)).error_code)


def commit(shop: Any, offset: int) -> ErrorCode:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="orders", partitions=[part])
    answer = shop.ask(OffsetCommitRequest(group_id="simple", topics=[topic]), 8)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def committed(shop: Any) -> int:
    (group,) = shop.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="simple", topics=None)]), 8).groups
    offset: int = group.topics[0].partitions[0].committed_offset
    return offset


def breaks_once(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Any]:
    """The next call of a shard's method comes to nothing after it has changed something."""
    original = getattr(GroupShard, name)
    calls: list[Any] = []

    def broken(shard: GroupShard, *arguments: Any) -> Any:
        calls.append(arguments)
        result = original(shard, *arguments)
        if len(calls) == 1:
            raise ZeroDivisionError("a defect of ours")
        return result

    monkeypatch.setattr(GroupShard, name, broken)
    return calls


def said(caplog: pytest.LogCaptureFixture, event: str) -> Any:
    (record,) = [record for record in caplog.records if f"event={event} " in record.getMessage()]
    assert record.levelname == "ERROR"
    assert record.exc_info is not None, "a defect shows where it is"
    assert "__consumer_offsets-0" in record.getMessage()
    return record


def test_a_defect_when_a_timer_is_due_loses_neither_that_timer_nor_others(
    shop: Any, hosted: Hosting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    silent, heard = stable_member(shop, "silent"), stable_member(shop, "heard")
    wait(shop, SESSION_MS - INITIAL_DELAY_MS - 1_000)
    assert beat(shop, "heard", heard) is ErrorCode.NONE
    calls = breaks_once(monkeypatch, "on_timer")
    wait(shop, 1_000)
    assert calls[0][0] == ("classic", "session", "silent", silent)
    assert beat(shop, "heard", heard) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    wait(shop, PAUSE_MS)
    assert beat(shop, "heard", heard) is ErrorCode.NONE
    said(caplog, "coordinator-timer-failed")

    wait(shop, SESSION_MS - 1_000)
    assert beat(shop, "heard", heard) is ErrorCode.NONE
    wait(shop, 1_000)
    assert ("silent", "Empty") in {(group.group_id, group.group_state) for group in hosted.shard.list_groups()}
    assert beat(shop, "heard", heard) is ErrorCode.NONE
    wait(shop, SESSION_MS)
    assert beat(shop, "heard", heard) is ErrorCode.UNKNOWN_MEMBER_ID, "its own timer goes on, too"


def test_a_defect_in_a_request_is_told_and_what_it_changed_is_not_believed(
    shop: Any, hosted: Hosting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert commit(shop, 5) is ErrorCode.NONE
    joining = begin_to_join(shop, "waits")
    breaks_once(monkeypatch, "offset_commit")
    assert commit(shop, 6) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert ErrorCode(joining.response.error_code) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    shop.settle()
    assert hosted.is_loaded, "at once: others wait for it"
    assert committed(shop) == 5
    assert commit(shop, 7) is ErrorCode.NONE
    said(caplog, "coordinator-request-failed")


def test_a_defect_in_what_nobody_asked_for_holds_up_nobody_else(
    shop: Any, hosted: Hosting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    breaks_once(monkeypatch, "on_metadata_changed")
    shop.ask(CreateTopicsRequest(topics=[CreatableTopic(name="clicks", num_partitions=1, replication_factor=1)]))
    assert not hosted.is_loaded
    wait(shop, PAUSE_MS)
    assert hosted.is_loaded
    assert "clicks" in hosted.shard.state.topics.names.values()
    said(caplog, "coordinator-decision-failed")


def test_what_waits_for_a_load_is_not_lost_with_a_defect_before_it(shop: Any, hosted: Hosting) -> None:
    assert commit(shop, 5) is ErrorCode.NONE
    hosted.load()
    done: list[str] = []

    def broken(_shard: GroupShard) -> Effects:
        done.append("broken")
        raise ZeroDivisionError("a defect of ours")

    def well(_shard: GroupShard) -> Effects:
        done.append("well")
        return Effects()

    hosted.decide(broken)
    hosted.decide(well)
    shop.settle()
    assert not hosted.is_loaded
    assert done == ["broken"]
    wait(shop, PAUSE_MS)
    assert hosted.is_loaded
    assert done == ["broken", "well"]
