"""What DescribeConfigs tells, and which changes are taken: held against what an Apache Kafka 4.3 broker answered."""

import os
from functools import partial

import pytest

from headwater.base.config.alter import (
    ConfigOperation,
    Operation,
    altered_broker_configs,
    altered_topic_configs,
    check_operations,
    checked_topic_configs,
)
from headwater.base.config.broker import BrokerConfig
from headwater.base.config.describe import (
    ConfigEntry,
    ConfigSource,
    describe_broker,
    describe_broker_defaults,
    describe_topic,
)
from headwater.base.config.table import TOPIC
from headwater.base.errors import ErrorCode, KafkaError, UserError

_altered = partial(altered_broker_configs, random_bytes=os.urandom)


def shown(entry: ConfigEntry) -> tuple[str | None, int, list[tuple[str, str | None, int]]]:
    return entry.value, int(entry.source), [(s.name, s.value, int(s.source)) for s in entry.synonyms]


def topic(config: BrokerConfig, overrides: dict[str, str], name: str) -> ConfigEntry:
    (entry,) = describe_topic(config, overrides, [name])
    return entry


def broker(config: BrokerConfig, name: str) -> ConfigEntry:
    (entry,) = describe_broker(config, [name])
    return entry


def test_configs_of_one_listener_are_told_with_what_stands_in_for_them() -> None:
    store, kind, login = (
        f"listener.name.external.{name}" for name in ("ssl.keystore.location", "ssl.keystore.type", "sasl.jaas.config")
    )
    config = BrokerConfig({kind: "JKS", login: "canary", "listener.name.external.nobodys": "canary"})
    config = config.with_dynamic(default={store: "/all.pem"}, broker={kind: "PEM"})
    assert shown(broker(config, store)) == ("/all.pem", 3, [(store, "/all.pem", 3)])
    assert shown(broker(config, kind)) == (
        "PEM",
        2,
        [(kind, "PEM", 2), (kind, "JKS", 4), ("ssl.keystore.type", "JKS", 5)],
    )
    assert shown(broker(config, login)) == (None, 4, [(login, None, 4)])
    assert broker(config, store).read_only
    assert "canary" not in repr(describe_broker(config))
    assert [entry.name for entry in describe_broker_defaults(config)] == [store]


def test_a_topic_has_all_its_configs_but_the_hidden_ones() -> None:
    names = {entry.name for entry in describe_topic(BrokerConfig(), {})}
    assert names == {name for name, definition in TOPIC.items() if not definition.hidden}
    assert len(names) == 33
    assert describe_topic(BrokerConfig(), {}, []) == describe_topic(BrokerConfig(), {}, None)
    assert describe_topic(BrokerConfig(), {}, ["nope"]) == []


def test_topic_overrides_come_first_and_are_printed_anew() -> None:
    config = BrokerConfig()
    overrides = {"cleanup.policy": " compact, delete", "preallocate": "TRUE"}
    assert shown(topic(config, overrides, "cleanup.policy")) == (
        "compact,delete",
        1,
        [("cleanup.policy", "compact,delete", 1), ("log.cleanup.policy", "delete", 5)],
    )
    assert topic(config, overrides, "preallocate").value == "true"


def test_the_chain_of_retention() -> None:
    config = BrokerConfig({"log.retention.hours": "48"})
    config.set_dynamic({"log.retention.ms": "1000"}, {})
    expected = [("log.retention.ms", "1000", 3), ("log.retention.hours", "48", 4), ("log.retention.hours", "168", 5)]
    assert shown(topic(config, {}, "retention.ms")) == ("1000", 3, expected)
    assert shown(broker(config, "log.retention.ms")) == ("1000", 3, expected)
    assert shown(broker(config, "log.retention.hours")) == ("48", 4, expected[1:])


def test_a_default_under_another_name_is_not_listed_but_a_setting_is() -> None:
    assert shown(topic(BrokerConfig(), {}, "retention.ms")) == ("604800000", 5, [])
    assert shown(topic(BrokerConfig({"log.retention.hours": "48"}), {}, "retention.ms")) == (
        "172800000",
        4,
        [("log.retention.hours", "48", 4), ("log.retention.hours", "168", 5)],
    )
    assert shown(broker(BrokerConfig({"log.retention.hours": "48"}), "log.retention.ms")) == (None, 5, [])


