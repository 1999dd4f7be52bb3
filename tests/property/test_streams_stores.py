"""Stores in memory, in LMDB and in RocksDB give the same as naive models, whatever is put, committed, discarded and
killed in between.
"""

import copy
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.streams.stores.build import build_store
from headwater.streams.stores.disk_state import DiskState
from headwater.streams.stores.formats import session_key, split_session_key, split_window_key, window_key
from headwater.streams.stores.lmdb import LmdbState
from headwater.streams.stores.memory import MemoryState
from headwater.streams.stores.port import NOT_PUT, VALID_TO_UNDEFINED
from headwater.streams.stores.rocksdb import RocksState
from headwater.streams.stores.spec import StoreKind, StoreSpec
from headwater.streams.stores.state import ChangelogPartition, Owner

MAX = (1 << 63) - 1
EXAMPLES = settings(max_examples=60, deadline=None)

keys = st.sampled_from(
    [b"", b"a", b"a\x00", b"a\x00\x00\x00\x00", b"ab", b"b", b"\xff", b"\xff\xff", b"p" * 600, b"p" * 601]
)
values = st.one_of(st.none(), st.binary(min_size=8, max_size=10))
times = st.integers(0, 60)
CHANGELOG = ChangelogPartition("app-s-changelog", 0)
LATER = ["commit later"] * 4 + ["kill"] * 2  # often one after the other: what a kill takes is of several commits
ends = st.sampled_from([*LATER, "commit", "discard", "write out"])
in_rocksdb = st.sampled_from([False] * 9 + [True])  # not always: to open it takes 30 times as long as LMDB
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None  # RocksDB waits for the device whenever it is opened


class Twins:
    """A store in memory and the same one in LMDB, and in RocksDB if asked for, with its changelog: whoever comes after
    a kill reads the rest of it.
    """

    def __init__(self, spec: StoreSpec, directory: Path, rocksdb: bool) -> None:
        self._spec = spec
        self._rocksdb = rocksdb
        self._directory = directory
        self._epoch = 0
        self._log: list[tuple[bytes, bytes | None, int]] = []
        self._pending: list[tuple[bytes, bytes | None, int]] = []
        self._memory = MemoryState()
        self._on_disk = self._claimed()
        self.stores: list[Any] = [build_store(spec, self._memory, self._record)]
        self.stores += [build_store(spec, state) for state in self._on_disk]

    def _claimed(self) -> list[DiskState[Any]]:
        self._epoch += 1
        states: list[DiskState[Any]] = [LmdbState(self._directory)]
        if self._rocksdb:
            states.append(RocksState(self._directory / "rocks"))
        for state in states:
            state.claim(Owner(1, self._epoch))
        return states

    def _record(self, key: bytes, value: bytes | None, timestamp: int | None) -> None:
        self._pending.append((key, value, timestamp or 0))

    def commit(self, *, later: bool) -> None:
        self._log += self._pending
        self._pending.clear()
        self._memory.commit({}, later=later)
        for state in self._on_disk:
            state.commit({CHANGELOG: len(self._log)}, later=later)

    def discard(self) -> None:
        self._pending.clear()
        for state in (self._memory, *self._on_disk):
            state.discard()

    def write_out(self) -> None:
        for state in self._on_disk:
            state.write_out()

    def kill(self) -> None:
        self.discard()
        for state in self._on_disk:
            let_go_unwritten(state)
        self._on_disk = self._claimed()
        for state in self._on_disk:
            replayed: Any = build_store(self._spec, state)
            for record in self._log[state.positions.get(CHANGELOG, 0) :]:
                replayed.restore(*record)
            state.commit({CHANGELOG: len(self._log)})
        self.stores[1:] = [build_store(self._spec, state) for state in self._on_disk]

    def close(self) -> None:
        for state in self._on_disk:
            state.close()


def let_go_unwritten(state: DiskState[Any]) -> None:
    """What the end of its process leaves of a state."""
    state._close_rows()
    os.close(state._lock)


@contextmanager
def both(spec: StoreSpec, rocksdb: bool) -> Iterator[Twins]:
    with tempfile.TemporaryDirectory(dir=FAST) as directory:
        twins = Twins(spec, Path(directory), rocksdb)
        try:
            yield twins
        finally:
            twins.close()


def end(how: str, twins: Twins, model: Any, committed: Any) -> tuple[Any, Any]:
    match how:
        case "commit" | "commit later":
            twins.commit(later=how == "commit later")
            return model, copy.deepcopy(model)
        case "discard":
            twins.discard()
        case "kill":
            twins.kill()
        case "write out":
            twins.write_out()
            return model, committed
    return copy.deepcopy(committed), committed


