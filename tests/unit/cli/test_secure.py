"""What `headwater up --secure` makes: files for their owner alone, made once, that the broker's and the clients' own
readers take.
"""

import shutil
import ssl
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from headwater.base.config.broker import BrokerConfig
from headwater.base.config.properties import parse_properties
from headwater.base.errors import UserError
from headwater.base.security.jaas import parse_jaas_file
from headwater.cli.commands.up import _tell_of_secured
from headwater.cli.plans import PlanError, plan_secured, plan_several_secured
from headwater.cli.root import run
from headwater.cli.secure import Secured, prepare, properties_text
from headwater.cli.settings import ConnectOptions, resolve
from headwater.cli.state import BrokerState, UpState, write_state
from headwater.cli.zookeeper_child import security_of
from headwater.server.zookeeper.security import security_of as zookeeper_security_of

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def contents(secured: Secured) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in secured.directory.iterdir()}


def shake_hands(secured: Secured, host: str) -> None:
    """A TLS handshake of the broker's certificate with who trusts the authority, in memory. Raises SSLError."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(secured.directory / "server.pem")
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(secured.authority)
    client.verify_flags |= ssl.VerifyFlags.VERIFY_X509_STRICT
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [client.wrap_bio(back, there, server_hostname=host), server.wrap_bio(there, back, server_side=True)]
    for _ in range(4):
        for side in list(sides):
            try:
                side.do_handshake()
                sides.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert sides == []


def test_everything_is_for_its_owner_alone(tmp_path: Path) -> None:
    secured = prepare(tmp_path, NOW)
    assert stat.S_IMODE(secured.directory.stat().st_mode) == 0o700
    assert set(contents(secured)) == {
        "ca.key",
        "ca.pem",
        "server.pem",
        "admin.password",
        "server.properties",
        "client.properties",
        "librdkafka.properties",
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in secured.directory.iterdir()} == {0o600}


def test_a_second_start_uses_what_the_first_has_made(tmp_path: Path) -> None:
    before = contents(prepare(tmp_path, NOW))
    assert contents(prepare(tmp_path, NOW + timedelta(days=300))) == before


def test_passwords_differ(tmp_path: Path) -> None:
    one, other = prepare(tmp_path / "a", NOW), prepare(tmp_path / "b", NOW)
    assert one.password.read_text() != other.password.read_text()
    assert len(one.password.read_text().strip()) >= 32


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_the_certificate_is_for_this_machine_and_of_the_authority(tmp_path: Path, host: str) -> None:
    secured = prepare(tmp_path, datetime.now(UTC))
    shake_hands(secured, host)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(secured, "example.com")


def test_a_certificate_that_ends_soon_is_made_anew_by_the_same_authority(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    before = contents(prepare(tmp_path, now - timedelta(days=340)))
    secured = prepare(tmp_path, now)
    after = contents(secured)
    assert {name for name in after if after[name] != before[name]} == {"server.pem"}
    found = x509.load_pem_x509_certificate(after["server.pem"])
    assert found.not_valid_after_utc > now + timedelta(days=300)
    shake_hands(secured, "localhost")


def test_a_directory_that_was_moved_names_its_new_place(tmp_path: Path) -> None:
    before = prepare(tmp_path / "old", NOW)
    password = before.password.read_text()
    shutil.move(tmp_path / "old", tmp_path / "new")
    after = prepare(tmp_path / "new", NOW)
    assert after.password.read_text() == password
    for path in (after.server_config, after.client_config, after.librdkafka_config):
        assert str(tmp_path / "old") not in path.read_text()


@pytest.mark.parametrize("what", ["lost", "another's", "nonsense"])
def test_an_authority_without_its_key_is_told(tmp_path: Path, what: str) -> None:
    secured = prepare(tmp_path / "a", NOW)
    key = secured.directory / "ca.key"
    if what == "lost":
        key.unlink()
    elif what == "nonsense":
        key.write_text("nonsense")
    else:
        shutil.copy(prepare(tmp_path / "b", NOW).directory / "ca.key", key)
    with pytest.raises(UserError, match="Cannot use the key of the authority"):
        prepare(tmp_path / "a", NOW)


@pytest.mark.parametrize("text", ["", "\n", 'a"b', "a\\b", "a;b", "a\nb"])
def test_a_password_that_would_break_the_files_is_told_and_not_repeated(tmp_path: Path, text: str) -> None:
    secured = prepare(tmp_path, NOW)
    secured.password.write_text(text)
    with pytest.raises(UserError, match="Cannot use the password") as told:
        prepare(tmp_path, NOW)
    assert not text.strip() or text not in str(told.value)


def test_without_the_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(UserError, match=r"pip install 'headwater\[security\]'"):
        prepare(tmp_path, NOW)
    assert not (tmp_path / "secure").exists()


def test_the_broker_takes_its_settings_and_has_no_open_listener(tmp_path: Path) -> None:
    secured = prepare(tmp_path, NOW)
    plan = plan_secured(tmp_path, secured.server_config, secured.client_config, {}, [], 0, True)
    config, warnings = BrokerConfig.load(plan.config_path, plan.brokers[0].overrides)
    assert warnings == []
    assert [str(each.protocol) for each in config.listeners()] == ["SASL_SSL"]
    assert config.listener("SASL_SSL").mechanisms() == ["SCRAM-SHA-512"]
    assert config.string("super.users") == "User:admin"
    assert config.string("authorizer.class.name")
    password = secured.password.read_text().strip()
    assert not any(
        password in each for each in plan.brokers[0].overrides
    )  # which are arguments of the broker's process


def test_several_brokers_have_a_login_at_their_own_zookeeper_and_it_serves_nobody_else(tmp_path: Path) -> None:
    secured = prepare(tmp_path, NOW, 3, has_zookeeper=True)
    settings_of_broker = parse_properties(secured.server_config.read_text())
    config = BrokerConfig({**settings_of_broker, "listeners": "SASL_SSL://localhost:9092"})
    login = zookeeper_security_of(config, {}).login
    assert login is not None
    sections = parse_jaas_file(secured.zookeeper_jaas.read_text(), "zookeeper.jaas")
    assert sections["Server"][0].users() == {login.username: login.password}
    assert sections["Client"][0].options == {"username": login.username, "password": login.password}
    assert contents(prepare(tmp_path, NOW, 3, has_zookeeper=True)) == contents(secured)
    settings, options = security_of(secured.zookeeper_jaas)
    assert settings["sessionRequireClientSASLAuth"] == "true"
    assert options == [f"-Djava.security.auth.login.config={secured.zookeeper_jaas}"]
    plan = plan_several_secured(tmp_path, secured, {}, count=3, port=None, zookeeper_port=2181, detach=False)
    assert plan.zookeeper is not None
    assert plan.zookeeper.jaas_file == secured.zookeeper_jaas


def test_a_zookeeper_of_others_gets_no_login_of_ours(tmp_path: Path) -> None:
    sets = {"zookeeper.connect": "10.0.0.1:2181"}
    secured = prepare(tmp_path, NOW, 3, has_zookeeper=False)
    assert "DigestLoginModule" not in secured.server_config.read_text()
    assert not secured.zookeeper_jaas.exists()
    plan = plan_several_secured(tmp_path, secured, sets, count=3, port=None, zookeeper_port=2181, detach=False)
    assert plan.zookeeper is None


def test_what_would_open_another_listener_is_refused(tmp_path: Path) -> None:
    given = {"listeners": "PLAINTEXT://:9092"}
    with pytest.raises(PlanError, match="--port"):
        plan_secured(tmp_path, tmp_path / "s", tmp_path / "c", given, ["listeners=PLAINTEXT://:9092"], None, True)


def test_properties_are_read_as_they_were_meant() -> None:
    settings = {"ssl.ca.location": "C:\\certificates\\ca.pem", "sasl.password": "a=b#c!d"}
    assert parse_properties(properties_text(settings).decode()) == settings


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--brokers", "3", "--set", "listeners=PLAINTEXT://:9092"], "--port"),
        (["--config", __file__], "--config"),
        (["--sql"], "authentication.method"),
        (["--connect"], "authentication.method"),
        (["--registry-port", "0"], "authentication.method"),
        (["--set", "listeners=PLAINTEXT://:9092"], "--port"),
    ],
)
def test_what_cannot_be_secured_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(["up", "-d", "--secure", "--data-dir", str(tmp_path / "d"), *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "d").exists()


@pytest.fixture
def all_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.cli.state.is_alive", lambda _process: True)


def running(data_dir: Path, client_config: Path | None) -> None:
    broker = BrokerState(id=0, pid=1, start_ticks=1, host="localhost", port=7, log_dirs=[], log_file=None, ready=True)
    config = None if client_config is None else str(client_config)
    write_state(data_dir, UpState(str(data_dir), "1", 1, 1, [broker], client_config=config))


@pytest.mark.usefixtures("all_alive")
def test_what_runs_open_does_not_count_as_secured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running(tmp_path, None)
    assert run(["up", "-d", "--secure", "--data-dir", str(tmp_path)]) == 1
    assert "is not secured" in capsys.readouterr().err
    assert not Secured.of(tmp_path).directory.exists()


@pytest.mark.usefixtures("all_alive")
def test_what_runs_secured_says_again_where_its_files_are_and_no_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secured = prepare(tmp_path, NOW)
    running(tmp_path, secured.client_config)
    assert run(["up", "-d", "--secure", "--data-dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert f"topic create hello --bootstrap-server localhost:7 --command-config {secured.client_config}\n" in said
    assert str(secured.librdkafka_config) in said
    assert secured.password.read_text().strip() not in said


def test_to_open_what_was_secured_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _tell_of_secured(tmp_path)
    assert capsys.readouterr().err == ""
    prepare(tmp_path, NOW)
    _tell_of_secured(tmp_path)
    assert "was secured before" in capsys.readouterr().err


@pytest.mark.usefixtures("all_alive")
def test_our_commands_find_what_the_secured_broker_asks_for(tmp_path: Path) -> None:
    data_dir = tmp_path / "headwater"
    running(data_dir, prepare(data_dir, NOW).client_config)
    environment = {"XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    found = resolve(ConnectOptions(), environment)
    assert (found.bootstrap, found.security["security.protocol"]) == ("localhost:7", "SASL_SSL")
    assert resolve(ConnectOptions("elsewhere:9092"), environment).security == {}
