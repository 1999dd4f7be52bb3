"""BrokerConfig: layers, typed values, warnings and what it refuses."""

from pathlib import Path

import pytest

from headwater.base.config.broker import BrokerConfig, warnings_for
from headwater.base.config.listeners import Listener, parse_listeners, parse_protocol_map
from headwater.base.errors import UserError


def test_defaults_are_typed() -> None:
    config = BrokerConfig()
    assert config.int("num.partitions") == 1
    assert config.bool("auto.create.topics.enable") is True
    assert config.float("log.cleaner.min.cleanable.ratio") == 0.5
    assert config.string("broker.rack") is None
    assert config.list("log.cleanup.policy") == ["delete"]
    assert config.value("log.retention.ms") is None
    assert config.int("metrics.port") == -1
    assert config.string("log.format") == "text"
    assert config.node_id() == 0


def test_a_file_and_settings_over_it(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\nlog.dirs=/a,/b\n# comment\nbroker.rack = r1\n")
    config, warnings = BrokerConfig.load(str(file), ["num.partitions=7", "message.max.bytes = 9"])
    assert warnings == []
    assert config.int("num.partitions") == 7
    assert config.int("message.max.bytes") == 9
    assert config.log_dirs() == ["/a", "/b"]
    assert config.string("broker.rack") == "r1"


def test_log_dir_stands_in_for_log_dirs_and_neither_is_an_error() -> None:
    assert BrokerConfig({"log.dir": "/x"}).log_dirs() == ["/x"]
    with pytest.raises(UserError, match=r"log\.dirs"):
        BrokerConfig().log_dirs()


def test_a_file_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        BrokerConfig.load(str(tmp_path / "none"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="UTF-8"):
        BrokerConfig.load(str(tmp_path / "binary"))


def test_a_setting_without_equals_is_told_by_its_number_for_it_may_be_a_secret() -> None:
    with pytest.raises(UserError, match="the 2nd --set is not name=value") as told:
        BrokerConfig.load(None, ["num.partitions=3", "hunter2"])
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("num.partitions", "0", "at least 1"),
        ("num.partitions", "many", "whole number"),
        ("log.format", "xml", "text, json"),
        ("log.retention.hours", "0", "-1 for no limit"),
        ("queued.max.request.bytes", "5", "socket.request.max.bytes"),
        ("listeners", "", "must not be empty"),
        ("inter.broker.listener.name", "INTERNAL", "no listener has that name"),
        ("log.cleaner.min.compaction.lag.ms", "9223372036854775807", None),
    ],
)
def test_a_bad_value_names_the_property_the_value_and_what_is_allowed(
    name: str, value: str, expected: str | None
) -> None:
    if expected is None:
        BrokerConfig({name: value})
        return
    with pytest.raises(UserError) as caught:
        BrokerConfig({name: value})
    assert name in str(caught.value)
    assert value in str(caught.value)
    assert expected in str(caught.value)


def test_a_bad_password_is_not_shown() -> None:
    warnings = warnings_for({"delegation.token.secret.key": "hunter2"})
    assert warnings
    assert all("hunter2" not in warning for warning in warnings)


def test_host_and_port_are_the_older_names_of_a_listener() -> None:
    def address(**older: str) -> tuple[str, str]:
        config = BrokerConfig({name.replace("_", "."): value for name, value in older.items()})
        told = config.advertised_listeners()[0]
        return f"{config.listeners()[0].host}:{config.listeners()[0].port}", f"{told.host}:{told.port}"

    assert address(port="9093")[0] == ":9093"
    assert address(port="9093", host_name="a") == ("a:9093", "a:9093")
    assert address(host_name="a")[0] == "a:9092"
    assert address(port="9093", advertised_host_name="b") == (":9093", "b:9093")
    assert address(host_name="a", advertised_port="1") == ("a:9092", "a:1")
    assert address(port="9093", listeners="PLAINTEXT://c:1")[0] == "c:1"
    assert warnings_for({"port": "9093", "host.name": "a"}) == []


def test_broker_id_is_the_older_name_of_node_id() -> None:
    assert BrokerConfig({"broker.id": "4"}).node_id() == 4
    assert BrokerConfig({"broker.id": "4", "node.id": "4"}).node_id() == 4
    assert BrokerConfig({"broker.id": "-1"}).node_id() == 0
    with pytest.raises(UserError, match=r"node\.id says 5"):
        BrokerConfig({"broker.id": "4", "node.id": "5"})
    with pytest.raises(UserError, match=r"Bad value for broker\.id: abc"):
        BrokerConfig({"broker.id": "abc"})


