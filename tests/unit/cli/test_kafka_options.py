"""Options of the scripts shaped like Kafka's: parsing, refusals, usage, old names, and that they all start quickly."""

import json
import socket
import subprocess
import sys
import tomllib
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import pytest

from headwater.base.errors import ErrorCode, UserError
from headwater.cli.kafka import get_offsets, launch
from headwater.cli.kafka.exits import exception_name
from headwater.cli.kafka.options import BOOTSTRAP, Option, Options, Stop, Usage, parse, run_with, usage_text
from headwater.cli.kafka.registered_brokers import addresses, brokers_in

OPTIONS = (
    BOOTSTRAP,
    Option("group", "A group.", "name"),
    Option("list", "Lists."),
    Option("state", "States.", "s", True),
)
ROOT = Path(__file__).parents[3]


def test_values_follow_or_are_joined_by_a_sign() -> None:
    found = parse(["--group", "a", "--group=b=c", "stray", "--list", "--state"], OPTIONS)
    assert found.all("group") == ["a", "b=c"]
    assert found.get("group") == "b=c"
    assert "list" in found
    assert "state" in found
    assert found.get("state") is None
    assert parse(["--state", "Empty", "--list"], OPTIONS).get("state") == "Empty"
    assert parse(["--group", "-1"], OPTIONS).number("group") == -1
    assert found.order == (("group", "a"), ("group", "b=c"), ("list", None), ("state", None))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nope"], "nope is not a recognized option"),
        (["--lis"], "lis is not a recognized option"),
        (["--group"], "Option group requires an argument"),
        (["--group", "--list"], "Option group requires an argument"),
    ],
)
def test_what_cannot_be_parsed(arguments: list[str], message: str) -> None:
    with pytest.raises(Usage) as raised:
        parse(arguments, OPTIONS)
    assert str(raised.value) == message


def test_checks_in_kafkas_words() -> None:
    found = Options({"list": [None], "group": ["x"]})
    with pytest.raises(Usage, match=r'Missing required argument "\[topic\]"'):
        found.require("list", "topic")
    with pytest.raises(Usage, match=r"Option \"\[group\]\" can't be used with option \"\[list\]\""):
        found.refuse_together("group", "state", "list")
    found.refuse_together("group", "state")
    with pytest.raises(Usage, match="Cannot parse argument 'x' of option group"):
        found.number("group")


def test_properties_of_several_options_in_order() -> None:
    found = Options({"old": ["a=1", "b=2"], "new": ["a=3=4"]})
    assert found.properties("old", "new") == {"a": "3=4", "b": "2"}
    with pytest.raises(Usage, match="Invalid command line properties: one of --old is not key=value"):
        Options({"old": ["a"]}).properties("old")


def test_old_names_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert Options({"broker-list": ["h:1"]}).bootstrap() == "h:1"
    assert "--broker-list is the old name" in capsys.readouterr().err
    both = Options({"zookeeper": ["z"], "bootstrap-server": ["h:1"]})
    assert both.bootstrap() == "h:1"
    assert "--zookeeper is gone" in capsys.readouterr().err
    assert both.bootstrap() == "h:1"
    assert capsys.readouterr().err == ""  # said once
    with pytest.raises(Usage):
        Options({}).bootstrap()


def test_zookeeper_is_looked_into_for_the_brokers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def brokers_in(connect: str) -> str:
        asked.append(connect)
        return "h:1,h:2"

    monkeypatch.setattr("headwater.cli.kafka.registered_brokers.brokers_in", brokers_in)
    options = Options({"zookeeper": ["z:2181"]})
    assert [options.bootstrap(), options.bootstrap()] == ["h:1,h:2"] * 2
    assert asked == ["z:2181"]
    assert "zookeeper" in options
    assert capsys.readouterr().err.endswith("Those of z:2181 are --bootstrap-server h:1,h:2\n")


def test_what_brokers_have_registered() -> None:
    plain = {"endpoints": ["PLAINTEXT://a:1"], "host": "a", "port": 1}
    other = {"endpoints": ["SSL://b:2", "INSIDE://b:3"], "host": None, "port": -1}
    assert addresses([json.dumps(each).encode() for each in (plain, other)]) == "a:1,b:2"


def test_a_zookeeper_that_is_not_there_is_told_at_once() -> None:
    with socket.socket() as bound:  # and never listens
        bound.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(UserError, match=f"Cannot reach ZooKeeper at {nowhere}"):
            brokers_in(f"{nowhere}/chroot")


