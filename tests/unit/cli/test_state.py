"""The state file: what is believed, and what counts as stale."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.cli.commands.up import tell_of_settings, wait_for_the_end
from headwater.cli.processes import ProcessId, identify, is_alive, parse_stat, send_signal, wait_until_gone
from headwater.cli.state import (
    FILE_NAME,
    BrokerState,
    UpState,
    ZooKeeperState,
    from_json,
    read_state,
    remove_state,
    take_lock,
    to_json,
    write_state,
)


def _state(directory: Path, supervisor: ProcessId, broker: ProcessId | None = None) -> UpState:
    process = broker or ProcessId(-1, -1)
    return UpState(
        data_dir=str(directory),
        version="1",
        supervisor_pid=supervisor.pid,
        supervisor_start_ticks=supervisor.start_ticks,
        brokers=[
            BrokerState(
                id=0,
                host="localhost",
                port=9092,
                pid=process.pid,
                start_ticks=process.start_ticks,
                ready=True,
                started_ms=5,
                restarts=0,
                log_dirs=["/x"],
                metrics_port=-1,
                log_file=None,
            )
        ],
    )


@pytest.fixture
def me() -> ProcessId:
    found = identify(os.getpid())
    assert found is not None
    return found


@pytest.fixture
def dead() -> ProcessId:
    """A process that was there a moment ago."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    found = identify(child.pid)
    child.communicate(b"\n")
    assert found is not None
    return found


def test_a_state_survives_the_file(tmp_path: Path, me: ProcessId) -> None:
    state = _state(tmp_path, me)
    assert from_json(to_json(state)) == state
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state
    assert os.listdir(tmp_path) == [FILE_NAME]
    remove_state(tmp_path)
    assert read_state(tmp_path) is None


def test_a_dead_supervisor_with_a_dead_broker_is_stale(tmp_path: Path, dead: ProcessId) -> None:
    write_state(tmp_path, _state(tmp_path, dead, dead))
    assert read_state(tmp_path) is None


def test_a_reused_process_id_is_not_taken_for_the_old_process(tmp_path: Path, me: ProcessId) -> None:
    write_state(tmp_path, _state(tmp_path, ProcessId(me.pid, me.start_ticks - 1)))
    assert read_state(tmp_path) is None


def test_a_broker_that_outlived_its_supervisor_still_counts(tmp_path: Path, me: ProcessId, dead: ProcessId) -> None:
    state = _state(tmp_path, dead, me)
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state


def test_zookeeper_is_part_of_the_state(tmp_path: Path, me: ProcessId, dead: ProcessId) -> None:
    state = _state(tmp_path, dead, dead)
    state.zookeeper = ZooKeeperState(
        host="127.0.0.1", port=2181, data_dir="/z", log_file="/l", server_pid=me.pid, server_start_ticks=me.start_ticks
    )
    write_state(tmp_path, state)
    assert read_state(tmp_path) == state  # the JVM outlived all the others
    state.zookeeper.server_pid = -1
    assert state.zookeeper.processes == []
    write_state(tmp_path, state)
    assert read_state(tmp_path) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"format": 99}', '{"format": 1, "brokers": []}', '{"format": 1, "brokers": [{}]}']
)
def test_a_torn_or_foreign_file_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    assert read_state(tmp_path) is None


def test_the_lock_is_for_one(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "deep"
    lock = take_lock(directory)
    with pytest.raises(UserError, match="running already"):
        take_lock(directory)
    os.close(lock)
    os.close(take_lock(directory))


def test_a_directory_that_cannot_be_made_is_a_user_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="Cannot use the data directory"):
        take_lock(tmp_path / "file" / "x")


def test_a_process_is_known_by_its_start_time(me: ProcessId, dead: ProcessId) -> None:
    assert is_alive(me)
    assert not is_alive(dead)
    assert not is_alive(ProcessId(me.pid, me.start_ticks + 1))
    assert not send_signal(dead, 15)  # type: ignore[arg-type]


def test_a_process_of_another_user_is_told_and_no_traceback(me: ProcessId, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_permitted(_pid: int, _number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "kill", not_permitted)
    with pytest.raises(UserError, match=f"Process {me.pid} cannot be stopped.*another user"):
        send_signal(me, 15)  # type: ignore[arg-type]


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", "print()"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read()  # it has closed its output, so it is ending; it stays a zombie until `wait`
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert identify(child.pid) is None
    child.wait()
    child.stdout.close()


def test_a_command_name_may_hold_blanks_and_brackets() -> None:
    fields = parse_stat("12 (a) b) c) S " + " ".join(str(number) for number in range(30)))
    assert fields is not None
    assert fields[0] == "S"
    assert parse_stat("") is None
    assert parse_stat("12 (x) S") is None


@pytest.mark.parametrize("stopping", [False, True])
def test_what_does_not_end_is_named_with_what_to_do(
    tmp_path: Path, me: ProcessId, dead: ProcessId, capsys: pytest.CaptureFixture[str], stopping: bool
) -> None:
    state = _state(tmp_path, me if stopping else dead, me)
    state.stopping = stopping
    assert state.is_ending
    with pytest.raises(UserError) as caught:
        wait_for_the_end(state, 0)
    why = "was told to stop" if stopping else "lost its supervisor, which was killed"
    assert str(me.pid) in caught.value.what
    assert why in caught.value.why
    assert "down --force" in caught.value.hint
    assert why in capsys.readouterr().err


def test_what_has_ended_is_not_waited_for(
    tmp_path: Path, me: ProcessId, dead: ProcessId, capsys: pytest.CaptureFixture[str]
) -> None:
    wait_for_the_end(_state(tmp_path, dead, dead), 0)
    assert capsys.readouterr().err == ""
    assert wait_until_gone([dead, me], 0) == [me]
    assert not _state(tmp_path, me, me).is_ending


def test_settings_that_nobody_knows_are_told_to_those_who_start_in_the_background(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell_of_settings({"log.dirs": "/a", "lgo.dirs": "/b"})
    told = capsys.readouterr()
    assert (told.out, told.err) == (
        "",
        "warning: unknown property 'lgo.dirs': it has no effect; did you mean 'log.dirs'?\n",
    )
    tell_of_settings({})
    assert capsys.readouterr().err == ""
