"""Keys, certificates and passwords of listeners that kafka-configs changes while a broker runs: taken by the next
connection, kept encrypted, and there again after a restart.
"""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer as ConfluentProducer
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from compat.support.certificates import PEM, Authority
from compat.support.java import Java
from compat.support.server_process import server_process
from headwater.base.errors import ErrorCode, KafkaError
from headwater.client import Admin
from headwater.client.types import ConfigResource, ResourceType

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
BROKER = ConfigResource(ResourceType.BROKER, "0")
USERS = "listener.name.sasl_ssl.plain.sasl.jaas.config"
KEY, CHAIN = "listener.name.ssl.ssl.keystore.key", "listener.name.ssl.ssl.keystore.certificate.chain"


@contextmanager
def broker(directory: Path, authority: Authority, **secrets: str) -> Iterator[dict[str, str]]:
    """The addresses of its listeners."""
    properties = {
        "log.dirs": str(directory / "data"),
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "SSL", "SASL_SSL")),
        **inline(authority, "first"),
        "listener.name.sasl_ssl.ssl.keystore.location": authority.pem("second"),
        "sasl.enabled.mechanisms": "PLAIN",
        USERS: f'{PLAIN} user_alice="alices-canary";',
        **{f"password.encoder.{name.replace('_', '.')}": secret for name, secret in secrets.items()},
    }
    with server_process(properties, directory / "broker.log") as addresses:
        yield addresses


def inline(authority: Authority, name: str) -> dict[str, str]:
    key, certificate = authority.issue(name)
    plain = serialization.NoEncryption()
    return {
        KEY: key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, plain).decode(),
        CHAIN: certificate.public_bytes(PEM).decode(),
    }


def shown_at(address: str) -> str:
    """The name in the certificate of the listener."""
    host, port = address.split(":")
    found = x509.load_pem_x509_certificate(ssl.get_server_certificate((host, int(port))).encode())
    return found.subject.rfc4514_string().split("CN=")[1].split(",")[0]


def altered(address: str, changes: dict[str, str | None]) -> KafkaError | None:
    with Admin(bootstrap_servers=address) as admin:
        return admin.alter_configs({BROKER: changes})[BROKER]


def may_log_in(address: str, authority: Authority, user: str, password: str) -> bool:
    """By librdkafka, which others wrote."""
    outcome: list[object] = []
    settings = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": authority.path,
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
        "error_cb": lambda error: outcome.append(str(error)),
    }
    producer = ConfluentProducer(settings)
    producer.produce("logins", b"x", on_delivery=lambda error, _: outcome.append(error))
    while not outcome:
        producer.poll(1)
    producer.purge()
    return outcome[0] is None


def everything_in(directory: Path) -> bytes:
    found = [path.read_bytes() for path in (directory / "data").rglob("*") if path.is_file()]
    return b"".join([*found, (directory / "broker.log").read_bytes()])


def test_certificates_and_users_that_kafka_configs_changes(tmp_path: Path, java: Java) -> None:
    authority = Authority(tmp_path)
    with broker(tmp_path, authority, secret="s-canary-1") as addresses:
        plaintext = addresses["PLAINTEXT"]
        assert shown_at(addresses["SSL"]) == "first"
        taken = java.tool(
            "kafka.admin.ConfigCommand",
            *("--bootstrap-server", plaintext, "--entity-type", "brokers", "--entity-name", "0", "--alter"),
            *("--add-config", f'{USERS}=[{PLAIN} user_bob="bobs-canary";]'),
        )
        assert "Completed updating" in taken.stdout, taken
        assert altered(plaintext, dict(inline(authority, "third"))) is None
        assert shown_at(addresses["SSL"]) == "third"
        assert may_log_in(addresses["SASL_SSL"], authority, "bob", "bobs-canary")
        assert not may_log_in(addresses["SASL_SSL"], authority, "alice", "alices-canary")

        mixed = {KEY: inline(authority, "x")[KEY], CHAIN: inline(authority, "y")[CHAIN]}
        for wrong in (mixed, {USERS: f'{PLAIN} user_a="wrong-canary'}, {KEY: "wrong-canary"}):
            refused = altered(plaintext, dict(wrong))
            assert refused is not None
            assert refused.code == ErrorCode.INVALID_REQUEST
            assert "wrong-canary" not in str(refused)
        assert shown_at(addresses["SSL"]) == "third"
        with Admin(bootstrap_servers=plaintext) as admin:
            described = admin.describe_configs([BROKER], synonyms=True)
        assert USERS in repr(described)
        assert "canary" not in repr(described)

    with broker(tmp_path, authority, secret="s-canary-2", old_secret="s-canary-1") as addresses:
        assert shown_at(addresses["SSL"]) == "third"
    with broker(tmp_path, authority, secret="s-canary-2") as addresses:  # encoded again: the old one is not needed
        assert shown_at(addresses["SSL"]) == "third"
        assert may_log_in(addresses["SASL_SSL"], authority, "bob", "bobs-canary")
        assert altered(addresses["PLAINTEXT"], {KEY: None, CHAIN: None}) is None
        assert shown_at(addresses["SSL"]) == "first"
    found = everything_in(tmp_path)
    assert b"keyFactoryAlgorithm" in found, "the metadata was not looked at"
    assert b"canary" not in found
    assert b"PRIVATE KEY" not in found


def test_without_a_secret_passwords_are_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with broker(tmp_path, authority) as addresses:
        refused = altered(addresses["PLAINTEXT"], {USERS: f'{PLAIN} user_bob="bobs-canary";'})
        assert refused is not None
        assert (refused.code, "password.encoder.secret" in str(refused)) == (ErrorCode.INVALID_REQUEST, True)
        location = "listener.name.sasl_ssl.ssl.keystore.location"
        missing = altered(addresses["PLAINTEXT"], {location: "/nowhere.pem"})
        assert missing is not None
        assert missing.code == ErrorCode.INVALID_REQUEST
        assert altered(addresses["PLAINTEXT"], {location: authority.pem("other")}) is None
        assert shown_at(addresses["SASL_SSL"]) == "other"
    assert b"canary" not in everything_in(tmp_path)
