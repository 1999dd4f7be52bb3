"""Changes of whole runs in the record cache (`StoreCache.put_run`), and the compiled functions that make them, against
the plain way: one record after the other. Through whole tasks, `test_streams_lane.py` compares the two.
"""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.streams.engine.lane.counting import compiled_counting
from headwater.streams.model.record import NO_HEADERS, RecordMetadata
from headwater.streams.stores.cache import CacheBytes, CachedChange, ChangeContext, StoreCache

CONTEXT = ChangeContext(-1, NO_HEADERS, RecordMetadata("in", 0, -1))
ROUNDS = 300


class Twin:
    """A cache, and what it has told; `runs`: whether a run is put at once."""

    def __init__(self, runs: bool, max_bytes: int) -> None:
        self.room = CacheBytes(max_bytes)
        self.cache = StoreCache(self.room, lambda: CONTEXT, self._told)
        self.told: list[tuple[bytes, bytes | None]] = []
        self._runs = runs
        if runs:
            self.cache.run_teller = self

    @property
    def context(self) -> ChangeContext:
        return CONTEXT

    def _told(self, key: bytes, change: CachedChange) -> None:
        self.told.append((key, change.value))

    def tell_all(self, keys: list[bytes], values: list[bytes]) -> None:
        self.told += zip(keys, values, strict=True)

    def run(self, keys: list[bytes], values: list[bytes]) -> None:
        if not self._runs:
            for key, value in zip(keys, values, strict=True):
                self.cache.put(key, value, b"before")
            return
        last = dict(zip(keys, values, strict=True))
        changed = list(dict.fromkeys(reversed(keys)))[::-1]
        self.cache.put_run(changed, [last[key] for key in changed])
        self.cache.make_room()


@pytest.mark.parametrize("max_bytes", [1 << 30, 600])
def test_runs_and_records_in_one_cache_tell_what_records_alone_tell(max_bytes: int) -> None:
    """In the same order, where there is room. Where there is little, a run makes it behind its last record: then the
    last of each key is the same.
    """
    for seed in range(ROUNDS):
        dice = random.Random(seed)
        quick, plain = Twin(True, max_bytes), Twin(False, max_bytes)
        keys = [b"k" * dice.randint(1, 9) + str(number).encode() for number in range(dice.choice((3, 40)))]
        for _ in range(dice.randint(1, 25)):
            what = dice.random()
            if what < 0.5:
                run = [dice.choice(keys) for _ in range(dice.randint(0, 30))]
                values = [dice.randbytes(8) for _ in run]
                for twin in (quick, plain):
                    twin.run(run, values)
            elif what < 0.8:
                key, value = dice.choice(keys), dice.choice((None, b"of a node"))
                for twin in (quick, plain):
                    twin.cache.put(key, value, b"before")
            elif what < 0.9:
                key = dice.choice(keys)
                for twin in (quick, plain):
                    twin.cache.read(key, b"read")
            else:
                for twin in (quick, plain):
                    twin.cache.flush_all()
            assert quick.room.used_bytes <= max_bytes, f"seed {seed}"
            waiting = sum(len(key) for key in quick.cache._changes)  # all that waits is counted
            assert waiting <= quick.room.used_bytes <= plain.room.used_bytes or max_bytes < 1_000, f"seed {seed}"
        for twin in (quick, plain):
            twin.cache.flush_all()
        if max_bytes > 1_000:
            assert quick.told == plain.told, f"seed {seed}"
        assert dict(quick.told) == dict(plain.told), f"seed {seed}"
        for twin in (quick, plain):
            assert not twin.cache.has_changes
            twin.cache.clear()
            assert twin.room.used_bytes == 0, f"seed {seed}"


def test_a_run_leaves_nothing_behind_when_it_was_told() -> None:
    """Keys that come once would fill the room, and each of them cost a place among those that were used lately."""
    twin = Twin(True, 1 << 20)
    for start in range(0, 30_000, 1_000):
        keys = [b"%d" % number for number in range(start, start + 1_000)]
        twin.run(keys, keys)
        twin.cache.flush_all()
        assert (twin.room.used_bytes, len(twin.cache._recent)) == (0, 0)
    assert len(twin.told) == 30_000


@given(
    st.lists(st.tuples(st.sampled_from([b"segment1" + key for key in (b"a", b"b", b"", b"long")]), st.integers(0, 9)))
)
def test_the_last_changes_of_a_run(records: list[tuple[bytes, int]]) -> None:
    native = compiled_counting()
    assert native is not None, "make venv builds it"
    rows, times = [row for row, _ in records], [time for _, time in records]
    fresh: dict[bytes, bytes | None] = {}
    counts, _ = native.count_rows(rows, times, fresh, (), None, lambda _: struct.pack(">qq", 5, 7))
    for skipped in (0, 8):
        keys, values = native.last_changes(rows, counts, fresh, skipped)
        changed = list(dict.fromkeys(reversed(rows)))[::-1]
        assert keys == [row[skipped:] for row in changed]
        assert values == [fresh[row] for row in changed]
    numbers = [struct.unpack(">qq", value) for value in values]
    split = native.split_counts(values)
    assert split == (
        b"".join(struct.pack(">q", count) for _, count in numbers),
        b"".join(struct.pack("=q", time) for time, _ in numbers),
    )


def test_what_is_no_row_is_refused() -> None:
    native = compiled_counting()
    assert native is not None, "make venv builds it"
    with pytest.raises(ValueError, match="as many counts"):
        native.last_changes([b"a"], b"", {}, 0)
    with pytest.raises(KeyError):
        native.last_changes([b"a"], bytes(8), {}, 0)
    with pytest.raises(ValueError, match="longer than what is skipped"):
        native.last_changes([b"a"], bytes(8), {b"a": bytes(16)}, 8)
    with pytest.raises(ValueError, match="16 bytes"):
        native.last_changes([b"a"], bytes(8), {b"a": b"short"}, 0)
    with pytest.raises(ValueError, match="16 bytes"):
        native.split_counts([b"short"])
    with pytest.raises(ValueError, match="12 of them"):
        native.window_columns([bytes(11)])