def test_all_four_layers_of_a_broker_property() -> None:
    config = BrokerConfig({"message.max.bytes": "10"})
    config.set_dynamic({"message.max.bytes": "20"}, {"message.max.bytes": "30"})
    chain = [
        ("message.max.bytes", value, source) for value, source in (("30", 2), ("20", 3), ("10", 4), ("1048588", 5))
    ]
    assert shown(broker(config, "message.max.bytes")) == ("30", 2, chain)
    assert shown(topic(config, {"max.message.bytes": "5"}, "max.message.bytes")) == (
        "5",
        1,
        [("max.message.bytes", "5", 1), *chain],
    )


def test_read_only_and_dynamic_properties() -> None:
    config = BrokerConfig()
    assert broker(config, "node.id").read_only
    assert not broker(config, "message.max.bytes").read_only
    assert not topic(config, {}, "retention.ms").read_only


def test_passwords_never_leave() -> None:
    config = BrokerConfig({"ssl.key.password": "hunter2"})
    for entry in describe_broker(config):
        assert entry.value != "hunter2"
        assert all(synonym.value != "hunter2" for synonym in entry.synonyms)
    entry = broker(config, "ssl.key.password")
    assert entry.definition.is_sensitive
    assert shown(entry) == (None, 4, [("ssl.key.password", None, 4)])


def test_the_empty_broker_tells_only_what_is_set_for_all() -> None:
    config = BrokerConfig({"num.partitions": "3"})
    assert describe_broker_defaults(config) == []
    config.set_dynamic({"message.max.bytes": "20"}, {"log.retention.bytes": "1"})
    (entry,) = describe_broker_defaults(config)
    assert shown(entry) == ("20", 3, [("message.max.bytes", "20", 3)])
    assert entry.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG


@pytest.mark.parametrize(
    ("configs", "sentence"),
    [
        ([("nope", "1")], "Unknown topic config name: nope"),
        ([("retention.ms", None)], "Null value not supported for topic configs: retention.ms"),
        ([("retention.ms", "abc")], "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        (
            [("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")],
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            [("remote.storage.enable", "true")],
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
    ],
)
def test_topic_configs_that_are_refused(configs: list[tuple[str, str | None]], sentence: str) -> None:
    with pytest.raises(KafkaError) as caught:
        checked_topic_configs(configs)
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_CONFIG, sentence)


def test_the_last_of_two_settings_wins_when_a_topic_is_made() -> None:
    assert checked_topic_configs([("retention.ms", "10"), ("retention.ms", "20")]) == {"retention.ms": "20"}


def alter(current: dict[str, str], *operations: tuple[str, Operation, str | None]) -> dict[str, str]:
    return altered_topic_configs(current, [ConfigOperation(*operation) for operation in operations])


def test_incremental_operations_on_a_list() -> None:
    assert alter({}, ("cleanup.policy", Operation.APPEND, "compact")) == {"cleanup.policy": "delete,compact"}
    assert alter({"cleanup.policy": "compact"}, ("cleanup.policy", Operation.APPEND, "compact")) == {
        "cleanup.policy": "compact"
    }
    assert alter({"cleanup.policy": "compact, delete"}, ("cleanup.policy", Operation.SUBTRACT, "compact")) == {
        "cleanup.policy": "delete"
    }
    assert alter({"cleanup.policy": "compact"}, ("cleanup.policy", Operation.DELETE, None)) == {}
    assert alter({}, ("nope", Operation.DELETE, None)) == {}


def test_append_to_a_number_is_refused() -> None:
    with pytest.raises(KafkaError, match=r"Can't APPEND to key retention\.ms because its type is not LIST"):
        alter({}, ("retention.ms", Operation.APPEND, "1"))
    with pytest.raises(KafkaError, match="String must be one of: compact, delete"):
        alter({}, ("cleanup.policy", Operation.APPEND, "foo"))