def test_spellings_of_older_books(capsys: pytest.CaptureFixture[str]) -> None:
    options = (*OPTIONS, Option("delete-config", "Deletes.", "name", old="deleteConfig"))
    found = parse(["-list", "-group", "-1", "-x", "--deleteConfig", "a", "--deleteConfig=b"], options)
    assert "list" in found
    assert found.get("group") == "-1"
    assert found.all("delete-config") == ["a", "b"]
    assert capsys.readouterr().err == (
        "Warning: --deleteConfig is the old name of --delete-config. It is taken as that.\n" * 2
    )
    found = parse(["--list--group", "a", "--list--group=b"], options)
    assert "list" in found
    assert found.all("group") == ["a", "b"]
    assert capsys.readouterr().err == "Warning: --list--group is taken as --list --group.\n" * 2
    with pytest.raises(Usage, match="list--nope is not a recognized option"):
        parse(["--list--nope"], options)


def test_wrong_usage_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_with(["--nope"], "About.", OPTIONS, lambda _: 0) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"nope is not a recognized option\n{usage_text(OPTIONS)}"
    assert run_with(["--help"], "About.", OPTIONS, lambda _: 0) == 1  # as Kafka's tools end
    assert capsys.readouterr().err.startswith("About.\nOption ")
    assert run_with(["--version"], "About.", OPTIONS, lambda _: 0) == 0
    assert capsys.readouterr().out == "4.3.0\n"


def test_the_exceptions_of_error_codes() -> None:
    assert exception_name(ErrorCode.GROUP_ID_NOT_FOUND) == "GroupIdNotFoundException"
    assert exception_name(ErrorCode.NON_EMPTY_GROUP) == "GroupNotEmptyException"
    assert exception_name(ErrorCode.TOPIC_ALREADY_EXISTS) == "TopicExistsException"


def scripts() -> dict[str, str]:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {name: where for name, where in document["project"]["scripts"].items() if name.startswith("kafka-")}


PLAIN = sorted(name for name in scripts() if not name.endswith(".sh"))


def test_every_script_is_there() -> None:
    assert len(PLAIN) >= 18
    for where in scripts().values():
        launcher, module = where.split(":")
        assert launcher == "headwater.cli.kafka.launch"
        assert callable(import_module(f"headwater.cli.kafka.{module}").main)


def test_every_script_has_the_name_of_kafkas_own_too() -> None:
    assert scripts() == {name: scripts()[plain] for plain in PLAIN for name in (plain, f"{plain}.sh")}


@pytest.mark.parametrize("name", PLAIN)
def test_a_script_starts_without_what_it_does_not_need(name: str) -> None:
    module = scripts()[name].split(":")[1]
    code = f"import sys, headwater.cli.kafka.launch, headwater.cli.kafka.{module}; print(','.join(sorted(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=True)
    modules = set(loaded.stdout.strip().split(","))
    assert not modules & {"click", "asyncio", "headwater.client.session", "headwater.server", "headwater.broker.broker"}


def test_a_script_that_is_interrupted_while_it_is_being_read_ends_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The module of a script was read before any code of ours ran: Ctrl-C in that moment gave a traceback."""

    class Interrupted:
        @staticmethod
        def find_spec(name: str, *_: object) -> None:
            if name == "headwater.cli.kafka.topics":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "headwater.cli.kafka.topics", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupted, *sys.meta_path])
    with pytest.raises(SystemExit) as ended:
        launch.topics()
    assert ended.value.code == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "text", ["", "1_000", " 5", "٣", "5.0", "9223372036854775808", "-9223372036854775809", "9" * 50]
)
def test_a_number_is_what_java_takes_for_one(text: str) -> None:
    """One that no request has room for was a traceback of what encodes it, and Python takes more for numbers."""
    with pytest.raises(Usage, match=r"Cannot parse argument '.*' of option to-offset"):
        Options({"to-offset": [text]}).number("to-offset")
    with pytest.raises(Stop, match="Malformed time argument"):
        get_offsets._timestamp(text)


def test_the_largest_numbers() -> None:
    largest = Options({"to-offset": [str(2**63 - 1)], "partition": [str(2**31 - 1)]})
    assert largest.number("to-offset") == 2**63 - 1
    assert largest.number("partition", bits=32) == 2**31 - 1
    assert get_offsets._timestamp(str(-(2**63))) == -(2**63)


@pytest.mark.parametrize(
    ("script", "typed", "said"),
    [
        (
            "topics",
            "--create --topic t --partitions 2147483648",
            "Cannot parse argument '2147483648' of option partitions",
        ),
        ("leader_election", "--election-type preferred --topic t --partition 2147483648", "of option partition"),
        ("console_consumer", "--topic t --partition 0 --offset 9223372036854775808", "The provided offset value"),
    ],
)
def test_a_number_that_no_request_has_room_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], script: str, typed: str, said: str
) -> None:
    def connected(*_: object) -> object:
        return nullcontext()

    monkeypatch.setattr("headwater.cli.kafka.connecting.connected", connected)
    tool = import_module(f"headwater.cli.kafka.{script}")
    assert tool.script(["--bootstrap-server", "localhost:1", *typed.split()]) == 1
    told = capsys.readouterr()
    assert said in told.out + told.err
