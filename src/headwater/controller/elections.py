"""Who leads a partition and who is in sync, decided from its state and the live brokers alone. Pure.

An in-sync replica counts while its broker is live in the life in which it was taken in: its epoch is the one in
`in_sync_epochs`, or that life ended cleanly and the broker came back (`previous_epoch`). From the in-sync replicas
stay, of the first of these groups that is not empty:

1. those that count and are not stopping;
2. those that count and are stopping: there is nobody to relieve them;
3. those that are dead. Nobody leads; what was acknowledged is on them, and one that came back after a crash may have
   lost it;
4. one of those that came back after a crash: all did, so there is nothing better to wait for;
5. those that came back without their data (`data_since`): an empty replica that leads would erase what the others have.
   Nobody leads, until one of them has its old data again.

So the last member always stays, and the leader is always one of them. Only an unclean election takes somebody else: the
new leader is then the only in-sync replica.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from headwater.base.ids import NO_BROKER, BrokerId, LeaderEpoch, TopicId
from headwater.metadata.image import BrokerState, PartitionChanged, PartitionState

Brokers = Mapping[BrokerId, BrokerState]

_UNKNOWN_EPOCH = -1


class Outcome(NamedTuple):
    """The state that is due, and whether its leader was taken from outside the in-sync replicas."""

    state: PartitionState
    is_unclean: bool = False


class InSync(NamedTuple):
    replicas: list[BrokerId]
    is_live: bool  # any of them may lead


def decide(state: PartitionState, brokers: Brokers, *, unclean: bool = False, preferred: bool = False) -> Outcome:
    """What the partition's state ought to be; equal to `state` if nothing is due.

    The leader stays if it may. With `preferred` the first replica takes over if it may, with `unclean` a live replica
    that is not in sync if nobody else may.
    """
    epochs = in_sync_epochs(state)
    in_sync = remaining_in_sync(state, epochs, brokers)
    if in_sync.is_live:
        leader = _choose(state, in_sync.replicas, preferred=preferred)
        return Outcome(_with(state, leader, in_sync.replicas, epochs, brokers))
    if unclean:
        leader = _unclean_leader(state, brokers)
        if leader != NO_BROKER:
            return Outcome(_with(state, leader, [leader], {}, brokers), is_unclean=True)
    return Outcome(_with(state, NO_BROKER, in_sync.replicas, epochs, brokers))


def in_sync_epochs(state: PartitionState) -> dict[BrokerId, int]:
    """The epoch under which each in-sync replica is one. Those that nobody wrote down match no life of a broker."""
    missing = len(state.in_sync_replicas) - len(state.in_sync_epochs)
    return dict(zip(state.in_sync_replicas, [*state.in_sync_epochs, *[_UNKNOWN_EPOCH] * missing], strict=False))


def remaining_in_sync(state: PartitionState, epochs: Mapping[BrokerId, int], brokers: Brokers) -> InSync:
    """Which in-sync replicas stay so; who is no replica any more does not."""
    good: list[BrokerId] = []
    stopping: list[BrokerId] = []
    dead: list[BrokerId] = []
    crashed: list[BrokerId] = []
    empty: list[BrokerId] = []
    for replica, epoch in epochs.items():
        if replica not in state.replicas:
            continue
        broker = brokers.get(replica)
        if broker is None:
            dead.append(replica)
        elif is_empty(broker, epoch):
            empty.append(replica)
        elif not counts(broker, epoch):
            crashed.append(replica)
        elif broker.is_stopping:
            stopping.append(replica)
        else:
            good.append(replica)
    if good or stopping:
        return InSync(good or stopping, True)
    if dead or not crashed:
        return InSync(dead or empty, False)
    return InSync([_choose(state, _not_stopping_first(crashed, brokers))], True)


def counts(broker: BrokerState, epoch: int) -> bool:
    """Whether the broker still has what it had when it was taken in under `epoch`."""
    return epoch != _UNKNOWN_EPOCH and epoch in (broker.epoch, broker.previous_epoch)


def is_empty(broker: BrokerState, epoch: int) -> bool:
    """Whether what the broker had when it was taken in under `epoch` is gone. Of an epoch that nobody wrote down,
    nobody knows.
    """
    return epoch != _UNKNOWN_EPOCH and epoch < broker.data_since


def came_back_empty(state: PartitionState, brokers: Brokers) -> list[BrokerId]:
    """Those whose old data the partition waits for, although they live."""
    in_sync = remaining_in_sync(state, in_sync_epochs(state), brokers)
    return [] if in_sync.is_live else [replica for replica in in_sync.replicas if replica in brokers]


def may_lead(replica: BrokerId, state: PartitionState, brokers: Brokers) -> bool:
    """Whether a clean election could make `replica` the leader."""
    in_sync = remaining_in_sync(state, in_sync_epochs(state), brokers)
    return in_sync.is_live and replica in in_sync.replicas


def change_to(
    topic_id: TopicId, partition: int, before: PartitionState, after: PartitionState
) -> PartitionChanged | None:
    """What the store is to commit over the version of `before`; None if they are equal."""
    if after == before:
        return None
    return PartitionChanged(
        topic_id,
        partition,
        after.leader,
        after.leader_epoch,
        tuple(after.replicas),
        tuple(after.in_sync_replicas),
        tuple(after.in_sync_epochs),
        tuple(after.adding),
        tuple(after.removing),
        before.version,
    )


def _choose(state: PartitionState, candidates: Sequence[BrokerId], *, preferred: bool = False) -> BrokerId:
    """The leader if it is a candidate, else the first in the order of the replicas."""
    if state.leader in candidates and not (preferred and state.replicas[0] in candidates):
        return state.leader
    return next(replica for replica in state.replicas if replica in candidates)


def _not_stopping_first(replicas: list[BrokerId], brokers: Brokers) -> list[BrokerId]:
    return [replica for replica in replicas if not brokers[replica].is_stopping] or replicas


def _unclean_leader(state: PartitionState, brokers: Brokers) -> BrokerId:
    """A live replica: one that was in sync until it crashed has most, if there is one, and one that came back empty has
    least.
    """
    live = [replica for replica in state.replicas if replica in brokers]
    if not live:
        return NO_BROKER
    usable = _not_stopping_first(live, brokers)
    epochs = in_sync_epochs(state)
    usable = [r for r in usable if r not in epochs or not is_empty(brokers[r], epochs[r])] or usable
    return next((replica for replica in usable if replica in state.in_sync_replicas), usable[0])


def _with(
    state: PartitionState,
    leader: BrokerId,
    in_sync: Collection[BrokerId],
    epochs: Mapping[BrokerId, int],
    brokers: Brokers,
) -> PartitionState:
    """The leader epoch grows with the leader, and when the same broker leads in another life.

    Without a leader the epochs stay as they are: they tell which data the partition waits for.
    """
    ordered = list(in_sync)
    now = [epochs.get(r, _UNKNOWN_EPOCH) if leader == NO_BROKER else brokers[r].epoch for r in ordered]
    is_same = leader == state.leader and (leader == NO_BROKER or epochs.get(leader) == brokers[leader].epoch)
    return PartitionState(
        leader,
        state.leader_epoch if is_same else LeaderEpoch(state.leader_epoch + 1),
        state.replicas,
        ordered,
        now,
        state.adding,
        state.removing,
        state.version,
    )
