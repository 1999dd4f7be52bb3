"""The record cache of a store, as Kafka Streams has it (KIP-63, `statestore.cache.max.bytes`): of several changes of a
key between two commits only the last reaches the changelog and the nodes behind the store.

The rows themselves are put into the store at once: what is pending there lies in memory anyway, and so every reader (a
join, a range, a query of a window) sees the cache without having to merge it with the store. What waits here is the
telling: per key the value that was put last, the one that was told last (`old`), and the record it came from. `flush`
tells it in the order in which keys were changed last. It belongs to the commit, before the transaction is sent; and to
the moment in which there are too many bytes: then the key that was not used for the longest time goes, and if it was
changed, all of this store's changes are told, that one first. Keys that were only read count, too, as in Kafka Streams.

Owned by a task. A discard of the task's state forgets what waits: it is of records that are processed again.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

ENTRY_BYTES = 25  # beside key, value and context: what Kafka Streams counts for an entry and its place in the list


class ChangeContext(NamedTuple):
    """The record that made a change, as the nodes behind the store are to see it."""

    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]
    metadata: Any  # `engine.record.RecordMetadata`, or None in a punctuator

    @property
    def size_bytes(self) -> int:
        topic = 0 if self.metadata is None else len(self.metadata.topic)
        headers = sum(len(name) + (0 if value is None else len(value)) for name, value in self.headers)
        return _NO_CONTEXT_BYTES + topic + headers


_NO_CONTEXT_BYTES = 20


class CachedChange(NamedTuple):
    """`value` is what the store has now, `old` what was told last; None where there was none."""

    value: bytes | None
    old: bytes | None
    context: ChangeContext


class CacheBytes:
    """How many bytes the caches of all tasks of one application in one slot may have together."""

    __slots__ = ("max_bytes", "used_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0


class StoreCache:
    """Of one store. `context` gives the record that is being processed; `tell` is called for each change that is
    flushed. `key_bytes`: of a key beside itself.
    """

    def __init__(
        self,
        room: CacheBytes,
        context: Callable[[], ChangeContext],
        tell: Callable[[bytes, CachedChange], None],
        key_bytes: int = 0,
    ) -> None:
        self._room = room
        self._context = context
        self._tell = tell
        self._entry_bytes = ENTRY_BYTES + key_bytes
        self._recent: OrderedDict[bytes, int] = OrderedDict()  # key -> bytes; what was not used for longest is first
        self._changes: dict[bytes, CachedChange] = {}  # in the order of the last change of each key
        self.on_change: Callable[[bytes, CachedChange], None] | None = None  # of the node that the store belongs to

    def has_change(self, key: bytes) -> bool:
        return key in self._changes

    def put(self, key: bytes, value: bytes | None, before: bytes | None) -> None:
        """`before`: what the store had, unless a change of the key waits already."""
        waiting = self._changes.pop(key, None)
        context = self._context()
        self._changes[key] = CachedChange(value, before if waiting is None else waiting.old, context)
        self._use(key, len(key) + (0 if value is None else len(value)) + context.size_bytes)

    def read(self, key: bytes, value: bytes | None) -> None:
        """A row was looked up, and is likely to be looked up again."""
        if key in self._recent:
            self._recent.move_to_end(key)
        elif value is not None:
            self._use(key, len(key) + len(value) + _NO_CONTEXT_BYTES)

    def touch(self, key: bytes) -> None:
        """The same where only what was put is kept."""
        if key in self._recent:
            self._recent.move_to_end(key)

    def _use(self, key: bytes, size: int) -> None:
        recent, room = self._recent, self._room
        size += self._entry_bytes
        room.used_bytes += size - recent.get(key, 0)
        recent[key] = size
        recent.move_to_end(key)
        while room.used_bytes > room.max_bytes and recent:
            eldest, freed = recent.popitem(last=False)
            room.used_bytes -= freed
            if eldest in self._changes:
                self.flush(eldest)

    def flush(self, first: bytes | None = None) -> None:
        """Tells all changes. Nodes that are told may put into other stores, and so flush those."""
        changes, self._changes = self._changes, {}
        if first is not None:
            changes = {first: changes.pop(first), **changes}
        for key, change in changes.items():
            self._tell(key, change)
            if change.value is None:
                self._room.used_bytes -= self._recent.pop(key, 0)

    def clear(self) -> None:
        """What waits is of records that are processed again."""
        self._room.used_bytes -= sum(self._recent.values())
        self._recent.clear()
        self._changes.clear()
