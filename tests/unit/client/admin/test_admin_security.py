"""Access rules, quotas, credentials, elections and moves: what is sent, and what becomes of the answers."""

import hashlib

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
    create_acls,
    delete_acls,
    describe_acls,
)
from headwater.client.admin.cluster import FeatureUpdate, UpgradeType, update_features
from headwater.client.admin.quotas import (
    ANY_NAME,
    alter_client_quotas,
    describe_client_quotas,
    quota_entity,
)
from headwater.client.admin.replication import (
    ElectionType,
    Reassignment,
    alter_partition_reassignments,
    elect_leaders,
    list_partition_reassignments,
)
from headwater.client.admin.scram import (
    ScramCredentialInfo,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
    alter_user_scram_credentials,
    describe_user_scram_credentials,
)
from headwater.wire.messages import alter_client_quotas as alter_quotas
from headwater.wire.messages import alter_partition_reassignments as alter_moves
from headwater.wire.messages import alter_user_scram_credentials as alter_scram
from headwater.wire.messages import create_acls as create
from headwater.wire.messages import delete_acls as delete
from headwater.wire.messages import describe_acls as describe
from headwater.wire.messages import describe_client_quotas as quotas
from headwater.wire.messages import describe_user_scram_credentials as scram
from headwater.wire.messages import elect_leaders as elect
from headwater.wire.messages import list_partition_reassignments as moves
from headwater.wire.messages import update_features as features
from unit.client.reactor.fakes import FakeBroker, FakeWorld

RULE = AclBinding(AclResourceType.TOPIC, "t", "User:alice", AclOperation.READ)
DENY = RULE._replace(permission=AclPermission.DENY, pattern_type=PatternType.PREFIXED, host="10.0.0.1")
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


@pytest.fixture
def broker(world: FakeWorld) -> FakeBroker:
    return world.broker(0)


def test_rules_that_a_filter_lets_through(world: FakeWorld, broker: FakeBroker) -> None:
    def answer(request: describe.DescribeAclsRequest) -> describe.DescribeAclsResponse:
        assert (request.resource_type_filter, request.resource_name_filter, request.pattern_type_filter) == (2, None, 1)
        assert (request.principal_filter, request.operation, request.permission_type) == ("User:alice", 1, 1)
        resources = [
            describe.DescribeAclsResource(
                resource_type=2,
                resource_name="t",
                pattern_type=each.pattern_type,
                acls=[
                    describe.AclDescription(
                        principal=each.principal, host=each.host, operation=3, permission_type=each.permission
                    )
                ],
            )
            for each in (DENY, RULE)
        ]
        return describe.DescribeAclsResponse(resources=resources)

    broker.on(describe.DescribeAclsRequest, answer)
    wanted = AclFilter(AclResourceType.TOPIC, principal="User:alice")
    assert world.run(describe_acls(world.session(), wanted)) == sorted([RULE, DENY])


def test_rules_are_made_and_answered_in_order(world: FakeWorld, broker: FakeBroker) -> None:
    results = [create.AclCreationResult(), create.AclCreationResult(error_code=42, error_message="no")]
    broker.on(create.CreateAclsRequest, lambda _: create.CreateAclsResponse(results=results))
    outcome = world.run(create_acls(world.session(), [RULE, DENY, RULE]))
    (request,) = broker.received(create.CreateAclsRequest)
    sent = [(each.resource_pattern_type, each.host, each.permission_type) for each in request.creations]
    assert sent == [(3, "*", 3), (4, "10.0.0.1", 2)]
    assert outcome[RULE] is None
    assert isinstance(outcome[DENY], KafkaError)
    results.pop()
    with pytest.raises(KafkaError, match="were answered"):
        world.run(create_acls(world.session(), [RULE, DENY]))


