"""A lane to another broker over a wire of our own: order, time-outs, when it connects again, and who is told what."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.peers import Unreachable
from headwater.server import peer_lane
from headwater.server.peer_lane import PeerLane
from headwater.sim.clock import SimClock
from headwater.sim.scheduler import SimScheduler
from headwater.wire.headers import decode_request_header, response_header_bytes
from headwater.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

VERSION = 4


class FakeWire:
    def __init__(self, lane: PeerLane) -> None:
        self.lane = lane
        self.sent: list[int] = []  # correlation ids
        self.clients: list[str | None] = []
        self.is_closed = False

    def send(self, frame: bytes) -> None:
        header = decode_request_header(frame)
        self.sent.append(header.correlation_id)
        self.clients.append(header.client_id)

    def close(self) -> None:
        self.is_closed = True

    def answer(self, correlation_id: int, code: int = 0) -> None:
        body = b"".join(ListGroupsResponse(error_code=code, groups=[]).encode(VERSION))
        self.lane.received(self, response_header_bytes(16, VERSION, correlation_id) + body)


class Rig:
    """A lane, the wires it has dialled, and what was told."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.scheduler = SimScheduler(self.clock)
        self.wires: list[FakeWire] = []
        self.is_known = True
        self.told: list[tuple[str, Any]] = []
        self.lost = 0
        self.lane = PeerLane(self.scheduler, self.clock, self._dial, "broker-1", self._lost)

    def _lost(self) -> None:
        self.lost += 1

    def _dial(self, lane: PeerLane) -> FakeWire | None:
        if not self.is_known:
            return None
        self.wires.append(FakeWire(lane))
        return self.wires[-1]

    def ask(self, name: str, timeout_ms: int = 1000) -> None:
        def done(response: Any, problem: Unreachable | None) -> None:
            self.told.append((name, str(problem) if problem is not None else response.error_code))

        self.lane.ask(ListGroupsRequest(), VERSION, done, timeout_ms)

    def open(self) -> FakeWire:
        self.wires[-1].lane.opened(self.wires[-1])
        return self.wires[-1]

    def pass_ms(self, milliseconds: int) -> None:
        for _ in range(milliseconds):
            self.clock.advance(1)
            self.scheduler.run_due()


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_what_is_asked_while_it_connects_is_sent_in_order_when_it_has(rig: Rig) -> None:
    rig.ask("first")
    rig.ask("second")
    assert rig.wires[0].sent == []
    wire = rig.open()
    rig.ask("third")
    assert wire.sent == [0, 1, 2]
    assert set(wire.clients) == {"broker-1"}
    for correlation_id in range(3):
        wire.answer(correlation_id, correlation_id)
    assert rig.told == [("first", 0), ("second", 1), ("third", 2)]
    assert len(rig.wires) == 1


def test_a_broker_that_nobody_knows_is_told_after_the_call(rig: Rig) -> None:
    rig.is_known = False
    rig.ask("one")
    assert rig.told == [], "never inside ask"
    rig.scheduler.run_due()
    assert rig.told == [("one", "not known")]


def test_a_lost_connection_is_told_to_all_and_the_next_request_makes_another(rig: Rig) -> None:
    rig.ask("answered")
    wire = rig.open()
    wire.answer(0)
    rig.ask("first")
    rig.ask("second")
    rig.lane.lost(wire, "reset")
    rig.scheduler.run_due()
    assert rig.told[1:] == [("first", "reset"), ("second", "reset")]
    rig.ask("third")
    rig.pass_ms(60)
    assert len(rig.wires) == 2
    rig.open().answer(3)
    assert rig.told[-1] == ("third", 0)
    wire.answer(9)
    rig.lane.lost(wire, "again")  # of a connection that is no more
    rig.scheduler.run_due()
    assert len(rig.told) == 4


def test_connecting_again_waits_longer_each_time_but_no_more_than_a_second(rig: Rig) -> None:
    waits = []
    for _ in range(8):
        count = len(rig.wires)
        rig.ask("one", 5000)
        began_ms = rig.clock.monotonic_ms()
        while len(rig.wires) == count:
            rig.pass_ms(1)
        waits.append(rig.clock.monotonic_ms() - began_ms)
        rig.lane.lost(rig.wires[-1], "refused")
        rig.scheduler.run_due()
    assert waits == [0, 50, 100, 200, 400, 800, 1000, 1000]


def test_an_answer_ends_the_waiting(rig: Rig) -> None:
    for _ in range(5):
        rig.ask("one", 5000)
        rig.pass_ms(1000)
        rig.lane.lost(rig.wires[-1], "refused")
        rig.scheduler.run_due()
    rig.ask("two", 5000)
    rig.pass_ms(1000)
    rig.open().answer(5)
    rig.lane.lost(rig.wires[-1], "reset")
    count = len(rig.wires)
    rig.ask("three")
    rig.pass_ms(50)
    assert len(rig.wires) == count + 1


def test_after_a_connection_that_has_answered_the_next_is_tried_at_once_and_then_later(rig: Rig) -> None:
    rig.ask("one")
    rig.open().answer(0)
    rig.lane.lost(rig.wires[-1], "reset")
    rig.ask("two")
    assert len(rig.wires) == 2
    rig.lane.lost(rig.wires[-1], "refused", is_refused=True)
    rig.ask("three")
    rig.pass_ms(49)
    assert len(rig.wires) == 2
    rig.pass_ms(1)
    assert len(rig.wires) == 3


