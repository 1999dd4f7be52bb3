"""The status of an application, and the server that tells it: what it says, whom, and where it is found."""

import json
import stat
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from headwater.cli.lead_status import NotRunning, known_applications, status_of
from headwater.cli.root import run
from headwater.streams.lead.status import SlotStatus, document
from headwater.streams.lead.status_server import publish, read_note

TASKS = ("0_0", "0_1", "1_0")


def _row(task: str, state: str = "running", lag: int | None = 0) -> dict[str, Any]:
    inputs = [{"topic": "in", "partition": 0, "position": 5, "end": None if lag is None else 5 + lag, "lag": lag}]
    return {
        "task": task,
        "state": state,
        "restored_records": 3,
        "restored_offsets": 4,
        "restore_offsets": 8,
        "inputs": inputs if state == "running" else [],
    }


def _states(found: dict[str, Any]) -> dict[str, tuple[str, int | None]]:
    return {task["task"]: (task["state"], task["slot"]) for task in found["tasks"]}


def test_tasks_run_are_restored_move_and_wait() -> None:
    slots = [SlotStatus(2, "host:1", 7, ["0_0"], 10, {"late": 1}, [_row("0_0", lag=3), _row("0_1", "restoring")])]
    found = document("app", (*TASKS, "1_1"), slots, {"0_0", "1_0"}, records_before=5)
    assert _states(found) == {
        "0_0": ("running", 2),
        "0_1": ("restoring", 2),
        "1_0": ("moving", None),
        "1_1": ("waiting", None),
    }
    assert found["state"] == "rebalancing"
    assert (found["records"], found["dropped"]) == (15, {"late": 1})
    restored = found["tasks"][1]
    assert (restored["restored_records"], restored["restored_offsets"], restored["restore_offsets"]) == (3, 4, 8)
    assert [task["lag"] for task in found["tasks"]] == [3, None, None, None]


def test_the_state_of_an_application_follows_from_its_tasks() -> None:
    def state(*rows: dict[str, Any], tasks: tuple[str, ...] = ("0_0",), phase: str = "", paused: bool = False) -> str:
        held = [row["task"] for row in rows if row["state"] == "running"]
        slots = [SlotStatus(0, "p", 1, held, rows=rows)]
        return str(document("app", tasks, slots, phase=phase, paused=paused)["state"])

    assert state(_row("0_0")) == "running"
    assert state(_row("0_0"), paused=True) == "paused"
    assert state(_row("0_0", "restoring"), paused=True) == "restoring"
    assert state(_row("0_0", "restoring")) == "restoring"
    assert state(_row("0_0"), tasks=("0_0", "0_1")) == "rebalancing"
    assert state(_row("0_0"), phase="stopping") == "stopping"


def test_copies_are_gone_through_once_and_not_for_each_task() -> None:
    """With thousands of tasks and a copy of each, every look at the status took seconds of the lead's thread."""
    gone_through = []

    class Copies(list[dict[str, Any]]):
        def __iter__(self) -> Any:
            gone_through.append(len(self))
            return super().__iter__()

    copies = [Copies({"task": task, "lag": lag, "restored_records": 1} for task in TASKS) for lag in (0, 5)]
    found = document("app", TASKS, [SlotStatus(n, "p", n, (), standbys=copies[n]) for n in (0, 1)])
    expected = [{"slot": 0, "lag": 0, "restored_records": 1}, {"slot": 1, "lag": 5, "restored_records": 1}]
    assert [task["standbys"] for task in found["tasks"]] == [expected] * 3
    assert gone_through == [3, 3]


def test_a_task_that_its_slot_has_not_told_of_yet_runs_without_a_lag() -> None:
    found = document("app", ("0_0",), [SlotStatus(0, "p", 1, ["0_0"])])
    assert _states(found) == {"0_0": ("running", 0)}
    assert found["tasks"][0]["lag"] is None


def test_an_end_that_is_not_known_is_no_lag_of_none() -> None:
    found = document("app", ("0_0",), [SlotStatus(0, "p", 1, ["0_0"], rows=[_row("0_0", lag=None)])])
    assert found["tasks"][0]["lag"] is None


