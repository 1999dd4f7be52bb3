"""What stands in ZooKeeper's nodes, both ways, and as Apache Kafka writes it."""

import json
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.acls import Pattern
from headwater.base.coordination import Coordination, Node
from headwater.base.ids import BrokerId, LeaderEpoch, TopicId
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.changes import decode_entry
from headwater.metadata.cluster.layout import ControllerNode, TopicNode
from headwater.metadata.cluster.lifetime import Lifetime
from headwater.metadata.cluster.loading import Loading
from headwater.metadata.image import NEW_DATA, BrokerState, Endpoint, PartitionState

TOPIC = TopicId(bytes(range(16)))


def ids(*numbers: int) -> list[BrokerId]:
    return [BrokerId(number) for number in numbers]


def test_a_topic_reads_as_it_was_written() -> None:
    topic = TopicNode(TOPIC, [ids(1, 2), ids(2, 3)], {1: ids(3)}, {1: ids(2)})
    data = layout.encode_topic(topic)
    assert layout.decode_topic(data) == topic
    assert json.loads(data) == {
        "version": 3,
        "topic_id": "AAECAwQFBgcICQoLDA0ODw",
        "partitions": {"0": [1, 2], "1": [2, 3]},
        "adding_replicas": {"1": [3]},
        "removing_replicas": {"1": [2]},
    }
    topic.is_doomed = True
    assert layout.decode_topic(layout.encode_topic(topic)).is_doomed


def test_a_topic_that_kafka_wrote_is_read_with_fields_that_we_do_not_know() -> None:
    data = b'{"removing_replicas":{},"partitions":{"1":[2],"0":[1]},"topic_id":"AAECAwQFBgcICQoLDA0ODw","adding_replicas":{},"version":3,"x":1}'
    assert layout.decode_topic(data) == TopicNode(TOPIC, [ids(1), ids(2)])


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":2,"partitions":{"0":[1]}}',  # of a Kafka before topics had ids
        b'{"version":3,"topic_id":"short","partitions":{"0":[1]}}',
        b'{"version":3,"topic_id":"AAECAwQFBgcICQoLDA0ODw","partitions":{"1":[1]}}',
        b"",
        b"[]",
    ],
)
def test_what_is_no_topic_is_refused(data: bytes) -> None:
    with pytest.raises(layout.UNREADABLE):
        layout.decode_topic(data)


def test_a_state_reads_as_it_was_written() -> None:
    topic = TopicNode(TOPIC, [ids(1, 2, 3)], {0: ids(3)}, {0: ids(1)})
    state = PartitionState(BrokerId(1), LeaderEpoch(4), ids(1, 2, 3), ids(1, 2), [10, 20], ids(3), ids(1), version=7)
    data = layout.encode_state(state, controller_epoch=5)
    assert layout.decode_state(data, 7, topic, 0) == state
    assert json.loads(data) == {
        "controller_epoch": 5,
        "leader": 1,
        "version": 1,
        "leader_epoch": 4,
        "isr": [1, 2],
        "isr_epochs": [10, 20],
    }


def test_of_a_state_that_kafka_wrote_the_epochs_of_in_sync_replicas_are_unknown() -> None:
    data = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":3,"isr":[2,1]}'
    state = layout.decode_state(data, 0, TopicNode(TOPIC, [ids(1, 2)]), 0)
    assert (state.leader, state.in_sync_replicas, state.in_sync_epochs) == (2, [2, 1], [-1, -1])


@pytest.mark.parametrize("rack", [None, "north"])
def test_a_broker_reads_as_it_was_written(rack: str | None) -> None:
    endpoints = [Endpoint("CLIENT", "::1", 9092), Endpoint("SSL", "host", 9093)]
    broker = BrokerState(BrokerId(3), endpoints, rack, epoch=11, previous_epoch=5, is_stopping=True, free_bytes=99)
    broker.data_since = 7
    data = layout.encode_broker(broker, session_id=77)
    assert layout.decode_broker(3, data, 11) == (broker, 77)
    node = json.loads(data)
    assert node["endpoints"] == ["CLIENT://[::1]:9092", "SSL://host:9093"]
    assert node["listener_security_protocol_map"] == {"CLIENT": "PLAINTEXT", "SSL": "SSL"}
    assert (node["version"], node["host"], node["port"], node.get("rack")) == (5, "::1", 9092, rack)


def test_new_data_is_there_since_the_registration_that_says_so() -> None:
    data = layout.encode_broker(BrokerState(BrokerId(3), [], data_since=NEW_DATA), session_id=77)
    assert layout.decode_broker(3, data, 11)[0].data_since == 11


def test_a_broker_that_kafka_registered_is_read() -> None:
    data = (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://localhost:9092"],'
        b'"jmx_port":-1,"port":9092,"host":"localhost","version":5,"timestamp":"1700000000000"}'
    )
    broker, session_id = layout.decode_broker(0, data, 4)
    assert broker == BrokerState(BrokerId(0), [Endpoint("PLAINTEXT", "localhost", 9092)], epoch=4)
    assert session_id == 0