def test_rules_are_taken_away_by_filters(world: FakeWorld, broker: FakeBroker) -> None:
    gone = delete.DeleteAclsMatchingAcl(
        resource_type=2, resource_name="t", principal="User:alice", host="*", operation=3, permission_type=3
    )
    stays = delete.DeleteAclsMatchingAcl(
        error_code=-1, resource_type=2, resource_name="t", principal="", host="*", operation=3, permission_type=3
    )
    results = [delete.DeleteAclsFilterResult(matching_acls=[each]) for each in (gone, stays)]
    broker.on(delete.DeleteAclsRequest, lambda _: delete.DeleteAclsResponse(filter_results=results))
    filters = [AclFilter(resource_name="t"), AclFilter()]
    outcome = world.run(delete_acls(world.session(), filters))
    assert outcome[filters[0]] == [RULE]
    assert isinstance(outcome[filters[1]], KafkaError)


def test_quotas_of_entities(world: FakeWorld, broker: FakeBroker) -> None:
    alice = quota_entity(user="alice", client_id=None)
    assert alice == (("user", "alice"), ("client-id", None))

    def answer(request: quotas.DescribeClientQuotasRequest) -> quotas.DescribeClientQuotasResponse:
        sent = [(each.entity_type, each.match_type, each.match) for each in request.components]
        assert sent == [("user", 0, "alice"), ("client-id", 1, None), ("ip", 2, None)]
        entity = [quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in alice]
        values = [quotas.ValueData(key="producer_byte_rate", value=5.0)]
        return quotas.DescribeClientQuotasResponse(entries=[quotas.EntryData(entity=entity, values=values)])

    broker.on(quotas.DescribeClientQuotasRequest, answer)
    found = world.run(describe_client_quotas(world.session(), [*alice, ("ip", ANY_NAME)]))
    assert found == {alice: {"producer_byte_rate": 5.0}}


def test_quotas_are_set_and_taken_away(world: FakeWorld, broker: FakeBroker) -> None:
    alice = quota_entity(user="alice", client_id="c")

    def answer(request: alter_quotas.AlterClientQuotasRequest) -> alter_quotas.AlterClientQuotasResponse:
        (entry,) = request.entries
        assert [(each.key, each.value, each.remove) for each in entry.ops] == [("a", 1.5, False), ("b", 0.0, True)]
        entry.entity.reverse()  # a broker has its own order
        return alter_quotas.AlterClientQuotasResponse(entries=[alter_quotas.EntryResult(entity=entry.entity)])

    broker.on(alter_quotas.AlterClientQuotasRequest, answer)
    assert world.run(alter_client_quotas(world.session(), {alice: {"a": 1.5, "b": None}})) == {alice: None}


def test_a_password_goes_out_as_a_salted_hash_only(world: FakeWorld, broker: FakeBroker) -> None:
    results = [alter_scram.AlterUserScramCredentialsResult(user=user) for user in ("alice", "bob")]
    broker.on(
        alter_scram.AlterUserScramCredentialsRequest,
        lambda _: alter_scram.AlterUserScramCredentialsResponse(results=results),
    )
    alterations = [
        ScramUpsertion("alice", b"secret", ScramMechanism.SHA_256, 5000, b"salt"),
        ScramDeletion("bob", ScramMechanism.SHA_512),
    ]
    assert world.run(alter_user_scram_credentials(world.session(), alterations)) == {"alice": None, "bob": None}
    (request,) = broker.received(alter_scram.AlterUserScramCredentialsRequest)
    (sent,) = request.upsertions
    assert (sent.mechanism, sent.iterations, bytes(sent.salt)) == (1, 5000, b"salt")
    assert bytes(sent.salted_password) == hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 5000)
    assert [(each.name, each.mechanism) for each in request.deletions] == [("bob", 2)]
    with pytest.raises(KafkaError, match="password"):
        world.run(alter_user_scram_credentials(world.session(), [ScramUpsertion("eve", b"")]))


