"""The command as a whole, without a broker: what it loads, how it ends, what it says where."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from headwater.cli.main import BrokerStart, plain_broker_start
from headwater.cli.root import VERBS, cli, run
from headwater.cli.state import FILE_NAME, take_lock

FORBIDDEN = (
    "pyspark",
    "asyncio",
    "ctypes",
    "headwater.client",
    "headwater.server",
    "headwater.wire",
    "headwater.records",
)


def _walk(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    found: list[tuple[tuple[str, ...], click.Command]] = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found.append(((*path, name), command))
        if isinstance(command, click.Group):
            found += _walk(command, (*path, name))
    return found


LEAVES = [(path, command) for path, command in _walk(cli) if not isinstance(command, click.Group)]


def test_help_loads_neither_client_nor_server() -> None:
    code = (
        "import sys; from headwater.cli.root import run; run(['--help']); "
        f"print([name for name in sys.modules if name.startswith({FORBIDDEN!r})], file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert "Usage: headwater" in result.stdout
    assert result.stderr.strip() == "[]"


def test_a_plain_broker_start_does_not_load_click() -> None:
    code = (
        "import sys; sys.argv = ['headwater', 'broker', 'start', '--set', 'nonsense']\n"
        "from headwater.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as stop: print(stop.code, 'click' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert result.stdout.split() == ["1", "False"]
    assert "--set is not name=value" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["broker", "start"], BrokerStart(None, [], False)),
        (["broker", "start", "--config", "f", "--set", "a=1", "--set=b=2"], BrokerStart("f", ["a=1", "b=2"], False)),
        (["broker", "start", "--config=f", "--stop-on-eof"], BrokerStart("f", [], True)),
        (["broker", "start", "--help"], None),
        (["broker", "start", "--set"], None),
        (["broker", "start", "extra"], None),
        (["broker"], None),
        (["topic", "list"], None),
        ([], None),
    ],
)
def test_only_a_plain_broker_start_takes_the_short_way(arguments: list[str], expected: BrokerStart | None) -> None:
    assert plain_broker_start(arguments) == expected


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_every_verb_explains_itself(
    path: tuple[str, ...], command: click.Command, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*path, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Usage: headwater " + " ".join(path))
    assert "\\b" not in out  # click's mark for text that is not to be wrapped
    assert command.help


@pytest.mark.parametrize(("path", "command"), LEAVES, ids=[" ".join(path) for path, _ in LEAVES])
def test_every_verb_takes_an_output(path: tuple[str, ...], command: click.Command) -> None:
    servers = (
        ("broker", "start"),
        ("registry", "start"),
        ("connect", "run"),
        ("connect", "worker"),
        ("stream", "run"),
        ("stream", "serve"),
        ("sql", "server"),
    )
    if path in (*servers, ("generate", "completion")):
        return  # which writes a script
    options = {name for parameter in command.params for name in parameter.opts}
    assert {"-o"} <= options


def test_the_short_help_of_the_root_is_true() -> None:
    context = click.Context(cli)
    assert list(VERBS) == cli.list_commands(context)
    for name in VERBS:
        assert cli.get_command(context, name) is not None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tpic"], "Did you mean topic?"),
        (["topic", "lst"], "Did you mean list?"),
        (["topic", "list", "--nonsense"], "--nonsense"),
        (["topic", "list", "-o", "xml"], "xml"),
        (["topic", "alter", "t"], "Nothing to change"),
        (["topic", "create", "t", "-c", "x"], "is not name=value"),
        (["config", "get", "broker", "first"], "neither the number"),
        (["consume", "t", "-o", "1", "-o", "2"], "two starts"),
        (["up", "--set", "x"], "is not name=value"),
        (["up", "--brokers", "0"], "--brokers"),
        (["up", "--brokers", "3", "--port", "65534"], "65535 is the last"),
        (["up", "--brokers", "3", "--set", "log.dirs=/x"], "log.dirs cannot be set for several brokers at once"),
        (["cluster", "elect"], "Say which partitions"),
        (["cluster", "elect", "t", "--all"], "Say which partitions"),
        (["cluster", "reassign", "-t", "t"], "Say which brokers"),
        (["cluster", "reassign", "--to", "1", "--cancel"], "three different things"),
    ],
)
def test_wrong_usage_is_code_2_on_stderr(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


def test_nobody_listening_is_code_1_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topic", "list", "--bootstrap-server", "localhost:1"]) == 1
    captured = capsys.readouterr()
    assert "Cannot reach a broker at localhost:1: connection refused" in captured.err
    assert "headwater up" in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("missing", ["kazoo", "pyspark"])
def test_several_brokers_without_their_packages_say_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    from headwater.base import extras

    find_spec = extras.find_spec
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == missing else find_spec(name))
    assert run(["up", "--brokers", "2", "--data-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"error: A cluster of several brokers needs more packages: {missing} is not installed\n"
        "Run: pip install 'headwater[cluster]'\n"
    )


@pytest.mark.parametrize(("count", "left"), [("2", "broker-0, broker-3, broker-10"), ("16", "broker-0")])
def test_brokers_that_are_not_started_though_they_have_data_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], count: str, left: str
) -> None:
    for number in ("0", "1", "2", "3", "10", "x"):
        (tmp_path / f"broker-{number}").mkdir()
    assert run(["up", "--brokers", count, "--data-dir", str(tmp_path), "--set", "node.id=1"]) == 2
    assert f"brokers that are not started: {left}; see --brokers" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--brokers", "3"]])
def test_a_data_directory_with_a_comma_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    """The broker took it for two: one beside it, and one where the command was typed."""
    assert run(["up", "--data-dir", str(tmp_path / "a,b"), *more]) == 2
    assert "a comma ends a path" in capsys.readouterr().err
    assert not (tmp_path / "a,b").exists()


def test_status_and_down_without_anything_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", "--data-dir", str(tmp_path), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"brokers": [], "data_dir": str(tmp_path)}
    assert run(["down", "--data-dir", str(tmp_path)]) == 0
    assert "Nothing is running" in capsys.readouterr().out


def test_down_leaves_what_it_cannot_read_to_a_supervisor_that_lives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said that nothing was running, and deleted the file by which another version could have stopped it."""
    lock = take_lock(tmp_path)
    (tmp_path / FILE_NAME).write_text('{"format": 99}')
    try:
        assert run(["down", "--data-dir", str(tmp_path)]) == 1
    finally:
        os.close(lock)
    assert "another version of Headwater" in capsys.readouterr().err
    assert (tmp_path / FILE_NAME).exists()
    assert run(["down", "--data-dir", str(tmp_path)]) == 0
    assert not (tmp_path / FILE_NAME).exists()


