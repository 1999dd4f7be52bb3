"""Settings as people give them."""

from typing import Any

import pytest

from headwater.base.config.definition import ConfigType
from headwater.base.config.validators import AtLeast
from headwater.base.errors import UserError
from headwater.client.reactor.token_source import TokenSource
from headwater.client.settings.common import COMMON, OLD_NAMES, session_settings
from headwater.client.settings.parsing import read_settings, row, table_of

TABLE = {
    **COMMON,
    **table_of(
        row("linger.ms", ConfigType.LONG, 5, "A pause.", AtLeast(0)),
        row("enable.idempotence", ConfigType.BOOLEAN, True, "A flag."),
        row("key.serializer", ConfigType.CLASS, None, "A thing."),
        row("strategies", ConfigType.LIST, ["range"], "Some names or things."),
    ),
}


def test_defaults_values_and_text() -> None:
    settings = read_settings(TABLE, {"linger.ms": "7", "enable.idempotence": False}, {"client_id": "me"})
    assert settings["linger.ms"] == 7
    assert settings["enable.idempotence"] is False
    assert settings["client.id"] == "me"
    assert settings["request.timeout.ms"] == 30_000
    assert settings.given == {"linger.ms", "enable.idempotence", "client.id"}


def test_a_keyword_wins_over_the_mapping() -> None:
    assert read_settings(TABLE, {"linger.ms": 1}, {"linger_ms": 2})["linger.ms"] == 2


def test_a_name_of_earlier_days_is_understood() -> None:
    settings = read_settings(TABLE, {"metadata.broker.list": "a:1,b:2"}, {}, old_names=OLD_NAMES)
    assert settings["bootstrap.servers"] == ["a:1", "b:2"]


def test_a_misspelt_name_is_an_error_that_says_what_is_meant() -> None:
    with pytest.raises(UserError, match=r"did you mean 'linger.ms'"):
        read_settings(TABLE, {"linger.sm": 1}, {})
    with pytest.raises(UserError, match="did you mean 'linger_ms'"):
        read_settings(TABLE, {}, {"lingerms": 1})


@pytest.mark.parametrize("value", [-1, "soon", None, 1.5])
def test_a_value_that_cannot_be_is_refused(value: object) -> None:
    with pytest.raises(UserError, match=r"'linger.ms' cannot be"):
        read_settings(TABLE, {"linger.ms": value}, {})


def test_objects_are_taken_as_they_are() -> None:
    thing = object()
    settings = read_settings(TABLE, {"key.serializer": str.encode, "strategies": [thing]}, {})
    assert settings["key.serializer"] == str.encode
    assert settings["strategies"] == [thing]


def test_what_becomes_of_the_common_ones() -> None:
    settings = read_settings(TABLE, {"bootstrap.servers": "a:1, b", "retry.backoff.ms": 7}, {"client_id": "me"})
    made = session_settings(settings, 1234)
    assert [str(address) for address in made.bootstrap] == ["a:1", "b:9092"]
    assert made.backoff.first_ms == 7
    assert made.api_timeout_ms == 1234
    assert made.client_id == "me"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"security.protocol": "SASL_SSL"}, "Kerberos"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "a user and a password"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}, "needs a token"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "a", "sasl.password": "hunter2"}, "without a login"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/nowhere"}, "ssl.truststore.location"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1"}, "ssl.enabled.protocols"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "TLS 1.3"),
        ({"security.protocol": "SSL", "ssl.keystore.type": "BKS"}, "ssl.keystore.type"),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": 'a.ScramLoginModule required username="a" password="hunter2";',
            },
            "does not fit",
        ),
    ],
)
def test_security_that_cannot_work_is_said_before_anything_is_connected(given: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=said) as told:
        session_settings(read_settings(TABLE, given, {}), 1)
    assert "hunter2" not in str(told.value)


def test_a_pasted_jaas_config_and_librdkafkas_names_say_the_same() -> None:
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="a" password="hunter2";'
    by_java = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas}
    by_c = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": "a",
        "sasl.password": "hunter2",
    }
    made = [session_settings(read_settings(TABLE, given, {}, old_names=OLD_NAMES), 1) for given in (by_java, by_c)]
    assert made[0].credentials == made[1].credentials
    assert made[0].credentials is not None
    assert made[0].credentials.password == "hunter2"
    assert "hunter2" not in repr(made[0])


TOKENS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
}
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "client id and its secret"),
        ({"sasl.oauthbearer.client.credentials.client.id": "a"}, "client id and its secret"),
        ({"sasl.jaas.config": f'{BEARER} clientId="a";'}, "client id and its secret"),
        ({"sasl.jaas.config": 'a.PlainLoginModule required username="a" password="hunter2";'}, "does not fit"),
        ({"sasl.jaas.config": f'{BEARER} clientId="a" clientSecret="hunter2" extension_x="y";'}, "extension_x"),
        ({"sasl.oauthbearer.token.endpoint.url": "ftp://login.example"}, "no address of a token endpoint"),
        ({"sasl.oauthbearer.token.endpoint.url": "https://a:hunter2@login.example"}, "a login in it"),
        ({"sasl.oauthbearer.token.endpoint.url": None, "sasl.oauthbearer.method": "oidc"}, "no address"),
        ({"sasl.login.callback.handler.class": "com.example.Handler"}, "classes of Java do not run"),
        ({"sasl.oauthbearer.client.id": "a", "sasl.oauthbearer.client.secret": "hunter2", "https.ca.location": "/no"}, "/no"),
    ],
)  # fmt: skip
def test_token_endpoints_that_cannot_work_are_said_before_anything_is_connected(given: Any, said: str) -> None:
    with pytest.raises(UserError, match=said) as told:
        session_settings(read_settings(TABLE, {**TOKENS, **given}, {}, old_names=OLD_NAMES), 1)
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    "given",
    [
        {"sasl.jaas.config": f'{BEARER} clientId="a" clientSecret="hunter2" scope="s";'},
        {"sasl.oauthbearer.client.credentials.client.id": "a", "sasl.oauthbearer.client.credentials.client.secret": "hunter2"},
        {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": "a", "sasl.oauthbearer.client.secret": "hunter2"},
    ],
)  # fmt: skip
def test_a_token_endpoint_by_javas_names_and_librdkafkas(given: dict[str, str]) -> None:
    made = session_settings(read_settings(TABLE, {**TOKENS, **given}, {}, old_names=OLD_NAMES), 1)
    assert made.credentials is not None
    assert isinstance(made.credentials.token, TokenSource)
    assert "hunter2" not in repr(made)
