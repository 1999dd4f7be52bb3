"""Plans of the controller, made from the image as it is: what is due by itself, and what clients ask for.

A plan is a list of partition states to be written over the versions that the image has. Nothing is kept between plans.
"""

from collections import OrderedDict
from enum import IntEnum
from typing import Final, NamedTuple

from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import NO_BROKER, PartitionKey, TopicPartition
from headwater.controller.elections import Outcome, change_to
from headwater.controller.failure_detector import FailureDetector
from headwater.controller.failures import is_well, repaired, state_of, well_epochs
from headwater.controller.placement import check_replicas
from headwater.controller.reassignment import Move, cancelled, check_factor, started
from headwater.metadata.image import ClusterImage, PartitionChanged, PartitionState, TopicState

UNCLEAN_CONFIG: Final = "unclean.leader.election.enable"


class Election(IntEnum):
    """The numbers are those of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


class Planned(NamedTuple):
    change: PartitionChanged
    is_unclean: bool

    @property
    def key(self) -> PartitionKey:
        return PartitionKey(self.change.topic_id, self.change.partition)


class Planner:
    """`failure_detector` knows the brokers, and which of them are suspects."""

    def __init__(self, image: ClusterImage, config: BrokerConfig, failure_detector: FailureDetector) -> None:
        self._image = image
        self._config = config
        self._failure_detector = failure_detector

    def repairs(self, keys: "OrderedDict[PartitionKey, None]", limit: int) -> list[Planned]:
        """What is due for the first of `keys`, which are taken out, until `limit` changes are found."""
        brokers = self._failure_detector.brokers
        epochs = well_epochs(brokers)
        planned: list[Planned] = []
        while keys and len(planned) < limit:
            key, _ = keys.popitem(last=False)
            state = state_of(self._image, key)
            if state is None or is_well(state, epochs):
                continue
            topic = self._image.topics[key.topic_id]
            outcome = repaired(state, brokers, unclean=self.allows_unclean(topic))
            found = _planned(topic, key.partition, state, outcome)
            if found is not None:
                planned.append(found)
        return planned

    def elect(self, partition: TopicPartition, kind: Election) -> Planned | None:
        """As a client asks. An unclean election that it names is one whatever the topic's config says."""
        topic, state = self._find(partition, f"No such topic as {partition.topic}", f"No such partition as {partition}")
        if state.leader == state.replicas[0] or (kind is Election.UNCLEAN and state.leader != NO_BROKER):
            raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
        unclean = kind is Election.UNCLEAN or self.allows_unclean(topic)
        outcome = repaired(state, self._failure_detector.brokers, unclean=unclean, preferred=kind is Election.PREFERRED)
        if kind is Election.PREFERRED and outcome.state.leader != outcome.state.replicas[0]:
            raise KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
        if outcome.state.leader == NO_BROKER:
            raise KafkaError(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."
            )
        return _planned(topic, partition.partition, state, outcome)

    def move(self, move: Move, *, may_change_factor: bool) -> Planned | None:
        name = f"{move.topic}:{move.partition}"
        topic, state = self._find(
            TopicPartition(move.topic, move.partition),
            f"Unable to find a topic named {move.topic}.",
            f"Unable to find partition {name}.",
        )
        if move.replicas is None:
            wanted = cancelled(state, name)
        else:
            check_replicas(move.replicas, self._image.brokers)
            if not may_change_factor:
                check_factor(state, move.replicas)
            wanted = started(state, move.replicas, name)
        outcome = repaired(wanted, self._failure_detector.brokers, unclean=self.allows_unclean(topic))
        return _planned(topic, move.partition, state, outcome)

    def allows_unclean(self, topic: TopicState) -> bool:
        """The topic's own config over that of the brokers."""
        override = topic.config.get(UNCLEAN_CONFIG)
        return self._config.bool(UNCLEAN_CONFIG) if override is None else override.strip().lower() == "true"

    def _find(self, partition: TopicPartition, no_topic: str, no_partition: str) -> tuple[TopicState, PartitionState]:
        topic_id = self._image.ids_by_name.get(partition.topic)
        if topic_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, no_topic)
        state = state_of(self._image, PartitionKey(topic_id, partition.partition)) if partition.partition >= 0 else None
        if state is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, no_partition)
        return self._image.topics[topic_id], state


def _planned(topic: TopicState, index: int, state: PartitionState, outcome: Outcome) -> Planned | None:
    change = change_to(topic.topic_id, index, state, outcome.state)
    return None if change is None else Planned(change, outcome.is_unclean)
