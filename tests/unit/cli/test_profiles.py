"""Profiles: made, used, listed, shown and deleted; secrets in a file of their owner's, and nowhere else."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.cli.door_access import door_access
from headwater.cli.profiles import read_profiles, secrets_file
from headwater.cli.registry_calls import find_url
from headwater.cli.root import run
from headwater.cli.settings import ConnectOptions, door_url, resolve

CANARY = "canary-9071"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HEADWATER_PROFILE", "HEADWATER_BOOTSTRAP_SERVER", "HEADWATER_SCHEMA_REGISTRY_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HEADWATER_DATA_DIR", str(tmp_path / "data"))
    return tmp_path


def make(monkeypatch: pytest.MonkeyPatch, name: str, *more: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(CANARY + "\n"))
    login = ["--username", "alice", "--password-stdin", "--schema-registry-url", "https://r.example:8081"]
    return run(["profile", "create", name, "--bootstrap-server", f"{name}:9093", *login, *more])


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run([*arguments, "-o", "json"]) == 0
    out = capsys.readouterr()
    assert CANARY not in out.out + out.err
    return json.loads(out.out)


def test_a_profile_from_its_making_to_its_end(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert make(monkeypatch, "prod") == 0
    assert make(monkeypatch, "test") == 0
    assert make(monkeypatch, "test") == 1, "it is there already"
    assert make(monkeypatch, "test", "--force") == 0
    secret = secrets_file("prod")
    assert secret.stat().st_mode & 0o777 == 0o600
    assert secret.parent.stat().st_mode & 0o777 == 0o700
    assert CANARY in secret.read_text()
    toml = home / "config" / "headwater" / "profiles.toml"
    assert CANARY not in toml.read_text()
    assert toml.stat().st_mode & 0o777 == 0o600
    listed = shown(capsys, "profile", "list")
    assert [(each["name"], each["current"], each["user"]) for each in listed] == [
        ("prod", True, "alice"),
        ("test", False, "alice"),
    ]
    found = resolve(ConnectOptions())
    assert (found.bootstrap, found.security["security.protocol"]) == ("prod:9093", "SASL_SSL")
    assert CANARY in found.security["sasl.jaas.config"]
    assert resolve(ConnectOptions(profile="test")).bootstrap == "test:9093"
    assert run(["profile", "use", "test"]) == 0
    assert resolve(ConnectOptions()).bootstrap == "test:9093"
    one = shown(capsys, "profile", "show")
    assert (one["name"], one["settings"]["sasl.jaas.config"]) == ("test", "[hidden]")
    assert one["settings"]["sasl.mechanism"] == "SCRAM-SHA-512"
    assert find_url(None) == "https://r.example:8081"
    assert run(["profile", "delete", "test"]) == 0
    assert not secrets_file("test").exists()
    assert read_profiles().current is None
    assert run(["profile", "use", "test"]) == 1


@pytest.mark.usefixtures("home")
def test_another_cluster_is_not_told_the_login_of_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    make(monkeypatch, "prod")
    assert resolve(ConnectOptions(bootstrap_server="elsewhere:9092")).security == {}
    both = resolve(ConnectOptions(bootstrap_server="elsewhere:9092", profile="prod"))
    assert (both.bootstrap, both.security["sasl.mechanism"]) == ("elsewhere:9092", "SCRAM-SHA-512")


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "arguments",
    [
        ["../x", "--bootstrap-server", "a:1"],
        ["x", "--bootstrap-server", "a:1", "--connect-url", f"https://alice:{CANARY}@c.example"],
        ["x", "--bootstrap-server", "a:1", "--sql-url", "ftp://s.example"],
        ["x", "--bootstrap-server", "a:1", "--username", 'al"ice', "--password-stdin"],
    ],
)
def test_what_cannot_be_kept(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(CANARY + "\n"))
    assert run(["profile", "create", *arguments]) == 1
    assert CANARY not in "".join(capsys.readouterr())
    assert read_profiles().named == {}


def test_where_a_door_is(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(monkeypatch, "prod")
    key, options = "schema_registry_url", ConnectOptions()
    assert home.exists()
    assert door_url("http://typed", "V", key, options) == "http://typed"
    assert door_url(None, "V", key, options) == "https://r.example:8081"
    monkeypatch.setenv("V", "http://variable")
    assert door_url(None, "V", key, options) == "http://variable"
    assert door_url(None, "V", key, ConnectOptions(profile="prod")) == "https://r.example:8081"
    assert door_url(None, "W", "connect_url", options) is None


LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": CANARY,
}


def header(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_a_login_goes_over_tls_or_stays_on_this_machine() -> None:
    def sent(url: str, security: dict[str, str] = LOGIN) -> str:
        found = door_access(url, security, "a door", "http://x")
        assert CANARY not in f"{found!r} {found.url}"
        return found.authorization

    assert sent("https://r.example:8081") == header(f"alice:{CANARY}")
    assert sent("http://127.0.0.1:8081") == header(f"alice:{CANARY}")
    assert sent("localhost:8081") == header(f"alice:{CANARY}")
    assert sent("http://r.example:8081") == ""
    assert sent(f"http://bob:{CANARY}%40@r.example:8081") == header(f"bob:{CANARY}@"), "who writes it so wants it so"
    assert sent("https://r.example:8081", {}) == ""


def test_a_token_is_a_login_too(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("aa.bb.cc\n")
    security = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"file://{tmp_path / 'token'}",
    }
    assert door_access("https://localhost", security, "a door", "").authorization == "Bearer aa.bb.cc"


def test_an_address_that_is_none_is_told_without_its_login() -> None:
    with pytest.raises(UserError) as told:
        door_access(f"ftp://alice:{CANARY}@host", {}, "a door", "http://x")
    assert CANARY not in f"{told.value!r} {told.value}"
