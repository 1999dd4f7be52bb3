"""What is typed for ZooKeeper's commands, and that they start quickly."""

import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from headwater.cli.kafka.options import Stop, Usage
from headwater.cli.zookeeper import server_start, server_stop, shell
from headwater.cli.zookeeper.server_start import Start, client_address, parse_start
from headwater.cli.zookeeper.shell import parse_command, stat_text

ROOT = Path(__file__).parents[3]
NAMES = ("zookeeper-security-migration", "zookeeper-server-start", "zookeeper-server-stop", "zookeeper-shell")


def test_what_is_typed_for_a_start() -> None:
    assert parse_start(["f"]) == Start(Path("f"), False)
    assert parse_start(["-daemon", "f"]) == Start(Path("f"), True)


@pytest.mark.parametrize("typed", [[], ["-daemon"], ["--help"], ["f", "g"], ["-x"]])
def test_wrong_usage_of_a_start(typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Usage):
        parse_start(typed)
    assert server_start.script(typed) == 1
    assert "USAGE: zookeeper-server-start [-daemon] zookeeper.properties" in capsys.readouterr().err


def test_where_clients_are_served(tmp_path: Path) -> None:
    path = tmp_path / "zookeeper.properties"
    path.write_text("clientPort=2181\n")
    assert client_address(path) == ("0.0.0.0", 2181, False)
    path.write_text("clientPort=2182\nclientPortAddress=127.0.0.1\n")
    assert client_address(path) == ("127.0.0.1", 2182, False)
    path.write_text("clientPort=2182\nserver.1=a:1:2\n")
    assert client_address(path) == ("0.0.0.0", 2182, True)
    path.write_text("dataDir=/x\n")
    assert client_address(path) is None
    path.write_text("clientPort=x\n")
    with pytest.raises(Stop):
        client_address(path)
    with pytest.raises(Stop):
        client_address(tmp_path / "missing")


def test_the_sample_is_one_for_this_machine() -> None:
    assert client_address(ROOT / "config" / "zookeeper.properties") == ("0.0.0.0", 2181, False)


def test_nothing_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HEADWATER_DATA_DIR", str(tmp_path))
    assert server_stop.script() == 1
    assert capsys.readouterr().out == "No zookeeper server to stop\n"


@pytest.mark.parametrize(
    ("typed", "flags", "words"),
    [
        ("ls /", {}, ["/"]),
        ("ls -R -s /a", {"R": "", "s": ""}, ["/a"]),
        ("ls /a -R", {"R": ""}, ["/a"]),
        ("create -e -s /a data", {"e": "", "s": ""}, ["/a", "data"]),
        ("set -v 3 /a -5", {"v": "3"}, ["/a", "-5"]),
        ("delete -v -1 /a", {"v": "-1"}, ["/a"]),
    ],
)
def test_commands_of_the_shell(typed: str, flags: dict[str, str], words: list[str]) -> None:
    command, found_flags, found_words = parse_command(typed.split())
    assert command is shell.COMMANDS[typed.split()[0]]
    assert (found_flags, found_words) == (flags, words)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("fly /", "Command not found: fly"),
        ("ls", r"ls \[-s\] \[-R\] path"),
        ("ls /a /b", r"ls \[-s\] \[-R\] path"),
        ("ls a", "Path must start with / character: a"),
        ("get -x /a", r"get \[-s\] path"),
        ("set -v x /a b", "-v needs a number"),
        ("set /a", r"set \[-s\] \[-v version\] path data"),
    ],
)
def test_mistakes_in_commands(typed: str, message: str) -> None:
    with pytest.raises(Stop) as stopped:
        parse_command(typed.split())
    assert re.match(message, stopped.value.message)


def test_the_shell_needs_an_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.script([]) == 1
    assert "USAGE: zookeeper-shell" in capsys.readouterr().err


def test_a_stat_reads_as_in_zookeepers_shell() -> None:
    stat = SimpleNamespace(
        czxid=255, ctime=0, mzxid=256, mtime=1_700_000_000_000, pzxid=255, cversion=-1, version=3, aversion=0,
        ephemeralOwner=-1, dataLength=2, numChildren=1,
    )  # fmt: skip
    assert stat_text(stat) == (
        "cZxid = 0xff\nctime = Thu Jan 01 00:00:00 UTC 1970\nmZxid = 0x100\nmtime = Tue Nov 14 22:13:20 UTC 2023\n"
        "pZxid = 0xff\ncversion = -1\ndataVersion = 3\naclVersion = 0\nephemeralOwner = 0xffffffffffffffff\n"
        "dataLength = 2\nnumChildren = 1\n"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_command_is_installed_and_starts_without_what_it_does_not_need(name: str) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts[name] == scripts[f"{name}.sh"]
    module, function = scripts[name].split(":")
    assert callable(getattr(import_module(module), function))
    code = f"import sys, {module}; print(','.join(sorted(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    assert not set(loaded.stdout.strip().split(",")) & {"click", "asyncio", "kazoo", "pyspark", "headwater.server"}
