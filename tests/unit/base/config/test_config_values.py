"""How text becomes a value and a value text: the sentences and the numbers are Java's."""

import pytest

from headwater.base.config.definition import ConfigType, Definition, Value, format_value
from headwater.base.config.table import BROKER, TOPIC
from headwater.base.config.validators import ConfigValueError


def parse(type_: ConfigType, text: str) -> Value:
    return Definition("x", type_, None, "").parse(text)


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.INT, "+2097152", 2097152),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.LONG, " 12 ", 12),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.DOUBLE, "1e-1", 0.1),
        (ConfigType.LIST, " compact , delete ", ["compact", "delete"]),
        (ConfigType.LIST, "", []),
        (ConfigType.LIST, "a,a,b", ["a", "b"]),
        (ConfigType.STRING, " x ", "x"),
        (ConfigType.PASSWORD, " secret ", " secret "),
    ],
)
def test_text_becomes_a_value(type_: ConfigType, text: str, value: Value) -> None:
    parsed = parse(type_, text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.INT, ""),
        (ConfigType.INT, "0x10"),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, "1.0"),
        (ConfigType.INT, "2147483648"),
        (ConfigType.INT, "٣"),
        (ConfigType.INT, "9" * 5000),
        (ConfigType.SHORT, "32768"),
        (ConfigType.LONG, str(2**63)),
        (ConfigType.DOUBLE, "x"),
        (ConfigType.DOUBLE, "nan"),
        (ConfigType.DOUBLE, "1_0"),
        (ConfigType.LIST, "compact,,delete"),
    ],
)
def test_what_java_refuses_is_refused(type_: ConfigType, text: str) -> None:
    with pytest.raises(ConfigValueError):
        parse(type_, text)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "-5", "Invalid value -5 for configuration retention.ms: Value must be at least -1"),
        ("retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"),
        (
            "cleanup.policy",
            "foo",
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("cleanup.policy", "compact,,delete", "Configuration 'cleanup.policy' values must not be empty."),
        (
            "compression.type",
            "none",
            "Invalid value none for configuration compression.type: "
            "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            "compression.gzip.level",
            "0",
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "preallocate",
            "yes",
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        ),
        (
            "min.cleanable.dirty.ratio",
            "1.5",
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        (
            "leader.replication.throttled.replicas",
            "x",
            "Invalid value [x] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
    ],
)
def test_errors_say_what_apache_kafka_says(name: str, text: str, sentence: str) -> None:
    with pytest.raises(ConfigValueError) as caught:
        TOPIC[name].parse(text)
    assert str(caught.value) == sentence


def test_throttled_replicas_take_a_star_or_pairs() -> None:
    assert TOPIC["leader.replication.throttled.replicas"].parse("*") == ["*"]
    assert TOPIC["leader.replication.throttled.replicas"].parse("0:1, 1:2") == ["0:1", "1:2"]


def test_overrides_per_address_are_pairs() -> None:
    BROKER["max.connections.per.ip.overrides"].parse("127.0.0.1:5,host:7")
    with pytest.raises(ConfigValueError):
        BROKER["max.connections.per.ip.overrides"].parse("127.0.0.1:many")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (7, "7"),
        (0.5, "0.5"),
        (0.05, "0.05"),
        (0.0, "0.0"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (0.0001, "1.0E-4"),
        (["a", "b"], "a,b"),
        ([], ""),
        ("x", "x"),
    ],
)
def test_values_are_printed_as_java_prints_them(value: Value, text: str | None) -> None:
    assert format_value(value) == text
