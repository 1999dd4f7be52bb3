"""The names of Kafka's APIs by key, and the first version of each whose requests and responses are flexible.

Flexible versions have compact lengths, tagged fields, and tagged fields in their headers (not so the header of
ApiVersions responses). Keys 4 to 7 belong to controllers of the past; no client sends them.
"""

import re
from typing import Final

from headwater.wire.schema import LATEST

NEVER: Final = LATEST

_APIS: Final = (
    # name, first flexible version; the index is the key
    ("Produce", 9),
    ("Fetch", 12),
    ("ListOffsets", 6),
    ("Metadata", 9),
    ("LeaderAndIsr", 4),
    ("StopReplica", 2),
    ("UpdateMetadata", 6),
    ("ControlledShutdown", 3),
    ("OffsetCommit", 8),
    ("OffsetFetch", 6),
    ("FindCoordinator", 3),
    ("JoinGroup", 6),
    ("Heartbeat", 4),
    ("LeaveGroup", 4),
    ("SyncGroup", 4),
    ("DescribeGroups", 5),
    ("ListGroups", 3),
    ("SaslHandshake", NEVER),
    ("ApiVersions", 3),
    ("CreateTopics", 5),
    ("DeleteTopics", 4),
    ("DeleteRecords", 2),
    ("InitProducerId", 2),
    ("OffsetForLeaderEpoch", 4),
    ("AddPartitionsToTxn", 3),
    ("AddOffsetsToTxn", 3),
    ("EndTxn", 3),
    ("WriteTxnMarkers", 1),
    ("TxnOffsetCommit", 3),
    ("DescribeAcls", 2),
    ("CreateAcls", 2),
    ("DeleteAcls", 2),
    ("DescribeConfigs", 4),
    ("AlterConfigs", 2),
    ("AlterReplicaLogDirs", 2),
    ("DescribeLogDirs", 2),
    ("SaslAuthenticate", 2),
    ("CreatePartitions", 2),
    ("CreateDelegationToken", 2),
    ("RenewDelegationToken", 2),
    ("ExpireDelegationToken", 2),
    ("DescribeDelegationToken", 2),
    ("DeleteGroups", 2),
    ("ElectLeaders", 2),
    ("IncrementalAlterConfigs", 1),
    ("AlterPartitionReassignments", 0),
    ("ListPartitionReassignments", 0),
    ("OffsetDelete", NEVER),
    ("DescribeClientQuotas", 1),
    ("AlterClientQuotas", 1),
    ("DescribeUserScramCredentials", 0),
    ("AlterUserScramCredentials", 0),
    ("Vote", 0),
    ("BeginQuorumEpoch", 1),
    ("EndQuorumEpoch", 1),
    ("DescribeQuorum", 0),
    ("AlterPartition", 0),
    ("UpdateFeatures", 0),
    ("Envelope", 0),
    ("FetchSnapshot", 0),
    ("DescribeCluster", 0),
    ("DescribeProducers", 0),
    ("BrokerRegistration", 0),
    ("BrokerHeartbeat", 0),
    ("UnregisterBroker", 0),
    ("DescribeTransactions", 0),
    ("ListTransactions", 0),
    ("AllocateProducerIds", 0),
    ("ConsumerGroupHeartbeat", 0),
    ("ConsumerGroupDescribe", 0),
    ("ControllerRegistration", 0),
    ("GetTelemetrySubscriptions", 0),
    ("PushTelemetry", 0),
    ("AssignReplicasToDirs", 0),
    ("ListConfigResources", 0),
    ("DescribeTopicPartitions", 0),
    ("ShareGroupHeartbeat", 0),
    ("ShareGroupDescribe", 0),
    ("ShareFetch", 0),
    ("ShareAcknowledge", 0),
    ("AddRaftVoter", 0),
    ("RemoveRaftVoter", 0),
    ("UpdateRaftVoter", 0),
    ("InitializeShareGroupState", 0),
    ("ReadShareGroupState", 0),
    ("WriteShareGroupState", 0),
    ("DeleteShareGroupState", 0),
    ("ReadShareGroupStateSummary", 0),
    ("StreamsGroupHeartbeat", 0),
    ("StreamsGroupDescribe", 0),
    ("DescribeShareGroupOffsets", 0),
    ("AlterShareGroupOffsets", 0),
    ("DeleteShareGroupOffsets", 0),
)

API_NAMES: Final[dict[int, str]] = {key: name for key, (name, _) in enumerate(_APIS)}
FLEXIBLE_SINCE: Final[dict[int, int]] = {key: first for key, (_, first) in enumerate(_APIS)}
API_VERSIONS_KEY: Final = 18


def api_name(key: int) -> str:
    """For logs and metrics: also of a key that nobody knows."""
    return API_NAMES.get(key, f"Unknown({key})")


def module_name(key: int) -> str:
    """`describe_log_dirs` for DescribeLogDirs: the name of its file in wire/messages and broker/handlers."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", API_NAMES[key]).lower()