@EXAMPLES
@given(
    in_rocksdb,
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), keys, values),
            st.tuples(st.just("absent"), keys, st.binary(min_size=8, max_size=9)),
            st.tuples(st.just("delete"), keys),
            st.tuples(st.just("range"), st.none() | keys, st.none() | keys, st.booleans()),
            st.tuples(st.just("prefix"), keys),
            st.tuples(ends),
        ),
        min_size=8,
        max_size=40,
    ),
)
def test_key_value_stores(rocksdb: bool, steps: list[tuple[Any, ...]]) -> None:
    model: dict[bytes, bytes] = {}
    committed: dict[bytes, bytes] = {}
    with both(StoreSpec("s"), rocksdb) as twins:
        stores = twins.stores
        for step in steps:
            match step:
                case ("put", key, value):
                    for store in stores:
                        store.put(key, value)
                    model.pop(key, None) if value is None else model.update({key: value})
                case ("absent", key, value):
                    assert [store.put_if_absent(key, value) for store in stores] == [model.get(key)] * len(stores)
                    model.setdefault(key, value)
                case ("delete", key):
                    assert [store.delete(key) for store in stores] == [model.pop(key, None)] * len(stores)
                case ("range", lower, upper, reverse):
                    expected = sorted(
                        (
                            (k, v)
                            for k, v in model.items()
                            if (lower is None or k >= lower) and (upper is None or k <= upper)
                        ),
                        reverse=reverse,
                    )
                    assert [list(store.range(lower, upper, reverse=reverse)) for store in stores] == [expected] * len(
                        stores
                    )
                case ("prefix", key):
                    expected = sorted((k, v) for k, v in model.items() if k.startswith(key))
                    assert [list(store.prefix(key)) for store in stores] == [expected] * len(stores)
                case (how,):
                    model, committed = end(how, twins, model, committed)
            assert [list(store.all()) for store in stores] == [sorted(model.items())] * len(stores)
            assert [list(store.all(reverse=True)) for store in stores] == [sorted(model.items(), reverse=True)] * len(
                stores
            )
            assert all(store.get(key) == value for store in stores for key, value in model.items())


class NaiveSegments:
    """Rows by (segment, raw key); the whole list is looked through each time."""

    def __init__(self, retention: int, interval: int) -> None:
        self.retention, self.interval, self.time = retention, interval, -1
        self.rows: dict[tuple[int, bytes], bytes] = {}

    def put(self, time: int, raw: bytes, value: bytes | None) -> None:
        self.time = max(self.time, time)
        live = max(self.time - self.retention, 0) // self.interval
        if time // self.interval >= live:
            self.rows[(time // self.interval, raw)] = value or b""
            if value is None:
                del self.rows[(time // self.interval, raw)]
        self.rows = {row: value for row, value in self.rows.items() if row[0] >= live}

    def remove(self, time: int, raw: bytes) -> None:
        self.time = max(self.time, time)
        self.rows.pop((time // self.interval, raw), None)

    def ordered(self, reverse: bool = False) -> list[tuple[bytes, bytes]]:
        return [(raw, value) for (_, raw), value in sorted(self.rows.items(), reverse=reverse)]


@EXAMPLES
@given(
    in_rocksdb,
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 7, 20, 1000]),
    st.sampled_from([5, 13]),
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), keys, values, times),
            st.tuples(st.just("fetch"), keys, times, times, st.booleans()),
            st.tuples(st.just("range"), st.none() | keys, st.none() | keys, times, times, st.booleans()),
            st.tuples(ends),
        ),
        min_size=8,
        max_size=40,
    ),
)
@example(
    True, False, True, 7, 5, [("put", b"a", b"12345678", 10), ("put", b"a", None, 60), ("commit later",), ("kill",)]
)
def test_window_stores(
    rocksdb: bool, time_ordered: bool, duplicates: bool, retention: int, interval: int, steps: list[tuple[Any, ...]]
) -> None:
    spec = StoreSpec(
        "s",
        StoreKind.WINDOW,
        retention_ms=retention,
        segment_interval_ms=interval,
        time_ordered=time_ordered,
        retain_duplicates=duplicates,
    )
    model = (NaiveSegments(retention, interval), [0])
    committed = copy.deepcopy(model)
    with both(spec, rocksdb) as twins:
        stores = twins.stores

        def rows(lower: bytes | None, upper: bytes | None, low: int, high: int, reverse: bool) -> list[Any]:
            earliest = model[0].time - retention + (0 if time_ordered else 1)
            found = [(*split_window_key(raw), value) for raw, value in model[0].ordered(reverse)]
            return [
                (key, start, value)
                for key, start, _, value in found
                if (lower is None or key >= lower) and (upper is None or key <= upper)
                if max(low, earliest) <= start <= high
            ]

        for step in steps:
            match step:
                case ("put", key, value, start):
                    for store in stores:
                        store.put(key, value, start)
                    if not (duplicates and value is None):
                        model[1][0] += duplicates
                        model[0].put(start, window_key(key, start, model[1][0]), value)
                    if not duplicates:
                        expected = next((v for _, s, v in rows(key, key, 0, MAX, False) if s == start), None)
                        assert [store.get(key, start) for store in stores] == [expected] * len(stores)
                case ("fetch", key, low, high, reverse):
                    expected_one = [(start, value) for _, start, value in rows(key, key, low, high, reverse)]
                    assert [list(s.fetch(key, low, high, reverse=reverse)) for s in stores] == [expected_one] * len(
                        stores
                    )
                case ("range", lower, upper, low, high, reverse):
                    expected_all = rows(lower, upper, low, high, reverse)
                    got = [list(s.fetch_range(lower, upper, low, high, reverse=reverse)) for s in stores]
                    assert got == [expected_all] * len(stores)
                case (how,):
                    model, committed = end(how, twins, model, committed)
            everything = rows(None, None, 0, MAX, False)
            if time_ordered:
                everything.sort(key=lambda row: (row[1], row[0]))
            for store in stores:
                assert [(k, s) for k, s, _ in store.all()] == [(k, s) for k, s, _ in everything]
                assert sorted(store.all()) == sorted(everything)
                assert list(store.all(reverse=True)) == list(store.all())[::-1]
                assert store.stream_time == model[0].time


