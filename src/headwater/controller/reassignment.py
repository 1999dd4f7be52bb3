"""Moving a partition to other replicas. Pure.

While a partition moves, its `replicas` are the target followed by those that are to go (`removing`), and `adding` names
those of the target that were none before. So target and origin can both be read from the state: nothing else is kept.
The move ends when all that are added are in sync; until then it can be turned round, or turned to another target.
"""

from collections.abc import Sequence
from typing import NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId, LeaderEpoch
from headwater.controller.elections import Brokers
from headwater.metadata.image import ClusterImage, PartitionState


class Move(NamedTuple):
    """What a client asks for one partition; None for the replicas turns the move under way round."""

    topic: str
    partition: int
    replicas: Sequence[int] | None


class Moving(NamedTuple):
    """A partition on the move."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]


def is_moving(state: PartitionState) -> bool:
    return bool(state.adding or state.removing)


def target_of(state: PartitionState) -> list[BrokerId]:
    """The replicas after the move under way; those that are there if none is."""
    return [replica for replica in state.replicas if replica not in state.removing]


def origin_of(state: PartitionState) -> list[BrokerId]:
    """The replicas before the move under way. Their order was that of the target where both have them."""
    return [replica for replica in state.replicas if replica not in state.adding]


def check_factor(state: PartitionState, replicas: Sequence[int]) -> None:
    factor = len(target_of(state))
    if len(replicas) != factor:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {factor} to {len(replicas)}",
        )


def started(state: PartitionState, replicas: Sequence[int], name: str) -> PartitionState:
    """On the move to `replicas`. Those that an earlier move was adding and that are not wanted any more go at once."""
    target = [BrokerId(replica) for replica in replicas]
    origin = origin_of(state)
    removing = [replica for replica in origin if replica not in target]
    adding = [replica for replica in target if replica not in origin]
    return _with_replicas(state, target + removing, adding, removing, name)


def cancelled(state: PartitionState, name: str) -> PartitionState:
    """Back to the replicas from before the move."""
    if not is_moving(state):
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    return _with_replicas(state, origin_of(state), [], [], name)


def completed(state: PartitionState, brokers: Brokers) -> PartitionState:
    """`state` after its move, if that can end: all that are added are in sync, and one of the target can lead."""
    in_sync = [replica for replica in state.in_sync_replicas if replica not in state.removing]
    if state.leader not in brokers or not in_sync or any(replica not in in_sync for replica in state.adding):
        return state
    epochs = dict(zip(state.in_sync_replicas, state.in_sync_epochs, strict=True))
    target = target_of(state)
    leader = state.leader
    if leader not in in_sync:
        leader = next(replica for replica in target if replica in in_sync)
    return PartitionState(
        leader,
        state.leader_epoch if leader == state.leader else LeaderEpoch(state.leader_epoch + 1),
        target,
        in_sync,
        [epochs[replica] for replica in in_sync],
        version=state.version,
    )


def moving(image: ClusterImage) -> list[Moving]:
    """Every partition on the move."""
    return [
        Moving(topic.name, index, [*map(int, state.replicas)], [*map(int, state.adding)], [*map(int, state.removing)])
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
        if state.adding or state.removing
    ]


def _with_replicas(
    state: PartitionState, replicas: list[BrokerId], adding: list[BrokerId], removing: list[BrokerId], name: str
) -> PartitionState:
    """Who is no replica any more is dropped from the in-sync ones by the election that follows; somebody must be
    left.
    """
    if not any(replica in replicas for replica in state.in_sync_replicas):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {name} because it would require an unclean leader election.",
        )
    return PartitionState(
        state.leader,
        state.leader_epoch,
        replicas,
        state.in_sync_replicas,
        state.in_sync_epochs,
        adding,
        removing,
        state.version,
    )
