"""What a slot does with what it is told while its tasks hang: nothing that one of them waits for holds up the rest."""

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.connect.config.worker import WorkerConfig
from headwater.connect.errors import ConnectError
from headwater.connect.runtime import task
from headwater.connect.runtime.offsets import MemoryOffsetStore
from headwater.connect.runtime.task import State, TaskId, WorkerTask
from headwater.connect.runtime.worker import Worker
from headwater.connect.slots import slot_host
from headwater.connect.slots import task_messages as messages
from headwater.connect.slots.slot_host import Ask, SlotHost
from headwater.spark.slots.message_codec import EndLease

PATIENCE_S = 60.0
PROPS = {"key.converter": "StringConverter", "value.converter": "StringConverter", "offset.storage.file.filename": "f"}
CONFIG = {"name": "n", "connector.class": "FileStreamSource", "topic": "t", "tasks.max": "1"}


class Committing(WorkerTask):
    """Commits once, which waits for an answer of the worker ("asks"), or for a test ("hangs")."""

    def __init__(self, begin: messages.Begin, ask: Ask) -> None:
        super().__init__(TaskId(begin.connector, begin.number), restart=False, secrets=frozenset(), paused=begin.paused)
        self._run_number, self._how, self._ask = begin.run, begin.config.get("how"), ask
        self.hangs, self.released, self.was_cancelled = threading.Event(), threading.Event(), threading.Event()
        self.outcome: object = None

    def work(self) -> None:
        self.running()
        with self.committing:
            if self._how == "asks":
                try:
                    self.outcome = self._ask(self._run_number, "set_offsets", [])
                except ConnectError as error:
                    self.outcome = error
            elif self._how == "hangs":
                self.hangs.set()
                self.released.wait()
        self.stopping.wait()

    def cancel(self) -> None:
        super().cancel()
        self.was_cancelled.set()


class Slot:
    """A host, what it said, and the tasks that it has made; `may_make` holds them back."""

    def __init__(self, folder: Path) -> None:
        self.said: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.made: dict[str, Committing] = {}
        self.failures: list[Exception] = []  # of the next tasks that are to be made
        self.may_make = threading.Event()
        self.may_make.set()
        self._serve = messages.Serve({**PROPS, "offset.storage.file.filename": str(folder / "offsets")})
        self.host = SlotHost(self.said.put, self._make_worker)
        self.host.take(self._serve)

    def _make_worker(self, serve: messages.Serve, ask: Ask) -> "Slot":
        self.worker = Worker(WorkerConfig(serve.props), MemoryOffsetStore())
        self._ask = ask
        return self

    def task(self, begin: messages.Begin, make: Callable[[], WorkerTask]) -> WorkerTask:
        del make
        assert self.may_make.wait(PATIENCE_S)
        if self.failures:
            raise self.failures.pop()
        made = self.made[begin.connector] = Committing(begin, self._ask)
        return made

    def close(self) -> None: ...

    def begin(self, run: int, connector: str, how: str = "idles") -> None:
        self.host.take(messages.Begin(run, connector, 0, {**CONFIG, "how": how}, 1, False))

    def until_said(self, kind: type, run: int) -> Any:
        while True:
            message = self.said.get(timeout=PATIENCE_S)
            if isinstance(message, kind) and message.run == run:  # type: ignore[attr-defined]
                return message

    def end(self) -> None:
        for each in self.made.values():
            each.released.set()
            each.begin_stop()
        for each in self.made.values():
            assert each.join(PATIENCE_S)


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[Slot]:
    made = Slot(tmp_path)
    yield made
    made.host.lose()
    made.end()


