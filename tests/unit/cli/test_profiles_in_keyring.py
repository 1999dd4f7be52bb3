"""Logins of profiles in the system's keyring: kept there and nowhere else, found again, taken out; and what is said
when there is no keyring.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring
from keyring.errors import KeyringLocked, PasswordDeleteError

from headwater.base.errors import UserError
from headwater.cli.profiles import default_profiles_file, read_profiles, secrets_file, write_profiles
from headwater.cli.root import run
from headwater.cli.settings import ConnectOptions, resolve
from unit.cli.test_profiles import CANARY, home, make, shown

__all__ = ["home"]


class InMemory(KeyringBackend):
    priority = 1

    @property
    def entry(self) -> str:
        """Of the only one."""
        ((service, name),) = self.entries
        assert service == "headwater"
        return name

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries: dict[tuple[str, str], str] = {}
        self.asked = 0
        self.is_locked = False

    def get_password(self, service: str, username: str) -> str | None:
        self.asked += 1
        self._check()
        return self.entries.get((service, username))

    def _check(self) -> None:
        if self.is_locked:
            raise KeyringLocked("Failed to unlock the collection!")

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._check()
        if (service, username) not in self.entries:
            raise PasswordDeleteError("not found")
        del self.entries[service, username]


@pytest.fixture
def ring(home: Path) -> Iterator[InMemory]:
    del home
    before, made = keyring.get_keyring(), InMemory()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(before)


def test_a_login_is_in_the_keyring_and_in_no_file(
    ring: InMemory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make(monkeypatch, "prod", "--keyring", "--use") == 0
    assert CANARY in ring.entries["headwater", ring.entry]
    directory = default_profiles_file().parent
    assert not any(CANARY in path.read_text() for path in directory.rglob("*") if path.is_file())
    found = resolve(ConnectOptions())
    assert (found.bootstrap, found.security["sasl.mechanism"]) == ("prod:9093", "SCRAM-SHA-512")
    assert CANARY in found.security["sasl.jaas.config"]
    assert resolve(ConnectOptions(bootstrap_server="elsewhere:9092")).security == {}
    one = shown(capsys, "profile", "show")
    assert (one["user"], one["login"], one["settings"]["sasl.jaas.config"]) == ("alice", "keyring", "[hidden]")
    assert run(["profile", "delete", "prod"]) == 0
    assert ring.entries == {}


def test_a_list_does_not_ask_the_keyring(
    ring: InMemory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make(monkeypatch, "prod", "--keyring", "--use")
    make(monkeypatch, "test")
    ring.asked = 0
    listed = shown(capsys, "profile", "list")
    assert [(each["name"], each["login"], each["user"]) for each in listed] == [
        ("prod", "keyring", None),
        ("test", "file", "alice"),
    ]
    assert ring.asked == 0


def test_a_login_that_moves_stays_nowhere_else(ring: InMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    make(monkeypatch, "prod", "--use")
    assert secrets_file("prod").exists()
    make(monkeypatch, "prod", "--force", "--keyring")
    assert not secrets_file("prod").exists()
    first = ring.entry
    make(monkeypatch, "prod", "--force", "--keyring")
    assert ring.entry != first, "that of before is taken out"
    make(monkeypatch, "prod", "--force")
    assert secrets_file("prod").exists()
    assert ring.entries == {}


def test_an_entry_that_was_taken_out_and_a_locked_keyring_are_told(
    ring: InMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(monkeypatch, "prod", "--keyring", "--use")
    ring.is_locked = True
    with pytest.raises(UserError, match="keyring does not answer"):
        resolve(ConnectOptions())
    ring.is_locked = False
    ring.entries.clear()
    with pytest.raises(UserError, match="is not in the system's keyring"):
        resolve(ConnectOptions())
    assert run(["profile", "delete", "prod"]) == 0, "there is nothing to take out, and the profile goes"


def test_what_is_in_the_keyring_and_no_properties_is_not_quoted(
    ring: InMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(monkeypatch, "prod", "--keyring", "--use")
    ring.entries["headwater", ring.entry] = f"sasl.password=\\u{CANARY}"
    with pytest.raises(UserError) as told:
        resolve(ConnectOptions())
    assert CANARY not in str(told.value)


def test_without_a_keyring_nothing_is_made(
    ring: InMemory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    keyring.set_keyring(NoKeyring())  # type: ignore[no-untyped-call]
    assert make(monkeypatch, "prod", "--keyring", "--use") == 1
    said = capsys.readouterr().err
    assert "keyring does not answer" in said
    assert "without --keyring" in said
    assert CANARY not in said
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert make(monkeypatch, "prod", "--keyring", "--use") == 1
    assert "pip install 'headwater[keyring]'" in capsys.readouterr().err
    assert read_profiles().named == {}
    assert ring.entries == {}


@pytest.mark.usefixtures("ring")
def test_a_profile_without_a_login_needs_no_keyring(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", "create", "open", "--bootstrap-server", "a:1", "--keyring"]) == 2
    assert "--keyring keeps a login" in capsys.readouterr().err


def test_a_profile_has_its_login_in_one_place(home: Path) -> None:
    path = home / "config" / "headwater" / "profiles.toml"
    path.parent.mkdir(parents=True)
    path.write_text('[profiles.x]\nbootstrap_server = "a:1"\ncommand_config = "f"\nkeyring = "x"\n')
    with pytest.raises(UserError, match="it has both command_config and keyring"):
        read_profiles()


def test_profiles_of_one_name_in_two_homes_have_logins_of_their_own(
    ring: InMemory, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(monkeypatch, "prod", "--keyring", "--use")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "other"))
    make(monkeypatch, "prod", "--keyring", "--use")
    assert len(ring.entries) == 2
    assert run(["profile", "delete", "prod"]) == 0
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    assert CANARY in resolve(ConnectOptions()).security["sasl.jaas.config"]


def test_an_entry_that_two_profiles_name_stays_until_the_last_of_them_goes(
    ring: InMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(monkeypatch, "prod", "--keyring", "--use")
    known = read_profiles()
    write_profiles(known._replace(named={**known.named, "same": known.named["prod"]}))
    assert run(["profile", "delete", "prod"]) == 0
    assert len(ring.entries) == 1
    assert run(["profile", "delete", "same"]) == 0
    assert ring.entries == {}


def test_a_keyring_that_does_not_answer_keeps_nobody_from_a_file_or_from_deleting(
    ring: InMemory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for change in (lambda: make(monkeypatch, "prod", "--force"), lambda: run(["profile", "delete", "prod"])):
        ring.is_locked = False
        make(monkeypatch, "prod", "--force", "--keyring")
        entry = read_profiles().named["prod"]["keyring"]
        ring.is_locked = True
        capsys.readouterr()
        assert change() == 0
        assert f"the login stays in the system's keyring, as '{entry}' of headwater" in capsys.readouterr().err
