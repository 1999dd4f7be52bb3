"""What an assignor is given and what it returns.

An assignor is a function. The same input gives the same output: members are taken in the order of their ids, topics in
the order of theirs (as two signed halves, like Kafka's Uuid), so that a coordinator that moved to another broker does
not shuffle anyone.
"""

from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

Partition: TypeAlias = tuple[bytes, int]
"""Topic id and index."""

Partitions: TypeAlias = frozenset[Partition]

Assignment: TypeAlias = dict[str, Partitions]
"""Member id -> partitions. Has all members."""

NO_PARTITIONS: Final[Partitions] = frozenset()

_HALVES: Final = Struct(">qq")


class MemberSpec(NamedTuple):
    instance_id: str | None
    topics: frozenset[bytes]  # ids of the topics that it is subscribed to, and that exist
    assigned: Partitions  # its target until now


class GroupSpec(NamedTuple):
    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]  # of all topics that any member is subscribed to

    @property
    def homogeneous(self) -> bool:
        """Whether all members are subscribed to the same topics."""
        return len({member.topics for member in self.members.values()}) <= 1


Assignor: TypeAlias = Callable[[GroupSpec], Assignment]


def topic_order(topic_id: bytes) -> tuple[int, int]:
    high, low = _HALVES.unpack(topic_id)
    return high, low


def in_topic_order(topics: Iterable[bytes]) -> list[bytes]:
    return sorted(topics, key=topic_order)


def in_partition_order(partitions: Iterable[Partition]) -> list[Partition]:
    return sorted(partitions, key=lambda partition: (topic_order(partition[0]), partition[1]))
