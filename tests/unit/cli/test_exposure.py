"""What `headwater doctor` says is open: by the settings, by the files that they name, and by what runs."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from compat.support.certificates import Authority
from headwater.cli.checks import FAIL, OK, WARN, Finding
from headwater.cli.exposure import FileFacts, Settings, exposures
from headwater.cli.exposure_sources import (
    Source,
    changed,
    look_at,
    mode_of,
    run_exposure_checks,
    running_servers,
    settings_of_command,
)
from headwater.cli.processes import identify
from headwater.cli.root import run
from headwater.cli.secure import prepare
from headwater.cli.state import BrokerState, UpState
from headwater.client.types import ConfigEntry

NOW = datetime(2026, 11, 1, tzinfo=UTC)
CANARY = "canary-4410"
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
LOGIN = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.jaas.config": f'x required username="a" password="{CANARY}";',
}
PLAIN_TOO = {**LOGIN, "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN", "sasl.plain.allow.plaintext": "true"}
OPEN = {"allow.everyone.if.no.acl.found": "true"}


def found(given: dict[str, str], files: dict[str, FileFacts] | None = None, path: str | None = None) -> list[Finding]:
    return exposures(Settings("it", given, path), files or {}, NOW)


def levels(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(each.level, each.check) for each in findings]


def broker(listener: str, *more: dict[str, str]) -> dict[str, str]:
    given = {"listeners": listener}
    for each in more:
        given |= each
    return given


NOTHING = [(OK, "it")]
AT_ZOOKEEPER = {"headwater.zookeeper.sasl.jaas.config": 'DigestLoginModule required username="b" password="p";'}
NO_AUTHORIZER = (WARN, "it rights")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # only this machine reaches it
        (broker("PLAINTEXT://localhost:9092"), NOTHING),
        (broker("PLAINTEXT://127.0.0.5:9092"), NOTHING),
        (broker("PLAINTEXT://[::1]:9092"), NOTHING),
        (broker("SASL_PLAINTEXT://localhost:9092", PLAIN_TOO), NOTHING),
        (broker("PLAINTEXT://localhost:1", {"metrics.listener": "http://127.0.0.1:9404"}), NOTHING),
        (broker("PLAINTEXT://localhost:1", {"metrics.listener": "https://:9404"}), [(FAIL, "it metrics")]),
        (
            broker(
                "PLAINTEXT://localhost:1",
                {"metrics.listener": "https://:9404", "metrics.authentication.method": "BASIC"},
            ),
            NOTHING,
        ),
        (
            broker(
                "PLAINTEXT://localhost:1",
                {"metrics.listener": "https://:9404", "metrics.authentication.method": "BEARER"},
            ),
            NOTHING,
        ),
        # everybody does
        ({}, [(FAIL, "it PLAINTEXT"), NO_AUTHORIZER]),
        (broker("PLAINTEXT://:9092"), [(FAIL, "it PLAINTEXT"), NO_AUTHORIZER]),
        (broker("PLAINTEXT://0.0.0.0:9092"), [(FAIL, "it PLAINTEXT"), NO_AUTHORIZER]),
        (broker("PLAINTEXT://[::]:9092"), [(FAIL, "it PLAINTEXT"), NO_AUTHORIZER]),
        (broker("PLAINTEXT://broker.example:9092"), [(FAIL, "it PLAINTEXT"), NO_AUTHORIZER]),
        ({"host.name": "10.1.2.3"}, [(FAIL, "it PLAINTEXT"), NO_AUTHORIZER]),
        (broker("PLAINTEXT://:9092", AUTHORIZER), [(WARN, "it PLAINTEXT")]),
        (broker("PLAINTEXT://:9092", AUTHORIZER, OPEN), [(FAIL, "it PLAINTEXT"), (WARN, "it rights")]),
        (
            broker("PLAINTEXT://:9092", AUTHORIZER, {"super.users": "User:a; User:ANONYMOUS"}),
            [(FAIL, "it PLAINTEXT")],
        ),
        # TLS without a login, with one by certificates, and a login without TLS
        (broker("SSL://:9093"), [(FAIL, "it SSL"), NO_AUTHORIZER]),
        (broker("SSL://:9093", {"ssl.client.auth": "requested"}), [(FAIL, "it SSL"), NO_AUTHORIZER]),
        (broker("SSL://:9093", AUTHORIZER, {"ssl.client.auth": "required"}), NOTHING),
        (broker("SSL://:9093", AUTHORIZER, {"listener.name.ssl.ssl.client.auth": "required"}), NOTHING),
        (broker("SASL_PLAINTEXT://:9093", AUTHORIZER, LOGIN), [(WARN, "it SASL_PLAINTEXT")]),
        (broker("SASL_PLAINTEXT://:9093", AUTHORIZER, PLAIN_TOO), [(FAIL, "it SASL_PLAINTEXT")]),
        # as it should be, and what may be wrong with it still
        (broker("SASL_SSL://:9093", AUTHORIZER, LOGIN), NOTHING),
        (broker("SASL_SSL://:9093", AUTHORIZER, PLAIN_TOO), NOTHING),
        (broker("SASL_SSL://:9093", LOGIN), [NO_AUTHORIZER]),
        (broker("SASL_SSL://:9093", AUTHORIZER, OPEN, LOGIN), [(WARN, "it rights")]),
        (
            broker("SASL_SSL://:9093", AUTHORIZER, LOGIN, {"ssl.endpoint.identification.algorithm": ""}),
            [(WARN, "it")],
        ),
        (
            broker("IN://localhost:9092,OUT://:9093", {"listener.security.protocol.map": "IN:PLAINTEXT,OUT:SSL"}),
            [(FAIL, "it OUT"), NO_AUTHORIZER],
        ),
        (
            broker("SASL_SSL://:9093", AUTHORIZER, LOGIN, {"zookeeper.connect": "10.0.0.1:2181"}),
            [(WARN, "it ZooKeeper")],
        ),
        (
            broker("SASL_SSL://:9093", AUTHORIZER, LOGIN, AT_ZOOKEEPER, {"zookeeper.connect": "10.0.0.1:2181/kafka"}),
            [(WARN, "it ZooKeeper")],
        ),
        (
            broker(
                "SASL_SSL://:9093", AUTHORIZER, LOGIN, AT_ZOOKEEPER, {"zookeeper.connect": "127.0.0.1:2181,[::1]:1"}
            ),
            NOTHING,
        ),
        (
            broker(
                "SASL_SSL://:9093",
                AUTHORIZER,
                LOGIN,
                {"zookeeper.connect": "10.0.0.1:2181", "zookeeper.set.acl": "true"},
            ),
            NOTHING,
        ),
        # what does not start
        (broker("PLAINTEXT://:99999"), [(FAIL, "it")]),
        # HTTP doors
        ({"bootstrap.servers": "a:1"}, NOTHING),
        ({"listeners": "http://127.0.0.1:8081"}, NOTHING),
        ({"listeners": "http://:8081"}, [(FAIL, "it")]),
        ({"listeners": "https://0.0.0.0:8081"}, [(FAIL, "it")]),
        ({"listeners": "http://localhost:8081,http://10.0.0.1:8082"}, [(FAIL, "it")]),
        ({"listeners": "https://:8081", "authentication.method": "NONE"}, [(FAIL, "it")]),
        ({"listeners": "https://:8081", "authentication.method": "BASIC,BEARER"}, NOTHING),
        ({"listeners": "http://:8081", "authentication.method": "BASIC"}, [(WARN, "it")]),
        ({"listeners": "http://:port"}, [(FAIL, "it")]),
    ],
)
def test_what_settings_leave_open(given: dict[str, str], expected: list[tuple[str, str]]) -> None:
    findings = found(given)
    assert levels(findings) == expected
    assert all(bool(each.hint) == (each.level != OK) for each in findings)
    assert CANARY not in repr(findings) + repr(Settings("it", given))


@pytest.mark.parametrize(("mode", "is_told"), [(0o600, False), (0o640, False), (0o644, True), (0o602, True)])
def test_files_with_secrets_are_not_for_everybody(mode: int, is_told: bool) -> None:
    local = broker("PLAINTEXT://localhost:9092")
    files = {"/etc/it": FileFacts(mode), "/etc/key": FileFacts(mode), "/etc/trust": FileFacts(mode)}
    told = [(FAIL, "secrets")] if is_told else NOTHING
    assert levels(found({**local, **LOGIN}, files, "/etc/it")) == told
    assert levels(found({**local, "ssl.keystore.location": "/etc/key"}, files)) == told
    assert levels(found({**local, "listener.name.x.ssl.keystore.location": "/etc/key"}, files)) == told
    assert levels(found({**local, "kafkastore.sasl.password": CANARY}, files, "/etc/it")) == told
    # no secret
    assert levels(found(local, files, "/etc/it")) == NOTHING
    assert levels(found({**local, "ssl.truststore.location": "/etc/trust"}, files)) == NOTHING


@pytest.mark.parametrize(("days", "level"), [(-1, FAIL), (0, FAIL), (1, WARN), (30, WARN), (31, None)])
@pytest.mark.parametrize("setting", ["ssl.keystore.location", "ssl.truststore.location"])
def test_certificates_that_end(setting: str, days: int, level: str | None) -> None:
    files = {"/etc/x": FileFacts(0o600, NOW + timedelta(days=days))}
    findings = found({**broker("PLAINTEXT://localhost:9092"), setting: "/etc/x"}, files)
    assert levels(findings) == ([(level, "it TLS")] if level else NOTHING)


def test_stores_that_cannot_be_looked_into_are_told(tmp_path: Path) -> None:
    server = Settings(
        "it", {**broker("PLAINTEXT://localhost:9092"), "ssl.keystore.location": str(tmp_path / "none.pem")}
    )
    assert levels(exposures(server, look_at(server), NOW)) == [(WARN, "it TLS")]


def test_the_end_of_a_certificate_is_read_from_files_and_settings(tmp_path: Path) -> None:
    pem = Authority(tmp_path).pem("broker")  # for a day
    inline = {"ssl.keystore.certificate.chain": Path(pem).read_text(), "ssl.keystore.key": CANARY}
    now = datetime.now(UTC)
    for given in ({"ssl.keystore.location": pem}, inline):
        server = Settings("it", {**broker("PLAINTEXT://localhost:9092"), **given})
        assert levels(exposures(server, look_at(server), now)) == [(WARN, "it TLS")]
        later = exposures(server, look_at(server), now + timedelta(days=2))
        assert levels(later) == [(FAIL, "it TLS")]
        assert CANARY not in repr(later)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that every user can come to; pytest's own are for one."""
    directory = Path(tempfile.mkdtemp())
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def test_a_file_in_a_directory_of_its_owner_is_not_open(reachable: Path) -> None:
    file = reachable / "key.pem"
    file.touch()
    file.chmod(0o644)
    assert mode_of(file) == 0o644
    reachable.chmod(0o700)
    assert mode_of(file) == 0o640
    assert mode_of(reachable / "none") is None