@pytest.mark.parametrize(
    ("operations", "sentence"),
    [
        ([("retention.ms", 0, "1"), ("retention.ms", 0, "2")], "Error due to duplicate config keys"),
        ([("retention.ms", 0, None)], "Null value not supported for : retention.ms"),
        ([("retention.ms", 9, "1")], "Unknown operation type 9 for retention.ms"),
    ],
)
def test_operations_that_make_no_sense(operations: list[tuple[str, int, str | None]], sentence: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_operations(operations)
    assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_REQUEST, sentence)


def set_on_broker(name: str, value: str, *, one_broker: bool = True) -> dict[str, str]:
    operation = ConfigOperation(name, Operation.SET, value)
    return _altered(BrokerConfig(), {}, [operation], one_broker=one_broker)


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.outside.ssl.keystore.password",
        "listener.name.OUTSIDE.Plain.sasl.jaas.config",
        "listener.name.outside.scram-sha-256.sasl.jaas.config",
        "listener.name.outside.gssapi.sasl.jaas.config",
        "listener.name.ssl.keystore.key",
    ],
)
def test_a_password_for_a_listener_gets_into_the_metadata_encrypted_or_not_at_all(name: str) -> None:
    with pytest.raises(KafkaError, match=r"password\.encoder\.secret") as caught:
        set_on_broker(name, "canary")
    assert caught.value.code == ErrorCode.INVALID_REQUEST
    assert "canary" not in (caught.value.message or "")
    config = BrokerConfig({"password.encoder.secret": "s"})
    operation = ConfigOperation(name, Operation.SET, "canary")
    stored = _altered(config, {}, [operation], one_broker=True)
    assert "canary" not in stored[name]
    assert _altered(config, stored, [], one_broker=True) == stored
    config.set_dynamic({}, stored)
    assert config.dynamic_broker == {name: "canary"}
    (entry,) = [entry for entry in describe_broker(config) if entry.name == name]
    assert entry.value is None
    assert "canary" not in repr(describe_broker(config))
    with pytest.raises(KafkaError, match="broker id must be specified"):
        _altered(config, {}, [operation], one_broker=False)


def test_a_password_that_cannot_be_decoded_leaves_the_one_of_the_file(caplog: pytest.LogCaptureFixture) -> None:
    name = "listener.name.outside.ssl.keystore.password"
    operation = ConfigOperation(name, Operation.SET, "canary")
    stored = _altered(BrokerConfig({"password.encoder.secret": "s"}), {}, [operation], one_broker=True)
    for secrets in ({}, {"password.encoder.secret": "another"}):
        config = BrokerConfig({name: "of the file", **secrets})
        config.set_dynamic({}, stored)
        assert config.listener("outside").string("ssl.keystore.password") == "of the file"
    assert caplog.text.count("event=dynamic-password-not-decoded") == 2
    rotated = BrokerConfig({"password.encoder.secret": "new", "password.encoder.old.secret": "s"})
    rotated.set_dynamic({}, stored)
    assert rotated.listener("outside").string("ssl.keystore.password") == "canary"


def test_certificates_for_listeners_are_longer_than_configs_that_nobody_knows() -> None:
    config = BrokerConfig({"password.encoder.secret": "s"})
    chain = ConfigOperation("listener.name.a.ssl.keystore.certificate.chain", Operation.SET, "x" * 100_000)
    assert _altered(config, {}, [chain], one_broker=True)
    for name, length in (("listener.name.a.nothing", 20_000), ("listener.name.a.ssl.keystore.key", 300_000)):
        with pytest.raises(KafkaError, match="more than") as refused:
            _altered(config, {}, [ConfigOperation(name, Operation.SET, "x" * length)], one_broker=True)
        assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_what_an_older_store_holds_for_a_listener_can_go_and_does_not_stop_other_changes() -> None:
    old = {"listener.name.outside.ssl.keystore.password": "secret"}
    size = ConfigOperation("message.max.bytes", Operation.SET, "2000000")
    gone = ConfigOperation("listener.name.outside.ssl.keystore.password", Operation.DELETE, None)
    assert _altered(BrokerConfig(), old, [size], one_broker=True) == {**old, size.name: "2000000"}
    assert _altered(BrokerConfig(), old, [gone], one_broker=True) == {}


