"""The supervisor of several processes, with stand-ins for them: who starts and stops when, and what becomes of the
dead.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.cli.children import BrokerChild, ConnectChild, RegistryChild, SqlChild, ZooKeeperChild
from headwater.cli.plans import plan_several, with_connect, with_registry, with_sql
from headwater.cli.processes import is_alive
from headwater.cli.state import FILE_NAME, UpState, read_state

PATIENCE_S = 240
SCRIPT = Path(__file__).with_name("supervised.py")
Up = Callable[[int], "subprocess.Popen[str]"]


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    started: list[subprocess.Popen[str]] = []

    def run(count: int) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "up", str(tmp_path), str(count)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def _events(directory: Path) -> list[str]:
    file = directory / "events"
    return file.read_text().splitlines() if file.exists() else []


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _ready(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def _state(directory: Path) -> UpState:
    state = read_state(directory)
    assert state is not None
    return state


def test_zookeeper_comes_first_and_goes_last_and_brokers_stop_one_after_the_other(up: Up, tmp_path: Path) -> None:
    process = up(3)
    assert _ready(process) == "all [9001, 9002, 9003]\n"
    assert _events(tmp_path)[0] == "start zookeeper"
    assert sorted(_events(tmp_path)[1:]) == ["start 1", "start 2", "start 3"]
    state = _state(tmp_path)
    assert [broker.id for broker in state.brokers] == [1, 2, 3]
    assert state.zookeeper is not None
    assert state.zookeeper.server_pid == state.zookeeper.pid
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert _events(tmp_path)[4:] == ["stop 1", "stop 2", "stop 3", "stop zookeeper"]
    assert read_state(tmp_path) is None


@pytest.mark.parametrize("name", ["2", "zookeeper"])
def test_one_that_is_killed_is_started_again_and_the_others_stay(up: Up, tmp_path: Path, name: str) -> None:
    process = up(2)
    _ready(process)
    before = _state(tmp_path)
    servers = {"2": 1, "zookeeper": 2}
    killed = before.servers[servers[name]]
    os.kill(killed.pid, signal.SIGKILL)
    _until(lambda: (again := _state(tmp_path).servers[servers[name]]).ready and again.pid != killed.pid)
    after = _state(tmp_path)
    assert [server.restarts for server in after.servers] == [1 if each == servers[name] else 0 for each in range(3)]
    kept = [each for each in range(3) if each != servers[name]]
    assert [after.servers[each].pid for each in kept] == [before.servers[each].pid for each in kept]
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    called = "broker 2" if name == "2" else "ZooKeeper"
    assert f"headwater: {called} died (signal SIGKILL); it is started again now\n" in said
    assert f"headwater: {called} is ready again at " in said


@pytest.mark.parametrize(("broken", "called"), [("2", "broker 2"), ("zookeeper", "ZooKeeper")])
def test_one_that_cannot_start_ends_all_and_its_log_is_shown(up: Up, tmp_path: Path, broken: str, called: str) -> None:
    (tmp_path / "broken").write_text(broken)
    process = up(2)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    log = tmp_path / "logs" / ("zookeeper.log" if broken == "zookeeper" else "broker-2.log")
    assert f"headwater: {called} did not start (exit code 1); its log is {log} and ends:\n{broken} is broken\n" in said
    started = {event.split()[1] for event in _events(tmp_path) if event.startswith("start")}
    stopped = {event.split()[1] for event in _events(tmp_path) if event.startswith("stop")}
    assert started == stopped
    assert broken not in started
    assert read_state(tmp_path) is None


def test_a_killed_supervisor_takes_all_with_it_and_zookeeper_is_still_the_last(up: Up, tmp_path: Path) -> None:
    process = up(3)
    _ready(process)
    processes = [each for server in _state(tmp_path).servers for each in server.processes]
    process.kill()
    _until(lambda: not any(is_alive(each) for each in processes))
    events = _events(tmp_path)[4:]
    assert sorted(events[:3]) == ["eof 1", "eof 2", "eof 3"]
    assert events[3:] == ["eof zookeeper"]


def test_told_to_stop_before_all_are_ready_it_stops(up: Up, tmp_path: Path) -> None:
    process = up(3)
    _until(lambda: bool(_events(tmp_path)))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 1)  # one that had no time to heed the signal was ended by it
    assert read_state(tmp_path) is None


def test_the_file_tells_that_all_are_being_stopped(up: Up, tmp_path: Path) -> None:
    process = up(2)
    _ready(process)
    state = _state(tmp_path)
    assert not state.is_ending
    slow = state.brokers[0].pid
    os.kill(slow, signal.SIGSTOP)  # it takes its time
    process.send_signal(signal.SIGTERM)
    _until(lambda: _state(tmp_path).stopping)
    assert _state(tmp_path).is_ending
    os.kill(slow, signal.SIGCONT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


def test_servers_import_nothing_from_the_directory_that_they_are_started_in(tmp_path: Path) -> None:
    """In a directory that others can write to, their `secrets.py` ran with the rights of whoever typed `up`."""
    (tmp_path / "secrets.py").write_text("raise SystemExit('of somebody else')\n")
    plan = plan_several(tmp_path, None, {}, {}, count=1, port=0, zookeeper_port=1, detach=False)
    plan = with_connect(with_sql(with_registry(plan, 0, 0, {}), 0, 0), 0, 0)
    assert plan.zookeeper and plan.registry and plan.sql and plan.connect  # noqa: PT018
    children = [
        BrokerChild(plan.brokers[0], None, None, ()),
        RegistryChild(plan.registry, [], None),
        SqlChild(plan.sql, [], None, None),
        ConnectChild(plan.connect, [], None),
        ZooKeeperChild(plan.zookeeper, 0),
    ]
    for interpreter in {tuple(command[: command.index("-m")]) for command in (child.command() for child in children)}:
        found = subprocess.run([*interpreter, "-c", "import secrets"], cwd=tmp_path, capture_output=True, check=False)
        assert found.stderr == b""


def test_a_disk_without_room_for_the_file_changes_nothing_for_those_that_run(up: Up, tmp_path: Path) -> None:
    process = up(2)
    _ready(process)
    (tmp_path / f"{FILE_NAME}.new").mkdir()  # it cannot be written any more
    os.kill(_state(tmp_path).brokers[1].pid, signal.SIGKILL)
    _until(lambda: _events(tmp_path).count("start 2") == 2)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert _events(tmp_path)[4:] == ["stop 1", "stop 2", "stop zookeeper"]
    assert "headwater: the state of what runs could not be written: Is a directory\n" in said


def test_a_log_that_takes_no_more_changes_nothing_for_those_that_run(tmp_path: Path) -> None:
    """What the supervisor had to say of a full disk went to a log on that disk, and ended it with all that ran."""
    with open("/dev/full", "w") as full:
        command = [sys.executable, str(SCRIPT), "up", str(tmp_path), "2"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=full, text=True)
    try:
        _ready(process)
        os.kill(_state(tmp_path).brokers[1].pid, signal.SIGKILL)
        _until(lambda: _events(tmp_path).count("start 2") == 2 or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.communicate()
    assert _events(tmp_path)[3:] == ["start 2", "stop 1", "stop 2", "stop zookeeper"]
    assert process.returncode == 0


def test_one_that_cannot_be_started_again_yet_is_tried_again(up: Up, tmp_path: Path) -> None:
    process = up(2)
    _ready(process)
    log = tmp_path / "logs" / "broker-2.log"
    log.unlink()
    log.mkdir()  # as with a disk that is full: it cannot be opened
    os.kill(_state(tmp_path).brokers[1].pid, signal.SIGKILL)
    assert process.stderr is not None
    said = [process.stderr.readline() for _ in range(3)]
    assert said[0].startswith("headwater: broker 2 died (signal SIGKILL)")
    assert said[1:] == [
        f"headwater: broker 2 cannot be started ({log}: Is a directory); it is tried again in {pause} s\n"
        for pause in (0.5, 1)
    ]
    log.rmdir()
    _until(lambda: _events(tmp_path).count("start 2") == 2)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert _events(tmp_path)[4:] == ["stop 1", "stop 2", "stop zookeeper"]


def _detached(directory: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, str(SCRIPT), "detached", str(directory), "1"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_start_in_the_background_that_fails_says_why(tmp_path: Path) -> None:
    """Its reason went nowhere."""
    (tmp_path / f"{FILE_NAME}.new").mkdir()  # the state cannot be written, as on a full disk
    process = _detached(tmp_path)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert f"error: Cannot write the state of what runs to {tmp_path}: Is a directory" in said


def test_ctrl_c_while_a_start_in_the_background_is_waited_for_stops_what_was_started(tmp_path: Path) -> None:
    """It went on in the background, where nobody had seen that it runs."""
    (tmp_path / "slow").write_text("1")
    process = _detached(tmp_path)
    _until(lambda: "start 1" in _events(tmp_path))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert _events(tmp_path)[-2:] == ["stop 1", "stop zookeeper"]
    assert read_state(tmp_path) is None


def test_the_registry_begins_when_the_brokers_are_ready_and_goes_first(up: Up, tmp_path: Path) -> None:
    (tmp_path / "with-registry").touch()
    process = up(2)
    assert _ready(process) == "all [9001, 9002]\n"
    assert _events(tmp_path)[3:] == ["start registry"]
    state = _state(tmp_path)
    assert state.registry is not None
    assert (state.registry.ready, state.registry.url) == (True, "http://127.0.0.1:2")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert _events(tmp_path)[4:] == ["stop registry", "stop 1", "stop 2", "stop zookeeper"]


def test_a_connect_worker_begins_after_the_registry_goes_first_and_may_be_missing(up: Up, tmp_path: Path) -> None:
    (tmp_path / "with-registry").touch()
    (tmp_path / "with-connect").touch()
    process = up(2)
    assert _ready(process) == "all [9001, 9002]\n"
    assert _events(tmp_path)[3:] == ["start registry", "start connect"]
    state = _state(tmp_path)
    assert state.connect is not None
    assert (state.connect.ready, state.connect.url) == (True, "http://127.0.0.1:3")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert _events(tmp_path)[5:] == ["stop connect", "stop registry", "stop 1", "stop 2", "stop zookeeper"]
    (tmp_path / "broken").write_text("connect")
    process = up(2)
    assert _ready(process) == "all [9001, 9002]\n"
    found = _state(tmp_path)
    assert (found.connect, found.registry is not None) == (None, True)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert "the Connect worker did not start (exit code 1): going on without it. See --connect-port" in said


def test_a_registry_that_cannot_start_is_left_out_and_the_brokers_go_on(up: Up, tmp_path: Path) -> None:
    (tmp_path / "with-registry").touch()
    (tmp_path / "broken").write_text("registry")
    process = up(2)
    assert _ready(process) == "all [9001, 9002]\n"
    assert _state(tmp_path).registry is None
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "the schema registry did not start (exit code 1): going on without it" in said
    assert "registry is broken\n" in said


def test_a_registry_that_hangs_before_it_is_ready_is_left_out(up: Up, tmp_path: Path) -> None:
    """`headwater up` waited for it for ever, and never said that the brokers were ready."""
    (tmp_path / "with-registry").touch()
    (tmp_path / "hanging").write_text("registry")
    (tmp_path / "ready-limit").write_text("0.1")
    process = up(2)
    assert _ready(process) == "all [9001, 9002]\n"
    assert _state(tmp_path).registry is None
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "the schema registry did not start (not ready within 0.1 s): going on without it" in said


@pytest.mark.parametrize("kind", ["hanging", "stubborn"])
def test_brokers_are_stopped_though_the_registry_does_not_stop(up: Up, tmp_path: Path, kind: str) -> None:
    (tmp_path / "with-registry").touch()
    (tmp_path / kind).write_text("registry")
    (tmp_path / "stop-limit").write_text("0.1")
    process = up(2)
    _until(lambda: "start registry" in _events(tmp_path))
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "The schema registry has not stopped within 0.1 s: it is killed\n" in said
    assert [each for each in _events(tmp_path) if each.startswith("stop")] == ["stop 1", "stop 2", "stop zookeeper"]
    assert read_state(tmp_path) is None
