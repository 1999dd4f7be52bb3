"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs, and that what they change takes effect at once."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.security import password_encoder
from headwater.broker import config_changes
from headwater.metadata.image import GroupConfigured
from headwater.wire.messages import alter_configs, incremental_alter_configs
from headwater.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headwater.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headwater.wire.messages.list_config_resources import ListConfigResourcesRequest

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture(name="lab")
def lab_with_a_topic(make_lab: Any) -> Any:
    lab = make_lab(ssl_key_password="hunter2")
    configs = [CreatableTopicConfig(name="segment.bytes", value="2000000")]
    topic = CreatableTopic(name="clicks", num_partitions=1, replication_factor=1, assignments=[], configs=configs)
    lab.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False))
    return lab


def describe(
    lab: Any, kind: int, name: str, keys: list[str] | None = None, version: int = 4, *, details: bool = True
) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    asked = DescribeConfigsRequest(resources=[resource], include_synonyms=details, include_documentation=details)
    (result,) = lab.ask(asked, version).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def values(result: Any) -> dict[str, tuple[str | None, int]]:
    assert result.error_code == 0
    return {config.name: (config.value, config.config_source) for config in result.configs}


def incremental(
    lab: Any,
    *resources: tuple[int, str, list[tuple[str, int, str | None]]],
    validate_only: bool = False,
    version: int = 1,
) -> list[tuple[str, str | None]]:
    asked = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(name=n, config_operation=operation, value=v)
                    for n, operation, v in changes
                ],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )
    return [(ErrorCode(r.error_code).name, r.error_message) for r in lab.ask(asked, version).responses]


def replace(
    lab: Any, *resources: tuple[int, str, dict[str, str | None]], validate_only: bool = False, version: int = 2
) -> list[tuple[str, str | None]]:
    asked = alter_configs.AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[alter_configs.AlterableConfig(name=n, value=v) for n, v in configs.items()],
            )
            for kind, name, configs in resources
        ],
        validate_only=validate_only,
    )
    return [(ErrorCode(r.error_code).name, r.error_message) for r in lab.ask(asked, version).responses]


DONE = [("NONE", None)]


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topic_is_described_in_every_version(lab: Any, version: int) -> None:
    result = describe(lab, TOPIC, "clicks", ["segment.bytes", "nope"], version)
    (config,) = result.configs
    assert result.error_message == ""
    assert (config.name, config.value, config.config_source) == ("segment.bytes", "2000000", 1)
    assert [(s.name, s.value, s.source) for s in config.synonyms] == [
        ("segment.bytes", "2000000", 1),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert not config.read_only
    if version >= 3:
        assert config.config_type == 3
        assert config.documentation.startswith("The size at which a segment")


def test_synonyms_and_documentation_only_on_demand(lab: Any) -> None:
    (config,) = describe(lab, TOPIC, "clicks", ["segment.bytes"], details=False).configs
    assert (config.synonyms, config.documentation) == ([], None)


def test_no_keys_means_all(lab: Any) -> None:
    assert len(describe(lab, TOPIC, "clicks").configs) == 33
    assert len(describe(lab, TOPIC, "clicks", []).configs) == 33
    assert len(describe(lab, BROKER, "1").configs) > 300


def test_passwords_never_leave(lab: Any) -> None:
    result = describe(lab, BROKER, "1")
    password = next(config for config in result.configs if config.name == "ssl.key.password")
    assert (password.value, password.is_sensitive) == (None, True)
    assert [synonym.value for synonym in password.synonyms] == [None]
    asked = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)],
        include_synonyms=True,
        include_documentation=True,
    )
    assert b"hunter2" not in b"".join(lab.begin(asked).encode(4))


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "nope", "UNKNOWN_TOPIC_OR_PARTITION", None),
        (TOPIC, "bad name", "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: 'bad name' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        (BROKER, "7", "INVALID_REQUEST", "Unexpected broker id, expected 1 or empty string, but received 7"),
        (BROKER, "x", "INVALID_REQUEST", "Broker id must be an integer, but it is: x"),
        (99, "x", "INVALID_REQUEST", "Unsupported resource type 99"),
    ],
)  # fmt: skip
def test_what_cannot_be_described(lab: Any, kind: int, name: str, code: str, message: str | None) -> None:
    result = describe(lab, kind, name)
    assert ErrorCode(result.error_code).name == code
    assert message is None or result.error_message == message
    assert result.configs == []