ENABLED = "sasl.enabled.mechanisms"
OF_OUTSIDE = "listener.name.outside.sasl.enabled.mechanisms"


def with_logins(protocol: str, **more: str) -> BrokerConfig:
    return BrokerConfig(
        {
            "listeners": "INSIDE://:9092,OUTSIDE://:9093",
            "listener.security.protocol.map": f"INSIDE:PLAINTEXT,OUTSIDE:{protocol}",
            ENABLED: "SCRAM-SHA-512",
            **more,
        }
    )


def altered(config: BrokerConfig, current: dict[str, str], name: str, value: str | None) -> dict[str, str]:
    operation = ConfigOperation(name, Operation.DELETE if value is None else Operation.SET, value)
    return _altered(config, current, [operation], one_broker=True)


@pytest.mark.parametrize("name", [ENABLED, OF_OUTSIDE])
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("PLAIN", "plain text"),
        ("SCRAM-SHA-512,plain", "plain text"),
        ("SCRAM-SHA-1", "cannot let anybody log in by SCRAM-SHA-1"),
        ("GSSAPI", "Kerberos is not there yet"),
        ("", "by nothing"),
    ],
)
def test_mechanisms_that_a_listener_would_not_start_with_are_refused_while_it_runs(
    name: str, value: str, why: str
) -> None:
    with pytest.raises(KafkaError, match=why) as caught:
        altered(with_logins("SASL_PLAINTEXT"), {}, name, value)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", [ENABLED, OF_OUTSIDE])
def test_mechanisms_that_a_listener_could_start_with_are_taken(name: str) -> None:
    assert altered(with_logins("SASL_PLAINTEXT"), {}, name, "SCRAM-SHA-256") == {name: "SCRAM-SHA-256"}
    assert altered(with_logins("SASL_SSL"), {}, name, "PLAIN") == {name: "PLAIN"}
    allowed = with_logins("SASL_PLAINTEXT", **{"sasl.plain.allow.plaintext": "true"})
    assert altered(allowed, {}, name, "PLAIN") == {name: "PLAIN"}
    assert altered(with_logins("SSL"), {}, name, "PLAIN") == {name: "PLAIN"}  # where nobody logs in


def test_a_setting_of_mechanisms_that_goes_away_must_not_uncover_a_worse_one() -> None:
    config = with_logins("SASL_PLAINTEXT")
    covered = {ENABLED: "PLAIN", OF_OUTSIDE: "SCRAM-SHA-256"}
    assert altered(config, {OF_OUTSIDE: "SCRAM-SHA-256"}, ENABLED, "PLAIN") == covered
    with pytest.raises(KafkaError, match="plain text"):
        altered(config, covered, OF_OUTSIDE, None)


def test_mechanisms_that_an_older_store_holds_can_go_and_do_not_stop_other_changes() -> None:
    config = with_logins("SASL_PLAINTEXT")
    old = {OF_OUTSIDE: "PLAIN"}
    assert altered(config, old, OF_OUTSIDE, None) == {}
    assert altered(config, old, "listener.name.inside." + ENABLED, "PLAIN") != old
    assert altered(config, old, "message.max.bytes", "2000000") != old


def test_dynamic_broker_configs() -> None:
    own = "listener.name.outside.ssl.client.auth"
    assert set_on_broker(own, "required") == {own: "required"}
    assert set_on_broker("listener.name.outside.nope", "1") == {"listener.name.outside.nope": "1"}
    assert set_on_broker("message.max.bytes", "2000000") == {"message.max.bytes": "2000000"}
    assert set_on_broker("log.retention.ms", "-1", one_broker=False) == {"log.retention.ms": "-1"}


