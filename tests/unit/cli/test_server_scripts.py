"""`kafka-server-start` and `kafka-server-stop`: what is typed, and who is told to stop."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.cli.kafka import server_stop
from headwater.cli.kafka.options import Usage
from headwater.cli.kafka.server_pids import noted, running
from headwater.cli.kafka.server_start import Start, node_id, parse_start, script, servers_directory


@pytest.mark.parametrize(
    ("typed", "start"),
    [
        (["f"], Start("f", [], False)),
        (["-daemon", "f"], Start("f", [], True)),
        (["f", "--override", "a=1", "--override=b=2=3"], Start("f", ["a=1", "b=2=3"], False)),
    ],
)
def test_what_is_typed(typed: list[str], start: Start) -> None:
    assert parse_start(typed) == start


@pytest.mark.parametrize(
    "typed", [[], ["-daemon"], ["--override", "a=1"], ["f", "g"], ["f", "--override"], ["f", "--override", "a"], ["--help"]]
)  # fmt: skip
def test_wrong_usage(typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Usage):
        parse_start(typed)
    assert script(typed) == 1
    assert (
        "USAGE: kafka-server-start [-daemon] server.properties [--override property=value]*" in capsys.readouterr().err
    )


def test_the_id_is_what_the_file_or_an_override_says(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("broker.id=4\n")
    assert node_id(Start(str(path), [], False)) == 4
    assert node_id(Start(str(path), ["node.id=5"], False)) == 5
    path.write_text("x=y\n")
    assert node_id(Start(str(path), [], False)) == -1
    assert node_id(Start(str(tmp_path / "no"), [], False)) == -1


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADWATER_DATA_DIR", str(tmp_path))
    return servers_directory()


@pytest.fixture
def servers() -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Two processes that wait."""
    made = [subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) for _ in range(2)]
    yield made
    for process in made:
        process.kill()
        process.communicate()


def test_only_the_broker_with_that_id_is_told(home: Path, servers: list["subprocess.Popen[bytes]"]) -> None:
    with noted(home, servers[0].pid, 1), noted(home, servers[1].pid, 2):
        assert sorted(each.node_id for each in running(home)) == [1, 2]
        assert server_stop.script(["--node-id=2"]) == 0
        assert servers[1].wait(240) == -signal.SIGTERM
        assert servers[0].poll() is None
        assert [each.node_id for each in running(home)] == [1]
        assert server_stop.script([]) == 0
        assert servers[0].wait(240) == -signal.SIGTERM
    assert list(home.iterdir()) == []


def test_nobody_to_stop(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert server_stop.script([]) == 1
    assert capsys.readouterr().out == "No kafka server to stop\n"
    with noted(home, os.getpid(), 1):
        assert server_stop.script(["--node-id", "7"]) == 1
    assert capsys.readouterr().out.startswith("No kafka server with node-id 7 to stop")


@pytest.mark.parametrize(
    ("typed", "is_told"),
    [
        (["--process-role=broker"], True),
        (["--process-role", "broker,controller"], True),
        (["--process-role=controller"], False),
        (["--process-role=controller", "--node-id=1"], True),
        (["--process-role=broker", "--node-id=7"], False),
    ],
)
def test_a_controller_is_no_broker(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: list[str], is_told: bool
) -> None:
    """`--process-role=controller` stopped all brokers."""
    told: list[object] = []

    def send_signal(process: object, _number: int) -> bool:
        told.append(process)
        return True

    monkeypatch.setattr("headwater.cli.processes.send_signal", send_signal)
    with noted(home, os.getpid(), 1):
        assert server_stop.script(typed) == (0 if is_told else 1)
    said = capsys.readouterr().out
    assert bool(told) is is_told
    assert ("the value for node-id will take precedence" in said) is (len(typed) == 2 and "node-id" in typed[1])
    assert ("No kafka server with process-role controller to stop" in said) is (typed == ["--process-role=controller"])


def test_what_the_dead_left_behind_is_removed(home: Path, servers: list["subprocess.Popen[bytes]"]) -> None:
    home.mkdir()
    (home / "1.json").write_text("torn")
    (home / "2.json").write_text(f'{{"pid": {servers[0].pid}, "start_ticks": 1, "node_id": 0}}')  # another process now
    assert running(home) == []
    assert list(home.iterdir()) == []
