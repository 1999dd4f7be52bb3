"""Rights as people meet them: what is hidden, what is remembered, what a change takes away at once, and who may change
it.
"""

from typing import Any

import pytest

from headwater.base.acls import CLUSTER_NAME, Operation, PatternType, ResourceType
from headwater.base.errors import ErrorCode, UserError
from headwater.broker.context import ConnectionContext
from headwater.broker.deferred import Deferred
from headwater.broker.origins import FORWARDED_CLIENT
from headwater.broker.rights.authorizer import super_users
from headwater.metadata.image import AclsSet
from headwater.server.dispatch import begin
from headwater.server.quick_handlers import FETCH, OFFSET_COMMIT, PRODUCE, QUICK, quick_handlers_for
from headwater.wire.headers import encode_request_header
from headwater.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headwater.wire.messages.create_acls import AclCreation, CreateAclsRequest
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headwater.wire.messages.describe_acls import DescribeAclsRequest
from headwater.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from headwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from unit.broker.fake_peers import FakePeers
from unit.broker.rights.rights_support import AUTHORIZER, allow, ask

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture(name="lab")
def lab_with_topics(make_lab: Any) -> Any:
    lab = make_lab(authorizer_class_name=AUTHORIZER, super_users="User:admin;User:CN=b,O=x")
    for name in ("seen", "secret"):
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        ask(lab, "User:admin", CreateTopicsRequest(topics=[topic]))
    allow(lab, "User:u", Operation.DESCRIBE, TOPIC, "seen")
    return lab


def named(*names: str) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )


def rule(**changes: Any) -> AclCreation:
    values = {
        "resource_type": TOPIC,
        "resource_name": "seen",
        "principal": "User:u",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": 3,
    }
    return AclCreation(**{**values, **changes})


def any_rule(**changes: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
        **changes,
    }


def test_a_topic_that_one_may_not_see_is_refused_alike_whether_it_exists_or_not(lab: Any) -> None:
    answers = {t.name: t for t in ask(lab, "User:u", named("seen", "secret", "nowhere")).topics}
    assert answers["seen"].error_code == 0
    for name in ("secret", "nowhere"):
        assert (answers[name].error_code, answers[name].topic_id, answers[name].partitions) == (DENIED, bytes(16), [])


@pytest.mark.parametrize("version", [0, 1, 9, 13])
def test_lists_of_topics_have_those_that_one_may_see(lab: Any, version: int) -> None:
    everything = MetadataRequest(topics=[] if version == 0 else None)
    assert [topic.name for topic in ask(lab, "User:u", everything, version).topics] == ["seen"]
    assert sorted(t.name for t in ask(lab, "User:admin", everything, version).topics) == ["secret", "seen"]


def test_a_v0_request_of_which_nothing_is_left_does_not_mean_all(lab: Any) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="secret")])
    answer = ask(lab, "User:u", asked, 0)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("secret", DENIED)]


def test_pages_of_topics_name_none_that_is_hidden(lab: Any) -> None:
    answer = ask(lab, "User:u", DescribeTopicPartitionsRequest(topics=[], response_partition_limit=1))
    names = [topic.name for topic in answer.topics]
    cursor = answer.next_cursor
    if cursor is not None:
        names.append(cursor.topic_name)
    assert set(names) == {"seen"}


def test_answers_tell_the_operations_that_are_allowed(lab: Any) -> None:
    allow(lab, "User:u", Operation.ALTER_CONFIGS, TOPIC, "seen")
    (topic,) = ask(lab, "User:u", named("seen")).topics
    told = {op for op in Operation if topic.topic_authorized_operations & 1 << op}
    assert told == {Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS}


def test_a_right_that_is_taken_away_is_gone_at_once_also_for_a_fetch_that_is_parked(lab: Any) -> None:
    allow(lab, "User:u", Operation.READ, TOPIC, "seen")
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=1000,
        min_bytes=1,
        max_bytes=1000,
        session_epoch=0,
        topics=[
            FetchTopic(topic="seen", partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)])
        ],
        forgotten_topics_data=[],
    )
    frame = encode_request_header(1, 12, 7, "c") + b"".join(request.encode(12))
    connection = ConnectionContext("127.0.0.1", 5000, "PLAINTEXT", "User:u")
    parked = begin(lab.broker, connection, memoryview(bytearray(frame))).result
    assert isinstance(parked, Deferred)
    lab.broker.image.apply(AclsSet(TOPIC, PatternType.LITERAL, "seen", ()))
    lab.append("seen", 0, 1)
    lab.settle()
    (topic,) = parked.response.responses
    assert topic.partitions[0].error_code == DENIED
    assert not topic.partitions[0].records