def test_an_unknown_property_gets_a_warning_and_a_guess() -> None:
    (warning,) = warnings_for({"num.partition": "3"})
    assert "num.partition" in warning
    assert "did you mean 'num.partitions'" in warning
    (warning,) = warnings_for({"min.cleanable.dirty.ratio": "0.1"})
    assert "topic config" in warning or "did you mean" in warning
    (warning,) = warnings_for({"zzzzz": "3"})
    assert "did you mean" not in warning


def test_properties_without_effect_are_named_in_one_warning() -> None:
    (warning,) = warnings_for(
        {"num.network.threads": "3", "process.roles": "broker", "listener.name.a.ssl.provider": "x"}
    )
    assert "num.network.threads" in warning
    assert "process.roles" in warning
    assert "listener.name.a.ssl.provider" in warning


def test_apache_kafkas_own_sample_settings_load() -> None:
    """A combined KRaft node: its controller listener is left out, everything else serves."""
    config = BrokerConfig(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": "localhost:9093",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "inter.broker.listener.name": "PLAINTEXT",
            "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL",
            "log.dirs": "/tmp/logs",
        }
    )
    assert config.listeners() == [Listener("PLAINTEXT", "", 9092)]
    assert config.advertised_listeners() == [Listener("PLAINTEXT", "localhost", 9092)]


def test_dynamic_over_dynamic_default_over_static_over_table() -> None:
    config = BrokerConfig({"message.max.bytes": "10"})
    config.set_dynamic({"message.max.bytes": "20"}, {"message.max.bytes": "30"})
    assert config.int("message.max.bytes") == 30
    config.set_dynamic({"message.max.bytes": "20"}, {})
    assert config.int("message.max.bytes") == 20
    config.set_dynamic({}, {})
    assert config.int("message.max.bytes") == 10


def test_a_stored_dynamic_value_that_is_no_longer_valid_is_passed_over() -> None:
    config = BrokerConfig({"message.max.bytes": "10"})
    config.set_dynamic({"message.max.bytes": "20"}, {"message.max.bytes": "none"})
    assert config.int("message.max.bytes") == 20


def test_topic_values_take_the_first_synonym_that_is_set() -> None:
    def retention(properties: dict[str, str]) -> object:
        return BrokerConfig(properties).topic_values({})["retention.ms"]

    assert retention({}) == 604800000
    assert retention({"log.retention.hours": "2"}) == 7200000
    assert retention({"log.retention.hours": "2", "log.retention.minutes": "5"}) == 300000
    assert retention({"log.retention.minutes": "5", "log.retention.ms": "7"}) == 7
    assert retention({"log.retention.hours": "-1"}) == -1
    assert retention({"log.retention.ms": "-5"}) == -1


def test_topic_values_are_the_topics_own_over_the_brokers() -> None:
    config = BrokerConfig({"log.cleanup.policy": "compact", "message.max.bytes": "9"})
    values = config.topic_values({"max.message.bytes": "7", "retention.ms": "nonsense", "unknown": "1"})
    assert values["max.message.bytes"] == 7
    assert values["cleanup.policy"] == ["compact"]
    assert values["retention.ms"] == 604800000
    assert "unknown" not in values
    config.set_dynamic({"message.max.bytes": "8"}, {})
    assert config.topic_values({})["max.message.bytes"] == 8


def test_internal_segment_bytes_goes_below_the_minimum() -> None:
    assert BrokerConfig().topic_values({"internal.segment.bytes": "100"})["segment.bytes"] == 100


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("PLAINTEXT://localhost:9092", Listener("PLAINTEXT", "localhost", 9092)),
        ("plaintext://:0", Listener("PLAINTEXT", "", 0)),
        ("PLAINTEXT://[::1]:9092", Listener("PLAINTEXT", "::1", 9092)),
        ("EXTERNAL://broker-1.example.com:1", Listener("EXTERNAL", "broker-1.example.com", 1, "SSL")),
    ],
)
def test_listeners_are_read(entry: str, expected: Listener) -> None:
    protocols = parse_protocol_map("PLAINTEXT:PLAINTEXT, external:ssl")
    assert parse_listeners("listeners", [entry], protocols) == [expected]
    assert str(expected).upper() == entry.upper()


