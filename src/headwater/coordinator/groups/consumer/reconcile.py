"""One step of a member towards the target. Pure: (member, target, what it says it owns) -> member.

A member first gives up what the target takes from it, and says so by what it reports as owned. Only then does its epoch
become that of the target, and it gets what is new, as far as no other member still has it. What others still have it
gets in a later step. So a partition is never with two members, and a member waits for nobody but those who have its
partitions.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from headwater.coordinator.groups.assignors.spec import Partition, Partitions
from headwater.coordinator.groups.consumer.member import NO_EPOCHS, Member, MemberState, PartitionEpochs


@dataclass(frozen=True, slots=True)
class Target:
    epoch: int
    partitions: Partitions
    subscribed: frozenset[bytes]  # a target may be older than the subscription: what is no longer in it is not given
    is_owned: Callable[[Partition], bool]  # by any member of the group


def reconcile(
    member: Member, target: Target, owned: Collection[Partition] | None, *, subscription_changed: bool
) -> Member:
    """`owned` is None when the member did not say: then it still has everything."""
    if member.state is MemberState.UNKNOWN:
        assert owned is not None, "it should have been fenced"
        assert not owned
        return _next_assignment(replace(member, member_epoch=target.epoch), target, owned, member.member_epoch)
    if member.state is MemberState.UNREVOKED_PARTITIONS and _still_owns(owned, member.pending_revocation):
        return _drop_unsubscribed(member, target, owned) if subscription_changed else member
    if member.state is MemberState.STABLE and member.member_epoch == target.epoch:
        return _drop_unsubscribed(member, target, owned) if subscription_changed else member
    return _next_assignment(member, target, owned, member.member_epoch)


def _still_owns(owned: Collection[Partition] | None, partitions: PartitionEpochs) -> bool:
    return owned is None or any(partition in partitions for partition in owned)


def _drop_unsubscribed(member: Member, target: Target, owned: Collection[Partition] | None) -> Member:
    """The target is not new, but the member does not want some of its topics any more: they are revoked at once."""
    dropped = {each: epoch for each, epoch in member.assigned.items() if each[0] not in target.subscribed}
    if not dropped:
        return member
    kept = {each: epoch for each, epoch in member.assigned.items() if each not in dropped}
    pending = {**member.pending_revocation, **dropped}
    if _still_owns(owned, pending):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_member_epoch=member.member_epoch,
            assigned=kept,
            pending_revocation=pending,
        )
    return replace(member, previous_member_epoch=member.member_epoch, assigned=kept)


def _next_assignment(
    member: Member, target: Target, owned: Collection[Partition] | None, previous_epoch: int
) -> Member:
    wanted = {partition for partition in target.partitions if partition[0] in target.subscribed}
    kept = {each: epoch for each, epoch in member.assigned.items() if each in wanted}
    revoked = {each: epoch for each, epoch in member.assigned.items() if each not in wanted}
    if revoked and _still_owns(owned, revoked):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_member_epoch=previous_epoch,
            assigned=kept,
            pending_revocation=revoked,
        )
    missing = wanted - kept.keys()
    # What it was to give up itself and has given up is free for it again.
    free = {each for each in missing if each in member.pending_revocation or not target.is_owned(each)}
    return replace(
        member,
        state=MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS,
        member_epoch=target.epoch,
        previous_member_epoch=previous_epoch,
        assigned={**kept, **dict.fromkeys(free, target.epoch)},
        pending_revocation=NO_EPOCHS,
    )