@pytest.mark.parametrize(
    ("name", "value", "one_broker", "code", "sentence"),
    [
        ("node.id", "5", True, ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically: [node.id]"),
        (
            "listeners",
            "PLAINTEXT://:1",
            False,
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
        ),
        (
            "message.max.bytes",
            "abc",
            True,
            ErrorCode.INVALID_REQUEST,
            "Invalid value abc for configuration message.max.bytes: Not a number of type INT",
        ),
        (
            "ssl.keystore.password",
            "secret",
            True,
            ErrorCode.INVALID_REQUEST,
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            "[ssl.keystore.password]",
        ),
        (
            "listeners",
            "PLAINTEXT://:1",
            True,
            ErrorCode.INVALID_REQUEST,
            "listeners can change only with a restart of this broker.",
        ),
        (
            "listener.name.outside.ssl.client.auth",
            "requird",
            True,
            ErrorCode.INVALID_REQUEST,
            "Invalid value requird for configuration ssl.client.auth: String must be one of: required, requested, none",
        ),
        (
            "listener.name.outside.sasl.plain.allow.plaintext",
            "true",
            True,
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs dynamically: [listener.name.outside.sasl.plain.allow.plaintext]",
        ),
        (
            "listener.name.outside.ssl.client.auth",
            "none",
            False,
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "[listener.name.outside.ssl.client.auth]",
        ),
        (
            "nope",
            "1" * 20_000,
            True,
            ErrorCode.INVALID_REQUEST,
            "Configs that nobody knows, of more than 16384 characters",
        ),
    ],
)
def test_dynamic_broker_configs_that_are_refused(
    name: str, value: str, one_broker: bool, code: ErrorCode, sentence: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        set_on_broker(name, value, one_broker=one_broker)
    assert (caught.value.code, caught.value.message) == (code, sentence)


def test_a_broker_config_that_nobody_knows_is_taken_and_told_by_name_only() -> None:
    """As Apache Kafka does: it may be a secret of somebody's plugin."""
    assert set_on_broker("nope", "1") == {"nope": "1"}
    assert set_on_broker("nope", "1", one_broker=False) == {"nope": "1"}
    config = BrokerConfig({})
    config.set_dynamic({"nope": "1", "other": "2"}, {"nope": "3"})
    found = {entry.name: entry for entry in describe_broker(config) if entry.name in ("nope", "other")}
    nope, other = found["nope"], found["other"]
    assert (nope.value, nope.definition.is_sensitive, nope.definition.type, nope.read_only) == (None, True, 0, True)
    assert [(each.value, each.source) for each in nope.synonyms] == [
        (None, ConfigSource.DYNAMIC_BROKER_CONFIG),
        (None, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
    ]
    assert other.source is ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    assert [entry.name for entry in describe_broker(config, ["nope", "never"])] == ["nope"]
    assert [entry.name for entry in describe_broker_defaults(config)] == ["nope", "other"]


def test_setting_the_listeners_that_are_there_is_no_change() -> None:
    assert set_on_broker("listeners", "PLAINTEXT://:9092") == {"listeners": "PLAINTEXT://:9092"}


def test_what_is_hidden_is_shown_once_it_was_changed() -> None:
    config = BrokerConfig({})
    name = "leader.replication.throttled.rate"
    assert name not in {entry.name for entry in describe_broker(config)}
    assert [entry.name for entry in describe_broker(config, [name])] == [name]
    config.set_dynamic({}, {name: "5"})
    assert [entry.value for entry in describe_broker(config) if entry.name == name] == ["5"]


def test_rounds_of_the_password_encoder_are_no_more_than_it_decodes() -> None:
    assert BrokerConfig({"password.encoder.iterations": "1000000"}).int("password.encoder.iterations") == 1_000_000
    with pytest.raises(UserError, match="no more than 1000000"):
        BrokerConfig({"password.encoder.iterations": "1000001"})


@pytest.mark.parametrize(
    "name",
    [
        "Listener.Name.outside.ssl.keystore.password",
        "listener.name.outside.ssl.key.password ",
        " listener.name.outside.ssl.key.password",
        "listeners.name.outside.plain.sasl.jaas.config",
        "SSL.KEY.PASSWORD",
    ],
)
def test_a_password_under_a_name_that_is_slightly_wrong_is_not_kept_readable(name: str) -> None:
    config = BrokerConfig({"password.encoder.secret": "s"})
    with pytest.raises(KafkaError, match="under names that nobody knows") as refused:
        _altered(config, {}, [ConfigOperation(name, Operation.SET, "canary")], one_broker=True)
    assert "canary" not in (refused.value.message or "")
    assert _altered(config, {name: "x"}, [ConfigOperation(name, Operation.DELETE, None)], one_broker=True) == {}
