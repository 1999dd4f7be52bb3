"""Which partitions want a decision, because brokers went, came back, are stopping, or because a move is under way.
Pure.

Almost all partitions are well at almost every look, and a cluster may have ten thousand of them. So a look asks one
thing per in-sync replica, and only what is not well is decided by `elections` and `reassignment`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from headwater.base.ids import BrokerId, PartitionKey
from headwater.controller.elections import Brokers, Outcome, decide
from headwater.controller.reassignment import completed
from headwater.metadata.image import ClusterImage, PartitionState


class Look(NamedTuple):
    """What a look at the whole image found. Those without a leader come first: somebody waits for them."""

    unwell: list[PartitionKey]
    offline: set[PartitionKey]


def well_epochs(brokers: Brokers) -> dict[BrokerId, int]:
    """The epochs of the brokers that are live and mean to stay."""
    return {broker_id: broker.epoch for broker_id, broker in brokers.items() if not broker.is_stopping}


def is_well(state: PartitionState, epochs: Mapping[BrokerId, int]) -> bool:
    """Whether nothing can be due: every in-sync replica counts under its very epoch, one of them leads, nothing
    moves.
    """
    in_sync = state.in_sync_replicas
    if state.leader not in in_sync or state.adding or state.removing or len(in_sync) != len(state.in_sync_epochs):
        return False
    for replica, epoch in zip(in_sync, state.in_sync_epochs, strict=True):  # noqa: SIM110 - `all` costs twice as much
        if epochs.get(replica) != epoch:
            return False
    return True


def look_at_all(image: ClusterImage, brokers: Brokers) -> Look:
    epochs = well_epochs(brokers)
    offline: list[PartitionKey] = []
    others: list[PartitionKey] = []
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            if is_well(state, epochs):
                continue
            key = PartitionKey(topic.topic_id, index)
            (others if state.leader in brokers else offline).append(key)
    return Look(offline + others, set(offline))


def state_of(image: ClusterImage, key: PartitionKey) -> PartitionState | None:
    """None if there is no such partition, or none yet that a store has written."""
    topic = image.topics.get(key.topic_id)
    if topic is None or key.partition >= len(topic.partitions):
        return None
    state = topic.partitions[key.partition]
    return state if state.version >= 0 else None


def repaired(state: PartitionState, brokers: Brokers, *, unclean: bool, preferred: bool = False) -> Outcome:
    """The state that is due, moves that can end included."""
    outcome = decide(state, brokers, unclean=unclean, preferred=preferred)
    if not outcome.state.adding and not outcome.state.removing:
        return outcome
    return Outcome(completed(outcome.state, brokers), outcome.is_unclean)
