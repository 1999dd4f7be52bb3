"""What DescribeConfigs tells, and which changes are taken: held against what an Apache Kafka 4.3 broker answered."""

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
from headwater.base.errors import ErrorCode, KafkaError


def shown(entry: ConfigEntry) -> tuple[str | None, int, list[tuple[str, str | None, int]]]:
    return entry.value, int(entry.source), [(s.name, s.value, int(s.source)) for s in entry.synonyms]


def topic(config: BrokerConfig, overrides: dict[str, str], name: str) -> ConfigEntry:
    (entry,) = describe_topic(config, overrides, [name])
    return entry


def broker(config: BrokerConfig, name: str) -> ConfigEntry:
    (entry,) = describe_broker(config, [name])
    return entry


def test_a_topic_has_all_its_configs_but_the_hidden_ones() -> None:
    names = {entry.name for entry in describe_topic(BrokerConfig(), {})}
    assert names == set(TOPIC) - {"internal.segment.bytes"}
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
    return altered_broker_configs(BrokerConfig(), {}, [operation], one_broker=one_broker)


def test_dynamic_broker_configs() -> None:
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
        ("nope", "1", True, ErrorCode.INVALID_CONFIG, "Unknown broker config name: nope"),
    ],
)
def test_dynamic_broker_configs_that_are_refused(
    name: str, value: str, one_broker: bool, code: ErrorCode, sentence: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        set_on_broker(name, value, one_broker=one_broker)
    assert (caught.value.code, caught.value.message) == (code, sentence)


def test_setting_the_listeners_that_are_there_is_no_change() -> None:
    assert set_on_broker("listeners", "PLAINTEXT://:9092") == {"listeners": "PLAINTEXT://:9092"}


def test_what_is_hidden_is_shown_once_it_was_changed() -> None:
    config = BrokerConfig({})
    name = "leader.replication.throttled.rate"
    assert name not in {entry.name for entry in describe_broker(config)}
    assert [entry.name for entry in describe_broker(config, [name])] == [name]
    config.set_dynamic({}, {name: "5"})
    assert [entry.value for entry in describe_broker(config) if entry.name == name] == ["5"]