@pytest.mark.parametrize("version", range(2))
def test_incremental_changes_of_a_topic_take_effect_and_stay(lab: Any, version: int) -> None:
    changes = [("retention.ms", SET, "5"), ("segment.bytes", DELETE, None), ("cleanup.policy", APPEND, "compact")]
    assert incremental(lab, (TOPIC, "clicks", changes), version=version) == DONE
    log = lab.broker.partition("clicks", 0).log
    assert (log.config.retention_ms, log.config.segment_bytes) == (5, 1 << 30)
    assert log.config.cleanup_compact
    assert lab.broker.image.topic("clicks").config == {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    again = lab.restarted()
    assert values(describe(again, TOPIC, "clicks", ["retention.ms"])) == {"retention.ms": ("5", 1)}
    assert again.broker.partition("clicks", 0).log.config.retention_ms == 5


def test_the_high_watermark_waits_for_the_disk_as_soon_as_flush_messages_is_set(lab: Any) -> None:
    incremental(lab, (TOPIC, "clicks", [("flush.messages", SET, "1")]))
    lab.append("clicks", 0, 1)
    partition = lab.broker.partition("clicks", 0)
    assert partition.high_watermark == 0
    lab.settle()
    assert partition.high_watermark == 1


@pytest.mark.parametrize("version", range(3))
def test_alter_configs_replaces_all_of_it(lab: Any, version: int) -> None:
    assert replace(lab, (TOPIC, "clicks", {"retention.ms": "5"}), version=version) == DONE
    assert lab.broker.image.topic("clicks").config == {"retention.ms": "5"}
    assert replace(lab, (TOPIC, "clicks", {}), version=version) == DONE
    assert lab.broker.image.topic("clicks").config == {}


def test_validate_only_changes_nothing(lab: Any) -> None:
    assert replace(lab, (TOPIC, "clicks", {}), validate_only=True) == DONE
    assert incremental(lab, (TOPIC, "clicks", [("retention.ms", SET, "5")]), validate_only=True) == DONE
    assert incremental(lab, (BROKER, "", [("message.max.bytes", SET, "5")]), validate_only=True) == DONE
    assert lab.broker.image.topic("clicks").config == {"segment.bytes": "2000000"}
    assert lab.broker.config.int("message.max.bytes") == 1048588


@pytest.mark.parametrize(
    ("kind", "name", "change", "code", "message"),
    [
        (TOPIC, "clicks", ("nope", SET, "1"), "INVALID_CONFIG", "Unknown topic config name: nope"),
        (TOPIC, "clicks", ("retention.ms", SET, "abc"), "INVALID_CONFIG", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        (TOPIC, "clicks", ("retention.ms", SET, None), "INVALID_REQUEST", "Null value not supported for : retention.ms"),
        (TOPIC, "clicks", ("retention.ms", APPEND, "1"), "INVALID_CONFIG", "Can't APPEND to key retention.ms because its type is not LIST."),
        (TOPIC, "clicks", ("retention.ms", 9, "1"), "INVALID_REQUEST", "Unknown operation type 9 for retention.ms"),
        (TOPIC, "nope", ("retention.ms", SET, "1"), "UNKNOWN_TOPIC_OR_PARTITION", "The topic 'nope' does not exist."),
        (TOPIC, "", ("retention.ms", SET, "1"), "INVALID_REQUEST", "Default topic resources are not allowed."),
        (BROKER, "1", ("node.id", SET, "5"), "INVALID_REQUEST", "Cannot update these configs dynamically: [node.id]"),
        (BROKER, "", ("listeners", SET, "PLAINTEXT://:1"), "INVALID_REQUEST", "Cannot update these configs at default cluster level, broker id must be specified: [listeners]"),
        (BROKER, "7", ("message.max.bytes", SET, "5"), "INVALID_REQUEST", "Unexpected broker id, expected 1, but received 7"),
        (BROKER, "x", ("message.max.bytes", SET, "5"), "INVALID_REQUEST", "Node id must be an integer, but it is: x"),
        (GROUP, "g", ("nope", SET, "5"), "INVALID_CONFIG", "Unknown group config name: nope"),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "x"), "INVALID_CONFIG", "Invalid value x for configuration consumer.session.timeout.ms: Not a number of type INT"),
        (GROUP, "g", ("consumer.session.timeout.ms", SET, "44999"), "INVALID_CONFIG", "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms"),
        (GROUP, "g", ("consumer.heartbeat.interval.ms", SET, "15001"), "INVALID_CONFIG", "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms"),
        (GROUP, "", ("consumer.session.timeout.ms", SET, "50000"), "INVALID_REQUEST", "Default group resources are not allowed."),
        (3, "g", ("x", SET, "5"), "INVALID_REQUEST", "Unknown resource type 3"),
    ],
)  # fmt: skip
def test_what_is_refused_and_how(
    lab: Any, kind: int, name: str, change: tuple[str, int, str | None], code: str, message: str
) -> None:
    assert incremental(lab, (kind, name, [change])) == [(code, message)]
    assert lab.broker.image.broker_configs == lab.broker.image.group_configs == {}
    assert lab.broker.image.topic("clicks").config == {"segment.bytes": "2000000"}