@EXAMPLES
@given(
    in_rocksdb,
    st.booleans(),
    st.sampled_from([0, 7, 20, 1000]),
    st.sampled_from([5, 13]),
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["put", "remove"]), keys, times, times, st.binary(min_size=1, max_size=2)),
            st.tuples(st.just("find"), keys, times, times, st.booleans()),
            st.tuples(st.just("range"), st.none() | keys, st.none() | keys, times, times, st.booleans()),
            st.tuples(ends),
        ),
        min_size=8,
        max_size=40,
    ),
)
@example(True, True, 7, 5, [("put", b"a", 1, 2, b"1"), ("remove", b"b", 60, 60, b""), ("commit later",), ("kill",)])
def test_session_stores(
    rocksdb: bool, time_ordered: bool, retention: int, interval: int, steps: list[tuple[Any, ...]]
) -> None:
    spec = StoreSpec(
        "s", StoreKind.SESSION, retention_ms=retention, segment_interval_ms=interval, time_ordered=time_ordered
    )
    model = NaiveSegments(retention, interval)
    committed = copy.deepcopy(model)
    with both(spec, rocksdb) as twins:
        stores = twins.stores

        def rows(lower: bytes | None, upper: bytes | None, earliest: int, latest: int, reverse: bool) -> list[Any]:
            found = [(*split_session_key(raw), value) for raw, value in model.ordered(reverse)]
            return [
                row
                for row in found
                if (lower is None or row[0] >= lower) and (upper is None or row[0] <= upper)
                if row[2] >= max(earliest, model.time - retention + 1) and row[1] <= latest
            ]

        for step in steps:
            match step:
                case ("put", key, one, other, value):
                    start, stop = sorted((one, other))
                    for store in stores:
                        store.put(key, start, stop, value)
                    model.put(stop, session_key(key, start, stop), value)
                    got = next((r[3] for r in rows(key, key, 0, MAX, False) if r[1:3] == (start, stop)), None)
                    assert [store.get(key, start, stop) for store in stores] == [got] * len(stores)
                case ("remove", key, one, other, _):
                    start, stop = sorted((one, other))
                    for store in stores:
                        store.remove(key, start, stop)
                    model.remove(stop, session_key(key, start, stop))
                case ("find", key, earliest, latest, reverse):
                    expected = rows(key, key, earliest, latest, reverse)
                    assert [list(s.find_sessions(key, earliest, latest, reverse=reverse)) for s in stores] == [
                        expected
                    ] * len(stores)
                case ("range", lower, upper, earliest, latest, reverse):
                    expected = rows(lower, upper, earliest, latest, reverse)
                    found = [
                        list(s.find_sessions_range(lower, upper, earliest, latest, reverse=reverse)) for s in stores
                    ]
                    assert found == [expected] * len(stores)
                case (how,):
                    model, committed = end(how, twins, model, committed)
            assert [list(store.all()) for store in stores] == [rows(None, None, 0, MAX, False)] * len(stores)
            if time_ordered:
                closed = [(*split_session_key(raw), value) for raw, value in model.ordered()]
                closed.sort(key=lambda row: (row[2], row[1], row[0]))
                assert [list(store.find_closed(0, 30)) for store in stores] == [
                    [r for r in closed if r[2] <= 30]
                ] * len(stores)


