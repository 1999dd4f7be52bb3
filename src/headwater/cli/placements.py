"""On which brokers the replicas of partitions shall lie. Pure: brokers, racks and what there is in, replicas out.

`spread` places partitions as if they were new, `rebalance` moves as few replicas as it takes. Both put the replicas of
a partition on different racks as long as there are racks left, if every broker has one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from headwater.base.ids import TopicPartition

Racks = Mapping[int, str | None]  # by broker
Replicas = Mapping[TopicPartition, Sequence[int]]


def spread(racks: Racks, partitions: int, replicas: int, *, start: int, shift: int) -> list[list[int]]:
    """The first replicas go round; the others follow at a distance that grows with each round."""
    ring = alternating(racks)
    count = len(ring)
    placed = []
    for partition in range(partitions):
        at = (start + partition) % count
        distance = shift + partition // count
        others = [ring[(at + 1 + (distance + step) % (count - 1)) % count] for step in range(count - 1)]
        chosen = [ring[at]]
        while len(chosen) < replicas:
            chosen.append(min((each for each in others if each not in chosen), key=_clash(chosen, racks)))
        placed.append(chosen)
    return placed


def alternating(racks: Racks) -> list[int]:
    """The brokers so that neighbours are on different racks where that can be."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker] or "", []).append(broker)
    columns = [by_rack[rack] for rack in sorted(by_rack)]
    return [column[row] for row in range(max(map(len, columns))) for column in columns if row < len(column)]


def rebalance(current: Replicas, racks: Racks, replicas: int | None = None) -> dict[TopicPartition, list[int]]:
    """All partitions on these brokers, about as many on each; only those that change. `replicas`: how many of each."""
    placed: dict[TopicPartition, list[int]] = {}
    load = dict.fromkeys(sorted(racks), 0)
    for partition in sorted(current):
        placed[partition] = [broker for broker in current[partition] if broker in racks]
        for broker in placed[partition]:
            load[broker] += 1
    for partition, chosen in placed.items():
        wanted = min(len(racks), replicas or len(current[partition]))
        while len(chosen) > wanted:
            last = max(chosen, key=lambda broker: (load[broker], broker))
            chosen.remove(last)
            load[last] -= 1
        while len(chosen) < wanted:
            _add(chosen, load, racks)
    _even_out(placed, load, racks)
    _even_leaders(placed)
    return {partition: chosen for partition, chosen in placed.items() if chosen != list(current[partition])}


def _add(chosen: list[int], load: dict[int, int], racks: Racks) -> None:
    clash = _clash(chosen, racks)
    best = min((broker for broker in load if broker not in chosen), key=lambda broker: (clash(broker), load[broker]))
    chosen.append(best)
    load[best] += 1


def _even_out(placed: Mapping[TopicPartition, list[int]], load: dict[int, int], racks: Racks) -> None:
    """From the fullest to the emptiest, as long as that is worth a move and breaks no rack."""
    moved = True
    while moved:
        moved = False
        for to in sorted(load, key=lambda broker: load[broker]):
            move = _best_move(placed, load, racks, to)
            if move is not None:
                chosen, source = move
                chosen[chosen.index(source)] = to
                load[source] -= 1
                load[to] += 1
                moved = True
                break


def _best_move(
    placed: Mapping[TopicPartition, list[int]], load: Mapping[int, int], racks: Racks, to: int
) -> tuple[list[int], int] | None:
    for source in sorted(load, key=lambda broker: -load[broker]):
        if load[source] - load[to] < 2:
            return None
        for chosen in placed.values():
            if source in chosen and to not in chosen:
                others = [broker for broker in chosen if broker != source]
                clash = _clash(others, racks)
                if clash(to) <= clash(source):
                    return chosen, source
    return None


def _even_leaders(placed: Mapping[TopicPartition, list[int]]) -> None:
    """The first replica is the preferred leader: another comes first where that evens them out."""
    leads: dict[int, int] = {}
    for chosen in placed.values():
        leads[chosen[0]] = leads.get(chosen[0], 0) + 1
    for chosen in placed.values():
        best = min(chosen, key=lambda broker: leads.get(broker, 0))
        if leads[chosen[0]] - leads.get(best, 0) >= 2:
            leads[chosen[0]] -= 1
            leads[best] = leads.get(best, 0) + 1
            chosen.remove(best)
            chosen.insert(0, best)


def _clash(chosen: Iterable[int], racks: Racks) -> Callable[[int], bool]:
    """Whether a broker's rack has a replica already: as a key to sort by."""
    taken = {racks.get(broker) for broker in chosen} - {None}
    return lambda broker: racks[broker] in taken
