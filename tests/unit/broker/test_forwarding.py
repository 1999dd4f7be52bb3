"""What only the controller may do, asked at another broker: sent on, tried again, answered in the client's version."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import NO_BROKER, BrokerId
from headwater.base.peers import Lane
from headwater.broker.context import ConnectionContext
from headwater.broker.deferred import Deferred
from headwater.broker.forwarding import create_topics
from headwater.broker.origins import FORWARDED
from headwater.broker.refusals import is_from_no_controller, refusal
from headwater.broker.registry import APIS
from headwater.server.dispatch import begin
from headwater.wire.headers import encode_request_header
from headwater.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData
from headwater.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from headwater.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from headwater.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from headwater.wire.messages.create_acls import AclCreation, CreateAclsRequest
from headwater.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headwater.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headwater.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headwater.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headwater.wire.messages.incremental_alter_configs import AlterableConfig, IncrementalAlterConfigsRequest
from headwater.wire.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from headwater.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from headwater.wire.messages.metadata import MetadataRequest
from headwater.wire.messages.update_features import UpdateFeaturesRequest
from unit.broker.fake_peers import FakePeers

NEW_TOPIC = CreateTopicsRequest(
    topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)], timeout_ms=5000
)


class Member:
    """Broker 1 of a cluster of three, in which broker 2 is the controller."""

    def __init__(self, lab: Any) -> None:
        self.lab = lab
        self.broker = lab.broker
        self.peers = FakePeers()
        self.broker.peers = self.peers
        lab.add_broker(2)
        lab.add_broker(3)
        self.elect(2)

    def elect(self, broker_id: int) -> None:
        self.broker.image.controller_id = BrokerId(broker_id)

    def begin(self, request: Any, version: int, client: str = "tests") -> Any:
        """What becomes of a request as the server gets it."""
        frame = encode_request_header(request.KEY, version, 1, client) + b"".join(request.encode(version))
        return begin(
            self.broker, ConnectionContext("127.0.0.1", 5000, "PLAINTEXT"), memoryview(bytearray(frame))
        ).result

    def pass_ms(self, milliseconds: int) -> None:
        for _ in range(milliseconds // 10):
            self.lab.clock.advance(10)
            self.lab.settle()


@pytest.fixture(name="member")
def member_fixture(lab: Any) -> Member:
    return Member(lab)


def made(code: ErrorCode = ErrorCode.NONE) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name="orders", error_code=int(code), configs=[])])


def only_code(response: Any) -> ErrorCode:
    return ErrorCode(response.topics[0].error_code)


def test_a_request_goes_to_the_controller_and_its_answer_comes_back(member: Member) -> None:
    answer = member.begin(NEW_TOPIC, 4)
    asked = member.peers.take()
    assert (asked.broker, asked.lane, asked.version) == (2, Lane.CONTROL, 4)
    assert [topic.name for topic in asked.request.topics] == ["orders"]
    assert isinstance(answer, Deferred)
    assert not answer.done
    asked.answer(made(ErrorCode.TOPIC_ALREADY_EXISTS))
    assert only_code(answer.response) is ErrorCode.TOPIC_ALREADY_EXISTS
    assert member.broker.image.topics == {}, "nothing was done here"


@pytest.mark.parametrize("alone", [True, False])
def test_the_controller_and_a_broker_alone_serve_it_themselves(member: Member, alone: bool) -> None:
    if alone:
        member.broker.peers = None
    else:
        member.elect(1)
    answer = member.begin(NEW_TOPIC, 7)
    member.lab.settle()
    assert only_code(answer.response) is ErrorCode.NONE
    assert member.peers.asked == []


def test_the_answer_about_a_new_topic_waits_until_this_broker_knows_it(member: Member) -> None:
    answer = member.begin(NEW_TOPIC, 7)
    member.peers.take().answer(made())
    member.pass_ms(200)
    assert not answer.done
    learn(member, "orders")
    member.pass_ms(20)
    assert only_code(answer.response) is ErrorCode.NONE
    unheard = member.begin(CreateTopicsRequest(topics=[CreatableTopic(name="clicks")]), 7)
    member.peers.take().answer(
        CreateTopicsResponse(topics=[CreatableTopicResult(name="clicks", error_code=0, configs=[])])
    )
    member.pass_ms(1100)
    assert only_code(unheard.response) is ErrorCode.NONE, "it is made, whenever this broker hears of it"


def test_what_any_broker_may_answer_is_answered_here(member: Member) -> None:
    assert member.begin(MetadataRequest(topics=[]), 9).controller_id == 2
    assert member.peers.asked == []


def test_a_controller_that_is_not_reached_is_tried_again(member: Member) -> None:
    answer = member.begin(NEW_TOPIC, 7)
    member.peers.take().fail()
    assert member.peers.asked == [], "not at once"
    member.pass_ms(100)
    member.peers.take().answer(made(ErrorCode.TOPIC_ALREADY_EXISTS))
    assert only_code(answer.response) is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_broker_that_is_no_controller_any_more_is_followed_by_the_next(member: Member) -> None:
    answer = member.begin(NEW_TOPIC, 7)
    member.peers.take().answer(made(ErrorCode.NOT_CONTROLLER))
    member.elect(3)
    member.pass_ms(100)
    asked = member.peers.take()
    assert asked.broker == 3
    asked.answer(made(ErrorCode.TOPIC_ALREADY_EXISTS))
    assert only_code(answer.response) is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize("controller", [NO_BROKER, 9])
def test_without_a_controller_it_waits_for_one(member: Member, controller: int) -> None:
    member.elect(controller)
    answer = member.begin(NEW_TOPIC, 7)
    member.pass_ms(1000)
    assert member.peers.asked == []
    member.elect(3)
    member.pass_ms(100)
    member.peers.take().answer(made(ErrorCode.TOPIC_ALREADY_EXISTS))
    assert only_code(answer.response) is ErrorCode.TOPIC_ALREADY_EXISTS


def test_when_its_time_is_over_it_is_told_so(member: Member) -> None:
    member.elect(NO_BROKER)
    answer = member.begin(NEW_TOPIC, 7)
    member.pass_ms(4900)
    assert not answer.done
    member.pass_ms(200)
    assert only_code(answer.response) is ErrorCode.REQUEST_TIMED_OUT


def test_a_request_with_little_time_left_does_not_end_the_connection_of_the_others(member: Member) -> None:
    request = CreateTopicsRequest(topics=[CreatableTopic(name="orders")], timeout_ms=1500)
    answer = member.begin(request, 7)
    asked = member.peers.take()
    assert asked.timeout_ms == 5000
    member.pass_ms(1400)
    assert not answer.done
    member.pass_ms(200)
    assert only_code(answer.response) is ErrorCode.REQUEST_TIMED_OUT
    asked.answer(made(ErrorCode.TOPIC_ALREADY_EXISTS))
    member.pass_ms(200)
    assert only_code(answer.response) is ErrorCode.REQUEST_TIMED_OUT
    assert member.peers.asked == []


def test_a_request_with_much_time_is_waited_for_as_long(member: Member) -> None:
    member.begin(CreateTopicsRequest(topics=[CreatableTopic(name="orders")], timeout_ms=20_000), 7)
    assert member.peers.take().timeout_ms == 20_000


def test_a_broker_that_becomes_the_controller_meanwhile_does_it_itself(member: Member) -> None:
    answer = member.begin(NEW_TOPIC, 7)
    member.peers.take().fail()
    member.elect(1)
    member.pass_ms(100)
    assert only_code(answer.response) is ErrorCode.NONE
    assert "orders" in member.broker.image.ids_by_name


def test_a_controller_that_has_yet_to_load_what_the_last_one_left_is_waited_for(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is elected, and its store refuses: a client of librdkafka was told NOT_CONTROLLER by the very controller."""
    member.elect(1)
    store = member.broker.store
    commit = store.commit
    refused = KafkaError(ErrorCode.NOT_CONTROLLER)
    monkeypatch.setattr(store, "commit", lambda _changes, done: done(refused))
    answer = member.begin(NEW_TOPIC, 7)
    member.pass_ms(200)
    assert not answer.done
    monkeypatch.setattr(store, "commit", commit)
    member.pass_ms(100)
    assert only_code(answer.response) is ErrorCode.NONE


