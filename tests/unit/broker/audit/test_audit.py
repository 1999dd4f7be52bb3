"""The audit topic: what is told, what is not, and what becomes of it while it cannot be written."""

import json
import logging
from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.broker.audit.changes import EVENTS, audited
from headwater.broker.context import ConnectionContext, RequestContext
from headwater.broker.deferred import Deferred
from headwater.records.reader import read_batches, read_records
from headwater.server.dispatch import AUDITED, begin
from headwater.wire.headers import encode_request_header
from headwater.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from headwater.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from headwater.wire.messages.create_acls import AclCreation, CreateAclsRequest
from headwater.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headwater.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headwater.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headwater.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from unit.broker.fake_peers import FakePeers

TOPIC = "audit"
SETTINGS = {
    "headwater.audit.topic": TOPIC,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}
CANARY = "canary-4471"


@pytest.fixture
def secured(make_lab: Any) -> Any:
    return make_lab(**SETTINGS)


def ask(lab: Any, request: Any, version: int, *, user: str = "root", client_id: str = "tests") -> Any:
    connection = ConnectionContext("10.0.0.7", 5000, "PLAINTEXT", f"User:{user}")
    frame = encode_request_header(request.KEY, version, 7, client_id) + b"".join(request.encode(version))
    answer = begin(lab.broker, connection, memoryview(bytearray(frame))).result
    if isinstance(answer, Deferred):
        lab.settle()
        answer = answer.response
    return answer


def events(lab: Any) -> list[dict[str, Any]]:
    """All that stand in the topic, once what is due has been written."""
    lab.clock.advance(5000)
    lab.settle()
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[FetchTopic(topic=TOPIC, partitions=[partition])]
    )
    (topic,) = ask(lab, request, 11).responses
    records = topic.partitions[0].records
    data = records.read()
    records.release()
    found = []
    for at, header in read_batches(data):
        found += [json.loads(each.value or b"") for each in read_records(data[at : at + header.size_bytes], 1 << 20)]
    return found


def creation(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[topic], timeout_ms=1000)


def acl(principal: str = "User:alice") -> AclCreation:
    return AclCreation(
        resource_type=2,
        resource_name="orders",
        resource_pattern_type=3,
        principal=principal,
        host="*",
        operation=3,
        permission_type=3,
    )


