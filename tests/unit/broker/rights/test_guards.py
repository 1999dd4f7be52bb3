"""Every API: what it needs, what is refused without it, and that nothing else is needed."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from headwater.base.acls import CLUSTER_NAME, Operation, ResourceType
from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.registry import APIS
from headwater.broker.rights.guards import GUARDS, check_complete
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.wire.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    create_acls,
    create_delegation_token,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_delegation_token,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    end_txn,
    expire_delegation_token,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    renew_delegation_token,
    sasl_authenticate,
    sasl_handshake,
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)
from unit.broker.rights.rights_support import AUTHORIZER, allow, ask

TOPIC = (ResourceType.TOPIC, "t")
GROUP = (ResourceType.GROUP, "g")
CLUSTER = (ResourceType.CLUSTER, CLUSTER_NAME)
TXN = (ResourceType.TRANSACTIONAL_ID, "x")
R, W, D = Operation.READ, Operation.WRITE, Operation.DESCRIBE
T_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
G_DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
C_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
X_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
DENIED = {T_DENIED, G_DENIED, C_DENIED, X_DENIED}


@dataclass
class Case:
    """`needs`: each alone is not enough, all together are. `without`: the errors of each need that is missing."""

    name: str
    request: Any
    needs: list[tuple[Operation, tuple[ResourceType, str], ErrorCode]]
    version: int | None = None
    beside: set[ErrorCode] = field(default_factory=set)  # errors that come together with a refusal


def batch() -> bytes:
    return build_batch([Record(0, 1000, b"k", b"v")])


def produced(transactional_id: str | None = None) -> produce.ProduceRequest:
    part = produce.PartitionProduceData(index=0, records=batch())
    topic = produce.TopicProduceData(name="t", partition_data=[part])
    return produce.ProduceRequest(transactional_id=transactional_id, acks=1, timeout_ms=1000, topic_data=[topic])


def fetched(replica_id: int) -> fetch.FetchRequest:
    part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return fetch.FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1000,
        session_epoch=-1,
        topics=[fetch.FetchTopic(topic="t", partitions=[part])],
        forgotten_topics_data=[],
    )


def committed() -> list[Any]:
    part = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
    return [offset_commit.OffsetCommitRequestTopic(name="t", partitions=[part])]


def added(version: int) -> Any:
    if version < 4:
        return add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
    topic = add_partitions_to_txn.AddPartitionsToTxnTopic(name="t", partitions=[0])
    transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(
        transactional_id="x", producer_id=1, producer_epoch=0, verify_only=False, topics=[topic]
    )
    return add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[transaction])


def txn_committed() -> Any:
    part = txn_offset_commit.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_metadata=""
    )
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(name="t", partitions=[part])
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id="x", group_id="g", producer_id=1, producer_epoch=0, member_id="", topics=[topic]
    )


ANY_FILTER = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
ANY_RESOURCE = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
JOIN = join_group.JoinGroupRequest(
    group_id="g",
    session_timeout_ms=10_000,
    member_id="",
    protocol_type="consumer",
    protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=b"")],
)


def consumer_heartbeat() -> Any:
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )


def configs(wire: Any, kind: int, name: str) -> Any:
    return wire.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])


CASES = [
    Case("produce", produced(), [(W, TOPIC, T_DENIED)], 9),
    Case("produce", produced("x"), [(W, TOPIC, T_DENIED), (W, TXN, X_DENIED)], 9, {ErrorCode.INVALID_RECORD}),
    Case("fetch", fetched(-1), [(R, TOPIC, T_DENIED)], 12),
    Case("fetch", fetched(2), [(Operation.CLUSTER_ACTION, CLUSTER, T_DENIED)], 12),
    Case(
        "list_offsets",
        list_offsets.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=0,
            topics=[
                list_offsets.ListOffsetsTopic(
                    name="t", partitions=[list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
                )
            ],
        ),
        [(D, TOPIC, T_DENIED)],
    ),
    Case(
        "metadata",
        metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="t")]),
        [(D, TOPIC, T_DENIED)],
    ),
    Case(
        "metadata",
        metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="new")]),
        [
            (D, (ResourceType.TOPIC, "new"), T_DENIED),
            (Operation.CREATE, (ResourceType.TOPIC, "new"), T_DENIED),
        ],
    ),
    Case(
        "offset_commit",
        offset_commit.OffsetCommitRequest(group_id="g", member_id="", topics=committed()),
        [(R, TOPIC, T_DENIED), (R, GROUP, G_DENIED)],
        9,
    ),
    Case(
        "offset_fetch",
        offset_fetch.OffsetFetchRequest(
            groups=[
                offset_fetch.OffsetFetchRequestGroup(
                    group_id="g",
                    member_id=None,
                    topics=[offset_fetch.OffsetFetchRequestTopics(name="t", partition_indexes=[0])],
                )
            ]
        ),
        [(D, TOPIC, T_DENIED), (D, GROUP, G_DENIED)],
        9,
    ),
    Case(
        "offset_fetch",
        offset_fetch.OffsetFetchRequest(
            group_id="g",
            topics=[offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=[0])],
        ),
        [(D, TOPIC, T_DENIED), (D, GROUP, G_DENIED)],
        7,
    ),
    Case(
        "find_coordinator",
        find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]),
        [(D, GROUP, G_DENIED)],
    ),
    Case("find_coordinator", find_coordinator.FindCoordinatorRequest(key="x", key_type=1), [(D, TXN, X_DENIED)], 3),
    Case("join_group", JOIN, [(R, GROUP, G_DENIED)]),
    Case(
        "heartbeat",
        heartbeat.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
        [(R, GROUP, G_DENIED)],
    ),
    Case(
        "leave_group",
        leave_group.LeaveGroupRequest(group_id="g", members=[leave_group.MemberIdentity(member_id="m")]),
        [(R, GROUP, G_DENIED)],
    ),
    Case(
        "sync_group",
        sync_group.SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=[]),
        [(R, GROUP, G_DENIED)],
    ),
    Case("describe_groups", describe_groups.DescribeGroupsRequest(groups=["g"]), [(D, GROUP, G_DENIED)]),
    Case("list_groups", list_groups.ListGroupsRequest(), []),
    Case("api_versions", api_versions.ApiVersionsRequest(client_software_name="a", client_software_version="1"), []),
    Case(
        "create_topics",
        create_topics.CreateTopicsRequest(
            topics=[
                create_topics.CreatableTopic(
                    name="new", num_partitions=1, replication_factor=1, assignments=[], configs=[]
                )
            ]
        ),
        [(Operation.CREATE, (ResourceType.TOPIC, "new"), T_DENIED)],
        4,
    ),
    Case(
        "delete_topics",
        delete_topics.DeleteTopicsRequest(topics=[delete_topics.DeleteTopicState(name="t")], timeout_ms=1000),
        [(Operation.DELETE, TOPIC, T_DENIED)],
    ),
    Case(
        "delete_topics",
        delete_topics.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000),
        [(Operation.DELETE, TOPIC, T_DENIED)],
        5,
    ),
    Case(
        "delete_records",
        delete_records.DeleteRecordsRequest(
            topics=[
                delete_records.DeleteRecordsTopic(
                    name="t", partitions=[delete_records.DeleteRecordsPartition(partition_index=0, offset=0)]
                )
            ],
            timeout_ms=1000,
        ),
        [(Operation.DELETE, TOPIC, T_DENIED)],
    ),
    Case(
        "init_producer_id",
        init_producer_id.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000),
        [(W, TXN, X_DENIED)],
    ),
    Case(
        "init_producer_id",
        init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
        [(Operation.IDEMPOTENT_WRITE, CLUSTER, C_DENIED)],
    ),
    Case(
        "init_producer_id",
        init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
        [(W, (ResourceType.TOPIC, "any"), C_DENIED)],
    ),
    Case(
        "offset_for_leader_epoch",
        offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic="t",
                    partitions=[offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)],
                )
            ]
        ),
        [(D, TOPIC, T_DENIED)],
    ),
    Case(
        "add_partitions_to_txn",
        added(3),
        [(W, TXN, X_DENIED), (W, TOPIC, T_DENIED)],
        3,
        {ErrorCode.OPERATION_NOT_ATTEMPTED},
    ),
    Case("add_partitions_to_txn", added(4), [(Operation.CLUSTER_ACTION, CLUSTER, C_DENIED)], 4),
    Case(
        "add_offsets_to_txn",
        add_offsets_to_txn.AddOffsetsToTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, group_id="g"),
        [(W, TXN, X_DENIED), (R, GROUP, G_DENIED)],
    ),
    Case(
        "end_txn",
        end_txn.EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, committed=True),
        [(W, TXN, X_DENIED)],
    ),
    Case(
        "write_txn_markers",
        write_txn_markers.WriteTxnMarkersRequest(
            markers=[
                write_txn_markers.WritableTxnMarker(
                    producer_id=1,
                    producer_epoch=0,
                    transaction_result=True,
                    topics=[write_txn_markers.WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
                    coordinator_epoch=0,
                )
            ]
        ),
        [(Operation.CLUSTER_ACTION, CLUSTER, C_DENIED)],
    ),
    Case(
        "txn_offset_commit",
        txn_committed(),
        [(W, TXN, X_DENIED), (R, GROUP, G_DENIED), (R, TOPIC, T_DENIED)],
    ),
    Case("describe_acls", describe_acls.DescribeAclsRequest(**ANY_RESOURCE, **ANY_FILTER), [(D, CLUSTER, C_DENIED)]),
    Case(
        "create_acls",
        create_acls.CreateAclsRequest(
            creations=[
                create_acls.AclCreation(
                    resource_type=2, resource_name="n", principal="User:a", host="*", operation=3, permission_type=3
                )
            ]
        ),
        [(Operation.ALTER, CLUSTER, C_DENIED)],
    ),
    Case(
        "delete_acls",
        delete_acls.DeleteAclsRequest(filters=[delete_acls.DeleteAclsFilter(**ANY_RESOURCE, **ANY_FILTER)]),
        [(Operation.ALTER, CLUSTER, C_DENIED)],
    ),
    *(
        Case(
            "describe_configs",
            describe_configs.DescribeConfigsRequest(
                resources=[
                    describe_configs.DescribeConfigsResource(
                        resource_type=kind, resource_name=name, configuration_keys=None
                    )
                ]
            ),
            [(Operation.DESCRIBE_CONFIGS, resource, code)],
        )
        for kind, name, resource, code in (
            (2, "t", TOPIC, T_DENIED),
            (4, "1", CLUSTER, C_DENIED),
            (32, "g", GROUP, G_DENIED),
        )
    ),
    *(
        Case(
            api,
            request(resources=[configs(wire, kind, name)]),
            [(Operation.ALTER_CONFIGS, resource, code)],
        )
        for kind, name, resource, code in (
            (2, "t", TOPIC, T_DENIED),
            (4, "1", CLUSTER, C_DENIED),
            (32, "g", GROUP, G_DENIED),
        )
        for api, wire, request in (
            ("alter_configs", alter_configs, alter_configs.AlterConfigsRequest),
            (
                "incremental_alter_configs",
                incremental_alter_configs,
                incremental_alter_configs.IncrementalAlterConfigsRequest,
            ),
        )
        if not (api == "alter_configs" and kind == 32)
    ),
    Case(
        "alter_replica_log_dirs",
        alter_replica_log_dirs.AlterReplicaLogDirsRequest(
            dirs=[
                alter_replica_log_dirs.AlterReplicaLogDir(
                    path="/data",
                    topics=[alter_replica_log_dirs.AlterReplicaLogDirTopic(name="t", partitions=[0])],
                )
            ]
        ),
        [(Operation.ALTER, CLUSTER, C_DENIED)],
    ),
    Case("sasl_handshake", sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"), []),
    Case("sasl_authenticate", sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b""), []),
    Case(
        "describe_user_scram_credentials",
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=None),
        [(D, CLUSTER, C_DENIED)],
    ),
    Case(
        "alter_user_scram_credentials",
        alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            deletions=[alter_user_scram_credentials.ScramCredentialDeletion(name="a", mechanism=1)], upsertions=[]
        ),
        [(Operation.ALTER, CLUSTER, C_DENIED)],
    ),
    Case(
        "describe_client_quotas",
        describe_client_quotas.DescribeClientQuotasRequest(components=[], strict=False),
        [(Operation.DESCRIBE_CONFIGS, CLUSTER, C_DENIED)],
    ),
    Case(
        "alter_client_quotas",
        alter_client_quotas.AlterClientQuotasRequest(
            entries=[
                alter_client_quotas.EntryData(
                    entity=[alter_client_quotas.EntityData(entity_type="user", entity_name="a")], ops=[]
                )
            ],
            validate_only=False,
        ),
        [(Operation.ALTER_CONFIGS, CLUSTER, C_DENIED)],
    ),
    Case("describe_log_dirs", describe_log_dirs.DescribeLogDirsRequest(topics=None), [(D, CLUSTER, C_DENIED)]),
    Case(
        "create_partitions",
        create_partitions.CreatePartitionsRequest(
            topics=[create_partitions.CreatePartitionsTopic(name="t", count=2, assignments=None)], timeout_ms=1000
        ),
        [(Operation.ALTER, TOPIC, T_DENIED)],
    ),
    Case(  # of one's own: those of others are in test_delegation_tokens.py
        "create_delegation_token",
        create_delegation_token.CreateDelegationTokenRequest(
            owner_principal_type=None, owner_principal_name=None, renewers=[], max_lifetime_ms=-1
        ),
        [],
    ),
    Case(
        "renew_delegation_token",
        renew_delegation_token.RenewDelegationTokenRequest(hmac=b"", renew_period_ms=-1),
        [],
    ),
    Case(
        "expire_delegation_token",
        expire_delegation_token.ExpireDelegationTokenRequest(hmac=b"", expiry_time_period_ms=-1),
        [],
    ),
    Case("describe_delegation_token", describe_delegation_token.DescribeDelegationTokenRequest(owners=None), []),
    Case("delete_groups", delete_groups.DeleteGroupsRequest(groups_names=["g"]), [(Operation.DELETE, GROUP, G_DENIED)]),
    Case(
        "elect_leaders",
        elect_leaders.ElectLeadersRequest(
            election_type=0, topic_partitions=[elect_leaders.TopicPartitions(topic="t", partitions=[0])]
        ),
        [(Operation.ALTER, CLUSTER, C_DENIED)],
    ),
    Case(
        "alter_partition_reassignments",
        alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[]),
        [(Operation.ALTER, CLUSTER, C_DENIED)],
    ),
    Case(
        "list_partition_reassignments",
        list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None),
        [(D, CLUSTER, C_DENIED)],
    ),
    Case(
        "offset_delete",
        offset_delete.OffsetDeleteRequest(
            group_id="g",
            topics=[
                offset_delete.OffsetDeleteRequestTopic(
                    name="t", partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=0)]
                )
            ],
        ),
        [(Operation.DELETE, GROUP, G_DENIED)],
    ),
    Case(
        "update_features",
        update_features.UpdateFeaturesRequest(feature_updates=[]),
        [(Operation.ALTER, CLUSTER, C_DENIED)],
    ),
    Case("describe_cluster", describe_cluster.DescribeClusterRequest(), []),
    Case(
        "describe_producers",
        describe_producers.DescribeProducersRequest(
            topics=[describe_producers.TopicRequest(name="t", partition_indexes=[0])]
        ),
        [(R, TOPIC, T_DENIED)],
    ),
    Case(
        "unregister_broker",
        unregister_broker.UnregisterBrokerRequest(broker_id=9),
        [(Operation.ALTER, CLUSTER, C_DENIED)],
    ),
    Case(
        "describe_transactions",
        describe_transactions.DescribeTransactionsRequest(transactional_ids=["x"]),
        [(D, TXN, X_DENIED)],
    ),
    Case("list_transactions", list_transactions.ListTransactionsRequest(), []),
    Case("consumer_group_heartbeat", consumer_heartbeat(), [(R, GROUP, G_DENIED), (D, TOPIC, T_DENIED)]),
    Case(
        "consumer_group_describe",
        consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=["g"]),
        [(D, GROUP, G_DENIED)],
    ),
    Case(
        "list_config_resources",
        list_config_resources.ListConfigResourcesRequest(resource_types=[]),
        [(Operation.DESCRIBE_CONFIGS, CLUSTER, C_DENIED)],
    ),
    Case(
        "describe_topic_partitions",
        describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions.TopicRequest(name="t")]
        ),
        [(D, TOPIC, T_DENIED)],
    ),
]
IDS = [f"{at}-{case.name}" for at, case in enumerate(CASES)]


def errors_in(value: Any) -> Iterator[int]:
    """Every error code of a response, wherever it stands."""
    if isinstance(value, list):
        for item in value:
            yield from errors_in(item)
    elif hasattr(type(value), "__dataclass_fields__") or hasattr(type(value), "FIELDS") or hasattr(value, "__slots__"):
        for name in _fields(value):
            found = getattr(value, name)
            if name.endswith("error_code"):
                yield found
            elif not isinstance(found, (bytes, str, int)):
                yield from errors_in(found)


def _fields(value: Any) -> list[str]:
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__annotations__", {})]
    return [name for name in dict.fromkeys(names) if hasattr(value, name)]


@pytest.fixture(name="lab")
def lab_with_an_authorizer(make_lab: Any) -> Any:
    lab = make_lab(authorizer_class_name=AUTHORIZER, super_users="User:admin")
    topic = create_topics.CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    ask(lab, "User:admin", create_topics.CreateTopicsRequest(topics=[topic]))
    for kind in (0, 1):  # coordinators are there
        ask(lab, "User:admin", find_coordinator.FindCoordinatorRequest(key_type=kind, coordinator_keys=["g"]))
    return lab


def test_every_api_has_a_guard_and_a_case() -> None:
    served = {api.name for api in APIS.values()}
    assert served == set(GUARDS)
    assert served == {case.name for case in CASES}


def test_a_broker_does_not_start_with_an_api_that_has_no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    check_complete()
    monkeypatch.delitem(GUARDS, "list_config_resources")
    with pytest.raises(LookupError, match="APIs without a guard: list_config_resources"):
        check_complete()


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_without_rights_it_is_refused(lab: Any, case: Case) -> None:
    if not case.needs:  # open to all
        found = set(errors_in(ask(lab, "User:nobody", case.request, case.version)))
        assert not found & DENIED
        return
    found = {code for code in errors_in(ask(lab, "User:nobody", case.request, case.version)) if code}
    assert found, "no error at all"
    assert found <= DENIED | case.beside
    assert found & {code for _, _, code in case.needs}


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_what_it_needs_is_enough(lab: Any, case: Case) -> None:
    for operation, (kind, name), _ in case.needs:
        allow(lab, "User:u", operation, kind, name)
    answer = ask(lab, "User:u", case.request, case.version)
    assert not isinstance(answer, BaseException)
    assert not set(errors_in(answer)) & DENIED


@pytest.mark.parametrize(
    ("case", "missing"),
    [(case, at) for case in CASES for at in range(len(case.needs)) if len(case.needs) > 1],
    ids=lambda value: value.name if isinstance(value, Case) else str(value),
)
def test_each_thing_that_it_needs_counts(lab: Any, case: Case, missing: int) -> None:
    for at, (operation, (kind, name), _) in enumerate(case.needs):
        if at != missing:
            allow(lab, "User:u", operation, kind, name)
    found = {code for code in errors_in(ask(lab, "User:u", case.request, case.version)) if code}
    assert case.needs[missing][2] in found
    assert found <= {case.needs[missing][2], *case.beside}


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_denial_beats_what_allows(lab: Any, case: Case) -> None:
    for operation, (kind, name), _ in case.needs:
        allow(lab, "User:u", operation, kind, name)
        allow(lab, "User:*", Operation.ALL, kind, "*", deny=True)
    if case.needs:
        assert set(errors_in(ask(lab, "User:u", case.request, case.version))) & DENIED


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_super_user_may_do_everything(lab: Any, case: Case) -> None:
    assert not set(errors_in(ask(lab, "User:admin", case.request, case.version))) & DENIED


def test_a_produce_without_an_answer_ends_the_connection(lab: Any) -> None:
    request = produced()
    request.acks = 0
    with pytest.raises(KafkaError):
        ask(lab, "User:nobody", request, 9)
    assert lab.broker.partition("t", 0).log.log_end_offset == 0


@pytest.mark.parametrize("version", [5, 6])
def test_who_may_describe_a_topic_is_told_that_there_is_none_to_delete(lab: Any, version: int) -> None:
    """As Apache Kafka: found by the matrix beside it (tests/compat/test_rights_matrix.py)."""
    names = ["t", "gone", "secret"]
    by_name = delete_topics.DeleteTopicsRequest(topic_names=names, timeout_ms=1000)
    states = [delete_topics.DeleteTopicState(name=name) for name in names]
    request = by_name if version == 5 else delete_topics.DeleteTopicsRequest(topics=states, timeout_ms=1000)
    for name in ("t", "gone"):
        allow(lab, "User:u", D, ResourceType.TOPIC, name)
    answer = ask(lab, "User:u", request, version)
    codes = {each.name: each.error_code for each in answer.responses}
    assert codes == {"t": T_DENIED, "gone": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "secret": T_DENIED}


def test_delete_on_the_cluster_deletes_any_topic(lab: Any) -> None:
    allow(lab, "User:u", Operation.DELETE, *CLUSTER)
    request = delete_topics.DeleteTopicsRequest(topics=[delete_topics.DeleteTopicState(name="t")], timeout_ms=1000)
    assert [each.error_code for each in ask(lab, "User:u", request).responses] == [0]


def test_authorized_operations_of_a_topic_that_is_not_there_are_the_callers_own(lab: Any) -> None:
    allow(lab, "User:u", R, ResourceType.TOPIC, "gone")
    wanted = [describe_topic_partitions.TopicRequest(name="gone")]
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=wanted)
    (topic,) = ask(lab, "User:u", request).topics
    assert topic.topic_authorized_operations == 1 << R | 1 << D
