"""Our scripts about replicas beside Apache Kafka's tools, against one broker: the same words, the same exit codes.

Its tracebacks are not expected of ours: of what it prints after an error, only the first line counts.
"""

import contextlib
import io
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from compat.support.java import Java

MAINS = {
    "reassign_partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "leader_election": "org.apache.kafka.tools.LeaderElectionCommand",
}


class Ran(NamedTuple):
    status: int
    stdout: str
    stderr: str


Both = Callable[..., tuple[Ran, Ran]]


def ours(script: str, *arguments: str) -> Ran:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = import_module(f"headwater.cli.kafka.{script}").script(list(arguments))
    return Ran(status, out.getvalue(), err.getvalue())


@pytest.fixture
def both(java: Java, broker_address: str) -> Both:
    def run(script: str, *arguments: str, server: bool = True) -> tuple[Ran, Ran]:
        given = [*(["--bootstrap-server", broker_address] if server else []), *arguments]
        answer = java.tool(MAINS[script], *given)
        return ours(script, *given), Ran(answer.status, answer.stdout, answer.stderr)

    return run


@pytest.fixture
def same(both: Both) -> Callable[..., Ran]:
    def run(script: str, *arguments: str, **more: Any) -> Ran:
        mine, theirs = both(script, *arguments, **more)
        assert mine.stdout == theirs.stdout
        assert mine.status == theirs.status == 0, (mine, theirs)
        return mine

    return run


@pytest.fixture
def refused(both: Both) -> Callable[..., str]:
    """Both refuse, and begin to say why in the same way, be it on stdout or stderr."""

    def run(script: str, *arguments: str, **more: Any) -> str:
        mine, theirs = both(script, *arguments, **more)
        assert mine.status == theirs.status == 1, (mine, theirs)
        first = [(ran.stdout or ran.stderr).split("\n", 1)[0] for ran in (mine, theirs)]
        assert first[0] == first[1].removeprefix("joptsimple.OptionArgumentConversionException: ")
        return first[0]

    return run


@pytest.fixture
def file(tmp_path: Path) -> Callable[[Any], str]:
    def write(document: Any) -> str:
        path = tmp_path / "file.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return str(path)

    return write


def _moves(*partitions: tuple[str, int, list[int]]) -> dict[str, Any]:
    return {"version": 1, "partitions": [{"topic": t, "partition": p, "replicas": r} for t, p, r in partitions]}


def test_nothing_moves(same: Callable[..., Ran]) -> None:
    assert same("reassign_partitions", "--list").stdout == "No partition reassignments found.\n"


def test_a_plan_is_generated(
    same: Callable[..., Ran], file: Callable[[Any], str], create_topic: Callable[..., None], topic: str
) -> None:
    create_topic(topic, partitions=2)
    topics = file({"version": 1, "topics": [{"topic": topic}]})
    said = same("reassign_partitions", "--generate", "--topics-to-move-json-file", topics, "--broker-list", "0").stdout
    assert said.startswith("Current partition replica assignment\n")


def test_a_plan_is_carried_out_verified_and_called_off(
    same: Callable[..., Ran], file: Callable[[Any], str], create_topic: Callable[..., None], topic: str
) -> None:
    create_topic(topic, partitions=2)
    plan = file(_moves((topic, 0, [0]), (topic, 1, [0])))
    for arguments in (
        ["--execute"],
        ["--verify"],
        ["--execute", "--throttle", "1000000"],
        ["--verify", "--preserve-throttles"],
        ["--verify"],
        ["--cancel"],
        ["--cancel", "--preserve-throttles"],
    ):
        same("reassign_partitions", *arguments, "--reassignment-json-file", plan)
    other = file(_moves((topic, 1, [3, 4]), ("no-such-topic", 0, [0])))
    assert (
        "but replica set is 0 rather than 3,4."
        in same("reassign_partitions", "--verify", "--preserve-throttles", "--reassignment-json-file", other).stdout
    )


