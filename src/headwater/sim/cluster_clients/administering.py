"""An administrator of a cluster: makes the topics, then moves partitions to other brokers, has preferred leaders
elected, adds partitions, and makes and deletes topics, now and then.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode
from headwater.sim.catalog import Topic
from headwater.sim.clients.client import Ask, Script, Steps
from headwater.sim.cluster_clients.routed import RoutedClient
from headwater.sim.trace import Violation
from headwater.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headwater.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headwater.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headwater.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headwater.wire.messages.elect_leaders import ElectLeadersRequest
from headwater.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

if TYPE_CHECKING:
    from headwater.sim.cluster import ClusterWorld

_TIMEOUT_MS: Final = 2000
_PASSING: Final = "plain-passing"  # topics that are made and deleted again
_PARTITIONS_MAX: Final = 3
_CONFIGS: Final = (
    ("segment.ms", ("150", "700", "60000")),
    ("min.insync.replicas", ("1", "2")),
    ("index.interval.bytes", ("100", "4096")),
    ("compression.type", ("producer", "gzip", "uncompressed")),
)
_MAY_PASS: Final = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.INVALID_REPLICATION_FACTOR,  # too few brokers are there at the moment
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT,  # to a broker that is away
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_PARTITIONS,  # an earlier attempt has made them
    ErrorCode.REASSIGNMENT_IN_PROGRESS,
)


class ClusterAdmin(RoutedClient):
    def __init__(self, world: "ClusterWorld", name: str) -> None:
        super().__init__(world, name)
        self.moves = world.faults.interval_ms > 0
        self._made = 0

    def script(self) -> Script:
        yield from self.make_topics()
        while not self.is_stopping:
            yield self.random.randint(100, 1500)
            if self.moves:
                yield from self.change()

    def make_topics(self) -> Steps:
        for name, replication_factor, configs in self.world.topics_to_make():
            yield from self._create(name, replication_factor, configs)

    def change(self) -> Steps:
        """Something, now and then."""
        todo = self.random.choices(
            (self._reassign, self._elect, self._add_partition, self._create_for_a_while, self._delete, self._configure),
            (4, 2, 1, 2, 2, 2),
        )[0]
        yield from todo()

    def _create(
        self, name: str, replication_factor: int, configs: dict[str, str], attempts: int | None = None
    ) -> Steps:
        topic = CreatableTopic(
            name=name,
            num_partitions=2,
            replication_factor=replication_factor,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        while attempts != 0 and not any(known.name == name for known in self.world.catalog.topics.values()):
            attempts = None if attempts is None else attempts - 1
            (answer,) = yield [Ask(CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS), 7)]
            if answer is not None:
                (result,) = answer.topics
                if result.error_code == 0:
                    self.world.catalog.created(name, result.topic_id, result.num_partitions)
                    return
                self._excuse(result.error_code)
            yield from self.metadata()
            yield 50

    def _create_for_a_while(self) -> Steps:
        if not any(topic.name.startswith(_PASSING) for topic in self.world.catalog.usable()):
            self._made += 1
            yield from self._create(f"{_PASSING}-{self._made}", 2, {}, attempts=3)

    def _delete(self) -> Steps:
        for topic in self.world.catalog.usable():
            if topic.name.startswith(_PASSING):
                topic.delete_asked = True
                yield from self._surely_delete(topic)
                return

    def _surely_delete(self, topic: Topic) -> Steps:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=None, topic_id=topic.topic_id)], timeout_ms=_TIMEOUT_MS
        )
        gone = (0, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        while True:
            (answer,) = yield [Ask(request, 6)]
            if answer is not None:
                if answer.responses[0].error_code in gone:
                    topic.delete_done = answer.responses[0].error_code == 0
                    return
                self._excuse(answer.responses[0].error_code)
            yield 100

    def _add_partition(self) -> Steps:
        topic = self._topic()
        if topic is None or len(topic.partitions) >= _PARTITIONS_MAX:
            return
        asked = CreatePartitionsTopic(name=topic.name, count=len(topic.partitions) + 1, assignments=None)
        (answer,) = yield [Ask(CreatePartitionsRequest(topics=[asked], timeout_ms=_TIMEOUT_MS), 3)]
        if answer is not None:
            self._excuse(answer.results[0].error_code)
            if answer.results[0].error_code == 0:
                topic.has_partitions(asked.count)

    def _topic(self) -> Topic | None:
        known = [topic for topic in self.world.catalog.usable() if not topic.name.startswith("__")]
        return self.random.choice(known) if known else None

    def _reassign(self) -> Steps:
        topic = self._topic()
        if topic is None:
            return
        count = self.world.replication_factor(topic.name)
        replicas = self.random.sample(self.world.node_ids, count) if self.random.random() < 0.8 else None
        part = ReassignablePartition(partition_index=self.random.randrange(len(topic.partitions)), replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=_TIMEOUT_MS, topics=[ReassignableTopic(name=topic.name, partitions=[part])]
        )
        self.world.note(f"{self.name} moves {topic.name}-{part.partition_index} to {replicas}")
        (answer,) = yield [Ask(request, 0)]
        if answer is not None:
            self._excuse(answer.error_code or (answer.responses[0].partitions[0].error_code if answer.responses else 0))

    def _configure(self) -> Steps:
        """Nothing that a promise hangs on: how long segments are, and how many replicas a write waits for at the
        least.
        """
        topic = self._topic()
        if topic is None or not topic.may_be_named:
            return
        name, values = self.random.choice(_CONFIGS)
        change = AlterableConfig(name=name, config_operation=0, value=self.random.choice(values))
        resource = AlterConfigsResource(resource_type=2, resource_name=topic.name, configs=[change])
        (answer,) = yield [Ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)]
        if answer is not None:
            self._excuse(answer.responses[0].error_code)

    def _elect(self) -> Steps:
        request = ElectLeadersRequest(topic_partitions=None, timeout_ms=_TIMEOUT_MS)
        (answer,) = yield [Ask(request, 2)]
        if answer is not None:
            self._excuse(answer.error_code)

    def _excuse(self, code: int) -> None:
        if code and code not in _MAY_PASS:
            raise Violation(f"{self.name} got {ErrorCode(code).name}")
