"""Versions of a key, asked by time."""

from headwater.streams.stores.memory import MemoryState
from headwater.streams.stores.port import VersionedRecord
from headwater.streams.stores.spec import StoreKind, StoreSpec
from headwater.streams.stores.versioned import Versions


def test_nothing_held_before_time_began() -> None:
    """Kafka Streams as oracle: the first version was given for a negative time, whose bytes come last in order."""
    store = Versions(StoreSpec("s", StoreKind.VERSIONED, timestamped=False, retention_ms=100), MemoryState(), None)
    store.put(b"k", b"first", 0)
    store.put(b"k", b"second", 50)
    assert store.get_as_of(b"k", 0) == VersionedRecord(b"first", 0, 50)
    assert store.get_as_of(b"k", -1) is None
    assert list(store.history(b"k", -20, -1)) == []
    assert [each.value for each in store.history(b"k", -20, 60)] == [b"first", b"second"]
