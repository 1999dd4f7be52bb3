"""A cluster of groups and transactions: coordinators move from broker to broker with the leadership of their
partitions.

A broker that was deposed and does not know it yet can get nothing committed any more, but it can still answer from what
it knows: so what is only read may be old (`may_be_stale`) until all faults are gone. A request that nobody waits for
any more may still be carried out when the network lets it through.
"""

from typing import Final

from headwater.base.ids import PartitionKey
from headwater.base.names import CONSUMER_OFFSETS
from headwater.broker.coordinators.placement import partition_for
from headwater.sim.clients.client import SimClient
from headwater.sim.cluster import ClusterWorld, TopicToMake
from headwater.sim.cluster_checks import replica_of
from headwater.sim.cluster_clients.administering import ClusterAdmin
from headwater.sim.cluster_clients.coordinating import (
    ClusterClassicMember,
    ClusterCommittedAuditor,
    ClusterCommittedReader,
    ClusterConsumerMember,
    ClusterConvertingMember,
    ClusterReplayer,
    ClusterTransactionalProducer,
    ClusterVisitingMember,
)
from headwater.sim.cluster_faults import ClusterFaults
from headwater.sim.coordinated import CoordinatedStage
from headwater.sim.groups import Commit, GroupHistory
from headwater.sim.less import NOTHING, Less
from headwater.sim.transaction_history import TransactionHistory

_OFFSETS_PARTITIONS: Final = 2


class ClusterGroupHistory(GroupHistory):
    """Reads may be old until the end, and a commit without an answer may be applied at any time."""

    is_strict = False

    def settle(self, commit: Commit, *, is_applied: bool | None) -> None:
        if is_applied is not None:
            super().settle(commit, is_applied=is_applied)

    def fetched(self, group: str, partition: int, offset: int, asked_at: int) -> None:
        super().fetched(group, partition, offset, asked_at if self.is_strict else -1)


class ClusterCoordinatorWorld(CoordinatedStage, ClusterWorld):
    command = "make sim WORLD=cluster-coordinators"
    first_fetch_version = 9  # the first that sends the leader epoch

    def __init__(self, seed: int, faults: ClusterFaults | None = None, less: Less = NOTHING) -> None:
        self.transactions = TransactionHistory(self.tell)
        self.group_history = ClusterGroupHistory(self.tell)
        self.groups = self.group_history
        self._stable_ends = {}
        super().__init__(seed, faults, less)

    @property
    def may_be_stale(self) -> bool:
        return not self.is_finishing

    @property
    def topic_names(self) -> tuple[str, str]:
        return "plain-in", "plain-out"

    def coordinator_of(self, group: str) -> tuple[int, int] | None:
        """The broker that truly coordinates the group now, and the leader epoch in which it does."""
        key = self._coordinating(group)
        if key is None:
            return None
        state = self.state.partitions[key]
        return state.leader, state.leader_epoch

    def is_heard(self, group: str) -> bool:
        """Whether all that are in sync with the group's coordinator have fetched in its term.

        Until then one of them may have records of the term before that it has not. If that one leads next they hold,
        whatever was answered meanwhile: a coordinator answers from what it has read where nothing is to be written, as
        Apache Kafka's does, and only what is written waits for the others.
        """
        key = self._coordinating(group)
        if key is None:
            return False
        partition = replica_of(self.node(self.state.partitions[key].leader), key)
        return partition is not None and (partition.in_sync is None or partition.in_sync.confirmed >= 0)

    def _coordinating(self, group: str) -> PartitionKey | None:
        index = partition_for(group, _OFFSETS_PARTITIONS)
        for key, state in self.state.partitions.items():
            if state.topic == CONSUMER_OFFSETS and state.partition == index:
                return key
        return None

    def topics_to_make(self) -> list[TopicToMake]:
        return [("plain-in", 2, {}), ("plain-out", 3, {"min.insync.replicas": "2"})]

    def properties(self) -> dict[str, str]:
        return {
            **super().properties(),
            "offsets.topic.num.partitions": str(_OFFSETS_PARTITIONS),
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.num.partitions": "2",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
            "group.min.session.timeout.ms": "100",
            "group.initial.rebalance.delay.ms": "30",
            "group.consumer.session.timeout.ms": "1500",
            "group.consumer.heartbeat.interval.ms": "300",
        }

    def cast(self) -> list[SimClient]:
        self._readers = [ClusterCommittedReader(self, "reader")]
        return [
            ClusterAdmin(self, "admin"),
            ClusterTransactionalProducer(self, "alpha-1", "alpha"),
            ClusterTransactionalProducer(self, "alpha-2", "alpha"),
            ClusterTransactionalProducer(self, "beta-1", "beta"),
            ClusterReplayer(self, "replayer"),
            *(ClusterClassicMember(self, f"classic-{number}", "classic") for number in range(2)),
            *(ClusterConsumerMember(self, f"modern-{number}", "modern") for number in range(2)),
            *(ClusterConvertingMember(self, f"mixed-{number}", "mixed") for number in range(2)),
            ClusterVisitingMember(self, "mixed-visitor", "mixed"),
            *self._readers,
        ]

    def auditor(self) -> SimClient:
        self.group_history.is_strict = True
        return ClusterCommittedAuditor(self, "auditor", self._readers)
