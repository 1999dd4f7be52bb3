"""`headwater user` without a broker: what it asks the admin API for, where a password may come from, and that it is
never shown.
"""

import io
import json
from collections.abc import Iterable

import click
import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.cli.root import run
from headwater.client.admin.scram import ScramCredentialInfo, ScramDeletion, ScramMechanism, ScramUpsertion

SECRET = "canary-4711"
NOBODY = KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to describe a user credential that does not exist")


class FakeAdmin:
    """Users with what they have; what was asked for."""

    def __init__(self) -> None:
        self.users = {
            "bob": [ScramCredentialInfo(each, 4096) for each in (ScramMechanism.SHA_512, ScramMechanism.SHA_256)],
            "alice": [ScramCredentialInfo(ScramMechanism.SHA_512, 8192)],
        }
        self.asked: list[ScramUpsertion | ScramDeletion] = []
        self.answer: KafkaError | None = None

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, list[ScramCredentialInfo] | KafkaError]:
        return {name: self.users.get(name, NOBODY) for name in users or self.users}

    def alter_user_scram_credentials(
        self, alterations: Iterable[ScramUpsertion | ScramDeletion]
    ) -> dict[str, KafkaError | None]:
        self.asked = list(alterations)
        return {each.user: self.answer for each in self.asked}

    def close(self) -> None:
        pass


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin()
    monkeypatch.setattr("headwater.cli.connecting.open_admin", lambda _settings: fake)
    return fake


def give(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_users_are_listed_by_name_with_their_mechanisms(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["user", "list", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {"name": "alice", "mechanisms": [{"mechanism": "SCRAM-SHA-512", "iterations": 8192}]},
        {
            "name": "bob",
            "mechanisms": [
                {"mechanism": "SCRAM-SHA-256", "iterations": 4096},
                {"mechanism": "SCRAM-SHA-512", "iterations": 4096},
            ],
        },
    ]
    assert run(["user", "list", "alice", "carol"]) == 1
    told = capsys.readouterr()
    assert [line.split() for line in told.out.splitlines()] == [
        ["USER", "MECHANISM", "ITERATIONS"],
        ["alice", "SCRAM-SHA-512", "8192"],
    ]
    assert "There is no user 'carol'" in told.err


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_password_of_stdin(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    give(monkeypatch, SECRET + ending)
    assert run(["user", "add", "carol", "--password-stdin", "-o", "json"]) == 0
    assert admin.asked == [ScramUpsertion("carol", SECRET.encode(), ScramMechanism.SHA_512, 4096)]
    told = capsys.readouterr()
    assert json.loads(told.out) == [{"name": "carol", "status": "added"}]
    assert SECRET not in told.out + told.err


def test_mechanisms_and_iterations_are_as_asked_for(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    give(monkeypatch, SECRET)
    options = ["-m", "scram-sha-256", "-m", "SCRAM-SHA-512", "-m", "SCRAM-SHA-256", "--iterations", "8192"]
    assert run(["user", "add", "carol", "--password-stdin", *options]) == 0
    assert admin.asked == [
        ScramUpsertion("carol", SECRET.encode(), ScramMechanism.SHA_256, 8192),
        ScramUpsertion("carol", SECRET.encode(), ScramMechanism.SHA_512, 8192),
    ]


def test_a_password_is_asked_for_without_echo_and_twice(admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    asked: list[dict[str, object]] = []

    def prompt(_text: str, **how: object) -> str:
        asked.append(how)
        return SECRET

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr(click, "prompt", prompt)
    assert run(["user", "add", "carol"]) == 0
    assert asked == [{"hide_input": True, "confirmation_prompt": True, "err": True}]
    assert [each.password for each in admin.asked if isinstance(each, ScramUpsertion)] == [SECRET.encode()]


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (["carol"], SECRET, "use --password-stdin"),
        (["carol", "--password-stdin"], "", "one line"),
        (["carol", "--password-stdin"], "\n", "one line"),
        (["carol", "--password-stdin"], f"{SECRET}\nmore", "one line"),
        (["carol", "--password-stdin"], "x" * 1025, "one line"),
        (["carol", SECRET], "", "unexpected extra argument"),
        (["carol", "--password-stdin", "--iterations", "4095"], SECRET, "4096 to 16384"),
        (["carol", "--password-stdin", "-m", "PLAIN"], SECRET, "PLAIN"),
        (["", "--password-stdin"], SECRET, "has a name"),
    ],
)
def test_wrong_usage_changes_nothing(
    admin: FakeAdmin,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    stdin: str,
    said: str,
) -> None:
    give(monkeypatch, stdin)
    assert run(["user", "add", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert admin.asked == []


def test_a_user_goes_with_all_mechanisms_or_with_one(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["user", "delete", "bob"]) == 0
    assert set(admin.asked) == {ScramDeletion("bob", each) for each in ScramMechanism}
    assert run(["user", "delete", "bob", "-m", "SCRAM-SHA-256"]) == 0
    assert admin.asked == [ScramDeletion("bob", ScramMechanism.SHA_256)]
    capsys.readouterr()
    admin.asked = []
    assert run(["user", "delete", "carol", "-o", "json"]) == 1
    told = capsys.readouterr()
    assert json.loads(told.out)[0]["error"] == "RESOURCE_NOT_FOUND"
    assert "There is no user 'carol'" in told.err
    assert admin.asked == []


def test_what_the_broker_refuses_is_told(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.answer = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    give(monkeypatch, SECRET)
    assert run(["user", "add", "carol", "--password-stdin", "-o", "json"]) == 1
    told = capsys.readouterr()
    assert json.loads(told.out)[0]["status"] == "failed"
    assert "CLUSTER_AUTHORIZATION_FAILED" in told.err
    assert SECRET not in told.out + told.err
