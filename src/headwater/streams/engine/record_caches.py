"""The record caches of a task, together: in which order they are flushed, and until when."""

from collections.abc import Iterable, Sequence

from headwater.streams.stores.cache import MOST_FLUSHES, StoreCache, endless
from headwater.streams.topology.topology import ProcessorNode


def in_order_of_nodes(caches: Iterable[StoreCache], nodes: Iterable[object]) -> list[StoreCache]:
    """By the first node that has the store, as Kafka Streams flushes them: what one tells mostly changes stores that
    come later. Stores of processors were added before, or wherever the user liked.
    """
    users = [name for node in nodes if isinstance(node, ProcessorNode) for name in node.stores]
    return sorted(caches, key=lambda cache: users.index(cache.name))


def flush_all(caches: Sequence[StoreCache]) -> None:
    """Until nothing waits, though what one cache tells may change a store before it."""
    flushes = 0
    while (cache := next((each for each in caches if each.has_changes), None)) is not None:
        if flushes == MOST_FLUSHES * len(caches):
            raise endless(cache.name)
        flushes += 1
        cache.flush_all()
    for each in caches:
        each.make_room()