def test_the_latest_errors_of_lead_and_slots_are_kept_in_their_order() -> None:
    slots = [SlotStatus(1, "p", 1, [], errors=[{"at_ms": 2 * n, "error": f"s{n}"} for n in range(9)])]
    found = document("app", (), slots, errors=[{"at_ms": 2 * n + 1, "slot": None, "error": f"l{n}"} for n in range(9)])
    assert [each["error"] for each in found["errors"]] == ["s4", "l4", "s5", "l5", "s6", "l6", "s7", "l7", "s8", "l8"]
    assert [each["slot"] for each in found["errors"][:2]] == [1, None]


def test_applications_of_a_process_share_a_server_which_ends_with_the_last(tmp_path: Path) -> None:
    first = publish("one", lambda: {"application": "one", "state": "running"}, tmp_path)
    second = publish("two", lambda: {"application": "two", "state": "failed"}, tmp_path)
    notes = [read_note(tmp_path / name) for name in ("one", "two")]
    assert notes[0] is not None
    assert notes[1] is not None
    assert notes[0].url == notes[1].url
    assert stat.S_IMODE((tmp_path / "one" / "lead.json").stat().st_mode) == 0o600
    assert known_applications(tmp_path) == ["one", "two"]
    assert status_of(tmp_path, "one") == {"application": "one", "state": "running"}
    assert status_of(tmp_path, "two") == {"application": "two", "state": "failed"}
    first.close()
    assert isinstance(status_of(tmp_path, "one"), NotRunning)
    assert status_of(tmp_path, "two") == {"application": "two", "state": "failed"}
    second.close()
    assert not [each for each in threading.enumerate() if each.name == "headwater-streams-status"]
    (tmp_path / "two" / "lead.json").write_text(json.dumps(vars_of(notes[1])))
    gone = status_of(tmp_path, "two")
    assert isinstance(gone, NotRunning)
    assert "ended without a word" in gone.reason


def vars_of(note: Any) -> dict[str, str]:
    return {name: getattr(note, name) for name in ("application", "url", "token", "process")}


def test_a_later_run_keeps_its_note_when_the_former_one_ends(tmp_path: Path) -> None:
    former = publish("app", lambda: {"state": "old"}, tmp_path)
    note = tmp_path / "app" / "lead.json"
    later = json.dumps({"application": "app", "url": "http://127.0.0.1:1", "token": "t", "process": "p:1"})
    note.write_text(later)
    former.close()
    assert note.read_text() == later


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer "}, {"Authorization": "Bearer guessed"}])
def test_nobody_is_told_without_the_secret(tmp_path: Path, header: dict[str, str]) -> None:
    published = publish("app", dict, tmp_path)
    try:
        note = read_note(tmp_path / "app")
        assert note is not None
        request = urllib.request.Request(f"{note.url}/applications", headers=header)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request, timeout=60)
    finally:
        published.close()


def test_an_application_runs_where_its_note_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "app").write_text("a file where the directory should be")
    publish("app", dict, tmp_path).close()


def test_the_command_says_what_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["stream", "list", "--state-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"no application has its state in {tmp_path}\n"
    assert run(["stream", "status", "app", "--state-dir", str(tmp_path)]) == 1
    assert "The application app does not run" in capsys.readouterr().err
    rows = [_row("0_0", lag=3), _row("0_1", "restoring")]
    errors = [{"at_ms": 0, "error": "a commit failed: nobody answers"}]
    slots = [SlotStatus(2, "host:1", 7, ["0_0"], 10, {"late": 1}, rows, errors)]
    for number, lag in ((4, 17), (5, None)):
        copy = {"task": "0_0", "lag": lag, "restored_records": 1}
        slots.append(SlotStatus(number, "host:2", 8, [], standbys=[copy]))
    published = publish("app", lambda: document("app", TASKS, slots, {"1_0"}), tmp_path)
    try:
        assert run(["stream", "status", "app", "--state-dir", str(tmp_path)]) == 0
        shown = capsys.readouterr().out
        assert "restoring 50% (4 of 8 offsets)" in shown
        assert "a commit failed: nobody answers" in shown
        lines = [line.split() for line in shown.splitlines()]
        assert ["0_0", "2", "running", "4:17,5:?", "in-0", "5", "8", "3"] in lines
        assert ["1_0", "-", "moving", "-", "-", "-", "-", "-"] in lines
        assert run(["stream", "list", "--state-dir", str(tmp_path), "-o", "json"]) == 0
        assert [each["state"] for each in json.loads(capsys.readouterr().out)] == ["rebalancing"]
    finally:
        published.close()