def test_a_fetch_session_asks_each_time(lab: Any) -> None:
    allow(lab, "User:u", Operation.READ, TOPIC, "seen")
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)
    common = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000, "forgotten_topics_data": []}
    first = ask(
        lab,
        "User:u",
        FetchRequest(**common, session_epoch=0, topics=[FetchTopic(topic="seen", partitions=[part])]),
        12,
    )
    assert first.session_id
    lab.broker.image.apply(AclsSet(TOPIC, PatternType.LITERAL, "seen", ()))
    again = ask(lab, "User:u", FetchRequest(**common, session_id=first.session_id, session_epoch=1, topics=[]), 12)
    assert [p.error_code for topic in again.responses for p in topic.partitions] == [DENIED]


def creation_of(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[topic])


def test_who_calls_itself_a_broker_is_none_without_the_right(lab: Any) -> None:
    lab.broker.peers = FakePeers()
    request = creation_of("n")
    refused = ask(lab, "User:u", request, client_id=f"{FORWARDED_CLIENT}-1")
    assert refused.topics[0].error_code == DENIED
    allow(lab, "User:broker", Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    assert ask(lab, "User:broker", request).topics[0].error_code == DENIED
    assert ask(lab, "User:broker", request, client_id=f"{FORWARDED_CLIENT}-1").topics[0].error_code == 0


def test_who_calls_itself_a_broker_is_none_where_everybody_has_the_right(make_lab: Any) -> None:
    lab = make_lab(
        listeners="INTERNAL://:1,PLAINTEXT://:2",
        listener_security_protocol_map="INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        inter_broker_listener_name="INTERNAL",
        authorizer_class_name=AUTHORIZER,
        allow_everyone_if_no_acl_found="true",
    )
    lab.broker.peers = FakePeers()
    allow(lab, "User:u", Operation.CREATE, TOPIC, "n", deny=True)
    allow(lab, "User:u", Operation.CREATE, CLUSTER, CLUSTER_NAME, deny=True)
    allow(lab, "User:*", Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    refused = ask(lab, "User:u", creation_of("n"), client_id=f"{FORWARDED_CLIENT}-1")
    assert refused.topics[0].error_code == DENIED


def test_quick_handlers_that_ask_nobody_are_for_super_users_only(lab: Any, make_lab: Any) -> None:
    def quick(lab: Any, principal: str) -> Any:
        return quick_handlers_for(lab.broker, ConnectionContext("h", 1, "PLAINTEXT", principal))

    of_a_user = quick(lab, "User:u")  # they compare what the guards have noted; a commit asks the authorizer
    assert set(of_a_user) == {PRODUCE, FETCH, OFFSET_COMMIT}
    assert not any(handler is QUICK[key] for key, handler in of_a_user.items())
    assert quick(lab, "User:admin") is QUICK
    assert quick(make_lab(), "User:ANONYMOUS") is QUICK


def test_rules_are_made_found_and_deleted_and_outlive_a_restart(lab: Any) -> None:
    prefixed = rule(resource_name="se", resource_pattern_type=PatternType.PREFIXED, principal="User:*")
    made = ask(lab, "User:admin", CreateAclsRequest(creations=[rule(), prefixed, rule()]))
    assert [result.error_code for result in made.results] == [0, 0, 0]
    lab = lab.restarted()
    matching = DescribeAclsRequest(
        **any_rule(resource_type_filter=TOPIC, resource_name_filter="seen", pattern_type_filter=PatternType.MATCH)
    )
    found = ask(lab, "User:admin", matching)
    assert [(r.resource_name, r.pattern_type, len(r.acls)) for r in found.resources] == [("seen", 3, 2), ("se", 4, 1)]
    wanted = DeleteAclsFilter(**any_rule(principal_filter="User:u"))
    (gone,) = ask(lab, "User:admin", DeleteAclsRequest(filters=[wanted])).filter_results
    assert [(acl.resource_name, acl.principal) for acl in gone.matching_acls] == [("seen", "User:u")] * 2
    left = ask(lab, "User:admin", DescribeAclsRequest(**any_rule())).resources
    assert [resource.resource_name for resource in left] == ["se"]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"resource_type": 1}, "resource type"),
        ({"resource_type": 99}, "resource type"),
        ({"resource_pattern_type": 2}, "pattern type"),
        ({"permission_type": 1}, "permission type"),
        ({"operation": Operation.CLUSTER_ACTION}, "Operation"),
        ({"operation": 99}, "Operation"),
        ({"resource_name": ""}, "name"),
        ({"resource_type": CLUSTER, "resource_name": "x", "operation": Operation.ALTER}, "kafka-cluster"),
        ({"principal": "alice"}, "principal"),
        ({"host": ""}, "host"),
    ],
)
def test_a_wrong_rule_is_refused_with_the_reason_and_costs_the_others_nothing(lab: Any, wrong: Any, why: str) -> None:
    made = ask(lab, "User:admin", CreateAclsRequest(creations=[rule(**wrong), rule()]))
    assert [result.error_code for result in made.results] == [ErrorCode.INVALID_REQUEST, 0]
    assert why in made.results[0].error_message
    assert sum(len(rules) for rules in lab.broker.image.acls.values()) == 2  # the fixture's, and this one