def test_what_an_administrator_changes(secured: Any) -> None:
    ask(secured, creation("orders"), 7)
    grown = CreatePartitionsTopic(name="orders", count=2, assignments=None)
    ask(secured, CreatePartitionsRequest(topics=[grown], timeout_ms=1000), 3)
    ask(secured, CreateAclsRequest(creations=[acl()]), 3)
    wanted = DeleteAclsFilter(
        resource_type_filter=2,
        resource_name_filter="orders",
        pattern_type_filter=3,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    ask(secured, DeleteAclsRequest(filters=[wanted]), 3)
    alice = ScramCredentialUpsertion(
        name="alice", mechanism=2, iterations=4096, salt=b"salt", salted_password=CANARY.encode()
    )
    ask(secured, AlterUserScramCredentialsRequest(deletions=[], upsertions=[alice]), 0)
    gone = ScramCredentialDeletion(name="alice", mechanism=2)
    ask(secured, AlterUserScramCredentialsRequest(deletions=[gone], upsertions=[]), 0)
    quota = EntryData(
        entity=[EntityData(entity_type="user", entity_name="alice")],
        ops=[OpData(key="producer_byte_rate", value=1000.0, remove=False)],
    )
    ask(secured, AlterClientQuotasRequest(entries=[quota], validate_only=False), 1)
    config = AlterableConfig(name="retention.ms", config_operation=0, value="4471000")
    resource = AlterConfigsResource(resource_type=2, resource_name="orders", configs=[config])
    ask(secured, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    ask(secured, DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=1000), 6)
    told = events(secured)
    assert [event["event"] for event in told] == [
        "topic-created",
        "partitions-created",
        "acl-created",
        "acl-deleted",
        "user-changed",
        "user-deleted",
        "quotas-changed",
        "configs-changed",
        "topic-deleted",
    ]
    assert {(event["principal"], event["host"], event["broker"]) for event in told} == {("User:root", "10.0.0.7", 1)}
    assert told[2]["for_principal"] == "User:alice"
    assert (told[2]["operation"], told[2]["resource"], told[2]["name"]) == ("READ", "TOPIC", "orders")
    assert told[4]["mechanism"] == "SCRAM-SHA-512"
    assert told[6]["quotas"] == ["producer_byte_rate=1000.0"]
    assert told[7]["configs"] == ["retention.ms"]
    assert "4471" not in json.dumps([{**event, "time_ms": 0} for event in told]), (
        "a value, or what a password was made to"
    )


def test_who_may_not_is_told_and_has_changed_nothing(secured: Any) -> None:
    answer = ask(secured, CreateAclsRequest(creations=[acl()]), 3, user="mallory")
    assert answer.results[0].error_code == int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    told = events(secured)
    assert [(event["event"], event["principal"], event["operation"]) for event in told] == [
        ("denied", "User:mallory", "ALTER")
    ]


def test_what_is_only_tried_is_not_told(secured: Any) -> None:
    tried = creation("orders")
    tried.validate_only = True
    ask(secured, tried, 7)
    ask(secured, creation("last"), 7)
    assert [event.get("topic") for event in events(secured)] == ["last"]


def test_no_client_id_hides_an_administrator_from_the_audit(secured: Any) -> None:
    ask(secured, creation("orders"), 7, client_id="__forwarded")
    ask(secured, creation("carts"), 7, client_id="__forwarded-2")
    assert [event.get("topic") for event in events(secured)] == ["orders", "carts"]


JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="broker" password="p";'
IN_CLUSTER = {
    **SETTINGS,
    "super.users": "User:root;User:broker",
    "listeners": "SASL_PLAINTEXT://:9092,CLIENTS://:9093",
    "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.jaas.config": JAAS,
}


@pytest.mark.parametrize(
    ("user", "listener", "client_id", "is_told"),
    [
        ("broker", "SASL_PLAINTEXT", "__forwarded-2", False),
        ("broker", "SASL_PLAINTEXT", "tests", True),
        ("broker", "CLIENTS", "__forwarded-2", True),
        ("root", "SASL_PLAINTEXT", "__forwarded-2", True),
    ],
)
def test_what_a_broker_sends_on_was_told_where_the_client_asked(
    make_lab: Any,
    caplog: pytest.LogCaptureFixture,
    user: str,
    listener: str,
    client_id: str,
    is_told: bool,
) -> None:
    caplog.set_level(logging.INFO, "headwater.audit")
    broker = make_lab(**IN_CLUSTER).broker
    broker.peers = FakePeers()
    connection = ConnectionContext("10.0.0.7", 5000, listener, f"User:{user}")
    answer = CreateTopicsResponse(topics=[CreatableTopicResult(name="orders")])
    audited(broker, RequestContext(connection, 19, 7, client_id), creation("orders"), answer)
    assert ("event=topic-created" in caplog.text) == is_told


def test_where_a_token_says_who_brokers_are_their_rights_and_their_listener_count(
    make_lab: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "headwater.audit")
    broker = make_lab(**{**IN_CLUSTER, "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER"}).broker
    broker.peers = FakePeers()
    answer = CreateTopicsResponse(topics=[CreatableTopicResult(name="orders")])
    for user in ("broker", "mallory"):
        connection = ConnectionContext("10.0.0.7", 5000, "SASL_PLAINTEXT", f"User:{user}")
        audited(broker, RequestContext(connection, 19, 7, "__forwarded-2"), creation("orders"), answer)
    assert "principal='User:broker'" not in caplog.text
    assert "event=topic-created principal='User:mallory'" in caplog.text


def test_a_change_whose_client_is_gone_by_then_is_told(make_lab: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "headwater.audit")
    broker = make_lab().broker
    inner = Deferred(holds_order=True)
    context = RequestContext(ConnectionContext("10.0.0.7", 5000, "PLAINTEXT", "User:root"), 19, 7, "tests")
    outer = audited(broker, context, creation("orders"), inner)
    assert outer.holds_order
    answered: list[Any] = []
    outer.listen(answered.append)
    outer.cancel()
    inner.complete(CreateTopicsResponse(topics=[CreatableTopicResult(name="orders")]))
    assert caplog.text.count("event=topic-created") == 1
    assert answered == []


def test_it_is_off_unless_a_topic_is_named_and_lines_are_there(make_lab: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "headwater.audit")
    lab = make_lab()
    ask(lab, creation("orders"), 7)
    lab.clock.advance(5000)
    lab.settle()
    assert sorted(lab.broker.image.ids_by_name) == ["orders"]
    assert "event=topic-created principal='User:root' host=10.0.0.7 topic='orders'" in caplog.text


def test_each_audited_api_has_its_events() -> None:
    assert set(EVENTS) == AUDITED


def test_a_topic_that_takes_small_batches_gets_all_events(secured: Any) -> None:
    audit = CreatableTopic(
        name=TOPIC,
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[CreatableTopicConfig(name="max.message.bytes", value="3000")],
    )
    ask(secured, CreateTopicsRequest(topics=[audit], timeout_ms=1000), 7)
    names = [f"t{number}-" + "x" * 200 for number in range(40)]
    for name in names:
        ask(secured, creation(name), 7)
    assert [event["topic"] for event in events(secured)] == [TOPIC, *names]
