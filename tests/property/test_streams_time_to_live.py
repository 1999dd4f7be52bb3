"""A store with a time to live is a dict from which rows go by stream time, whatever is put, deleted, committed and
discarded in between; and it is what its changelog says.
"""

import copy
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.streams.stores.disk_state import DiskState
from headwater.streams.stores.expiring import ExpiringKeyValues
from headwater.streams.stores.formats import stamped
from headwater.streams.stores.lmdb import LmdbState
from headwater.streams.stores.memory import MemoryState
from headwater.streams.stores.rocksdb import RocksState
from headwater.streams.stores.spec import StoreSpec
from headwater.streams.stores.state import Owner, TaskState

TTL_MS = 10
keys = st.sampled_from([b"", b"a", b"a\x00", b"b", b"\xff", b"p" * 600, b"p" * 601])
steps = st.one_of(
    st.tuples(st.just("put"), keys, st.none() | st.binary(max_size=3), st.integers(-2, 30)),
    st.tuples(st.just("commit"), st.just(b""), st.none(), st.just(0)),
    st.tuples(st.just("discard"), st.just(b""), st.none(), st.just(0)),
)


class Times:
    stream_time_ms = -1
    record_timestamp = -1
    dropped = 0

    def drop(self, reason: str) -> None:
        assert reason == "expired"
        self.dropped += 1


Log = list[tuple[bytes, bytes | None, int]]


def run(spec: StoreSpec, state: TaskState, script: list[tuple[str, bytes, bytes | None, int]]) -> None:
    times, log = Times(), Log()
    store = ExpiringKeyValues(
        spec, TTL_MS, state, lambda k, v, at: log.append((k, v, times.record_timestamp if at is None else at)), times
    )
    model: dict[bytes, tuple[bytes, int]] = {}
    committed: tuple[dict[bytes, tuple[bytes, int]], Log] = ({}, [])
    for what, key, value, at in script:
        if what == "commit":
            state.commit({})
            committed = copy.deepcopy((model, log))
        elif what == "discard":
            state.discard()
            model, log[:] = copy.deepcopy(committed[0]), committed[1]
        else:
            times.record_timestamp, times.stream_time_ms = at, max(times.stream_time_ms, at)
            now = times.stream_time_ms
            gone = [k for k, (_, t) in sorted(model.items(), key=lambda row: (row[1][1], row[0])) if t + TTL_MS < now]
            assert store.expire(now) == [(k, model.pop(k)[0]) for k in gone]
            store.put(key, None if value is None else stamped(value, at) if spec.timestamped else value)
            if value is None:
                model.pop(key, None)
            elif at + TTL_MS >= now:
                model[key] = (value, at)
        seen = {k: stamped(v, t) if spec.timestamped else v for k, (v, t) in model.items()}
        assert list(store.all()) == sorted(seen.items())
        assert all(store.get(k) == seen.get(k) for k in (b"", b"a", b"p" * 601))
    again = ExpiringKeyValues(spec, TTL_MS, MemoryState(), None, None)
    for k, v, t in log:
        again.restore(k, v, t)
    assert list(again.all()) == list(store.all())


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=25), st.booleans(), st.sampled_from([False] * 4 + [True]))
def test_rows_go_by_stream_time_and_the_changelog_says_so(
    script: list[tuple[str, bytes, bytes | None, int]], timestamped: bool, rocksdb: bool
) -> None:
    spec = StoreSpec("s", timestamped=timestamped, ttl_ms=TTL_MS)
    with tempfile.TemporaryDirectory() as directory:
        on_disk: DiskState[Any] = RocksState(Path(directory)) if rocksdb else LmdbState(Path(directory))
        try:
            for state in (MemoryState(), on_disk):
                state.claim(Owner(1, 0))
                run(spec, state, script)
        finally:
            on_disk.close()
