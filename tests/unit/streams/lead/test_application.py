"""The lead of an application whose slots are other processes: what it tells them, with a cluster that does what the
test says.
"""

import queue
import threading
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.spark.slots.slot_links import SlotLink
from headwater.streams import App
from headwater.streams.lead import application
from headwater.streams.lead.application import ApplicationLead
from headwater.streams.lead.membership import Lead
from headwater.streams.lead.runtime import SlotRuntime
from headwater.streams.protocol import slot_messages as messages
from headwater.streams.protocol import task_ownership as protocol
from headwater.streams.slot.open_task import Stopped
from headwater.streams.slot.program import Program
from headwater.streams.slot.settings import RunSettings
from headwater.streams.topics.plan import TopicPlan

PATIENCE_S = 120
RUN = 5


class Cluster(Lead):
    """A lead's answers without a broker. `away`: nobody answers."""

    def __init__(self, *, joins_never: bool = False) -> None:
        self.joins_never = joins_never
        self.application_id = "app"
        self.away = False
        self.replaced = False
        self.replaced_when_asked = False  # nobody has told it before
        self.generation = 1
        self.taken: list[str] = []
        self.asked: list[protocol.Member] = []
        self.departure = ""
        self.offsets: dict[Any, Any] = {}

    def do(self, step: protocol.Step) -> Any:
        match step:
            case protocol.Join():
                while self.joins_never:
                    if self.given_up():
                        raise Stopped
                return self.member()
            case protocol.TakeRunNumber():
                return RUN
            case protocol.FindSlotIds():
                return ("app-slot-7",)
            case protocol.StillMember(member):
                self.asked.append(member)
                if self.replaced_when_asked:
                    raise protocol.Replaced("app")
                return self.tick()
            case protocol.TakeProducerId(name):
                self.taken.append(name)
                return protocol.SlotProducer(name, 1, len(self.taken))
        raise AssertionError(step)

    def member(self) -> protocol.Member:
        return protocol.Member("app", self.generation, "me", "lead")

    def tick(self) -> None:
        if self.replaced:
            raise protocol.Replaced("app")
        if self.away:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody answers")

    def commit(self, offsets: Any) -> None:
        self.offsets |= offsets

    def leave(self) -> None:
        self.departure = "left"

    def close(self) -> None:
        self.departure = "remains"


class FakeSlot(SlotLink):
    """A slot whose messages the test reads and writes."""

    def __init__(self, number: int, life: int, lead: ApplicationLead) -> None:
        self.number, self.life, self.process = number, life, f"process-{life}"
        self._lead = lead
        self._told: queue.SimpleQueue[messages.Message] = queue.SimpleQueue()
        lead.joined(self)

    def send(self, message: messages.Message) -> None:
        self._told.put(message)

    def next(self) -> Any:
        return self._told.get(timeout=PATIENCE_S)

    def say(self, message: messages.OfApplication, run: int = RUN) -> None:
        self._lead.said(self, replace(message, run=run))

    def get_ready(self) -> messages.Introduce:
        introduced: messages.Introduce = self.next()
        self.say(messages.Ready("app", []))
        return introduced

    def follow(self) -> list[str]:
        """Reads what it shall have, and does it."""
        told: messages.Assign = self.next()
        assert isinstance(told, messages.Assign), told
        self.say(messages.Owned("app", told.grant, told.tasks))
        return told.tasks


class World:
    def __init__(self, expected: tuple[int, ...], *, joins_never: bool = False) -> None:
        app = App("app", key="text", value="text")
        app.stream("in").to("out")
        topics = TopicPlan(tasks={0: 2}, sources={"in": 2})
        settings = RunSettings("nowhere:1", None)  # type: ignore[arg-type]
        program = Program("app", app.topology().sub_topologies(), topics, app.settings(), settings, frozenset())
        self.cluster = Cluster(joins_never=joins_never)
        self.lead = ApplicationLead(program, "pickled", expected, make_lead=lambda _: self.cluster)
        self.lead.start()
        self._lives = 0

    def slot(self, number: int) -> FakeSlot:
        self._lives += 1
        return FakeSlot(number, self._lives, self.lead)

    def close(self) -> None:
        self.lead.ask_to_stop()
        self.lead.join()