def test_files_of_up_secure_that_were_opened_are_told(reachable: Path) -> None:
    secured = prepare(reachable, NOW)
    assert levels(list(run_exposure_checks(reachable, [], NOW))) == [(OK, "secrets"), (OK, "open doors")]
    reachable.chmod(0o755)
    secured.directory.chmod(0o755)
    secured.password.chmod(0o644)
    secured.authority.chmod(0o644)  # which is for everybody
    told = list(run_exposure_checks(reachable, [], NOW))
    assert levels(told) == [(FAIL, "secrets"), (OK, "open doors")]
    assert str(secured.password) in told[0].found


def test_the_command_line_of_a_server_tells_its_settings() -> None:
    start = ["python", "-m", "headwater.cli.main", "broker", "start", "--stop-on-eof"]
    sets = ["--set", "listeners=PLAINTEXT://:9092", "--set", "a=b=c"]
    assert settings_of_command([*start, "--config", "/etc/x", *sets]) == (
        "/etc/x",
        {"listeners": "PLAINTEXT://:9092", "a": "b=c"},
    )
    assert settings_of_command([*start, *sets[:2]]) == (None, {"listeners": "PLAINTEXT://:9092"})
    assert settings_of_command(start) is None
    assert settings_of_command([]) is None


def test_servers_that_are_gone_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    us = identify(os.getpid())
    assert us is not None
    line = ["x", "--set", "listeners=PLAINTEXT://:9092"]
    monkeypatch.setattr("headwater.cli.exposure_sources.command_line", lambda _pid: line)
    brokers = [
        BrokerState(id=1, host="localhost", port=1, log_dirs=[], log_file=None, pid=us.pid, start_ticks=us.start_ticks),
        BrokerState(id=2, host="localhost", port=2, log_dirs=[], log_file=None),
    ]
    state = UpState("/x", "0", us.pid, us.start_ticks, brokers)
    monkeypatch.setattr(
        "headwater.cli.exposure_sources.dynamic_settings", lambda _state: {"broker 1": ({"a": "b"}, "")}
    )
    assert running_servers(state) == [Source("broker 1", None, {"listeners": "PLAINTEXT://:9092"}, {"a": "b"})]