def test_repeated_names_and_resources(lab: Any) -> None:
    twice = [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]
    assert incremental(lab, (TOPIC, "clicks", twice)) == [("INVALID_REQUEST", "Error due to duplicate config keys")]
    once = (TOPIC, "clicks", {"retention.ms": "1"})
    assert replace(lab, once, once) == [("INVALID_REQUEST", "Each resource must appear at most once.")] * 2


def test_one_resource_may_fail_and_the_next_succeed(lab: Any) -> None:
    outcomes = incremental(
        lab, (TOPIC, "nope", [("retention.ms", SET, "1")]), (TOPIC, "clicks", [("retention.ms", SET, "1")])
    )
    assert [code for code, _ in outcomes] == ["UNKNOWN_TOPIC_OR_PARTITION", "NONE"]


def test_dynamic_broker_configs_take_effect_at_once(lab: Any) -> None:
    log = lab.broker.partition("clicks", 0).log
    assert incremental(lab, (BROKER, "", [("message.max.bytes", SET, "3000000")])) == DONE
    assert log.config.max_message_bytes == 3000000
    assert incremental(lab, (BROKER, "1", [("message.max.bytes", SET, "2000000")])) == DONE
    assert (log.config.max_message_bytes, lab.broker.config.int("message.max.bytes")) == (2000000, 2000000)
    assert values(describe(lab, BROKER, "1", ["message.max.bytes"])) == {"message.max.bytes": ("2000000", 2)}
    assert values(describe(lab, TOPIC, "clicks", ["max.message.bytes"])) == {"max.message.bytes": ("2000000", 2)}
    assert values(describe(lab, BROKER, "")) == {"message.max.bytes": ("3000000", 3)}
    assert lab.restarted().broker.config.int("message.max.bytes") == 2000000


def test_a_broker_config_that_nobody_knows_is_taken(lab: Any) -> None:
    assert incremental(lab, (BROKER, "1", [("nope", SET, "5")]), (BROKER, "", [("nope", SET, "6")])) == DONE * 2
    (found,) = describe(lab, BROKER, "1", ["nope"]).configs
    assert (found.value, found.is_sensitive, found.config_source, found.config_type) == (None, True, 2, 0)
    assert replace(lab, (BROKER, "1", {"nope": "7", "neither": "8"})) == DONE
    assert lab.broker.image.broker_configs == {"1": {"nope": "7", "neither": "8"}, "": {"nope": "6"}}
    assert values(describe(lab.restarted(), BROKER, "")) == {"nope": (None, 3)}


