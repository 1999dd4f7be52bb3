"""Changed settings of listeners are refused before they are taken if the broker could not work with them."""

from pathlib import Path

import pytest

from compat.support.certificates import Authority, Issuer
from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import UserError
from headwater.server.security.config_check import check_config

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def config(authority: Authority) -> BrokerConfig:
    return BrokerConfig(
        {
            "listeners": "INSIDE://:1,OUTSIDE://:2",
            "listener.security.protocol.map": "INSIDE:SSL,OUTSIDE:SASL_SSL",
            "inter.broker.listener.name": "INSIDE",
            "ssl.keystore.location": authority.pem("broker"),
            "ssl.truststore.location": authority.path,
            "listener.name.inside.ssl.client.auth": "required",
            "listener.name.outside.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.outside.plain.sasl.jaas.config": f'{PLAIN} user_a="b";',
            "password.encoder.secret": "s",
            "metrics.listener": "https://127.0.0.1:0",
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{authority.directory}/keys.json",
        }
    )


def check(config: BrokerConfig, **changes: str) -> None:
    """Names with underscores."""
    stored = {f"listener.name.{name.replace('_', '.')}": text for name, text in changes.items()}
    secret = [name for name in stored if name.endswith("jaas.config")]
    assert config.password_encoder is not None
    stored |= {name: config.password_encoder.encode(stored[name], bytes) for name in secret}
    check_config(config, config.with_dynamic({}, stored))


def test_what_works(config: BrokerConfig, authority: Authority) -> None:
    check(config)
    check(config, inside_ssl_keystore_location=authority.pem("other"))
    check(config, outside_plain_sasl_jaas_config=f'{PLAIN} user_c="d";')


def test_a_broker_does_not_shut_itself_out(config: BrokerConfig, tmp_path: Path) -> None:
    (tmp_path / "strange").mkdir()
    stranger = Authority(tmp_path / "strange")
    with pytest.raises(UserError, match="would not trust each other"):
        check(config, inside_ssl_keystore_location=stranger.pem("broker"))
    with pytest.raises(UserError, match="would not trust each other"):
        check(config, inside_ssl_truststore_location=stranger.path)
    check(config, inside_ssl_keystore_location=stranger.pem("broker"), inside_ssl_truststore_location=stranger.path)
    check(config, outside_ssl_keystore_location=stranger.pem("broker"))  # whom its clients trust, they know


@pytest.mark.parametrize(
    "jaas", [f'{PLAIN} user_a="canary', f"{PLAIN} user_a=canary", f'{PLAIN} username="canary" password="x";']
)
def test_logins_that_nobody_could_use(config: BrokerConfig, jaas: str) -> None:
    with pytest.raises(UserError) as refused:
        check(config, outside_plain_sasl_jaas_config=jaas)
    assert "canary" not in str(refused.value)


def test_files_that_cannot_be_read_count_where_something_changes(config: BrokerConfig, authority: Authority) -> None:
    Path(authority.directory / "broker.pem").unlink()  # about to be replaced
    check(config, outside_plain_sasl_jaas_config=f'{PLAIN} user_c="d";')
    with pytest.raises(UserError, match="No such file"):
        check(config, outside_ssl_keystore_location="/nowhere.pem")


def test_the_metrics_listener_is_looked_at_as_the_others(config: BrokerConfig, authority: Authority) -> None:
    check(config, metrics_ssl_keystore_location=authority.pem("metrics"))
    with pytest.raises(UserError, match="No such file"):
        check(config, metrics_ssl_keystore_location="/nowhere.pem")
    with pytest.raises(UserError, match="SSLv3"):
        check(config, metrics_ssl_enabled_protocols="SSLv3")


def test_settings_of_a_store_that_cannot_work_do_not_stop_the_change_that_mends_them(config: BrokerConfig) -> None:
    config.set_dynamic({}, {"listener.name.metrics.ssl.keystore.type": "DKS"})
    check(config)
    with pytest.raises(UserError, match=r"ssl\.keystore\.type"):
        check(config, metrics_ssl_keystore_type="BKS")


def test_mechanisms_that_nobody_could_log_in_by(config: BrokerConfig, authority: Authority) -> None:
    config.static["listener.name.outside.sasl.enabled.mechanisms"] = "SCRAM-SHA-512"
    check(config, outside_sasl_enabled_mechanisms="PLAIN")
    del config.static["listener.name.outside.plain.sasl.jaas.config"]
    with pytest.raises(UserError, match="Nobody could log in by PLAIN"):
        check(config, outside_sasl_enabled_mechanisms="SCRAM-SHA-512,PLAIN")
    for document in (None, b"no JWKS"):
        if document is not None:
            Path(authority.directory / "keys.json").write_bytes(document)
        with pytest.raises(UserError, match="Cannot read the keys"):
            check(config, outside_sasl_enabled_mechanisms="OAUTHBEARER")
    Path(authority.directory / "keys.json").write_bytes(Issuer().jwks())
    check(config, outside_sasl_enabled_mechanisms="OAUTHBEARER")
    del config.static["sasl.oauthbearer.jwks.endpoint.url"]
    with pytest.raises(UserError, match="Nobody could log in by OAUTHBEARER"):
        check(config, outside_sasl_enabled_mechanisms="OAUTHBEARER")


def test_a_trust_store_that_cannot_be_read_is_refused_where_nobody_is_asked_for_certificates(
    config: BrokerConfig, authority: Authority
) -> None:
    check(config, outside_ssl_truststore_location=authority.path)
    with pytest.raises(UserError, match="No such file"):
        check(config, outside_ssl_truststore_location="/nowhere")
    Path(authority.path).unlink()  # about to be replaced
    check(config, outside_ssl_keystore_location=authority.pem("other"))