def test_what_a_client_that_is_gone_asked_for_is_tried_until_its_time_is_over(member: Member) -> None:
    """The answer is given up and the change is not: what is done has to be told in the audit."""
    answer = member.begin(NEW_TOPIC, 7)
    member.peers.take().fail()
    answer.cancel()
    member.pass_ms(1000)
    second = member.peers.take()
    member.pass_ms(5000)
    second.fail()
    member.pass_ms(1000)
    assert member.peers.asked == []


def test_what_was_sent_on_is_not_sent_on_again(member: Member) -> None:
    answer = member.begin(NEW_TOPIC, 7, client="__forwarded-broker-3")
    assert only_code(answer) is ErrorCode.NOT_CONTROLLER
    assert member.peers.asked == []


A_RULE = AclCreation(resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3)
A_FILTER = DeleteAclsFilter(
    resource_type_filter=1,
    resource_name_filter=None,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)
WHOLE = [
    NEW_TOPIC,
    CreateAclsRequest(creations=[A_RULE]),
    DeleteAclsRequest(filters=[A_FILTER]),
    DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], topic_names=["orders"]),
    CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=3)]),
    AlterConfigsRequest(resources=[AlterConfigsResource(resource_type=2, resource_name="orders", configs=[])]),
    IncrementalAlterConfigsRequest(resources=[IncrementalResource(resource_type=2, resource_name="o", configs=[])]),
    ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="orders", partitions=[0, 1])]),
    AlterPartitionReassignmentsRequest(topics=[]),
    ListPartitionReassignmentsRequest(topics=None),
    UpdateFeaturesRequest(feature_updates=[]),
    AlterClientQuotasRequest(entries=[EntryData(entity=[EntityData(entity_type="user", entity_name="a")], ops=[])]),
    AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="alice", mechanism=1)], upsertions=[]),
]


