"""A worker's place in its group, with a coordinator that answers as it is told."""

import threading
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.connect.distributed import worker_membership
from headwater.connect.distributed.assignor import Resources
from headwater.connect.distributed.group_protocol import Assignment, MemberState
from headwater.connect.distributed.worker_membership import Membership
from headwater.connect.runtime.task import TaskId
from headwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from headwater.wire.messages.leave_group import LeaveGroupResponse
from headwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PATIENCE_S = 60.0
TASK = TaskId("c", 0)


class Session:
    """What `Admin.run` gives to its call: a session that hands requests to the coordinator."""

    def __init__(self, coordinator: "Coordinator") -> None:
        self._coordinator = coordinator

    def call_coordinator(self, _key: str, _type: Any, request: Any, *_rest: Any, **_more: Any) -> Any:
        return self._coordinator.answer(request)


class Coordinator:
    """One member, which leads. `heartbeats` are the codes of the next heartbeats; NONE when there are no more."""

    def __init__(self, *joins: ErrorCode) -> None:
        self.joins, self.heartbeats = list(joins), list[ErrorCode]()
        self.generation, self.knows_generations = 0, False
        self.member = "m"
        self.joined_late: threading.Event | None = None  # not None: answers to joins wait for it
        self.next_generation = threading.Event()
        self.asked: list[str] = []
        self.now = 0.0
        self.out_of_reach: list[float] = []  # the next calls fail, each after so many seconds
        self.reached = False

    def run(self, call: Any) -> Any:
        if self.reached and self.out_of_reach:
            self.now += self.out_of_reach.pop(0)
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "out of reach")
        return call(Session(self))

    def close(self) -> None: ...

    def answer(self, request: Any) -> Any:
        if isinstance(request, JoinGroupRequest):
            self.asked.append(f"join {request.member_id}")
            code = self.joins.pop(0) if self.joins else ErrorCode.NONE
            if code:
                return JoinGroupResponse(error_code=code, member_id="m" if code is ErrorCode.MEMBER_ID_REQUIRED else "")
            self.generation += 1
            self._metadata = bytes(request.protocols[0].metadata)
            me = JoinGroupResponseMember(member_id=self.member, metadata=self._metadata)
            if self.joined_late is not None:
                self.next_generation.set()
                assert self.joined_late.wait(PATIENCE_S)
            return JoinGroupResponse(
                generation_id=self.generation, leader=self.member, member_id=self.member, members=[me]
            )
        if isinstance(request, SyncGroupRequest):
            self.reached = True
            return SyncGroupResponse(assignment=request.assignments[0].assignment)
        if isinstance(request, HeartbeatRequest):
            if self.knows_generations and (request.generation_id, request.member_id) != (self.generation, self.member):
                if self.joined_late is not None:
                    self.joined_late.set()
                return HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION)
            return HeartbeatResponse(error_code=self.heartbeats.pop(0) if self.heartbeats else ErrorCode.NONE)
        self.asked.append("leave")
        return LeaveGroupResponse()


class Host:
    def __init__(self) -> None:
        self.owned: Resources = frozenset()
        self.said: list[Resources] = []
        self.events: list[str] = []
        self.changed = threading.Condition()

    def _note(self, event: str) -> None:
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def until(self, *events: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.events == list(events), PATIENCE_S), self.events

    def held(self) -> Resources:
        return self.owned

    def decide(self, members: Mapping[str, MemberState], leader: str) -> Mapping[str, Assignment]:
        self.said.append(members[leader].held)
        return {leader: Assignment(leader, members[leader].url, frozenset({TASK}))}

    def assigned(self, assignment: Assignment, *, leads: bool, generation: int) -> None:
        assert leads
        self.owned = assignment.assigned
        self._note(f"assigned {generation}")

    def lost(self) -> None:
        self.owned = frozenset()
        self._note("lost")

    def refused(self, error: KafkaError) -> None:
        self._note(f"refused {error.code.name}")