@pytest.mark.parametrize(
    "entries",
    [
        ["localhost:9092"],
        ["PLAINTEXT://localhost"],
        ["PLAINTEXT://localhost:99999"],
        ["PLAINTEXT://localhost:-1"],
        ["PLAINTEXT://::1:9092"],
        ["://localhost:9092"],
        ["OTHER://localhost:9092"],
        ["PLAINTEXT://a:1", "PLAINTEXT://b:2"],
        ["PLAINTEXT://a:1", "SSL://a:1"],
    ],
)
def test_bad_listeners_are_refused(entries: list[str]) -> None:
    with pytest.raises(UserError, match="listeners"):
        parse_listeners("listeners", entries, parse_protocol_map("PLAINTEXT:PLAINTEXT,SSL:SSL"))


@pytest.mark.parametrize("text", ["PLAINTEXT", "A:B", "A:SSL,a:PLAINTEXT", ":SSL"])
def test_a_bad_protocol_map_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"listener\.security\.protocol\.map"):
        parse_protocol_map(text)


def test_a_listener_that_should_be_safe_never_comes_up_open() -> None:
    """Kerberos is the default of Apache Kafka, and is not there; PLAIN without TLS needs a word."""
    with pytest.raises(UserError, match="Kerberos"):
        BrokerConfig({"listeners": "A://:1", "listener.security.protocol.map": "A:SASL_SSL"})
    by_plain = {"listeners": "SASL_PLAINTEXT://:1", "sasl.enabled.mechanisms": "PLAIN"}
    with pytest.raises(UserError, match="plain text"):
        BrokerConfig(by_plain)
    BrokerConfig({**by_plain, "sasl.plain.allow.plaintext": "true"})
    with pytest.raises(UserError, match="plain text"):
        BrokerConfig({**by_plain, "listener.name.sasl_plaintext.sasl.plain.allow.plaintext": "false"})


def test_a_listeners_own_setting_wins_over_that_of_all() -> None:
    config = BrokerConfig(
        {
            "listeners": "INSIDE://:1,OUTSIDE://:2",
            "listener.security.protocol.map": "INSIDE:SSL,OUTSIDE:SASL_SSL",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "ssl.client.auth": "requested",
            "listener.name.inside.ssl.client.auth": "required",
            "listener.name.outside.scram-sha-256.sasl.jaas.config": "for scram",
            "listener.name.outside.sasl.jaas.config": "for the rest",
        }
    )
    inside, outside = config.listener("INSIDE"), config.listener("OUTSIDE")
    assert (inside.string("ssl.client.auth"), outside.string("ssl.client.auth")) == ("required", "requested")
    assert outside.string("sasl.jaas.config", "SCRAM-SHA-256") == "for scram"
    assert outside.string("sasl.jaas.config", "PLAIN") == "for the rest"
    assert inside.string("sasl.jaas.config", "PLAIN") is None
    config.set_dynamic({}, {"listener.name.inside.ssl.client.auth": "none"})
    assert inside.string("ssl.client.auth") == "none"


def test_a_bad_dynamic_setting_of_a_listener_from_an_older_store_is_passed_over() -> None:
    config = BrokerConfig({"listener.name.plaintext.ssl.client.auth": "required"})
    config.set_dynamic({}, {"listener.name.plaintext.ssl.client.auth": "requird"})
    assert config.listener("PLAINTEXT").string("ssl.client.auth") == "required"


def test_a_bad_setting_of_a_listener_is_told_at_the_start() -> None:
    with pytest.raises(UserError, match=r"listener\.name\.plaintext\.ssl\.client\.auth"):
        BrokerConfig({"listener.name.plaintext.ssl.client.auth": "perhaps"})


def test_brokers_find_each_other_by_name_or_by_protocol() -> None:
    both = {"listeners": "A://:1,B://:2", "listener.security.protocol.map": "A:PLAINTEXT,B:SSL"}
    assert BrokerConfig(both).inter_broker_listener().name == "A"
    assert BrokerConfig({**both, "inter.broker.listener.name": "b"}).inter_broker_listener().name == "B"
    assert BrokerConfig({**both, "security.inter.broker.protocol": "SSL"}).inter_broker_listener().name == "B"
    with pytest.raises(UserError, match="no listener speaks it"):
        BrokerConfig({**both, "security.inter.broker.protocol": "SASL_SSL"})
    with pytest.raises(UserError, match="both set"):
        BrokerConfig({**both, "security.inter.broker.protocol": "SSL", "inter.broker.listener.name": "B"})


@pytest.mark.parametrize("advertised", ["PLAINTEXT://0.0.0.0:1", "OTHER://h:1"])
def test_advertised_listeners_must_be_reachable_and_known(advertised: str) -> None:
    with pytest.raises(UserError, match=r"advertised\.listeners"):
        BrokerConfig({"advertised.listeners": advertised})