def in_time(function: Callable[..., None], *arguments: Any) -> bool:
    """Whether it returns, where it once did not."""
    thread = threading.Thread(target=function, args=arguments, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return not thread.is_alive()


def test_a_task_is_given_up_while_it_waits_for_an_answer_which_still_comes(slot: Slot) -> None:
    """The thread that reads is the only one that can hand it over."""
    slot.begin(1, "a", "asks")
    call = slot.until_said(messages.Call, 1)
    assert in_time(slot.host.take, messages.GiveUp(1))
    slot.host.take(messages.Answer(call.call, "", ["written"]))
    slot.until_said(messages.Ended, 1)
    task = slot.made["a"]
    assert task.outcome == ["written"], "what was being committed is before the cancel"
    assert task.was_cancelled.wait(PATIENCE_S)
    assert task.cancelled


def test_a_task_that_hangs_in_its_commit_does_not_hold_up_the_cancel_of_others(slot: Slot) -> None:
    slot.begin(1, "a", "hangs")
    slot.until_said(messages.Told, 1)
    assert slot.made["a"].hangs.wait(PATIENCE_S)
    slot.begin(2, "b")
    slot.until_said(messages.Told, 2)
    assert in_time(slot.host.lose)
    assert slot.made["b"].was_cancelled.wait(PATIENCE_S)
    assert not slot.made["a"].cancelled
    slot.made["a"].released.set()
    assert slot.made["a"].was_cancelled.wait(PATIENCE_S)


def test_who_waits_for_an_answer_at_the_end_of_a_lease_gets_none(slot: Slot) -> None:
    slot.begin(1, "a", "asks")
    slot.until_said(messages.Call, 1)
    slot.host.take(EndLease())
    assert in_time(slot.host.close)
    slot.until_said(messages.Ended, 1)
    assert "is gone" in str(slot.made["a"].outcome)


def test_what_does_not_end_with_its_slot_is_left_and_logged(
    slot: Slot, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(slot_host, "_CANCELLED_S", 0.01)
    slot.begin(1, "a", "hangs")
    slot.until_said(messages.Told, 1)
    assert slot.made["a"].hangs.wait(PATIENCE_S)
    assert in_time(slot.host.close)
    assert "event=task-left connector='a' task=0" in caplog.text


@pytest.mark.parametrize(("paused", "state"), [(True, State.PAUSED), (False, State.RUNNING)])
def test_a_pause_before_the_task_is_made_counts(slot: Slot, paused: bool, state: State) -> None:
    slot.may_make.clear()
    slot.begin(1, "a")
    slot.host.take(messages.Pause(1, True))
    slot.host.take(messages.Pause(1, paused))
    slot.may_make.set()
    assert slot.until_said(messages.Told, 1).state == str(state)


def test_a_task_that_is_given_up_before_it_is_made_never_begins(slot: Slot) -> None:
    slot.may_make.clear()
    slot.begin(1, "a")
    slot.host.take(messages.GiveUp(1))
    slot.may_make.set()
    assert slot.said.get(timeout=PATIENCE_S) == messages.Ended(1)
    made, slot.made = slot.made, {}
    assert made["a"].state is State.UNASSIGNED


def test_a_task_that_cannot_be_made_yet_is_made_later(slot: Slot, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a secret comes to a machine after the slot: its task was FAILED for good, whatever errors.restart
    says.
    """
    monkeypatch.setattr(task, "restart_delay_s", lambda _in_a_row: 0.01)
    slot.failures = [ConnectError("no such file"), ConnectError("no such file")]
    slot.begin(1, "a")
    first, second, third = (slot.until_said(messages.Told, 1) for _ in range(3))
    assert [each.state for each in (first, second, third)] == ["FAILED", "FAILED", "RUNNING"]
    assert first.trace.startswith("(this task is started again in 0.01 s; failures in a row: 1)")
    assert "no such file" in second.trace
    assert second.restarts == 1


def test_a_task_that_is_not_to_be_started_again_is_not_made_again(slot: Slot) -> None:
    slot.failures = [ConnectError("no such file")]
    slot.host.take(messages.Begin(1, "a", 0, {**CONFIG, "errors.restart": "false"}, 1, False))
    told = slot.until_said(messages.Told, 1)
    assert (told.state, "again" in told.trace) == ("FAILED", False)
    slot.until_said(messages.Ended, 1)


def test_a_task_that_waits_for_its_next_try_ends_when_it_is_to(slot: Slot) -> None:
    slot.failures = [ConnectError("no such file")]
    slot.begin(1, "a")
    slot.until_said(messages.Told, 1)
    slot.host.take(messages.End(1))
    slot.until_said(messages.Ended, 1)
    assert slot.made == {}