def membership(coordinator: Coordinator, host: Host, heartbeat_ms: int = 1) -> Membership:
    client: Any = coordinator
    made = Membership(
        client, client, "g", "http://w:1/", host,
        session_timeout_ms=6000, rebalance_timeout_ms=6000, heartbeat_interval_ms=heartbeat_ms,
    )  # fmt: skip
    made.start()
    return made


def test_a_worker_joins_leads_and_leaves() -> None:
    coordinator, host = Coordinator(ErrorCode.MEMBER_ID_REQUIRED), Host()
    made = membership(coordinator, host, 60_000)
    host.until("assigned 1")
    assert made.is_member()
    made.rejoin()
    host.until("assigned 1", "assigned 2")
    made.close()
    assert coordinator.asked == ["join ", "join m", "join m", "leave"]
    assert host.said == [frozenset(), frozenset({TASK})]


def test_a_group_that_is_balanced_anew_is_joined_with_what_runs() -> None:
    coordinator, host = Coordinator(), Host()
    coordinator.heartbeats = [ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS]
    made = membership(coordinator, host)
    host.until("assigned 1", "assigned 2")
    made.close()
    assert host.said == [frozenset(), frozenset({TASK})]


def test_a_worker_that_was_forgotten_stops_everything_before_it_comes_back() -> None:
    coordinator, host = Coordinator(), Host()
    coordinator.heartbeats = [ErrorCode.UNKNOWN_MEMBER_ID]
    made = membership(coordinator, host)
    host.until("assigned 1", "lost", "assigned 2")
    made.close()
    assert host.said == [frozenset(), frozenset()]
    assert coordinator.asked == ["join ", "join ", "leave"]


def test_a_worker_knows_whether_it_is_a_member() -> None:
    coordinator, host = Coordinator(), Host()
    made = membership(coordinator, host, 60_000)
    host.until("assigned 1")
    coordinator.heartbeats = [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID]
    assert made.is_member()
    assert not made.is_member()
    made.close()


def test_a_generation_that_ends_while_a_task_asks_is_not_the_end_of_its_membership() -> None:
    coordinator, host = Coordinator(), Host()
    coordinator.knows_generations = True
    made = membership(coordinator, host, 60_000)
    host.until("assigned 1")
    coordinator.joined_late = threading.Event()
    made.rejoin()
    assert coordinator.next_generation.wait(PATIENCE_S)  # of which the worker has yet to hear
    assert made.is_member()
    host.until("assigned 1", "assigned 2")
    made.close()


def test_a_member_that_was_forgotten_is_none_though_its_worker_has_come_back() -> None:
    coordinator, host = Coordinator(), Host()
    coordinator.knows_generations = True
    made = membership(coordinator, host, 60_000)
    host.until("assigned 1")
    coordinator.member = "another"
    assert not made.is_member()
    host.until("assigned 1", "lost", "assigned 2")
    assert made.is_member()
    made.close()


def test_a_mixed_group_is_refused_and_not_tried_again() -> None:
    coordinator, host = Coordinator(ErrorCode.INCONSISTENT_GROUP_PROTOCOL), Host()
    made = membership(coordinator, host)
    host.until("refused INCONSISTENT_GROUP_PROTOCOL")
    made.close()
    assert coordinator.asked == ["join "]


@pytest.mark.parametrize(
    ("out_of_reach", "events"),
    [([2.0, 2.0], ["assigned 1", "assigned 2"]), ([5.0, 5.0, 5.0, 5.0], ["assigned 1", "lost", "assigned 2"])],
)
def test_a_worker_out_of_reach_for_a_session_stops_everything_once(
    monkeypatch: pytest.MonkeyPatch, out_of_reach: list[float], events: list[str]
) -> None:
    coordinator, host = Coordinator(), Host()
    clock = SimpleNamespace(monotonic=lambda: coordinator.now, sleep=lambda _seconds: None)
    monkeypatch.setattr(worker_membership, "time", clock)
    coordinator.out_of_reach = out_of_reach
    made = membership(coordinator, host)
    host.until(*events)
    made.close()
    assert host.events == events
    assert (host.said[-1] == frozenset()) is ("lost" in events)
