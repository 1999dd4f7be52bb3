"""A world of groups and transactions: members of both protocols, transactional producers that replace each other,
read_committed readers.

The coordinators' topics have one partition each. By the seed, either every write is synced before it is acknowledged,
and then the power may fail, or nothing is, and then only processes die. Steps are few and faults come quickly: many
small worlds find more than a long one. What must hold is in `transactions.py`, `groups.py` and `history.py`.
"""

from dataclasses import replace
from typing import Final

from headwater.base.errors import ErrorCode
from headwater.base.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from headwater.sim.clients.client import Ask, Script, SimClient
from headwater.sim.clients.committed import CommittedAuditor, CommittedReader
from headwater.sim.clients.consumer_members import ConsumerMember
from headwater.sim.clients.converting_members import ConvertingMember, VisitingMember
from headwater.sim.clients.coordinated import CoordinatedClient
from headwater.sim.clients.members import ClassicMember
from headwater.sim.clients.transactional import Replayer, TransactionalProducer
from headwater.sim.coordinated import CoordinatedStage
from headwater.sim.faults import Faults
from headwater.sim.groups import GroupHistory
from headwater.sim.less import NOTHING, Less
from headwater.sim.trace import Violation
from headwater.sim.transaction_history import TransactionHistory
from headwater.sim.world import World
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

FAULTS: Final = Faults(interval_ms=500, cuts_per_mille=15, followed_percent=50)
CONSUMER_SESSION_MS: Final = 1500
_TAIL_BYTES_MAX: Final = 1 << 20


class CoordinatorWorld(CoordinatedStage, World):
    command = "make sim WORLD=coordinators"

    def __init__(self, seed: int, faults: Faults | None = None, less: Less = NOTHING) -> None:
        self.transactions = TransactionHistory(self.tell)
        self.groups = GroupHistory(self.tell)
        self._stable_ends = {}
        self._is_synced = seed % 2 == 0
        if not self._is_synced:
            faults = replace(faults or FAULTS, power_loss=0, failed_sync=0)
        super().__init__(seed, faults or FAULTS, less)

    def properties(self) -> dict[str, str]:
        settings = {
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "group.min.session.timeout.ms": "100",
            "group.initial.rebalance.delay.ms": "30",
            "group.consumer.session.timeout.ms": str(CONSUMER_SESSION_MS),
            "group.consumer.heartbeat.interval.ms": "300",
            "log.retention.check.interval.ms": "5000",
        }
        if self._is_synced:
            settings["log.flush.interval.messages"] = "1"
        return settings

    def cast(self) -> list[SimClient]:
        self._readers = [CommittedReader(self, "reader")]
        return [
            Setup(self, "setup"),
            TransactionalProducer(self, "alpha-1", "alpha"),
            TransactionalProducer(self, "alpha-2", "alpha"),
            TransactionalProducer(self, "beta-1", "beta"),
            Replayer(self, "replayer"),
            *(ClassicMember(self, f"classic-{number}", "classic") for number in range(2)),
            *(ConsumerMember(self, f"modern-{number}", "modern") for number in range(2)),
            *(ConvertingMember(self, f"mixed-{number}", "mixed") for number in range(2)),
            VisitingMember(self, "mixed-visitor", "mixed"),
            *self._readers,
        ]

    def auditor(self) -> SimClient:
        return CommittedAuditor(self, "auditor", self._readers)

    @property
    def topic_names(self) -> tuple[str, str]:
        kind = "durable" if self._is_synced else "plain"
        return f"{kind}-in", f"{kind}-out"

    # Answers of coordinators

    def must_be_replicated(self, offset: int) -> None:
        """A commit was acknowledged: it may not stand only where no in-sync follower has it."""
        broker = self.node.broker
        topic = next((topic for topic in self.catalog.topics.values() if topic.name == CONSUMER_OFFSETS), None)
        if broker is None or topic is None or (confirmed := topic.partitions[0].follower_has) is None:
            return
        log = broker.partition(CONSUMER_OFFSETS, 0).log
        if confirmed >= log.log_end_offset:
            return
        tail = log.read(confirmed, _TAIL_BYTES_MAX, log.log_end_offset, min_one_batch=True)
        if tail is None:
            return
        data = tail.read()
        tail.release()
        if offset.to_bytes(8) in data:
            raise Violation(f"I1: the commit of {offset} was acknowledged, and no in-sync follower has it")


class Setup(CoordinatedClient):
    """Makes the topics, then looks at the metadata now and then: so the world hears of the coordinators' topics too."""

    def script(self) -> Script:
        for name in self.world.topic_names:
            yield from self._create(name)
        while not self.is_stopping:
            yield from self.metadata()
            known = {topic.name for topic in self.world.catalog.topics.values()}
            yield 2000 if {CONSUMER_OFFSETS, TRANSACTION_STATE} <= known else 100

    def _create(self, name: str) -> Script:
        topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])
        while True:
            (answer,) = yield [Ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)]
            if answer is not None:
                (result,) = answer.topics
                if result.error_code == 0:
                    self.world.catalog.created(name, result.topic_id, result.num_partitions)
                    return
                if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
                    yield from self.metadata()
                    if any(known.name == name for known in self.world.catalog.topics.values()):
                        return
            yield 50
