"""Profiles: made, used, listed, shown and deleted; secrets in a file of their owner's, and nowhere else."""

import base64
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.cli.door_access import door_access
from headwater.cli.processes import identify
from headwater.cli.profiles import read_profiles, secrets_file
from headwater.cli.registry_calls import find_registry, find_registry_beside
from headwater.cli.root import run
from headwater.cli.settings import CONNECT, REGISTRY, SQL, ConnectOptions, find_door, resolve
from headwater.cli.state import BrokerState, ConnectState, RegistryState, UpState, write_state

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


def make_current(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert make(monkeypatch, name, "--use") == 0


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert run([*arguments, "-o", "json"]) == 0
    out = capsys.readouterr()
    assert CANARY not in out.out + out.err
    return json.loads(out.out)


def test_a_profile_from_its_making_to_its_end(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_current(monkeypatch, "prod")
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
    assert find_registry(None).url == "https://r.example:8081"
    assert run(["profile", "delete", "test"]) == 0
    assert not secrets_file("test").exists()
    assert read_profiles().current is None
    assert run(["profile", "use", "test"]) == 1


@pytest.mark.usefixtures("home")
def test_commands_are_who_they_were_until_a_profile_is_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever has `headwater up --secure` running is its administrator, and would have been alice from then on."""
    assert make(monkeypatch, "alice") == 0
    assert "headwater profile use alice" in capsys.readouterr().out
    assert resolve(ConnectOptions()).source == "the default"
    assert run(["profile", "show"]) == 1
    assert "headwater profile use NAME" in capsys.readouterr().err
    assert make(monkeypatch, "alice", "--force", "--use") == 0
    assert "made the profile alice, the current one" in capsys.readouterr().out
    assert resolve(ConnectOptions()).bootstrap == "alice:9093"
    assert make(monkeypatch, "alice", "--force") == 0
    assert read_profiles().current == "alice", "made anew, it stays the current one"


@pytest.mark.usefixtures("home")
def test_another_cluster_is_not_told_the_login_of_the_current_one(monkeypatch: pytest.MonkeyPatch) -> None:
    make_current(monkeypatch, "prod")
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


@pytest.mark.parametrize(
    ("text", "why"), [(b"sasl.password=caf\xe9\n", "it is not UTF-8 text"), (b"a=\\u12\n", "malformed")]
)
def test_a_config_that_no_command_could_read_is_not_kept(
    home: Path, capsys: pytest.CaptureFixture[str], text: bytes, why: str
) -> None:
    """The first ended in a traceback, and the second made a profile that no command could use."""
    path = home / "client.properties"
    path.write_bytes(text)
    made = ["profile", "create", "test", "--bootstrap-server", "a:1", "--command-config", str(path)]
    for command in (made, ["topic", "list", "--command-config", str(path)]):
        assert run(command) == 1
        told = capsys.readouterr().err
        assert f"Cannot read the command config {path}" in told
        assert why in told
    assert not read_profiles().named
    assert not secrets_file("test").exists()


@pytest.mark.usefixtures("home")
def test_where_a_door_is(monkeypatch: pytest.MonkeyPatch) -> None:
    make_current(monkeypatch, "prod")

    def url(given: str | None, **options: str) -> str:
        return find_door(given, "V", REGISTRY, "http://default", ConnectOptions(**options)).url

    assert url("http://typed") == "http://typed"
    assert url(None) == "https://r.example:8081"
    monkeypatch.setenv("V", "http://variable")
    assert url(None) == "http://variable"
    assert url(None, profile="prod") == "https://r.example:8081"
    assert find_door(None, "W", CONNECT, "http://default", ConnectOptions()).url == "http://default"


@pytest.mark.usefixtures("home")
def test_a_door_that_is_not_the_profiles_is_not_told_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    make_current(monkeypatch, "prod")

    def is_told(given: str | None, variable: str = "W", *, kind: Any = REGISTRY, **options: str) -> bool:
        found = find_door(given, variable, kind, "http://localhost:8081", ConnectOptions(**options))
        return CANARY in str(dict(found.security))

    monkeypatch.setenv("V", "http://localhost:8082")
    assert is_told(None)
    assert is_told("https://r.example:8081/"), "the profile's own"
    assert not is_told("http://localhost:8081")
    assert not is_told("https://r.example:8082")
    assert not is_told(None, "V")
    assert not is_told(None, kind=SQL), "the default: anybody may listen there"
    assert not is_told(None, kind=CONNECT, profile="prod"), "the profile has none, so it is the default"
    assert is_told("http://localhost:8081", profile="prod"), "who names both wants it so"
    assert is_told("http://localhost:8081", command_config=str(secrets_file("prod")))


def test_the_doors_of_headwater_up_are_told_its_own_login(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_current(monkeypatch, "prod")
    (home / "up.properties").write_text("security.protocol=SASL_SSL\nsasl.password=local\n")
    process = identify(os.getpid())
    assert process is not None
    state = UpState(str(home / "data"), "1", *process, client_config=str(home / "up.properties"))
    state.connect = ConnectState(
        host="127.0.0.1", port=7083, pid=process.pid, start_ticks=process.start_ticks, log_file=None
    )
    (home / "data").mkdir()
    write_state(home / "data", state)

    def found(given: str | None) -> tuple[str, str | None]:
        door = find_door(given, "W", CONNECT, "http://127.0.0.1:8083", ConnectOptions())
        return door.url, door.security.get("sasl.password")

    assert found(None) == ("http://127.0.0.1:7083", "local")
    assert found("http://127.0.0.1:7083") == ("http://127.0.0.1:7083", "local")
    assert found("http://127.0.0.1:8083") == ("http://127.0.0.1:8083", None)
    state.connect.start_ticks += 1  # it has ended, and another process may have its port
    write_state(home / "data", state)
    assert found(None) == ("http://127.0.0.1:8083", None)
    assert found("http://127.0.0.1:7083") == ("http://127.0.0.1:7083", None)


def test_the_registry_beside_the_brokers(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def url(**options: str) -> str | None:
        found = find_registry_beside(ConnectOptions(**options))
        return None if found is None else found.url

    assert url() is None
    process = identify(os.getpid())
    assert process is not None
    alive = {"pid": process.pid, "start_ticks": process.start_ticks, "log_file": None, "host": "127.0.0.1"}
    state = UpState(str(home / "data"), "1", *process)
    state.brokers = [BrokerState(**alive, port=7092, ready=True, id=1, log_dirs=[])]
    state.registry = RegistryState(**alive, port=7081)
    (home / "data").mkdir()
    write_state(home / "data", state)
    own, of_profile = "http://127.0.0.1:7081", "https://r.example:8081"
    assert url() == own
    assert url(bootstrap_server="other:1,localhost:7092") == own
    assert url(bootstrap_server="other:7092") is None, "ids of another cluster's registry mean other schemas"
    make_current(monkeypatch, "prod")
    assert url() == of_profile
    assert url(bootstrap_server="localhost:7092") == own
    assert url(bootstrap_server="other:7092") is None
    assert url(bootstrap_server="other:7092", profile="prod") == of_profile
    monkeypatch.setenv("HEADWATER_BOOTSTRAP_SERVER", "other:7092")
    assert url() is None
    monkeypatch.setenv("HEADWATER_SCHEMA_REGISTRY_URL", "http://named")
    assert url() == url(bootstrap_server="localhost:7092") == "http://named"


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