@pytest.mark.parametrize(
    "document",
    [
        {"version": 1, "partitions": []},
        {"version": 2, "partitions": []},
        _moves(("{topic}", 0, [])),
        _moves(("{topic}", 0, [0]), ("{topic}", 0, [0])),
        _moves(("{topic}", 0, [0, 0])),
        _moves(("{topic}", 0, [0, 77])),
        _moves(("{topic}", 9, [0])),
        _moves(("no-such-topic", 0, [0])),
        {"partitions": [{"topic": "{topic}", "partition": 0, "replicas": [0], "log_dirs": []}]},
    ],
)
def test_plans_that_cannot_be_carried_out(
    refused: Callable[..., str],
    file: Callable[[Any], str],
    create_topic: Callable[..., None],
    topic: str,
    document: Any,
) -> None:
    create_topic(topic)
    path = file(json.dumps(document).replace("{topic}", topic))
    assert refused("reassign_partitions", "--execute", "--reassignment-json-file", path)


def test_wrong_usage_of_reassignments(refused: Callable[..., str]) -> None:
    for arguments in (
        [],
        ["--list", "--verify"],
        ["--verify"],
        ["--execute"],
        ["--generate", "--broker-list", "0"],
        ["--list", "--throttle", "5"],
        ["--verify", "--reassignment-json-file", "x", "--additional"],
    ):
        refused("reassign_partitions", *arguments)
    refused("reassign_partitions", "--list", server=False)


def test_leaders_are_elected(
    same: Callable[..., Ran], file: Callable[[Any], str], create_topic: Callable[..., None], topic: str
) -> None:
    create_topic(topic, partitions=2)
    preferred = ["--election-type", "preferred"]
    assert "Valid replica already" in same("leader_election", *preferred, "--topic", topic, "--partition", "1").stdout
    same("leader_election", *preferred, "--all-topic-partitions")
    same("leader_election", "--election-type", "UNCLEAN", "--topic", topic, "--partition", "0")
    path = file({"partitions": [{"topic": topic, "partition": 0}]})
    same("leader_election", *preferred, "--path-to-json-file", path)


def test_elections_that_are_refused(
    both: Both, refused: Callable[..., str], file: Callable[[Any], str], topic: str
) -> None:
    preferred = ["--election-type", "preferred"]
    refused("leader_election", *preferred, "--topic", "no-such-topic", "--partition", "0")
    for arguments in (
        [],
        preferred,
        [*preferred, "--topic", topic],
        [*preferred, "--partition", "0", "--all-topic-partitions"],
        [*preferred, "--topic", topic, "--partition", "0", "--all-topic-partitions"],
        ["--all-topic-partitions"],
        [*preferred, "--path-to-json-file", file({})],
        [*preferred, "--path-to-json-file", file(_moves((topic, 0, []), (topic, 0, [])))],
    ):
        mine, theirs = both("leader_election", *arguments)
        assert mine.status == theirs.status == 1
        assert mine.stderr.split("\n")[0] == theirs.stderr.split("\n")[0].split("Exception: ")[-1]


def test_the_same_with_our_own_command(
    broker_address: str, create_topic: Callable[..., None], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from headwater.cli.root import run

    create_topic(topic, partitions=2)

    def headwater(*arguments: str) -> str:
        assert run(["cluster", *arguments, "--bootstrap-server", broker_address]) == 0
        return capsys.readouterr().out

    assert headwater("reassign") == "Nothing moves\n"
    assert headwater("reassign", "--wait") == "Nothing moves\n"
    assert headwater("reassign", "--to", "all", "-t", topic, "--execute") == "Nothing is to be done\n"
    assert headwater("reassign", "--cancel", "--execute") == "Nothing is to be done\n"
    assert json.loads(headwater("elect", topic, "-o", "json")) == [
        {"topic": topic, "partition": partition, "status": "leads already"} for partition in (0, 1)
    ]
    assert headwater("elect", "--all") == "Nothing was to be done\n"
    assert run(["cluster", "reassign", "--to", "9", "--bootstrap-server", broker_address]) == 1
    assert "The cluster has no broker 9" in capsys.readouterr().err
