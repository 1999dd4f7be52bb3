"""Who a process is to ZooKeeper: from settings, from KAFKA_OPTS and the file that it names, or not at all."""

from pathlib import Path

import pytest

from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import UserError
from headwater.server.zookeeper.security import (
    OPEN,
    SaslLogin,
    ZooKeeperSecurity,
    security_of,
    security_of_tool,
    system_properties,
)

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule required"
OWN = "headwater.zookeeper.sasl.jaas.config"
SECRET = "canary-41"


@pytest.fixture
def jaas(tmp_path: Path) -> Path:
    path = tmp_path / "jaas.conf"
    path.write_text(
        f"""Server {{ {DIGEST} user_kafka="{SECRET}"; }};
        // who we are
        Client {{
          {DIGEST}
          username="kafka"
          password="{SECRET}";
        }};
        Elsewhere {{ {DIGEST} username=other password=x; }};
        Kerberos {{ com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true; }};
        Half {{ {DIGEST} username=other; }};
        Two {{ {DIGEST} username=a password=b; {DIGEST} username=c password=d; }};
        """
    )
    return path


def options(path: Path, *more: str) -> dict[str, str]:
    return {"KAFKA_OPTS": " ".join([f"-Djava.security.auth.login.config={path}", *more])}


def test_nobody_without_anything() -> None:
    assert security_of(BrokerConfig({}), {}) == OPEN
    assert security_of_tool(None, {}) == OPEN


def test_the_section_client_of_the_jaas_file(jaas: Path) -> None:
    wanted = ZooKeeperSecurity(SaslLogin("kafka", SECRET))
    assert security_of(BrokerConfig({}), options(jaas)) == wanted
    assert security_of_tool(None, options(jaas)) == wanted
    assert SECRET not in repr(wanted)
    other = security_of_tool(None, options(jaas, "-Dzookeeper.sasl.clientconfig=Elsewhere"))
    assert other.login == SaslLogin("other", "x")
    assert security_of_tool(None, options(jaas, "-Dzookeeper.sasl.clientconfig=Nowhere")) == OPEN


def test_the_setting_of_ones_own_wins(jaas: Path) -> None:
    config = BrokerConfig({OWN: f'{DIGEST} username="mine" password="y";'})
    assert security_of(config, options(jaas)).login == SaslLogin("mine", "y")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("-Dzookeeper.sasl.clientconfig=Kerberos", "DIGEST-MD5 is the one mechanism"),
        ("-Dzookeeper.sasl.clientconfig=Half", "no username or no password"),
        ("-Dzookeeper.sasl.clientconfig=Two", "has 2 login modules"),
        ("-Dzookeeper.sasl.client=false", "forbids to use it"),
        ('-Dx="', "Cannot read KAFKA_OPTS"),
    ],
)
def test_logins_that_cannot_be(jaas: Path, more: str, said: str) -> None:
    with pytest.raises(UserError) as refusal:
        security_of_tool(None, options(jaas, more))
    assert said in str(refusal.value)
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(
    "text", ["Client {", "Client { };", "Client", "}", f"Client {{ {DIGEST} a=b; }}", "A { }; A { };"]
)
def test_files_that_are_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.conf").write_text(text)
    if text == "Client { };":
        assert security_of_tool(None, options(tmp_path / "bad.conf")) == OPEN
        return
    with pytest.raises(UserError, match=r"Cannot read .*bad\.conf"):
        security_of_tool(None, options(tmp_path / "bad.conf"))


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"missing\.conf\. No such file"):
        security_of_tool(None, options(tmp_path / "missing.conf"))
    with pytest.raises(UserError, match=r"missing\.properties\. No such file"):
        security_of_tool(str(tmp_path / "missing.properties"), {})


def test_nodes_of_ones_own_need_a_login(jaas: Path) -> None:
    config = BrokerConfig({"zookeeper.set.acl": "true"})
    with pytest.raises(UserError, match=r"zookeeper\.set\.acl is true, but the broker has no login"):
        security_of(config, {})
    assert security_of(config, options(jaas)).set_acl


def test_tls_by_settings_by_system_properties_and_by_a_file(tmp_path: Path) -> None:
    assert security_of(BrokerConfig({"zookeeper.ssl.client.enable": "true"}), {}).tls is not None
    assert security_of_tool(None, {"KAFKA_OPTS": "-Dzookeeper.client.secure=true"}).tls is not None
    (tmp_path / "tls.properties").write_text("zookeeper.ssl.client.enable=true\nbroker.id=no number\n")
    found = security_of_tool(str(tmp_path / "tls.properties"), {})
    assert found.tls is not None
    assert not found.has_certificate


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNIO"}, "has no TLS"),
        ({"zookeeper.ssl.enabled.protocols": "TLSv1"}, "TLS before 1.2 is broken"),
        ({"zookeeper.ssl.truststore.location": "/nowhere/ca.pem"}, "/nowhere/ca.pem"),
        ({"zookeeper.ssl.cipher.suites": "TLS_NONE"}, "no such cipher suite"),
    ],
)
def test_tls_that_cannot_be(settings: dict[str, str], said: str) -> None:
    with pytest.raises(UserError) as refusal:
        security_of(BrokerConfig({"zookeeper.ssl.client.enable": "true", **settings}), {})
    assert said in str(refusal.value)
    assert "ZooKeeper" in str(refusal.value) or "zookeeper" in str(refusal.value)


def test_system_properties_are_read_as_a_shell_reads_them() -> None:
    found = system_properties({"KAFKA_OPTS": "-Xmx1g -Da=b '-Dc=d e' -Df"})
    assert found == {"a": "b", "c": "d e", "f": ""}
