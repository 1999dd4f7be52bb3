"""Leaderships that ought to go back to preferred replicas. Pure.

A broker prefers to lead the partitions of which it is the first replica. When it leads too few of them, beyond a
percentage, they go back to it, but only where a clean election could make it the leader. Partitions on the move are
left alone: their first replica is only on its way.
"""

from collections import defaultdict

from headwater.base.ids import BrokerId, PartitionKey
from headwater.controller.elections import Brokers, may_lead
from headwater.controller.reassignment import is_moving
from headwater.metadata.image import ClusterImage


def imbalanced(image: ClusterImage, brokers: Brokers, percentage: int) -> list[PartitionKey]:
    """The partitions of brokers that lead fewer than they should by more than `percentage`."""
    preferring: defaultdict[BrokerId, int] = defaultdict(int)
    elsewhere: defaultdict[BrokerId, list[PartitionKey]] = defaultdict(list)
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            first = state.replicas[0]
            preferring[first] += 1
            if state.leader != first:
                elsewhere[first].append(PartitionKey(topic.topic_id, index))
    return [
        key
        for broker_id, keys in elsewhere.items()
        if broker_id in brokers and len(keys) * 100 > percentage * preferring[broker_id]
        for key in keys
        if _may_go_back(image, key, broker_id, brokers)
    ]


def _may_go_back(image: ClusterImage, key: PartitionKey, broker_id: BrokerId, brokers: Brokers) -> bool:
    state = image.topics[key.topic_id].partitions[key.partition]
    return state.version >= 0 and not is_moving(state) and may_lead(broker_id, state, brokers)
