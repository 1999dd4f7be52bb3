"""The thread that reads a slot's connection waits for no application: else the others would hear nothing, no heartbeat
would be sent, and the lead would take the slot for dead.
"""

import base64
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.spark.slots.message_codec import EndLease, Heartbeat
from headwater.streams.protocol import slot_messages as messages
from headwater.streams.protocol import task_ownership as protocol
from headwater.streams.slot import hosted_application
from headwater.streams.slot.host import SlotHost

RUN = 5
PATIENCE_S = 120


class Fate:
    """Of this process, so that a program can be pickled."""

    directory: Path
    let_go: threading.Event
    members: list[protocol.Member]
    slot: "BusySlot"


class BusySlot:
    """Its user's code takes its time."""

    fetched = 3
    dropped: dict[str, int] = {}  # noqa: RUF012
    tasks = ()
    is_paused: Callable[[], bool]

    class report:
        errors: list[Any] = []  # noqa: RUF012

        @staticmethod
        def rows(_tasks: Any) -> list[Any]:
            return []

    def open(self) -> None:
        """Goes well."""

    def change_tasks(self, wanted: list[str], epoch: int) -> None:
        """Goes well."""

    def turn(self) -> None:
        assert Fate.let_go.wait(PATIENCE_S)

    def commit(self) -> None:
        """Nothing to do."""

    def give_up(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


class Program:
    class settings:
        for_admins: dict[str, Any] = {}  # noqa: RUF012
        queries = None

    def state_directory(self, cluster_id: str) -> Path:
        return Fate.directory / cluster_id

    def slot(self, _lead: Any, run: protocol.Run, *_: Any) -> BusySlot:
        Fate.members.append(run.member)
        Fate.slot = BusySlot()
        return Fate.slot


class FakeAdmin:
    def __init__(self, _settings: Any) -> None:
        """Connects to nobody."""

    def __enter__(self) -> "FakeAdmin":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def describe_cluster(self) -> Any:
        return type("Cluster", (), {"cluster_id": "cluster"})


class Driven:
    """A host, and what it says."""

    def __init__(self) -> None:
        self.said: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.host = SlotHost(0, self.said.put)

    def take(self, message: messages.Message) -> None:
        """In a thread of its own, so that one that waits fails the test instead of hanging it."""
        reader = threading.Thread(target=self.host.take, args=(message,), daemon=True)
        reader.start()
        reader.join(PATIENCE_S / 4)
        waits = reader.is_alive()
        if waits:
            Fate.let_go.set()
            reader.join()
        assert not waits, f"the reading thread waits at {type(message).__name__}"

    def introduce(self, name: str) -> None:
        program = base64.b64encode(pickle.dumps(Program())).decode()
        self.take(messages.Introduce(name, program, RUN, 1, "me", "lead", 7, 0))

    def next(self) -> Any:
        return self.said.get(timeout=PATIENCE_S)

    def ready(self) -> str:
        told = self.next()
        assert isinstance(told, messages.Ready), told
        return told.application


@pytest.fixture
def driven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driven]:
    Fate.directory, Fate.let_go, Fate.members = tmp_path, threading.Event(), []
    monkeypatch.setattr(hosted_application, "Admin", FakeAdmin)
    monkeypatch.setattr(hosted_application, "new_slot", lambda program, *given: program.slot(*given))
    made = Driven()
    yield made
    Fate.let_go.set()
    made.host.lose()
    made.host.join()


def test_an_application_that_comes_again_while_its_earlier_run_is_busy_holds_up_nobody(driven: Driven) -> None:
    driven.introduce("app")
    assert driven.ready() == "app"
    driven.take(messages.Assign("app", 1, ["0_0"]))
    assert driven.next() == messages.Owned("app", 1, ["0_0"], run=RUN)

    driven.introduce("app")  # the earlier run is in its user's code
    driven.introduce("other")
    assert driven.ready() == "other"
    driven.host.beat(1e9)
    assert driven.next() == Heartbeat()
    assert driven.said.get(timeout=PATIENCE_S).application in ("app", "other")  # how far they are
    while not driven.said.empty():
        assert not isinstance(driven.next(), messages.Ready), "both runs would have the directories of tasks"

    driven.take(messages.NewMember("app", 2, "me too"))
    driven.take(messages.Assign("app", 2, ["0_0"]))
    Fate.let_go.set()
    assert driven.ready() == "app"
    assert driven.next() == messages.Owned("app", 2, ["0_0"], run=RUN)
    assert [(each.generation, each.member_id) for each in Fate.members] == [(1, "me"), (2, "me too")]
    assert driven.host.records == 6, "those of the earlier run are counted, too"
    driven.host.beat(2e9)
    assert driven.host.records == 6


def test_a_pause_is_heard_while_an_application_is_busy(driven: Driven) -> None:
    driven.introduce("app")
    assert driven.ready() == "app"
    driven.take(messages.Pause("app", paused=True))
    driven.take(messages.Assign("app", 1, ["0_0"]))
    assert driven.next() == messages.Owned("app", 1, ["0_0"], run=RUN)
    assert Fate.slot.is_paused()
    driven.take(messages.Pause("other", paused=False))  # which is not here
    assert Fate.slot.is_paused()
    driven.take(messages.Pause("app", paused=False))
    assert not Fate.slot.is_paused()


def test_a_lease_that_ends_while_an_earlier_run_is_busy_waits_for_both(driven: Driven) -> None:
    driven.introduce("app")
    assert driven.ready() == "app"
    driven.take(messages.Assign("app", 1, ["0_0"]))
    assert driven.next() == messages.Owned("app", 1, ["0_0"], run=RUN)
    driven.introduce("app")
    driven.take(EndLease())
    assert not driven.host.done
    Fate.let_go.set()
    driven.host.join()
    assert driven.host.done


def test_a_slot_loads_no_server_before_it_is_to_answer_queries() -> None:
    """It would be a quarter of what a process imports before it can take its tasks."""
    code = "import sys, headwater.streams.slot.host; sys.exit('headwater.streams.query.server' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0
