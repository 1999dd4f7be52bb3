"""An application in a slot of its own process: which producer its slots get, and what it makes of brokers that are away
at the start.
"""

import base64
import pickle
import queue
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.streams.protocol import slot_messages as messages
from headwater.streams.protocol import task_ownership as protocol
from headwater.streams.slot import hosted_application
from headwater.streams.slot.hosted_application import HostedApplication
from headwater.streams.slot.open_task import Stopped

RUN = 5
PATIENCE_S = 120


class Fate:
    """What happens in the slots and with the brokers of a test: of this process, so that a program can be pickled."""

    made: list[protocol.SlotProducer]
    slot: "FakeSlot"
    closed: int
    given_up: int
    troubles: list[Exception]
    turns: list[Exception]
    directory: Path


def _trouble() -> None:
    if Fate.troubles:
        raise Fate.troubles.pop(0)


class FakeSlot:
    """Its tasks write from punctuators only: it fetches nothing."""

    fetched = 0
    dropped: dict[str, int] = {}  # noqa: RUF012
    is_paused: Callable[[], bool]

    def open(self) -> None:
        _trouble()

    def change_tasks(self, wanted: list[str], epoch: int) -> None:
        """All go well."""

    def turn(self) -> None:
        if Fate.turns:
            raise Fate.turns.pop()

    def give_up(self) -> None:
        Fate.given_up += 1

    def commit(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        Fate.closed += 1


class FakeProgram:
    class settings:
        for_admins: dict[str, Any] = {}  # noqa: RUF012
        queries = None

    def state_directory(self, cluster_id: str) -> Path:
        return Fate.directory / cluster_id

    def slot(self, _lead: Any, run: protocol.Run, name: str, *_: Any) -> FakeSlot:
        Fate.made.append(run.producers[name])
        Fate.slot = FakeSlot()
        return Fate.slot


class FakeAdmin:
    def __init__(self, _settings: Any) -> None:
        """Connects to nobody."""

    def __enter__(self) -> "FakeAdmin":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def describe_cluster(self) -> Any:
        _trouble()
        return type("Cluster", (), {"cluster_id": "cluster"})


class Hosted:
    """An application, and its lead."""

    def __init__(self) -> None:
        self.told: queue.SimpleQueue[messages.Message] = queue.SimpleQueue()
        program = base64.b64encode(pickle.dumps(FakeProgram())).decode()
        self.application = HostedApplication(
            0, messages.Introduce("app", program, RUN, 1, "me", "lead", 7, 0), self._hear
        )

    def _hear(self, message: messages.Message) -> None:
        if isinstance(message, messages.AskProducer):
            self.application.answer(messages.Producer("app", 7, 1, 1, "me", ""))
        else:
            self.told.put(message)

    def next(self) -> messages.Message:
        return self.told.get(timeout=PATIENCE_S)

    def get_ready(self) -> None:
        place = f"{socket.gethostname()}:{(Fate.directory / 'cluster').resolve()}"
        assert self.next() == messages.Ready("app", [], place, run=RUN)

    def stop(self) -> messages.Message:
        self.application.stop()
        last = self.next()
        self.application.join()
        return last


@pytest.fixture(autouse=True)
def _fate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Fate.made, Fate.closed, Fate.troubles, Fate.directory = [], 0, [], tmp_path
    Fate.given_up, Fate.turns = 0, []
    monkeypatch.setattr(hosted_application, "Admin", FakeAdmin)
    monkeypatch.setattr(hosted_application, "new_slot", lambda program, *given: program.slot(*given))
    monkeypatch.setattr(hosted_application, "_PAUSE_S", 0.0, raising=False)


def test_a_slot_that_has_tasks_again_has_another_producer_epoch_though_it_has_read_nothing() -> None:
    hosted = Hosted()
    hosted.get_ready()
    for grant, tasks in enumerate((["0_0"], [], ["0_0"])):
        hosted.application.assign(messages.Assign("app", grant, tasks))
        assert hosted.next() == messages.Owned("app", grant, tasks, run=RUN)
    assert [(each.producer_id, each.epoch) for each in Fate.made] == [(7, 0), (7, 1)]
    assert hosted.stop() == messages.Released("app", run=RUN)
    assert Fate.closed == 2


def test_a_slot_that_is_opened_while_its_application_is_paused_is_paused() -> None:
    hosted = Hosted()
    hosted.get_ready()
    hosted.application.pause(True)
    hosted.application.assign(messages.Assign("app", 1, ["0_0"]))
    assert hosted.next() == messages.Owned("app", 1, ["0_0"], run=RUN)
    assert Fate.slot.is_paused()
    hosted.application.pause(False)
    assert not Fate.slot.is_paused()
    assert hosted.stop() == messages.Released("app", run=RUN)


def test_brokers_that_are_away_while_a_slot_starts_are_asked_again() -> None:
    Fate.troubles = [TimeoutError("nobody answers")]
    hosted = Hosted()
    hosted.get_ready()
    Fate.troubles = [KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody answers"), TimeoutError("nor now")]
    hosted.application.assign(messages.Assign("app", 1, ["0_0"]))
    assert hosted.next() == messages.Owned("app", 1, ["0_0"], run=RUN)
    assert (len(Fate.made), Fate.closed) == (3, 2)
    assert hosted.stop() == messages.Released("app", run=RUN)


def test_what_does_not_pass_is_told_at_once() -> None:
    Fate.troubles = [KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "you may not")]
    hosted = Hosted()
    told = hosted.next()
    assert isinstance(told, messages.Failed)
    assert "you may not" in told.why
    hosted.application.join()


def test_tasks_are_given_up_where_something_has_failed_and_closed_where_it_has_not() -> None:
    """What a processor raised at its end was told as the failure, or made one of a slot that gave up."""
    hosted = Hosted()
    hosted.get_ready()
    Fate.turns = [Stopped()]
    hosted.application.assign(messages.Assign("app", 1, ["0_0"]))
    assert hosted.next() == messages.Owned("app", 1, ["0_0"], run=RUN)
    assert hosted.next() == messages.GaveUp("app", run=RUN)
    hosted.application.join()
    assert (Fate.given_up, Fate.closed) == (1, 1)
    hosted = Hosted()
    hosted.get_ready()
    hosted.application.assign(messages.Assign("app", 1, ["0_0"]))
    assert hosted.next() == messages.Owned("app", 1, ["0_0"], run=RUN)
    assert hosted.stop() == messages.Released("app", run=RUN)
    assert (Fate.given_up, Fate.closed) == (1, 2)


def test_a_slot_that_is_to_stop_does_not_wait_for_brokers() -> None:
    Fate.troubles = [TimeoutError("nobody answers")] * 1_000_000
    assert Hosted().stop() == messages.GaveUp("app", run=RUN)


def test_a_member_is_told_to_the_lead_before_a_newer_one_can_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the older one could be told last, and stay."""
    asked, told, others = threading.Event(), [], []

    class Lead(hosted_application.RemoteLead):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            assert asked.wait(PATIENCE_S)

        def member_changed(self, generation: int, member_id: str) -> None:
            def come() -> None:
                if lock.acquire(blocking=False):
                    others.append(generation)
                    lock.release()

            lock = hosted.application._changed
            other = threading.Thread(target=come)
            other.start()
            other.join()
            told.append(generation)
            super().member_changed(generation, member_id)

    monkeypatch.setattr(hosted_application, "RemoteLead", Lead)
    hosted = Hosted()
    hosted.application.answer(messages.NewMember("app", 2, "me"))  # before there is a lead
    asked.set()
    hosted.get_ready()
    hosted.application.answer(messages.NewMember("app", 3, "me"))
    assert (told, others) == ([2, 3], [])
    assert hosted.stop() == messages.Released("app", run=RUN)
