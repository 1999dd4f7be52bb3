"""The record cache of a store, as Kafka Streams has it (KIP-63, `statestore.cache.max.bytes`): of several changes of a
key between two commits only the last reaches the changelog and the nodes behind the store.

The rows themselves are put into the store at once: what is pending there lies in memory anyway, and so every reader (a
join, a range, a query of a window) sees the cache without having to merge it with the store. What waits here is the
telling: per key the value that was put last, the one that was told last (`old`), and the record it came from. `flush`
tells it in the order in which keys were changed last. It belongs to the commit, before the transaction is sent; and to
the moment in which there are too many bytes (as Kafka Streams counts them, and the records that changes came from,
where these are kept for dead letters): then the key that was not used for the longest time goes, and if it was
changed, all of this store's changes are told, that one first. Keys that were only read count, too, as in Kafka Streams.

A lane puts the changes of a whole run of records at once (`put_run`). They are not among the keys that were used
lately: they wait in the order of their last change, which is that of their last use, and once they are told nothing of
them stays. So a key that does not come again costs one place in one dict. They count as many bytes as those of nodes.

Nodes that are told of a change may put into the same store again. Then no second flush begins within the first, which
would tell a key's newer value before its older one: the first one tells the newer, or it waits for the next. A change
leaves the cache only when it is told, so a failure in between loses none of the others.

Owned by a task. A discard of the task's state forgets what waits: it is of records that are processed again.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol, cast

from headwater.base.errors import UserError

ENTRY_BYTES = 25  # beside key, value and context: what Kafka Streams counts for an entry and its place in the list
MOST_FLUSHES: Final = 1_000  # of a store in a row, because what it told has changed it again


class ChangeContext(NamedTuple):
    """The record that made a change, as the nodes behind the store are to see it."""

    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]
    metadata: Any  # `engine.record.RecordMetadata`, or None in a punctuator
    record: Any = None  # the record itself as it was read, where its dead letter may be asked for

    @property
    def size_bytes(self) -> int:
        topic = 0 if self.metadata is None else len(self.metadata.topic)
        headers = sum(len(name) + (0 if value is None else len(value)) for name, value in self.headers)
        return _NO_CONTEXT_BYTES + topic + headers + self.record_bytes

    @property
    def record_bytes(self) -> int:
        """Of the record itself: until the change is told."""
        size: int = 0 if self.record is None else self.record.size_bytes
        return size


_NO_CONTEXT_BYTES = 20


class CachedChange(NamedTuple):
    """`value` is what the store has now, `old` what was told last; None where there was none."""

    value: bytes | None
    old: bytes | None
    context: ChangeContext


class RunTeller(Protocol):
    """Who puts the rows of a whole run of records at once, and tells many changes by column."""

    @property
    def context(self) -> ChangeContext:
        """Of all changes of runs: nobody looks at the record that they came from."""

    def tell_all(self, keys: list[bytes], values: list[bytes]) -> None:
        """In this order. None of them is a deletion, and no record had headers."""


class CacheBytes:
    """How many bytes the caches of all tasks of one application in one slot may have together."""

    __slots__ = ("max_bytes", "used_bytes")

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.used_bytes = 0


def endless(store: str) -> UserError:
    """A node behind a cached store puts into it whenever it is told of a change."""
    return UserError(
        f"Changes of the cached store {store} never come to an end",
        f"each of {MOST_FLUSHES} flushes in a row has led to another change of it: a processor behind the store puts into "
        "it, or into one before it, and is told of that in turn",
        "such a store needs caching=False, or a processor that stops at some point",
    )


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
        name: str = "",
    ) -> None:
        self.name = name
        self._room = room
        self._context = context
        self._tell = tell
        self._entry_bytes = ENTRY_BYTES + key_bytes
        self._recent: OrderedDict[bytes, int] = OrderedDict()  # key -> bytes; what was not used for longest is first
        self._changes: dict[bytes, CachedChange | bytes] = {}  # in the order of the last change of each key; those of
        # runs are the value alone, and not in `_recent`: nobody asks for the old one
        self._run_count = 0  # how many of them are of runs, ...
        self._run_bytes = 0  # ... and what they take of the room
        self._run_entry_bytes = 0  # beside the key, of each
        self.on_change: Callable[[bytes, CachedChange], None] | None = None  # of the node that the store belongs to
        self.run_teller: RunTeller | None = None
        self._by_column = True  # whether all that waits can be told so
        self._flushing = False

    @property
    def has_changes(self) -> bool:
        return bool(self._changes)

    def has_change(self, key: bytes) -> bool:
        return key in self._changes

    def put(self, key: bytes, value: bytes | None, before: bytes | None) -> None:
        """`before`: what the store had, unless a change of the key waits already."""
        waiting = self._changes.pop(key, None)
        context = self._context()
        if isinstance(waiting, CachedChange):
            before = waiting.old
        elif waiting is not None:  # of a run: the old value is not known, and nobody asks but for whether there was one
            before = waiting
            self._leave_run(1, len(key))
        self._changes[key] = CachedChange(value, before, context)
        if value is None or context.headers:
            self._by_column = False
        self._use(key, len(key) + (0 if value is None else len(value)) + context.size_bytes)

    def read(self, key: bytes, value: bytes | None) -> None:
        """A row was looked up, and is likely to be looked up again."""
        if key in self._recent:
            self._recent.move_to_end(key)
        elif value is not None and key not in self._changes:  # a change of a run takes its room already
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
        self._make_room(self.flush)

    def put_run(self, keys: list[bytes], values: list[bytes]) -> None:
        """Of a run: each key once, in the order of their last change. All values of all runs have the same size."""
        teller, recent, changes = self.run_teller, self._recent, self._changes
        assert teller is not None, "a run without one who tells it"
        if not keys:
            return
        if not self._run_entry_bytes:
            self._run_entry_bytes = self._entry_bytes + len(values[0]) + teller.context.size_bytes
        if changes:
            waiting = [key for key in keys if key in changes]
            of_runs = waiting
            if self._run_count < len(changes):
                of_runs = [key for key in waiting if isinstance(changes[key], bytes)]
            for key in waiting:
                del changes[key]
            self._leave_run(len(of_runs), sum(map(len, of_runs)))
        if recent:  # of nodes: the run has used them last
            self._room.used_bytes -= sum(recent.pop(key, 0) for key in keys)
        changes.update(zip(keys, values, strict=True))
        self._leave_run(-len(keys), -sum(map(len, keys)))

    def _leave_run(self, count: int, key_bytes: int) -> None:
        """So many changes of runs do not wait any more."""
        size = count * self._run_entry_bytes + key_bytes
        self._run_count -= count
        self._run_bytes -= size
        self._room.used_bytes -= size

    def make_room(self) -> None:
        """Behind a run, or a commit's flush."""
        self._make_room(self.flush_all)

    def _make_room(self, flush: Callable[[bytes | None], None]) -> None:
        if self._flushing:
            return  # whoever began that makes room
        recent, room, flushes = self._recent, self._room, 0
        while room.used_bytes > room.max_bytes and recent:
            eldest, freed = recent.popitem(last=False)
            room.used_bytes -= freed
            if eldest in self._changes:
                if flushes == MOST_FLUSHES:
                    raise endless(self.name)
                flushes += 1
                flush(eldest)
        if room.used_bytes > room.max_bytes and self._run_count:
            flush(None)

    def flush_all(self, first: bytes | None = None) -> None:
        """As `flush`, where no record is being processed: by column, if that can be."""
        if self.run_teller is None or not self._by_column:
            self.flush(first)
            return
        if self._changes:
            keys = self._keys(first)
            if first is None and self._run_count == len(keys):
                values = cast(list[bytes], list(self._changes.values()))
            else:
                changes = [self._changes[key] for key in keys]
                values = cast(list[bytes], [each if isinstance(each, bytes) else each.value for each in changes])
            self.run_teller.tell_all(keys, values)  # no deletion is among them; no node is told
            for key, change in self._changes.items():
                if isinstance(change, CachedChange):
                    self._let_go(key, change)
            self._changes.clear()
            self._forget_runs()

    def flush(self, first: bytes | None = None) -> None:
        """Tells all changes that wait now. Nodes that are told may put into other stores, and so flush those; what they
        put into this one is told in its turn, if it still has one, or stays.
        """
        assert not self._flushing, "a flush within a flush of the same cache"
        self._flushing = True
        try:
            for key in self._keys(first):
                self._tell_one(key)
        finally:
            self._flushing = False
        if not self._changes:
            self._by_column = True

    def _tell_one(self, key: bytes) -> None:
        change = self._changes.pop(key)
        if isinstance(change, bytes):
            assert self.run_teller is not None, "a run without one who tells it"
            change = CachedChange(change, None, self.run_teller.context)
            self._leave_run(1, len(key))
        self._let_go(key, change)  # before: whoever is told may read the row, which then counts without the record
        self._tell(key, change)
        if change.value is None and key not in self._changes:
            self._room.used_bytes -= self._recent.pop(key, 0)

    def _let_go(self, key: bytes, told: CachedChange) -> None:
        """Its row stays among those that were used lately; the record that it came from does not."""
        freed = told.context.record_bytes
        if freed and key in self._recent:
            self._recent[key] -= freed
            self._room.used_bytes -= freed

    def _keys(self, first: bytes | None) -> list[bytes]:
        """Of what waits: `first`, then those that were changed longest ago."""
        if first is None:
            return list(self._changes)
        return [first, *(key for key in self._changes if key != first)]

    def clear(self) -> None:
        """What waits is of records that are processed again."""
        self._room.used_bytes -= sum(self._recent.values())
        self._recent.clear()
        self._changes.clear()
        self._forget_runs()
        self._by_column = True

    def _forget_runs(self) -> None:
        self._room.used_bytes -= self._run_bytes
        self._run_count = self._run_bytes = 0