class NaiveVersions:
    def __init__(self, retention: int) -> None:
        self.retention, self.time = retention, -1
        self.versions: dict[bytes, dict[int, bytes | None]] = {}

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        if timestamp < self.time - self.retention:
            return NOT_PUT
        self.time = max(self.time, timestamp)
        self.versions.setdefault(key, {})[timestamp] = value
        return min((t for t in self.versions[key] if t > timestamp), default=VALID_TO_UNDEFINED)

    def as_of(self, key: bytes, timestamp: int) -> tuple[bytes, int, int | None] | None:
        versions = self.versions.get(key, {})
        since = max((t for t in versions if t <= timestamp), default=None)
        if since is None or versions[since] is None:
            return None
        until = min((t for t in versions if t > since), default=None)
        if until is not None and timestamp < self.time - self.retention:
            return None
        value = versions[since]
        assert value is not None
        return value, since, until


@EXAMPLES
@given(
    in_rocksdb,
    st.sampled_from([0, 7, 20, 1000]),
    st.sampled_from([1, 5]),
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["put", "put", "delete"]), keys, st.none() | st.binary(max_size=2), times),
            st.tuples(ends),
        ),
        min_size=8,
        max_size=40,
    ),
)
@example(
    True, 7, 5, [("put", b"a", b"1", 10), ("commit later",), ("put", b"b", b"1", 60), ("commit later",), ("kill",)]
)
def test_versioned_stores(rocksdb: bool, retention: int, interval: int, steps: list[tuple[Any, ...]]) -> None:
    spec = StoreSpec("s", StoreKind.VERSIONED, retention_ms=retention, segment_interval_ms=interval)
    model = NaiveVersions(retention)
    committed = copy.deepcopy(model)
    with both(spec, rocksdb) as twins:
        stores = twins.stores
        for step in steps:
            match step:
                case ("put", key, value, timestamp):
                    expected = model.put(key, value, timestamp)
                    assert [store.put(key, value, timestamp) for store in stores] == [expected] * len(stores)
                case ("delete", key, _, timestamp):
                    held = None if timestamp < model.time - retention else model.as_of(key, timestamp)
                    for store in stores:
                        found = store.delete(key, timestamp)
                        assert (found and (found.value, found.timestamp, found.valid_to)) == held
                    model.put(key, None, timestamp)
                case (how,):
                    model, committed = end(how, twins, model, committed)
            for key in model.versions:
                latest = model.as_of(key, MAX)
                for store in stores:
                    found = store.get(key)
                    assert (found and (found.value, found.timestamp, found.valid_to)) == latest
                    for timestamp in range(0, 61, 3):
                        found = store.get_as_of(key, timestamp)
                        assert (found and (found.value, found.timestamp, found.valid_to)) == model.as_of(key, timestamp)


@EXAMPLES
@given(
    st.sampled_from([StoreKind.KEY_VALUE, StoreKind.WINDOW, StoreKind.VERSIONED]),
    st.booleans(),
    st.lists(st.tuples(keys, values, times), max_size=30),
)
def test_a_changelog_restores_what_it_was_written_for(
    kind: StoreKind, timestamped: bool, puts: list[tuple[bytes, bytes | None, int]]
) -> None:
    spec = StoreSpec("s", kind, timestamped=timestamped, retention_ms=20, segment_interval_ms=5)
    changelog: list[tuple[bytes, bytes | None, int]] = []
    written, restored = MemoryState(), MemoryState()
    store: Any = build_store(spec, written, lambda k, v, t: changelog.append((k, v, 0 if t is None else t)))
    for key, value, time in puts:
        store.put(key, value) if kind is StoreKind.KEY_VALUE else store.put(key, value, time)
    twin: Any = build_store(spec, restored)
    for record in changelog:
        twin.restore(*record)
    if kind is StoreKind.VERSIONED:
        assert [twin.get_as_of(k, t) for k, _, _ in puts for t in range(60)] == [
            store.get_as_of(k, t) for k, _, _ in puts for t in range(60)
        ]
    else:
        assert list(twin.all()) == list(store.all())