def test_there_is_a_refusal_for_everything_that_is_sent_on() -> None:
    assert {request.KEY for request in WHOLE} == FORWARDED


@pytest.mark.parametrize("request_", WHOLE, ids=lambda request: type(request).__name__)
def test_a_refusal_is_seen_in_every_version(request_: Any) -> None:
    first, last = APIS[request_.KEY].serves
    for version in range(first, last + 1):
        asked = type(request_).decode(b"".join(request_.encode(version)), 0, version)
        for code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT):
            response = refusal(asked, version, KafkaError(code, "why"))
            decoded = type(response).decode(b"".join(response.encode(version)), 0, version)
            assert is_from_no_controller(decoded) == (code is ErrorCode.NOT_CONTROLLER), version


def test_an_old_election_of_everything_has_no_place_for_an_error(member: Member) -> None:
    with pytest.raises(KafkaError):
        member.begin(ElectLeadersRequest(topic_partitions=None), 0, client="__forwarded-broker-3")
    member.elect(NO_BROKER)
    answer = member.begin(ElectLeadersRequest(topic_partitions=None, timeout_ms=1000), 0)
    member.pass_ms(1100)
    assert isinstance(answer.response, KafkaError), "which ends the connection"


def test_the_controller_changes_the_configs_of_any_broker(member: Member) -> None:
    def ask(name: str) -> ErrorCode:
        configs = [AlterableConfig(name="log.retention.ms", config_operation=0, value="1000")]
        resource = IncrementalResource(resource_type=4, resource_name=name, configs=configs)
        answer = member.begin(IncrementalAlterConfigsRequest(resources=[resource]), 1, "__forwarded-broker-3")
        member.lab.settle()
        return ErrorCode(answer.response.responses[0].error_code)

    member.elect(1)
    assert ask("3") is ErrorCode.NONE
    assert member.broker.image.broker_configs["3"] == {"log.retention.ms": "1000"}
    assert ask("7") is ErrorCode.BROKER_ID_NOT_REGISTERED


# Topics that make themselves


def told(member: Member, *names: str) -> list[dict[str, KafkaError]]:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    outcome: list[dict[str, KafkaError]] = []
    create_topics(member.broker, topics, 3000, lambda problems, _throttle_ms: outcome.append(problems))
    return outcome