def test_configs_of_a_group_are_kept_and_told_with_their_source(lab: Any) -> None:
    assert incremental(lab, (GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")])) == DONE
    names = ["consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"]
    expected = {names[0]: ("50000", 8), names[1]: ("5000", 5)}
    assert values(describe(lab, GROUP, "g", names)) == expected
    assert values(describe(lab, GROUP, "another", names)) == {names[0]: ("45000", 5), names[1]: ("5000", 5)}
    lab = lab.restarted()
    assert values(describe(lab, GROUP, "g", names)) == expected
    listed = lab.ask(ListConfigResourcesRequest(resource_types=[GROUP])).config_resources
    assert [(each.resource_name, each.resource_type) for each in listed] == [("g", GROUP)]
    assert replace(lab, (GROUP, "g", {})) == DONE
    assert values(describe(lab, GROUP, "g", names))[names[0]] == ("45000", 5)
    assert lab.ask(ListConfigResourcesRequest(resource_types=[GROUP])).config_resources == []
    assert describe(lab, GROUP, "").error_code == ErrorCode.INVALID_REQUEST


def test_a_session_is_longer_than_the_interval_of_heartbeats(make_lab: Any) -> None:
    lab = make_lab(group_consumer_max_heartbeat_interval_ms="60000")
    assert incremental(lab, (GROUP, "g", [("consumer.heartbeat.interval.ms", SET, "50000")])) == [
        ("INVALID_CONFIG", "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms")
    ]


def test_so_many_groups_have_configs_and_no_more(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_changes, "GROUP_CONFIGS_MAX", 1)
    change = [("consumer.session.timeout.ms", SET, "50000")]
    assert incremental(lab, (GROUP, "g", change)) == DONE
    assert incremental(lab, (GROUP, "h", change))[0][0] == "INVALID_REQUEST"
    assert incremental(lab, (GROUP, "g", [("consumer.session.timeout.ms", SET, "51000")])) == DONE


def test_groups_of_one_request_count_together(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was held against those that had been there before: one request could pass the limit by any number."""
    monkeypatch.setattr(config_changes, "GROUP_CONFIGS_MAX", 2)
    change = [("consumer.session.timeout.ms", SET, "50000")]
    codes = [code for code, _ in incremental(lab, *((GROUP, name, change) for name in "abcd"))]
    assert codes == ["NONE", "NONE", "INVALID_REQUEST", "INVALID_REQUEST"]
    assert sorted(lab.broker.image.group_configs) == ["a", "b"]


def test_a_group_whose_configs_were_deleted_makes_room_for_another(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stayed, with nothing in it, and counted."""
    monkeypatch.setattr(config_changes, "GROUP_CONFIGS_MAX", 1)
    assert incremental(lab, (GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")])) == DONE
    assert incremental(lab, (GROUP, "g", [("consumer.session.timeout.ms", DELETE, None)])) == DONE
    assert lab.broker.image.group_configs == {}
    assert incremental(lab, (GROUP, "h", [("consumer.session.timeout.ms", SET, "50000")])) == DONE
    assert lab.restarted().broker.image.group_configs == {"h": {"consumer.session.timeout.ms": "50000"}}


def test_deleting_what_a_group_does_not_have_leaves_nothing_behind(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    committed: list[object] = []
    monkeypatch.setattr(lab.broker.changes._store, "commit", lambda changes, _done: committed.append(changes))
    assert incremental(lab, (GROUP, "g", [("consumer.session.timeout.ms", DELETE, None)])) == DONE
    assert replace(lab, (GROUP, "h", {})) == DONE
    assert (committed, lab.broker.image.group_configs) == ([], {})


def test_group_configs_that_another_version_stored_are_shown_and_block_nothing(lab: Any) -> None:
    """One value that could not be parsed failed DescribeConfigs; a name that nobody knew failed every other change of
    the group.
    """
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    lab.broker.image.apply(GroupConfigured("g", {session: "1 minute", "consumer.colour": "blue"}))
    assert values(describe(lab, GROUP, "g", [session])) == {session: ("1 minute", 8)}
    assert incremental(lab, (GROUP, "g", [(heartbeat, SET, "6000")])) == DONE
    assert lab.broker.image.group_configs["g"] == {session: "1 minute", "consumer.colour": "blue", heartbeat: "6000"}
    assert incremental(lab, (GROUP, "g", [("consumer.colour", SET, "red")])) == [
        ("INVALID_CONFIG", "Unknown group config name: consumer.colour")
    ]
    assert incremental(lab, (GROUP, "g", [("consumer.colour", DELETE, None), (session, DELETE, None)])) == DONE
    assert lab.broker.image.group_configs["g"] == {heartbeat: "6000"}


def test_a_session_timeout_that_goes_leaves_no_interval_behind_that_is_too_long(make_lab: Any) -> None:
    lab = make_lab(group_consumer_max_heartbeat_interval_ms="60000")
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    assert incremental(lab, (GROUP, "g", [(session, SET, "55000"), (heartbeat, SET, "50000")])) == DONE
    assert incremental(lab, (GROUP, "g", [(session, DELETE, None)]))[0][0] == "INVALID_CONFIG"
    assert incremental(lab, (GROUP, "g", [(heartbeat, DELETE, None)])) == DONE


def test_alter_configs_of_a_broker_replaces_its_dynamic_config(lab: Any) -> None:
    incremental(lab, (BROKER, "1", [("message.max.bytes", SET, "5"), ("log.cleanup.policy", APPEND, "compact")]))
    assert replace(lab, (BROKER, "1", {"message.max.bytes": "6"})) == DONE
    assert lab.broker.image.broker_configs == {"1": {"message.max.bytes": "6"}}
    assert replace(lab, (BROKER, "1", {"node.id": "1"})) == [
        ("INVALID_REQUEST", "Cannot update these configs dynamically: [node.id]")
    ]


def test_a_change_that_cannot_be_stored_is_no_change(lab: Any) -> None:
    lab.disk.faults.syncs_to_fail = 1
    ((code, _),) = incremental(lab, (TOPIC, "clicks", [("retention.ms", SET, "1")]))
    assert code == "KAFKA_STORAGE_ERROR"
    assert lab.broker.partition("clicks", 0).log.config.retention_ms == 604800000


def test_a_password_that_could_not_be_decrypted_again_is_refused(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "listener.name.outside.ssl.keystore.password"
    lab.broker.config.password_encoder = password_encoder.PasswordEncoder("s", iterations=1025)
    assert incremental(lab, (BROKER, "1", [(name, SET, "canary")])) == DONE
    lab.broker.config.password_encoder = password_encoder.PasswordEncoder("s", iterations=1026)
    monkeypatch.setattr(password_encoder, "ITERATIONS_MAX", 1025)
    ((code, message),) = incremental(lab, (BROKER, "1", [(name, SET, "another")]))
    assert (code, name in (message or "")) == ("INVALID_REQUEST", True)
    assert "iterations:1025" in lab.broker.image.broker_configs["1"][name]