@pytest.mark.parametrize(
    ("number", "why"), [(errno.EACCES, "Permission denied"), (errno.ENOSPC, "No space left on device")]
)
@pytest.mark.parametrize("arguments", [["down"], ["doctor"], ["up", "-d", "--port", "0"]])
def test_a_data_directory_that_the_system_refuses_is_a_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    number: int,
    why: str,
) -> None:
    """Another user's directory ended in a traceback."""
    directory = tmp_path / "in"

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    for name in ("unlink", "exists", "mkdir"):
        monkeypatch.setattr(Path, name, refuse)
    assert run([*arguments, "--data-dir", str(directory)]) == 1
    said = capsys.readouterr().err
    assert why in said
    assert said.startswith("error: Cannot use")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["generate", "completion", shell]) == 0
    assert f"_HEADWATER_COMPLETE={shell}_complete" in capsys.readouterr().out


def _complete(words: str, **environment: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, "-m", "headwater.cli.main"],
        env={
            **os.environ,
            "_HEADWATER_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        | environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert result.stderr == ""
    return [line.split(",")[1] for line in result.stdout.splitlines() if "," in line]


def test_verbs_are_completed() -> None:
    assert _complete("headwater t") == ["topic", "tail"]
    assert _complete("headwater topic de") == ["delete", "describe"]


def test_completion_is_silent_without_a_broker() -> None:
    assert _complete("headwater topic describe x", HEADWATER_BOOTSTRAP_SERVER="localhost:1") == []


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n1\n" + "0 0\n" * 200_000)
    command = [sys.executable, "-m", "headwater.cli.main", "broker", "dump-log", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(240) == 0


def test_ctrl_c_while_modules_are_read_ends_without_a_word(tmp_path: Path) -> None:
    """As if it came while click was imported."""
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, "-c", "from headwater.cli.main import main; main()", "topic", "list"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "")