def test_the_controller_is_known_by_session_and_epoch_and_kafkas_by_neither() -> None:
    mine = ControllerNode(BrokerId(1), session_id=7, epoch=3)
    assert layout.decode_controller(layout.encode_controller(mine)) == mine
    kafkas = b'{"version":2,"brokerid":2,"timestamp":"1700000000000","kraftControllerEpoch":-1}'
    assert layout.decode_controller(kafkas) == ControllerNode(BrokerId(2))


def test_configs_blocks_and_ids() -> None:
    assert layout.decode_config(layout.encode_config({"a": "1"})) == {"a": "1"}
    assert layout.decode_config(b'{"version":1,"config":{}}') == {}
    assert layout.decode_next_producer_id(b"") == 0
    assert layout.decode_next_producer_id(layout.encode_block(1, 3000, 1000)) == 4000
    assert layout.decode_next_producer_id(b'{"version":1,"broker":0,"block_start":"0","block_end":"999"}') == 1000
    assert layout.decode_cluster_id(layout.encode_cluster_id("x")) == "x"
    assert layout.decode_cluster_id(b"?") == ""


def test_paths() -> None:
    assert layout.state_path("a", 3) == "/brokers/topics/a/partitions/3/state"
    assert layout.broker_config_path("") == "/config/brokers/<default>"
    assert layout.broker_of_config("<default>") == ""
    assert layout.broker_of_config("2") == "2"
    assert layout.sequence_of(layout.change_path(12)) == 12
    assert layout.change_path(12) == "/headwater/changes/change-0000000012"


@pytest.mark.parametrize("data", [b'{"config": "canary', b'{"config": "canary"}', b'"canary\xff"'])
def test_what_cannot_be_read_does_not_get_into_the_log(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """A store of before passwords were refused may hold some; and people put the wrong thing into the wrong node."""
    failures: list[Exception] = []
    life = cast(Lifetime, SimpleNamespace(fail=failures.append))
    loading = Loading(cast(Coordination, None), life, lambda _: None)
    node = Node(data, 0, 0)
    loading._broker_config_read("1", node)
    loading._user_config_read("alice", node)
    loading._group_config_read("billing", node)
    loading._client_config_read((None, "loader"), node)
    loading._address_config_read("10.0.0.1", node)
    loading._acls_read(Pattern(2, 3, "orders"), node)
    decode_entry(data)
    decode_entry(b'[{"type": "UserConfigured", "password": "canary"}, "canary"]')
    assert caplog.text.count("event=config-unreadable") == 5
    assert "'/config/brokers/1' size_bytes=" in caplog.text
    assert "event=acls-unreadable" in caplog.text
    assert len(failures) == 1
    assert "event=change-unreadable type='UserConfigured'" in caplog.text
    assert "canary" not in caplog.text


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("orders", "orders"),
        ("*", "*"),
        ("my:tx", "my:tx"),  # Kafka writes it as it is: a rule that denies it must not be overlooked
        ("caf\u00e9 50%", "caf\u00e9 50%"),
        ("a%3Ab", "a%3Ab"),
        ("team/a", "team%2Fa"),
        ("team%2Fa", "team%252Fa"),
        ("team%252Fa", "team%25252Fa"),
        ("..", "%2E%2E"),
        ("...", "..."),
        ("a\nb", "a%0Ab"),
        ("\U0001f600", "%F0%9F%98%80"),
    ],
)
def test_rules_of_a_resource_stand_where_kafka_has_them(name: str, node: str) -> None:
    assert layout.acl_path(Pattern(2, 3, name)) == f"/kafka-acl/Topic/{node}"
    assert layout.acl_name_of(node) == name


@given(st.text("a%25F/.:", max_size=12).filter(lambda text: text not in ("", ".", "..") and "/" not in text))
def test_a_node_of_rules_is_read_and_written_in_one_place(node: str) -> None:
    assert layout.acl_path(Pattern(2, 3, layout.acl_name_of(node))) == f"/kafka-acl/Topic/{node}"


@given(st.text("a%25F/.:", min_size=1, max_size=12))
def test_every_resource_has_a_node_of_rules_of_its_own(name: str) -> None:
    node = layout.acl_path(Pattern(2, 3, name)).removeprefix("/kafka-acl/Topic/")
    assert "/" not in node
    assert node not in (".", "..")
    assert layout.acl_name_of(node) == name


def test_a_name_of_percent_signs_costs_no_more_than_its_length() -> None:
    name = "%" + "25" * 16_000 + "2F"
    assert layout.acl_name_of(layout.acl_path(Pattern(2, 3, name)).removeprefix("/kafka-acl/Topic/")) == name