@pytest.fixture
def world() -> Iterator[World]:
    world = World((0, 1))
    yield world
    world.cluster.away = False
    world.close()


def _two(world: World) -> tuple[FakeSlot, FakeSlot]:
    first, second = world.slot(0), world.slot(1)
    first.get_ready()
    second.get_ready()
    assert (first.follow(), second.follow()) == (["0_0"], ["0_1"])
    world.lead.wait_started()
    return first, second


def _stop(world: World, *slots: FakeSlot) -> None:
    world.lead.ask_to_stop()
    for slot in slots:
        assert slot.next() == messages.StopApplication("app")
        slot.say(messages.Released("app"))


def test_slots_are_told_who_they_are_and_what_they_have(world: World) -> None:
    slot = world.slot(0)
    introduced = slot.get_ready()
    assert (introduced.run, introduced.generation, introduced.member_id) == (RUN, 1, "me")
    assert (introduced.producer_id, introduced.producer_epoch) == (1, 2)
    assert world.cluster.taken == ["app-slot-7", "app-slot-0"]  # those of earlier runs are fenced first
    other = world.slot(1)
    other.get_ready()
    assert (slot.follow(), other.follow()) == (["0_0"], ["0_1"])
    world.lead.wait_started()
    _stop(world, slot, other)
    world.lead.join()
    assert world.cluster.departure == "left"


def test_the_tasks_of_a_lost_slot_go_on_elsewhere_once_it_is_fenced(world: World) -> None:
    first, second = _two(world)
    world.lead.gone(second)
    assert first.follow() == ["0_0", "0_1"]
    assert world.cluster.taken[-1] == "app-slot-1"
    _stop(world, first)


def test_while_it_cannot_be_fenced_they_wait(world: World) -> None:
    first, second = _two(world)
    taken = len(world.cluster.taken)
    world.cluster.away = True
    world.lead.gone(second)
    first.say(messages.AskProducer("app"))  # is answered after that
    answer: messages.Producer = first.next()
    assert "nobody answers" in answer.refused
    assert len(world.cluster.taken) == taken
    world.cluster.away = False
    assert first.follow() == ["0_0", "0_1"]
    _stop(world, first)


def test_a_slot_that_was_given_up_gets_no_producer_id(world: World) -> None:
    first, second = _two(world)
    world.lead.gone(second)
    second.say(messages.AskProducer("app"))
    second.say(messages.CommitOffsets("app", [["in", 1, 9, ""]]))
    first.say(messages.AskProducer("app"))
    assert first.follow() == ["0_0", "0_1"]
    assert isinstance(first.next(), messages.Producer)
    assert world.cluster.taken.count("app-slot-1") == 2  # when it came, and when it was fenced
    assert world.cluster.offsets == {}
    assert second._told.empty()
    _stop(world, first)


def test_a_new_generation_is_told_to_all(world: World) -> None:
    first, second = _two(world)
    world.cluster.generation = 2
    assert first.next() == second.next() == messages.NewMember("app", 2, "me")
    _stop(world, first, second)


def test_a_pause_is_told_to_all_slots_and_to_those_that_come(world: World) -> None:
    first, second = _two(world)
    world.lead.pause(True)
    assert first.next() == second.next() == messages.Pause("app", paused=True)
    assert world.lead.paused
    third = world.slot(2)
    third.get_ready()
    assert third.next() == messages.Pause("app", paused=True)
    world.lead.pause(False)
    assert first.next() == second.next() == third.next() == messages.Pause("app", paused=False)
    fourth = world.slot(3)
    fourth.get_ready()
    _stop(world, first, second, third, fourth)


def test_what_fails_in_a_slot_ends_the_application_and_is_told(world: World) -> None:
    first, second = _two(world)
    first.say(messages.Failed("app", "It failed", "because", "do this"))
    assert second.next() == messages.StopApplication("app")
    second.say(messages.Released("app"))
    with pytest.raises(UserError, match=r"It failed. because. do this"):
        world.lead.wait()
    assert world.cluster.departure == "remains"
    assert world.lead.status["state"] == "failed"