def test_what_was_changed_since_the_start_counts_for_one_broker_before_all() -> None:
    entries = [
        entry("listener.name.a.ssl.keystore.location", "/own.pem", "dynamic-broker"),
        entry("listener.name.a.ssl.keystore.location", "/all.pem", "dynamic-default"),
        entry("listener.name.a.ssl.keystore.type", "PEM", "dynamic-default"),
        entry("listener.name.a.ssl.keystore.password", None, "dynamic-broker"),
        entry("listeners", "PLAINTEXT://:9092", "static-broker"),
        entry("num.partitions", "1", "default"),
    ]
    assert changed(entries) == {
        "listener.name.a.ssl.keystore.location": "/own.pem",
        "listener.name.a.ssl.keystore.type": "PEM",
    }


def entry(name: str, value: str | None, source: str) -> ConfigEntry:
    return ConfigEntry(name, value, source, False, value is None, "string", None)


def test_a_running_broker_that_does_not_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = Source("broker 1", None, {"listeners": "PLAINTEXT://localhost:9092"}, {}, "nobody answers")
    monkeypatch.setattr("headwater.cli.exposure_sources.read_state", lambda _directory: object())
    monkeypatch.setattr("headwater.cli.exposure_sources.running_servers", lambda _state: [silent])
    told = list(run_exposure_checks(tmp_path, [], NOW))
    assert levels(told) == [(OK, "broker 1"), (WARN, "broker 1")]
    assert "nobody answers" in told[1].found


def test_doctor_tells_what_a_file_leaves_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"listeners=PLAINTEXT://:9092\nsasl.jaas.config={CANARY}\n")
    arguments = ["doctor", "--data-dir", str(tmp_path / "data"), "--config", str(config)]
    assert run([*arguments, "-o", "json"]) == 1
    told = capsys.readouterr().out
    rows = {row["check"]: row for row in json.loads(told)}
    assert rows["server.properties PLAINTEXT"]["level"] == FAIL
    assert set(rows["server.properties PLAINTEXT"]) == {"level", "check", "found", "hint"}
    assert run(arguments) == 1
    assert CANARY not in told + capsys.readouterr().out
    config.write_text("listeners=PLAINTEXT://localhost:9092\n")
    assert run(arguments) == 0
    assert "server.properties" in capsys.readouterr().out
    config.write_bytes(b"\xff\xfe")
    assert run(arguments) == 1