def learn(member: Member, name: str) -> None:
    """The controller made a topic, and this broker hears of it."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    controller, member.broker.image.controller_id = member.broker.image.controller_id, BrokerId(1)
    member.begin(CreateTopicsRequest(topics=[topic]), 7)
    member.lab.settle()
    member.broker.image.controller_id = controller


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS])
def test_a_topic_that_makes_itself_is_there_when_this_broker_knows_it(member: Member, code: ErrorCode) -> None:
    outcome = told(member, "orders")
    member.peers.take().answer(made(code))
    member.pass_ms(500)
    assert outcome == []
    learn(member, "orders")
    member.pass_ms(20)
    assert outcome == [{}]


def test_a_topic_that_cannot_be_made(member: Member) -> None:
    outcome = told(member, "orders")
    member.peers.take().answer(made(ErrorCode.INVALID_REPLICATION_FACTOR))
    assert [problems["orders"].code for problems in outcome] == [ErrorCode.INVALID_REPLICATION_FACTOR]


def test_a_topic_that_is_not_heard_of_is_not_waited_for_for_ever(member: Member) -> None:
    outcome = told(member, "orders")
    member.peers.take().answer(made())
    member.pass_ms(3100)
    assert outcome == [{}]
    outcome = told(member, "orders")
    member.elect(NO_BROKER)
    member.peers.take().fail()
    member.pass_ms(3200)
    assert [problems["orders"].code for problems in outcome] == [ErrorCode.REQUEST_TIMED_OUT]


def test_settings_that_this_broker_could_not_work_with_do_not_reach_the_controller(member: Member) -> None:
    def cannot(config: Any) -> None:
        if config.dynamic_broker.get("listener.name.a.ssl.keystore.location") == "/nowhere":
            raise UserError("no such file")

    member.broker.check_config = cannot
    own = str(member.broker.broker_id)
    for name, location, is_sent in ((own, "/nowhere", False), ("2", "/nowhere", True), (own, "/there", True)):
        configs = [AlterableConfig(name="listener.name.a.ssl.keystore.location", config_operation=0, value=location)]
        request = IncrementalAlterConfigsRequest(
            resources=[IncrementalResource(resource_type=4, resource_name=name, configs=configs)]
        )
        member.peers.asked.clear()
        answer = member.begin(request, 1)
        assert bool(member.peers.asked) == is_sent
        if not is_sent:
            (told,) = answer.responses
            assert (told.error_code, "no such file" in told.error_message) == (ErrorCode.INVALID_REQUEST, True)


@pytest.mark.parametrize("is_reached", [True, False])
def test_one_broker_that_is_refused_here_does_not_hold_back_the_other_resources(
    member: Member, is_reached: bool
) -> None:
    def cannot(_config: Any) -> None:
        raise UserError("no such file")

    member.broker.check_config = cannot
    own = str(member.broker.broker_id)

    def resource(kind: int, name: str) -> AlterConfigsResource:
        return AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])

    answer = member.begin(AlterConfigsRequest(resources=[resource(4, own), resource(2, "orders")]), 1)
    asked = member.peers.take()
    assert [each.resource_name for each in asked.request.resources] == ["orders"]
    if is_reached:
        asked.answer(
            AlterConfigsResponse(
                responses=[
                    AlterConfigsResourceResponse(
                        error_code=0, error_message=None, resource_type=2, resource_name="orders"
                    )
                ]
            )
        )
    else:
        member.elect(NO_BROKER)
        asked.fail()
        member.pass_ms(40_000)
    other = ErrorCode.NONE if is_reached else ErrorCode.REQUEST_TIMED_OUT
    found = {each.resource_name: ErrorCode(each.error_code) for each in answer.response.responses}
    assert found == {"orders": other, own: ErrorCode.INVALID_REQUEST}
    twice = AlterConfigsRequest(resources=[resource(4, own), resource(4, own)])
    member.elect(2)
    member.begin(twice, 1)
    assert len(member.peers.take().request.resources) == 2, "the controller refuses both"
