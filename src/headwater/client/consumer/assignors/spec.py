"""What an assignor of a classic group is: the protocol that built-in and custom ones fulfil.

The coordinator of a classic group does not know topics. One member, the leader, gets what all members said when they
joined, decides with the assignor that all of them know, and hands the decision in. The leader may be a consumer of any
library, so an assignor of a given name must understand the bytes that others' assignors of that name write.

A custom assignor is any object with these four members; give it in `partition.assignment.strategy`, alone or in a list
with names of built-in ones. All consumers of the group must know it. It must be pure: no state, no clock, no chance.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.base.ids import TopicPartition

NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """What one member said when it joined."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...] = ()  # what it keeps while it joins: nothing, in eager rebalances
    generation: int = NO_GENERATION  # in which it came to own them; -1: it did not say
    rack_id: str | None = None
    user_data: bytes | None = None  # of this assignor
    group_instance_id: str | None = None


class Assignor(Protocol):
    """Decides which member gets which partition."""

    @property
    def name(self) -> str:
        """The protocol that members agree on. The same name means the same bytes."""

    @property
    def cooperative(self) -> bool:
        """Members keep what they own while they rebalance.

        Then `assign` may not give a partition to one member while another one says that it owns it: that comes in the
        next rebalance, which follows at once.
        """

    def user_data(
        self, topics: Sequence[str], previous: Sequence[TopicPartition], previous_generation: int
    ) -> bytes | None:
        """What this member tells the leader's assignor. `previous` is what it was last assigned, in which
        generation.
        """

    def assign(
        self, partition_counts: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, Sequence[TopicPartition]]:
        """The partitions of each member, by member id. Topics that do not exist are not in `partition_counts`."""


def in_order(members: Mapping[str, MemberSubscription]) -> list[str]:
    """Member ids in an order that survives restarts of static members: those first, by their instance ids."""

    def key(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].group_instance_id
        return (instance_id is None, member_id if instance_id is None else instance_id)

    return sorted(members, key=key)


def partitions_of(topics: Iterable[str], partition_counts: Mapping[str, int]) -> list[TopicPartition]:
    """All partitions of those of the topics that exist, by name and number."""
    return [TopicPartition(topic, index) for topic in sorted(topics) for index in range(partition_counts.get(topic, 0))]


def subscribers(members: Mapping[str, MemberSubscription]) -> dict[str, list[str]]:
    """Who subscribes to each topic, in the order of `in_order`."""
    found: dict[str, list[str]] = {}
    for member_id in in_order(members):
        for topic in set(members[member_id].topics):
            found.setdefault(topic, []).append(member_id)
    return found
