"""A request of every API, by hand, for the matrix of rights. None changes what another one looks at: they validate
only, or are about what is not there (`t.gone`).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from headwater.broker.registry import APIS
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
    sync_group,
    txn_offset_commit,
    unregister_broker,
    update_features,
    write_txn_markers,
)

LITERAL = 3
ALLOW = 3


class Case(NamedTuple):
    name: str
    version: int
    request: Any


def _batch(*, transactional: bool = False) -> bytes:
    """Of a producer that is in no transaction, if it is of one."""
    of = {"transactional": True, "producer_id": 999_999, "producer_epoch": 0, "base_sequence": 0}
    return bytes(build_batch([Record(0, 1_700_000_000_000, b"k", b"v")], **(of if transactional else {})))  # type: ignore[arg-type]


def _produced(transactional_id: str | None, records: bytes | None = None, **topic: Any) -> produce.ProduceRequest:
    part = produce.PartitionProduceData(index=0, records=records or _batch())
    topics = [produce.TopicProduceData(partition_data=[part], **topic)]
    return produce.ProduceRequest(transactional_id=transactional_id, acks=1, timeout_ms=1000, topic_data=topics)


def _fetched(replica_id: int, **topic: Any) -> fetch.FetchRequest:
    part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return fetch.FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1000,
        session_epoch=-1,
        topics=[fetch.FetchTopic(partitions=[part], **topic)],
        forgotten_topics_data=[],
    )


def _records_cases(topic_id: bytes) -> Iterator[Case]:
    yield Case("produce", 9, _produced(None, name="t"))
    yield Case("produce to none", 9, _produced(None, name="t.gone"))
    yield Case("produce in a transaction", 9, _produced("x", _batch(transactional=True), name="t"))
    yield Case("produce with a transactional id", 9, _produced("x", name="t"))
    yield Case("produce by id", 13, _produced(None, topic_id=topic_id))
    yield Case("produce by unknown id", 13, _produced(None, topic_id=b"\7" * 16))
    yield Case("fetch", 12, _fetched(-1, topic="t"))
    yield Case("fetch from none", 12, _fetched(-1, topic="t.gone"))
    yield Case("fetch as a follower", 12, _fetched(7, topic="t"))
    yield Case("fetch by id", 16, _fetched(-1, topic_id=topic_id))
    yield Case("fetch by unknown id", 16, _fetched(-1, topic_id=b"\7" * 16))
    for name in ("t", "t.gone"):
        offsets = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)
        wanted = list_offsets.ListOffsetsTopic(name=name, partitions=[offsets])
        yield Case(
            f"list_offsets {name}",
            7,
            list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[wanted]),
        )
        epoch = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)
        topics = [offset_for_leader_epoch.OffsetForLeaderTopic(topic=name, partitions=[epoch])]
        yield Case(
            f"offset_for_leader_epoch {name}",
            4,
            offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-2, topics=topics),
        )
        part = delete_records.DeleteRecordsPartition(partition_index=0, offset=0)
        trimmed = [delete_records.DeleteRecordsTopic(name=name, partitions=[part])]
        yield Case(f"delete_records {name}", 2, delete_records.DeleteRecordsRequest(topics=trimmed, timeout_ms=10_000))
        asked = [describe_producers.TopicRequest(name=name, partition_indexes=[0])]
        yield Case(f"describe_producers {name}", 0, describe_producers.DescribeProducersRequest(topics=asked))


def _topic_cases(topic_id: bytes) -> Iterator[Case]:
    def named(*names: str, **more: Any) -> Any:
        topics = [metadata.MetadataRequestTopic(name=name) for name in names]
        return metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False, **more)

    yield Case("metadata of all", 12, metadata.MetadataRequest(topics=None, include_topic_authorized_operations=True))
    yield Case("metadata", 12, named("t", "t.gone", "u", include_topic_authorized_operations=True))
    yield Case("metadata with the cluster", 10, named("t", include_cluster_authorized_operations=True))
    by_id = [metadata.MetadataRequestTopic(name=None, topic_id=each) for each in (topic_id, b"\7" * 16)]
    yield Case("metadata by id", 12, metadata.MetadataRequest(topics=by_id, allow_auto_topic_creation=False))
    wanted = [describe_topic_partitions.TopicRequest(name=name) for name in ("t", "t.gone", "u")]
    yield Case("describe_topic_partitions", 0, describe_topic_partitions.DescribeTopicPartitionsRequest(topics=wanted))
    yield Case(
        "describe_cluster", 1, describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
    )
    new = create_topics.CreatableTopic(name="t.new", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    for name in ("t.new", "t"):
        creations = [new if name == "t.new" else create_topics.CreatableTopic(
            name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])]  # fmt: skip
        yield Case(
            f"create_topics {name}", 7, create_topics.CreateTopicsRequest(topics=creations, timeout_ms=10_000, validate_only=True)
        )  # fmt: skip
    deletion = [delete_topics.DeleteTopicState(name="t.gone"), delete_topics.DeleteTopicState(name="u.gone")]
    yield Case("delete_topics", 6, delete_topics.DeleteTopicsRequest(topics=deletion, timeout_ms=10_000))
    unknown = [delete_topics.DeleteTopicState(name=None, topic_id=b"\7" * 16)]
    yield Case("delete_topics by id", 6, delete_topics.DeleteTopicsRequest(topics=unknown, timeout_ms=10_000))
    for name in ("t", "t.gone"):
        more = [create_partitions.CreatePartitionsTopic(name=name, count=3, assignments=None)]
        yield Case(
            f"create_partitions {name}",
            3,
            create_partitions.CreatePartitionsRequest(topics=more, timeout_ms=10_000, validate_only=True),
        )


def _group_cases() -> Iterator[Case]:
    for name in ("t", "t.gone"):
        part = offset_commit.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=0, committed_leader_epoch=-1, committed_metadata=""
        )
        topics = [offset_commit.OffsetCommitRequestTopic(name=name, partitions=[part])]
        yield Case(
            f"offset_commit {name}",
            8,
            offset_commit.OffsetCommitRequest(
                group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics
            ),
        )
        wanted = [offset_fetch.OffsetFetchRequestTopics(name=name, partition_indexes=[0])]
        asked = [offset_fetch.OffsetFetchRequestGroup(group_id="g", member_id=None, topics=wanted)]
        yield Case(f"offset_fetch {name}", 9, offset_fetch.OffsetFetchRequest(groups=asked))
        gone = [
            offset_delete.OffsetDeleteRequestTopic(
                name=name, partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=5)]
            )
        ]
        yield Case(f"offset_delete {name}", 0, offset_delete.OffsetDeleteRequest(group_id="g", topics=gone))
    yield Case(
        "offset_fetch of all",
        9,
        offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup(group_id="g", member_id=None, topics=None)]
        ),
    )
    for kind, key in ((0, "g"), (1, "x")):
        yield Case(
            f"find_coordinator {key}",
            4,
            find_coordinator.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]),
        )
    protocols = [join_group.JoinGroupRequestProtocol(name="range", metadata=b"")]
    yield Case(
        "join_group",
        9,
        join_group.JoinGroupRequest(
            group_id="g.join",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=protocols,
        ),
    )
    yield Case("heartbeat", 4, heartbeat.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    yield Case(
        "leave_group",
        5,
        leave_group.LeaveGroupRequest(group_id="g", members=[leave_group.MemberIdentity(member_id="m")]),
    )
    sync = {"group_id": "g", "generation_id": 1, "member_id": "m", "assignments": []}
    named = sync_group.SyncGroupRequest(**sync, protocol_type="consumer", protocol_name="range")
    yield Case("sync_group", 5, named)
    yield Case("sync_group without a protocol", 5, sync_group.SyncGroupRequest(**sync))
    yield Case(
        "describe_groups", 5, describe_groups.DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    )
    yield Case("list_groups", 5, list_groups.ListGroupsRequest())
    yield Case("delete_groups", 2, delete_groups.DeleteGroupsRequest(groups_names=["g.gone", "h.gone"]))
    yield Case("consumer_group_describe", 1, consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=["g.gone"]))
    for name in ("t", "u"):
        beat = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id="g.new", member_id="m", member_epoch=5, rebalance_timeout_ms=-1, subscribed_topic_names=[name]
        )
        yield Case(f"consumer_group_heartbeat {name}", 1, beat)


def _transaction_cases() -> Iterator[Case]:
    topic = add_partitions_to_txn.AddPartitionsToTxnTopic(name="t", partitions=[0])
    older = add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=999_999,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[topic],
    )
    yield Case("add_partitions_to_txn", 3, older)
    transaction = add_partitions_to_txn.AddPartitionsToTxnTransaction(
        transactional_id="x", producer_id=999_999, producer_epoch=0, verify_only=False, topics=[topic]
    )
    batched = add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[transaction])
    yield Case("add_partitions_to_txn of brokers", 4, batched)
    yield Case(
        "add_offsets_to_txn",
        3,
        add_offsets_to_txn.AddOffsetsToTxnRequest(
            transactional_id="x", producer_id=999_999, producer_epoch=0, group_id="g"
        ),
    )
    yield Case(
        "end_txn",
        3,
        end_txn.EndTxnRequest(transactional_id="x", producer_id=999_999, producer_epoch=0, committed=True),
    )
    part = txn_offset_commit.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=0, committed_leader_epoch=-1, committed_metadata=""
    )
    topics = [txn_offset_commit.TxnOffsetCommitRequestTopic(name=name, partitions=[part]) for name in ("t", "t.gone")]
    yield Case(
        "txn_offset_commit",
        3,
        txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id="x", group_id="g", producer_id=999_999, producer_epoch=0, member_id="", topics=topics
        ),
    )
    for name in ("x", None):
        yield Case(
            f"init_producer_id {name}",
            4,
            init_producer_id.InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000),
        )
    yield Case(
        "describe_transactions", 0, describe_transactions.DescribeTransactionsRequest(transactional_ids=["x", "y"])
    )
    yield Case("list_transactions", 1, list_transactions.ListTransactionsRequest())
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=999_999,
        producer_epoch=0,
        transaction_result=False,
        topics=[write_txn_markers.WritableTxnMarkerTopic(name="t.gone", partition_indexes=[0])],
        coordinator_epoch=0,
    )
    yield Case("write_txn_markers", 1, write_txn_markers.WriteTxnMarkersRequest(markers=[marker]))


def _config_cases() -> Iterator[Case]:
    resources = ((2, "t"), (2, "t.gone"), (4, "0"), (32, "g"))
    for kind, name in resources:
        wanted = describe_configs.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=["none"]
        )
        yield Case(f"describe_configs {kind} {name}", 4, describe_configs.DescribeConfigsRequest(resources=[wanted]))
        if kind != 32:
            whole = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
            yield Case(
                f"alter_configs {kind} {name}",
                2,
                alter_configs.AlterConfigsRequest(resources=[whole], validate_only=True),
            )
        part = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
        yield Case(
            f"incremental_alter_configs {kind} {name}",
            1,
            incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[part], validate_only=True),
        )
    yield Case("list_config_resources", 1, list_config_resources.ListConfigResourcesRequest(resource_types=[2]))
    entity = alter_client_quotas.EntityData(entity_type="user", entity_name="a")
    operation = alter_client_quotas.OpData(key="producer_byte_rate", value=1000.0, remove=False)
    quota = alter_client_quotas.EntryData(entity=[entity], ops=[operation])
    yield Case(
        "alter_client_quotas", 1, alter_client_quotas.AlterClientQuotasRequest(entries=[quota], validate_only=True)
    )
    yield Case(
        "describe_client_quotas", 1, describe_client_quotas.DescribeClientQuotasRequest(components=[], strict=False)
    )


def _cluster_cases() -> Iterator[Case]:
    any_rule = {"principal_filter": "User:none", "host_filter": None, "operation": 1, "permission_type": 1}
    any_resource = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
    yield Case("describe_acls", 3, describe_acls.DescribeAclsRequest(**any_resource, **any_rule))
    creation = create_acls.AclCreation(
        resource_type=2,
        resource_name="n",
        resource_pattern_type=LITERAL,
        principal="User:a",
        host="*",
        operation=3,
        permission_type=ALLOW,
    )
    yield Case("create_acls", 3, create_acls.CreateAclsRequest(creations=[creation]))
    filters = [delete_acls.DeleteAclsFilter(**any_resource, **any_rule)]
    yield Case("delete_acls", 3, delete_acls.DeleteAclsRequest(filters=filters))
    yield Case(
        "describe_user_scram_credentials",
        0,
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
            users=[describe_user_scram_credentials.UserName(name="none")]
        ),
    )
    deletions = [alter_user_scram_credentials.ScramCredentialDeletion(name="none", mechanism=1)]
    yield Case(
        "alter_user_scram_credentials",
        0,
        alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[]),
    )
    moved = [alter_replica_log_dirs.AlterReplicaLogDirTopic(name="t", partitions=[0])]
    directory = alter_replica_log_dirs.AlterReplicaLogDir(path="/nowhere", topics=moved)
    yield Case("alter_replica_log_dirs", 2, alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=[directory]))
    yield Case("describe_log_dirs", 4, describe_log_dirs.DescribeLogDirsRequest(topics=[]))
    wanted = [elect_leaders.TopicPartitions(topic="t.gone", partitions=[0])]
    yield Case(
        "elect_leaders",
        2,
        elect_leaders.ElectLeadersRequest(election_type=0, topic_partitions=wanted, timeout_ms=10_000),
    )
    yield Case(
        "alter_partition_reassignments",
        0,
        alter_partition_reassignments.AlterPartitionReassignmentsRequest(timeout_ms=10_000, topics=[]),
    )
    yield Case(
        "list_partition_reassignments",
        0,
        list_partition_reassignments.ListPartitionReassignmentsRequest(timeout_ms=10_000, topics=None),
    )
    yield Case(
        "update_features",
        1,
        update_features.UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[], validate_only=True),
    )
    yield Case("unregister_broker", 0, unregister_broker.UnregisterBrokerRequest(broker_id=99))
    yield Case(
        "api_versions", 3, api_versions.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    )


def _token_cases() -> Iterator[Case]:
    for owner in (None, "consumer"):
        named = {"owner_principal_type": owner and "User", "owner_principal_name": owner}
        asked = create_delegation_token.CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1, **named)
        yield Case(f"create_delegation_token {owner}", 3, asked)
    group = [create_delegation_token.CreatableRenewers(principal_type="Group", principal_name="g")]
    by_group = create_delegation_token.CreateDelegationTokenRequest(renewers=group, max_lifetime_ms=-1)
    yield Case("create_delegation_token renewed by a group", 2, by_group)
    yield Case(
        "renew_delegation_token", 2, renew_delegation_token.RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1)
    )
    yield Case(
        "expire_delegation_token",
        2,
        expire_delegation_token.ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1),
    )
    yield Case("describe_delegation_token", 3, describe_delegation_token.DescribeDelegationTokenRequest(owners=None))


def cases(topic_id: bytes) -> list[Case]:
    return [
        *_records_cases(topic_id),
        *_topic_cases(topic_id),
        *_group_cases(),
        *_transaction_cases(),
        *_config_cases(),
        *_cluster_cases(),
        *_token_cases(),
    ]


def apis_without_a_case() -> set[str]:
    """The logins' own two are what every connection here begins with."""
    asked = {APIS[case.request.KEY].name for case in cases(bytes(16))}
    return {api.name for api in APIS.values()} - asked - {"sasl_handshake", "sasl_authenticate"}