def test_what_fails_in_the_last_commit_of_a_slot_is_told_when_the_others_have_stopped(world: World) -> None:
    """`stop` returned as if all were well, and did not wait for the other slots."""
    first, second = _two(world)
    world.lead.ask_to_stop()
    assert first.next() == second.next() == messages.StopApplication("app")
    first.say(messages.Failed("app", "A record is refused", "it is too large"))
    while world.cluster.taken.count("app-slot-0") < 2:
        assert not world.lead.wait(0.01)
    assert not world.lead.wait(0.2)
    second.say(messages.Failed("app", "Another one, too"))
    with pytest.raises(UserError, match="A record is refused"):
        world.lead.wait()
    assert world.cluster.taken.count("app-slot-1") == 2
    assert world.cluster.departure == "remains"
    assert world.lead.status["state"] == "failed"


def test_a_stop_while_brokers_are_away_does_not_wait_a_minute_for_each_slot(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = _two(world)
    clock, asked = [0.0], []

    def away(step: protocol.Step) -> Any:
        asked.append(step)
        clock[0] += 60
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody answers")

    monkeypatch.setattr(application, "time", SimpleNamespace(monotonic=lambda: clock[0], time_ns=lambda: 0))
    monkeypatch.setattr(world.cluster, "do", away)
    world.lead.ask_to_stop()
    for each in slots:
        assert each.next() == messages.StopApplication("app")
    for each in slots:
        each.say(messages.GaveUp("app"))
    world.lead.join()
    assert len(asked) == 1
    assert world.cluster.departure == "remains"


def test_who_hears_of_the_end_may_stop_the_runtime(world: World) -> None:
    """The runtime waited for the thread of the application, which waited for the runtime."""
    runtime, hung = SlotRuntime(1), list[bool]()
    runtime._applications["app"] = world.lead

    def stop_runtime() -> None:
        keeper = threading.Thread(target=runtime.close, daemon=True)
        keeper.start()
        keeper.join(5)
        hung.append(keeper.is_alive())

    world.lead.on_end(stop_runtime)
    world.lead.ask_to_stop()
    world.lead.join()
    runtime.close_port()
    assert hung == [False]


def test_who_was_replaced_stops_its_slots_and_fences_nobody(world: World) -> None:
    first, second = _two(world)
    taken = list(world.cluster.taken)
    world.cluster.replaced = True
    assert first.next() == second.next() == messages.StopApplication("app")
    first.say(messages.GaveUp("app"))
    second.say(messages.GaveUp("app"))
    with pytest.raises(protocol.Replaced):
        world.lead.wait()
    assert world.cluster.taken == taken


def test_a_slot_that_asks_a_lead_that_was_replaced_is_answered(world: World) -> None:
    """It was left to wait for 300 s, with the state of its tasks open where the successor wanted to open it."""
    first, second = _two(world)
    world.cluster.replaced_when_asked = True
    first.say(messages.AskProducer("app"))
    answer: messages.Producer = first.next()
    assert isinstance(answer, messages.Producer), answer
    assert (answer.producer_id, "has taken over" in answer.refused) == (-1, True)
    assert first.next() == messages.StopApplication("app")
    for each in (first, second):
        each.say(messages.GaveUp("app"))
    with pytest.raises(protocol.Replaced):
        world.lead.wait()


def test_a_slot_that_gives_up_when_it_is_to_stop_is_fenced(world: World) -> None:
    first, second = _two(world)
    world.lead.ask_to_stop()
    first.next()
    first.say(messages.Released("app"))
    second.next()
    second.say(messages.GaveUp("app"))
    world.lead.join()
    assert world.cluster.taken.count("app-slot-1") == 2
    assert world.cluster.departure == "left"


def test_a_slot_that_is_told_twice_is_introduced_once(world: World) -> None:
    first = world.slot(0)
    world.lead.joined(first)
    second = world.slot(1)
    first.get_ready()
    second.get_ready()
    assert (first.follow(), second.follow()) == (["0_0"], ["0_1"])
    assert world.cluster.taken.count("app-slot-0") == 1
    _stop(world, first, second)


def test_a_slot_that_gave_up_and_lives_is_fenced_and_introduced_anew(world: World) -> None:
    first, second = _two(world)
    second.say(messages.GaveUp("app"))
    assert first.follow() == ["0_0", "0_1"]
    assert second.get_ready().producer_epoch == len(world.cluster.taken)
    assert first.follow() == ["0_0"]
    assert second.follow() == ["0_1"]
    _stop(world, first, second)


def test_a_slot_that_waits_to_be_introduced_anew_is_not_once_the_application_stops(world: World) -> None:
    """It was when brokers came back, and the stop waited for it, for 30 s."""
    first, second = _two(world)
    world.cluster.away = True
    second.say(messages.GaveUp("app"))
    world.lead.ask_to_stop()
    assert first.next() == messages.StopApplication("app")
    world.cluster.away = False
    while world.cluster.taken.count("app-slot-1") < 2:
        assert not world.lead.wait(0.01)
    first.say(messages.Released("app"))
    world.lead.join()
    assert second._told.empty()
    assert world.cluster.departure == "left"


def test_a_slot_that_gave_up_at_the_end_of_its_lease_is_not(world: World) -> None:
    first, second = _two(world)
    world.lead.expect((1,))
    second.say(messages.GaveUp("app"))
    again = world.slot(1)
    again.get_ready()
    assert again.follow() == ["0_1"]
    first.say(messages.AskProducer("app"))
    assert isinstance(first.next(), messages.Producer)
    assert second._told.empty()
    _stop(world, first, again)


def test_a_new_lease_does_not_wait_for_slots_that_were_not_there(world: World) -> None:
    """They used to be waited for, for 10 s: also those of an executor that was lost, or that is just starting."""
    first, second = _two(world)
    world.lead.expect((0, 1, 2))
    for each in (first, second):
        each.say(messages.Released("app"))
    again = [world.slot(number) for number in (2, 0)]
    for each in again:
        each.get_ready()
    assert sorted(task for each in again for task in each.follow()) == ["0_0", "0_1"]
    _stop(world, *again)


def test_an_id_is_taken_as_the_member_of_the_moment(world: World) -> None:
    first, second = _two(world)
    world.cluster.generation = 2
    first.say(messages.AskProducer("app"))
    assert first.next() == second.next() == messages.NewMember("app", 2, "me")
    answer: messages.Producer = first.next()
    assert answer.generation == 2
    assert world.cluster.asked[-1].generation == 2
    _stop(world, first, second)


@pytest.mark.parametrize("error", [None, UserError("Spark is gone")])
def test_an_application_is_stopped_while_it_still_joins(error: UserError | None) -> None:
    world = World((0,), joins_never=True)
    slot = world.slot(0)
    world.lead.ask_to_stop(error)
    world.lead.join()
    assert slot._told.empty()
    assert world.cluster.departure == "remains"
    assert world.lead.status["state"] == ("stopped" if error is None else "failed")
    if error is not None:
        with pytest.raises(UserError, match="Spark is gone"):
            world.lead.wait()


@pytest.mark.parametrize(
    "late",
    [
        messages.Released("app"),
        messages.GaveUp("app"),
        messages.Failed("app", "The earlier run failed"),
        messages.AskProducer("app"),
        messages.CommitOffsets("app", [["in", 1, 9, ""]]),
    ],
)
def test_what_an_earlier_run_still_says_is_not_of_this_one(world: World, late: messages.OfApplication) -> None:
    """It ends in the slot while the next one begins: its last word made the lead forget the slot that had just come."""
    first, second = world.slot(0), world.slot(1)
    first.next()
    first.say(late, run=RUN - 1)
    first.say(messages.Ready("app", []))
    second.get_ready()
    assert (first.follow(), second.follow()) == (["0_0"], ["0_1"])
    assert world.cluster.taken == ["app-slot-7", "app-slot-0", "app-slot-1"]
    assert not world.cluster.offsets
    _stop(world, first, second)
