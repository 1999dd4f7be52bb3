"""How far transactions are, as the cluster tells it: who coordinates one, in which state it is, and where readers must
stop.
"""

from chaos.support.by_hand import coordinator
from chaos.support.cluster import Cluster
from chaos.support.processes import WAIT_S
from compat.support.members import until
from headwater.base.ids import TopicPartition
from headwater.client import Admin, KafkaError
from headwater.client.types import LATEST

READ_COMMITTED = 1
AT_REST = {"Empty", "CompleteCommit", "CompleteAbort"}


class OpenEnds:
    """`admin` is a client of the cluster, and stays the test's."""

    def __init__(self, cluster: Cluster, admin: Admin) -> None:
        self._cluster, self._admin = cluster, admin

    def state(self, transactional_id: str) -> str:
        found = self._admin.describe_transactions([transactional_id])[transactional_id]
        return found.code.name if isinstance(found, KafkaError) else found.state

    def await_state(self, transactional_id: str, state: str) -> None:
        until(
            lambda: self.state(transactional_id) == state,
            lambda: f"{self.state(transactional_id)} and not {state}\n{self._cluster.logs()}",
            WAIT_S,
        )

    def await_coordinator_other_than(self, old: int, transactional_id: str) -> int:
        found: int = until(
            lambda: (new := coordinator(self._cluster, transactional_id)) != old and new,
            lambda: f"{transactional_id} is coordinated by {old} still\n{self._cluster.logs()}",
            WAIT_S,
        )
        return found

    def of(self, topic: str, partitions: int) -> dict[int, tuple[int, int]]:
        """The partitions where readers of committed records stop before the end:
        the last stable offset, and the end.
        """
        places = [TopicPartition(topic, partition) for partition in range(partitions)]
        ends = self._admin.list_offsets(dict.fromkeys(places, LATEST))
        stable = self._admin.list_offsets(dict.fromkeys(places, LATEST), isolation_level=READ_COMMITTED)
        found = {}
        for place in places:
            here = tuple(
                -1 if isinstance(answer, KafkaError) else answer.offset for answer in (stable[place], ends[place])
            )
            if here[0] != here[1] or here[0] < 0:
                found[place.partition] = (here[0], here[1])
        return found

    def await_none(self, topic: str, partitions: int) -> None:
        """Until no transaction is open there: the last stable offset is the high watermark, everywhere."""
        until(
            lambda: not self.of(topic, partitions),
            lambda: f"{topic} has open transactions: {self.of(topic, partitions)}\n{self._cluster.logs()}",
            WAIT_S,
        )