@pytest.mark.parametrize("wrong", [{"resource_type_filter": 0}, {"pattern_type_filter": 9}, {"operation": 77}])
def test_a_filter_that_means_nothing_is_refused(lab: Any, wrong: Any) -> None:
    assert ask(lab, "User:admin", DescribeAclsRequest(**any_rule(**wrong))).error_code == ErrorCode.INVALID_REQUEST
    (result,) = ask(
        lab, "User:admin", DeleteAclsRequest(filters=[DeleteAclsFilter(**any_rule(**wrong))])
    ).filter_results
    assert result.error_code == ErrorCode.INVALID_REQUEST


def test_where_nothing_is_said_of_a_resource_a_setting_says_what_holds(make_lab: Any) -> None:
    lab = make_lab(authorizer_class_name=AUTHORIZER, allow_everyone_if_no_acl_found="true")
    allow(lab, "User:a", Operation.READ, TOPIC, "mine")
    assert ask(lab, "User:b", named("other")).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(lab, "User:b", named("mine")).topics[0].error_code == DENIED


def test_super_users_are_principals_with_semicolons_between() -> None:
    assert super_users("User:a; User:CN=b,O=c ;") == {"User:a", "User:CN=b,O=c"}
    for wrong in ("admin", "User:", "Group:x"):
        with pytest.raises(UserError, match="principal"):
            super_users(wrong)


def test_an_authorizer_of_somebody_elses_is_refused_with_words(make_lab: Any) -> None:
    with pytest.raises(UserError, match="Mine"):
        make_lab(authorizer_class_name="com.example.Mine")


@pytest.mark.parametrize("name", ["", "seen"])
def test_a_topic_is_asked_for_by_its_id_whatever_name_stands_beside_it(lab: Any, name: str) -> None:
    """Metadata describes the topic of the id: the rights are that topic's."""
    secret = lab.broker.image.topic("secret").topic_id
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name, topic_id=secret)])
    (topic,) = ask(lab, "User:u", request).topics
    assert (topic.error_code, topic.name, topic.partitions) == (DENIED, None, [])
    seen = lab.broker.image.topic("seen").topic_id
    (topic,) = ask(lab, "User:u", MetadataRequest(topics=[MetadataRequestTopic(name="", topic_id=seen)])).topics
    assert (topic.error_code, topic.name) == (0, "seen")


@pytest.mark.parametrize("version", [10, 11])
def test_ids_in_requests_that_know_none_are_the_handlers_to_refuse(lab: Any, version: int) -> None:
    secret = lab.broker.image.topic("secret").topic_id
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=secret)])
    answer = ask(lab, "User:u", request, version)
    assert not any(topic.partitions for topic in answer.topics)


def test_a_subscription_by_regex_is_for_those_who_may_see_every_topic(lab: Any) -> None:
    allow(lab, "User:u", Operation.READ, GROUP, "g")
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_regex=".*", topic_partitions=[]
    )
    assert ask(lab, "User:u", request).error_code == DENIED
    allow(lab, "User:u", Operation.DESCRIBE, TOPIC, "*")
    assert ask(lab, "User:u", request).error_code != DENIED


def test_names_that_somebody_makes_up_fill_neither_memory_nor_log(lab: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="headwater.audit")
    for number in range(20):
        ask(lab, "User:u", named(f"{number}-" + "x" * 30_000))
    assert not any(len(key[-1]) > 255 for key in lab.broker.authorizer._remembered)
    assert max(len(record.getMessage()) for record in caplog.records) < 1000


def test_what_a_follower_found_is_not_given_to_others_of_its_session(lab: Any) -> None:
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    common = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1000, "forgotten_topics_data": []}
    topics = [FetchTopic(topic="secret", partitions=[part])]
    session = ask(
        lab, "User:admin", FetchRequest(**common, replica_id=-1, session_epoch=0, topics=topics), 12
    ).session_id
    spec = next(iter(lab.broker.fetch_sessions._sessions[session].specs.values()))
    spec.found = lab.broker.partition("secret", 0)  # as a follower's fetch leaves it
    answer = ask(
        lab, "User:u", FetchRequest(**common, replica_id=-1, session_id=session, session_epoch=1, topics=[]), 12
    )
    assert [p.error_code for topic in answer.responses for p in topic.partitions] == [DENIED]
