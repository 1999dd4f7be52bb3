"""Where the replicas of new partitions stand. Pure: chance comes in through the port.

Leaders go round the brokers, from a start that chance chooses; partitions that are added to a topic go on where it
ends, as far as the replicas of its first partition tell. The other replicas follow the leader at a distance that grows
with every round, so that the followers of one broker are spread over all others. If every broker names a rack, the
brokers of the racks take turns, and the replicas of a partition are spread over the racks as evenly as can be.

Brokers whose disks have very unequal room (one twice as much as another, and all are known) get replicas in proportion
to it instead. Brokers that are stopping get none.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId
from headwater.base.ports import Random
from headwater.metadata.image import BrokerState

Racks = Mapping[BrokerId, str]

_UNEQUAL: Final = 2  # times as much room
_CHANCE: Final = 1 << 16


def place(
    brokers: Mapping[BrokerId, BrokerState],
    partition_count: int,
    replication_factor: int,
    first: int,
    random: Random,
    like: Sequence[int] = (),
) -> list[list[int]]:
    """Replicas by partition, for partitions `first` and following. Raises INVALID_REPLICATION_FACTOR.

    `like`: the replicas of partition 0, if there is one already.
    """
    usable = sorted(broker_id for broker_id, broker in brokers.items() if not broker.is_stopping)
    if replication_factor > len(usable):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {len(usable)} broker(s) are registered.",
        )
    if len(usable) == 1:
        return [[int(usable[0])] for _ in range(partition_count)]
    racks = racks_of([brokers[broker_id] for broker_id in usable])
    room = {broker_id: brokers[broker_id].free_bytes for broker_id in usable}
    if is_very_unequal(room.values()):
        return _by_room(room, racks, partition_count, replication_factor, random)
    order = ring(usable, racks)
    start, shift = _begins(order, like, random)
    return _round_robin(order, racks, partition_count, replication_factor, first, start, shift)


def check_replicas(replicas: Sequence[int], brokers: Collection[int] | Mapping[BrokerId, object]) -> None:
    """Replicas that somebody named by hand; raises INVALID_REPLICA_ASSIGNMENT."""
    if not replicas:
        raise _refused("The manual partition assignment includes an empty replica list.")
    for replica in sorted(replicas):
        if replica not in brokers:
            raise _refused(
                f"The manual partition assignment includes broker {replica}, but no such broker is registered."
            )
        if replicas.count(replica) > 1:
            raise _refused(f"The manual partition assignment includes the broker {replica} more than once.")


def racks_of(brokers: Sequence[BrokerState]) -> Racks:
    """The rack of each broker; nothing unless every one of them names its own."""
    racks = {broker.broker_id: broker.rack for broker in brokers if broker.rack is not None}
    return racks if len(racks) == len(brokers) else {}


def ring(usable: Sequence[BrokerId], racks: Racks) -> list[BrokerId]:
    """The brokers in the order of their turns: one of each rack, then the next of each."""
    if not racks:
        return list(usable)
    turns: list[tuple[int, str, BrokerId]] = []
    seen: Counter[str] = Counter()
    for broker_id in usable:
        rack = racks[broker_id]
        turns.append((seen[rack], rack, broker_id))
        seen[rack] += 1
    return [broker_id for _, _, broker_id in sorted(turns)]


def is_very_unequal(free_bytes: Collection[int]) -> bool:
    return min(free_bytes) >= 0 and max(free_bytes) > _UNEQUAL * min(free_bytes)


def _begins(order: Sequence[BrokerId], like: Sequence[int], random: Random) -> tuple[int, int]:
    """At which broker partition 0 has its leader, and how far from it the next replica."""
    size = len(order)
    turns = {int(broker_id): turn for turn, broker_id in enumerate(order)}
    start, second = (turns.get(replica) for replica in [*like, -1, -1][:2])
    if start is None:
        return random.below(size), random.below(size - 1)
    return start, random.below(size - 1) if second is None else (second - start - 1) % size


def _round_robin(
    order: Sequence[BrokerId], racks: Racks, partition_count: int, factor: int, first: int, start: int, shift: int
) -> list[list[int]]:
    size = len(order)
    twice = [*order, *order]
    placed = []
    for index in range(first, first + partition_count):
        turn = (start + index) % size
        distance = (shift + index // size) % (size - 1)
        others = twice[turn + 1 : turn + size]
        placed.append(_spread([order[turn], *others[distance:], *others[:distance]], racks, factor))
    return placed


def _by_room(
    room: Mapping[BrokerId, int], racks: Racks, partition_count: int, factor: int, random: Random
) -> list[list[int]]:
    """Every partition gives each broker credit in proportion to its room; who has most credit takes a replica and
    pays.
    """
    total = sum(room.values())
    share = {broker_id: free / total for broker_id, free in room.items()}
    credit = {broker_id: random.below(_CHANCE) / _CHANCE for broker_id in room}
    leading = {broker_id: random.below(_CHANCE) / _CHANCE for broker_id in room}
    placed = []
    for _ in range(partition_count):
        for broker_id, part in share.items():
            credit[broker_id] += min(1.0, part * factor)
            leading[broker_id] += part
        chosen = _spread(sorted(credit, key=lambda each: -credit[each]), racks, factor)
        chosen.sort(key=lambda each: -leading[BrokerId(each)])
        leading[BrokerId(chosen[0])] -= 1
        for replica in chosen:
            credit[BrokerId(replica)] -= 1
        placed.append(chosen)
    return placed


def _spread(candidates: Sequence[BrokerId], racks: Racks, factor: int) -> list[int]:
    """`factor` of the candidates in their order; with racks, first one of each, then a second of each, and so on."""
    if not racks:
        return [int(candidate) for candidate in candidates[:factor]]
    chosen: list[BrokerId] = []
    used: Counter[str] = Counter()
    for round_ in range(factor):
        for candidate in candidates:
            if used[racks[candidate]] == round_ and candidate not in chosen:
                used[racks[candidate]] += 1
                chosen.append(candidate)
                if len(chosen) == factor:
                    return [int(each) for each in chosen]
    raise AssertionError("there are fewer candidates than replicas")


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