def test_the_end_of_a_connection_is_told_if_it_was_open_and_not_ended_here(rig: Rig) -> None:
    rig.ask("refused")
    rig.lane.lost(rig.wires[-1], "refused", is_refused=True)
    assert rig.lost == 0
    rig.ask("answered")
    rig.pass_ms(60)
    rig.open().answer(1)
    rig.lane.lost(rig.wires[-1], "reset")
    assert rig.lost == 1
    rig.ask("answered")
    rig.open()
    rig.lane.drop("the broker is gone")
    assert rig.lost == 1


def test_a_refusal_is_told_as_one(rig: Rig) -> None:
    problems: list[Unreachable | None] = []
    for is_refused in (True, False):
        rig.lane.ask(ListGroupsRequest(), VERSION, lambda _response, problem: problems.append(problem), 1000)
        rig.pass_ms(100)
        rig.lane.lost(rig.wires[-1], "no connection", is_refused=is_refused)
        rig.scheduler.run_due()
    assert [problem is not None and problem.is_refused for problem in problems] == [True, False]


def test_a_request_that_waits_for_a_connection_is_told_when_its_time_is_over(rig: Rig) -> None:
    rig.ask("short", 100)
    rig.ask("long", 500)
    rig.pass_ms(100)
    assert rig.told == [("short", "no answer in time")]
    assert not rig.wires[0].is_closed
    assert rig.open().sent == [1]
    rig.wires[0].answer(1)
    assert rig.told[1:] == [("long", 0)]


def test_a_first_answer_that_is_late_ends_the_connection(rig: Rig) -> None:
    rig.ask("first", 100)
    rig.ask("second", 500)
    wire = rig.open()
    rig.pass_ms(99)
    assert rig.told == []
    rig.pass_ms(1)
    assert rig.told == [("first", "no answer in time"), ("second", "no answer in time")]
    assert wire.is_closed


def test_a_later_answer_that_is_late_is_not_waited_for_and_is_thrown_away(rig: Rig) -> None:
    rig.ask("patient", 500)
    rig.ask("hasty", 100)
    wire = rig.open()
    rig.pass_ms(100)
    assert rig.told == [("hasty", "no answer in time")]
    assert not wire.is_closed
    wire.answer(0)
    wire.answer(1)
    assert rig.told[1:] == [("patient", 0)]
    rig.ask("next")
    wire.answer(2)
    assert rig.told[2:] == [("next", 0)]


@pytest.mark.parametrize("frame", [b"\0\0\0\x07\0\0", b"\0\0\0\0\0", b"\0\0"])
def test_an_answer_that_does_not_decode_ends_the_connection(rig: Rig, frame: bytes) -> None:
    rig.ask("one")
    wire = rig.open()
    rig.lane.received(wire, frame)
    rig.scheduler.run_due()
    assert wire.is_closed
    assert [name for name, _ in rig.told] == ["one"]
    assert "bad answer" in rig.told[0][1]


def test_an_answer_to_something_else_ends_the_connection(rig: Rig) -> None:
    rig.ask("one")
    wire = rig.open()
    wire.answer(7)
    rig.scheduler.run_due()
    assert wire.is_closed
    assert "answer 7 in place of 0" in rig.told[0][1]


def test_an_answer_that_nobody_asked_for_ends_the_connection(rig: Rig) -> None:
    rig.ask("one")
    wire = rig.open()
    wire.answer(0)
    wire.answer(1)
    assert wire.is_closed
    assert rig.told == [("one", 0)]


def test_whoever_is_told_may_ask_again_at_once(rig: Rig) -> None:
    answers: list[Any] = []

    def again(_response: Any, problem: Unreachable | None) -> None:
        assert problem is not None
        rig.ask("again")
        answers.append(problem)

    rig.lane.ask(ListGroupsRequest(), VERSION, again, 1000)
    rig.lane.lost(rig.wires[0], "refused")
    rig.pass_ms(60)
    assert len(answers) == 1
    rig.open().answer(1)
    assert rig.told == [("again", 0)]


def test_there_is_an_end_to_what_may_wait(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_lane, "ASKED_MAX", 2)
    for name in ("one", "two", "three"):
        rig.ask(name)
    rig.scheduler.run_due()
    assert rig.told == [("three", "too many requests wait for it")]


@pytest.mark.parametrize("is_open", [False, True])
def test_a_closed_lane_tells_nobody_and_connects_no_more(rig: Rig, is_open: bool) -> None:
    rig.ask("one")
    if is_open:
        rig.open()
    rig.lane.close()
    assert rig.wires[0].is_closed
    rig.pass_ms(3000)
    assert rig.told == []
    rig.ask("two")
    rig.scheduler.run_due()
    assert rig.told == [("two", "closed")]
    assert len(rig.wires) == 1


def test_a_forgotten_broker_is_told_to_those_who_wait_to_connect(rig: Rig) -> None:
    rig.ask("one")
    rig.lane.lost(rig.wires[0], "refused")
    rig.ask("two")
    drop: Callable[[str], None] = rig.lane.drop
    drop("the broker is gone")
    rig.pass_ms(200)
    assert rig.told == [("one", "refused"), ("two", "the broker is gone")]
    assert len(rig.wires) == 1