def test_credentials_of_users(world: FakeWorld, broker: FakeBroker) -> None:
    info = scram.CredentialInfo(mechanism=2, iterations=4096)
    results = [
        scram.DescribeUserScramCredentialsResult(user="alice", credential_infos=[info]),
        scram.DescribeUserScramCredentialsResult(user="bob", error_code=91),
    ]
    broker.on(
        scram.DescribeUserScramCredentialsRequest, lambda _: scram.DescribeUserScramCredentialsResponse(results=results)
    )
    outcome = world.run(describe_user_scram_credentials(world.session(), ["alice", "bob"]))
    assert outcome["alice"] == [ScramCredentialInfo(ScramMechanism.SHA_512, 4096)]
    assert isinstance(outcome["bob"], KafkaError)
    assert outcome["bob"].code == ErrorCode.RESOURCE_NOT_FOUND


def test_elections_of_some_and_of_all(world: FakeWorld, broker: FakeBroker) -> None:
    partitions = [elect.PartitionResult(partition_id=0), elect.PartitionResult(partition_id=1, error_code=84)]
    result = elect.ReplicaElectionResult(topic="t", partition_result=partitions)
    broker.on(elect.ElectLeadersRequest, lambda _: elect.ElectLeadersResponse(replica_election_results=[result]))
    some = world.run(elect_leaders(world.session(), [T0, T1], election_type=ElectionType.UNCLEAN))
    assert some[T0] is None
    assert isinstance(some[T1], KafkaError)
    assert world.run(elect_leaders(world.session())) == {T0: None}
    first, second = broker.received(elect.ElectLeadersRequest)
    assert (first.election_type, second.election_type, second.topic_partitions) == (1, 0, None)


def test_moves_are_begun_called_off_and_listed(world: FakeWorld, broker: FakeBroker) -> None:
    results = [
        alter_moves.ReassignablePartitionResponse(partition_index=at, error_code=code) for at, code in ((0, 0), (1, 85))
    ]
    topic = alter_moves.ReassignableTopicResponse(name="t", partitions=results)
    broker.on(
        alter_moves.AlterPartitionReassignmentsRequest,
        lambda _: alter_moves.AlterPartitionReassignmentsResponse(responses=[topic]),
    )
    outcome = world.run(alter_partition_reassignments(world.session(), {T0: (1, 2), T1: None}))
    assert outcome[T0] is None
    assert isinstance(outcome[T1], KafkaError)
    (request,) = broker.received(alter_moves.AlterPartitionReassignmentsRequest)
    assert [each.replicas for each in request.topics[0].partitions] == [[1, 2], None]

    under_way = moves.OngoingPartitionReassignment(partition_index=1, replicas=[1, 2], adding_replicas=[2])
    listed = moves.OngoingTopicReassignment(name="t", partitions=[under_way])
    broker.on(
        moves.ListPartitionReassignmentsRequest, lambda _: moves.ListPartitionReassignmentsResponse(topics=[listed])
    )
    assert world.run(list_partition_reassignments(world.session())) == {T1: Reassignment([1, 2], [2], [])}


@pytest.mark.parametrize("version", [1, 2])
def test_features_are_all_updated_or_none(world: FakeWorld, broker: FakeBroker, version: int) -> None:
    broker.versions[57] = (0, version)
    response = features.UpdateFeaturesResponse(error_code=95, error_message="no")
    broker.on(features.UpdateFeaturesRequest, lambda _: response)
    updates = {"group.version": 1, "transaction.version": FeatureUpdate(0, UpgradeType.UNSAFE_DOWNGRADE)}
    outcome = world.run(update_features(world.session(), updates, validate_only=True))
    assert [each.code for each in outcome.values() if each is not None] == [ErrorCode.INVALID_UPDATE_VERSION] * 2
    response.error_code = 0
    if version == 1:
        response.results = [features.UpdatableFeatureResult(feature="group.version", error_code=95)]
    outcome = world.run(update_features(world.session(), updates))
    assert (outcome["group.version"] is None) == (version == 2)
    assert outcome["transaction.version"] is None
    sent = [
        (each.max_version_level, each.upgrade_type)
        for each in broker.received(features.UpdateFeaturesRequest)[0].feature_updates
    ]
    assert sent == [(1, 1), (0, 3)]
