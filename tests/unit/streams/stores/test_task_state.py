"""The state of a task, in memory, in LMDB and in RocksDB: pending until committed, owned, with positions."""

import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

from headwater.base.errors import UserError
from headwater.streams.stores.build import build_store
from headwater.streams.stores.lmdb import LmdbState
from headwater.streams.stores.memory import MemoryState
from headwater.streams.stores.rocksdb import RocksState
from headwater.streams.stores.spec import StoreKind, StoreSpec
from headwater.streams.stores.state import ChangelogPartition, Owner, StateClosed, StateFenced, TaskState
from headwater.streams.stores.state_directory import StateInUse, remove_unused

PARTITION = ChangelogPartition("app-counts-changelog", 3)


Disk = type[LmdbState] | type[RocksState]


@pytest.fixture(params=[LmdbState, RocksState])
def disk(request: pytest.FixtureRequest) -> Disk:
    found: Disk = request.param
    return found


@pytest.fixture(params=["memory", "lmdb", "rocksdb"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TaskState]:
    kinds = {"memory": lambda _: MemoryState(), "lmdb": LmdbState, "rocksdb": RocksState}
    state: TaskState = kinds[request.param](tmp_path)
    state.claim(Owner(1, 0))
    yield state
    state.close()


def test_changes_are_seen_before_they_are_committed_and_gone_when_they_are_discarded(state: TaskState) -> None:
    rows = state.map("counts")
    rows.put(b"a", b"1")
    state.commit({PARTITION: 7})
    rows.put(b"a", b"2")
    rows.put(b"b", b"1")
    assert list(rows.scan()) == [(b"a", b"2"), (b"b", b"1")]
    state.discard()
    assert list(rows.scan()) == [(b"a", b"1")]
    assert state.positions == {PARTITION: 7}


class Remembers:
    """As a store that has read from a map."""

    def __init__(self, state: TaskState) -> None:
        self.told: list[bytes | None] = []
        self._state = state
        state.on_discard(self.reload)

    def reload(self) -> None:
        self.told.append(self._state.notes.get(b"time"))


def test_each_discard_tells_those_who_remember_what_they_read(state: TaskState) -> None:
    remembers = Remembers(state)
    for _ in range(2):
        state.notes.put(b"time", b"5")
        state.discard()
    assert remembers.told == [None, None]


def test_an_iterator_shows_the_map_as_it_was(state: TaskState) -> None:
    rows = state.map("counts")
    for key in (b"a", b"c", b"e"):
        rows.put(key, b"1")
    state.commit({})
    rows.put(b"d", b"1")
    seen = []
    for key, _ in rows.scan():
        seen.append(key)
        rows.put(key, None)
        rows.put(b"b", b"1")
    assert seen == [b"a", b"c", b"d", b"e"]
    assert [key for key, _ in rows.scan()] == [b"b"]


def test_a_run_with_a_lower_number_wipes_the_state_and_is_its_owner(state: TaskState) -> None:
    """Else an application whose run numbers begin anew could never open its own state again."""
    state.map("counts").put(b"a", b"1")
    state.commit({PARTITION: 1})
    state.claim(Owner(0, 9))
    assert list(state.map("counts").scan()) == []
    assert state.positions == {}
    state.map("counts").put(b"b", b"1")
    state.commit({PARTITION: 2})
    assert state.positions == {PARTITION: 2}


def test_an_owner_that_was_replaced_cannot_commit(state: TaskState) -> None:
    state.map("counts").put(b"a", b"1")
    state._claimed = Owner(0, 9)  # type: ignore[attr-defined]  # as a process that was stopped since
    with pytest.raises(StateFenced):
        state.commit({PARTITION: 1})
    state.discard()
    assert list(state.map("counts").scan()) == []
    assert state.positions == {}


def test_a_state_does_not_keep_the_stores_of_an_earlier_task_alive(state: TaskState) -> None:
    """Else each recovery would keep the task before it."""
    gone = weakref.ref(Remembers(state))
    gc.collect()
    assert gone() is None
    state.discard()


def test_wiping_keeps_the_owner_only(state: TaskState) -> None:
    state.map("counts").put(b"a", b"1")
    state.commit({PARTITION: 1})
    state.wipe()
    assert list(state.map("counts").scan()) == []
    assert state.positions == {}
    state._claimed = Owner(0, 9)  # type: ignore[attr-defined]
    with pytest.raises(StateFenced):
        state.commit({})


def test_wiping_forgets_maps_that_nobody_has_asked_for_yet(disk: Disk, tmp_path: Path) -> None:
    _written(disk, tmp_path, "monday", disk.close)
    state = disk(tmp_path, "monday")
    state.wipe()
    assert list(state.map("counts").scan()) == []
    assert state.positions == {}
    state.close()


def _written(disk: Disk, directory: Path, boot_id: str, end: Callable[[Any], None]) -> None:
    state = disk(directory, boot_id)
    state.claim(Owner(1, 0))
    state.map("counts").put(b"a", b"1")
    state.commit({PARTITION: 1})
    state.map("counts").put(b"b", b"1")
    end(state)


def test_what_was_committed_is_there_again_and_what_was_pending_is_not(disk: Disk, tmp_path: Path) -> None:
    _written(disk, tmp_path, "monday", disk.close)
    state = disk(tmp_path, "tuesday")
    assert list(state.map("counts").scan()) == [(b"a", b"1")]
    assert state.positions == {PARTITION: 1}
    state.close()


def test_state_that_was_open_when_the_machine_went_down_is_not_believed(disk: Disk, tmp_path: Path) -> None:
    _written(disk, tmp_path, "monday", disk.close)
    (tmp_path / "opened").write_text("monday")
    same_boot = disk(tmp_path, "monday")
    assert same_boot.positions == {PARTITION: 1}
    same_boot.close()
    (tmp_path / "opened").write_text("monday")
    next_boot = disk(tmp_path, "tuesday")
    assert next_boot.positions == {}
    assert list(next_boot.map("counts").scan()) == []
    next_boot.close()


def test_the_mark_of_an_open_state_is_on_the_device_before_anything_is_written(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(f"{os.readlink(f'/proc/self/fd/{descriptor}')} {(tmp_path / disk.folder).exists()}")
        real(descriptor)

    monkeypatch.setattr("os.fsync", fsync)
    state = disk(tmp_path)
    assert synced == [f"{tmp_path}/opened False", f"{tmp_path} False"]
    state.close()
    assert synced[2:] == [f"{tmp_path}/opened True", f"{tmp_path} True"]
    assert (tmp_path / "opened").read_text() == "clean"


def test_two_processes_cannot_write_one_state(disk: Disk, tmp_path: Path) -> None:
    state = disk(tmp_path)
    code = f"import pathlib, {disk.__module__} as m; m.{disk.__name__}(pathlib.Path({str(tmp_path)!r}))"
    with pytest.raises(StateInUse):
        disk(tmp_path)
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "StateInUse" in other.stderr
    state.close()


def test_only_state_that_nobody_has_open_is_removed(disk: Disk, tmp_path: Path) -> None:
    state = disk(tmp_path / "0_0")
    remove_unused(tmp_path / "0_0")
    assert (tmp_path / "0_0" / disk.folder).exists()
    state.close()
    remove_unused(tmp_path / "0_0")
    assert not (tmp_path / "0_0").exists()


def test_a_full_map_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.streams.stores.lmdb._MAP_SIZE_BYTES", 1 << 20)
    state = LmdbState(tmp_path)
    state.claim(Owner(1, 0))
    rows = state.map("counts")
    for i in range(40):
        rows.put(b"%d" % i, bytes(50_000))
    state.commit({})
    assert sum(len(value) for _, value in rows.scan()) == 40 * 50_000
    state.close()


def test_fewer_rows_wait_where_each_lies_on_a_page_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LMDB keeps a copy in memory of each page that a write changes."""
    monkeypatch.setattr("headwater.streams.stores.lmdb._MOST_PAGES", 20)
    state = LmdbState(tmp_path)
    state.claim(Owner(1, 0))
    rows = state.map("counts")

    def waits(numbers: range) -> bool:
        for number in numbers:
            rows.put(b"%06d" % number, bytes(100))
        state.commit({}, later=True)
        return rows.has_unwritten

    assert waits(range(30))  # they lie on few pages
    state.write_out()
    assert waits(range(2_000))
    state.write_out()
    assert waits(range(0, 1_900, 100))
    assert not waits(range(0, 2_000, 100))
    state.close()


LONG_KEYS = [b"", b"a", b"p" * 499, b"p" * 500, b"p" * 500 + b"\x00", b"p" * 501, b"p" * 500 + b"\xff" * 20]
LONG_KEYS += [b"p" * 100_000, b"p" * 100_000 + b"x", b"p" * 499 + b"q", b"q"]


def test_keys_of_any_length_keep_order_and_identity(state: TaskState) -> None:
    rows = state.map("counts")
    for number, key in enumerate(reversed(LONG_KEYS)):
        rows.put(key, b"%d" % number)
    state.commit({})
    expected = sorted(LONG_KEYS)
    assert [key for key, _ in rows.scan()] == expected
    assert [key for key, _ in rows.scan(reverse=True)] == expected[::-1]
    for lower in expected:
        assert [key for key, _ in rows.scan(lower)] == [key for key in expected if key >= lower]
        assert [key for key, _ in rows.scan(None, lower, reverse=True)] == [k for k in expected[::-1] if k < lower]
        assert rows.get(lower) is not None
    rows.put(b"p" * 100_000, None)
    rows.put(b"p" * 501, b"new")
    state.commit({})
    assert rows.get(b"p" * 100_000) is None
    assert rows.get(b"p" * 501) == b"new"
    assert [key for key, _ in rows.scan()] == [key for key in expected if key != b"p" * 100_000]


def test_a_snapshot_has_no_rows_of_a_map_that_nobody_has_made_yet(disk: Disk, tmp_path: Path) -> None:
    state = disk(tmp_path)
    with state.snapshot() as snapshot:
        unknown = snapshot.map("counts")
        assert (list(unknown.scan()), unknown.get(b"a")) == ([], None)
    state.close()


def test_no_map_is_made_while_a_snapshot_is(disk: Disk, tmp_path: Path) -> None:
    state = disk(tmp_path)
    seen: list[bool] = []

    class Watched(dict[str, object]):
        def __setitem__(self, name: str, value: object) -> None:
            seen.append(state._snapshots.locked())
            super().__setitem__(name, value)

    state._maps = Watched(state._maps)  # type: ignore[assignment]
    state.map("counts")
    assert seen == [True]
    state.close()


def test_a_commit_for_later_is_seen_at_once_and_survives_a_discard(state: TaskState) -> None:
    rows = state.map("counts")
    rows.put(b"a", b"1")
    state.commit({PARTITION: 1}, later=True)
    rows.put(b"a", b"2")
    rows.put(b"b", b"2")
    state.discard()
    assert rows.get(b"a") == b"1"
    assert list(rows.scan()) == [(b"a", b"1")]
    assert state.positions == {PARTITION: 1}


def test_what_waits_is_written_without_what_is_pending(disk: Disk, tmp_path: Path) -> None:
    state = disk(tmp_path)
    state.claim(Owner(1, 0))
    rows = state.map("counts")
    rows.put(b"a", b"1")
    state.commit({PARTITION: 1}, later=True)
    rows.put(b"b", b"1")
    with state.snapshot() as seen:
        assert list(seen.map("counts").scan()) == []
    state.write_out()
    with state.snapshot() as seen:
        assert list(seen.map("counts").scan()) == [(b"a", b"1")]
    assert list(rows.scan()) == [(b"a", b"1"), (b"b", b"1")]
    state.close()


def test_a_process_that_is_killed_has_lost_all_of_commits_for_later_but_the_times_of_operators(
    disk: Disk, tmp_path: Path
) -> None:
    """These are in no changelog: nobody could bring them back.
    Rows, notes and positions go together, so a replay does.
    """
    script = (
        "import os, sys; from pathlib import Path;"
        f"from {disk.__module__} import {disk.__name__}; from headwater.streams.stores.state import *;"
        f"state = {disk.__name__}(Path(sys.argv[1])); state.claim(Owner(1, 0)); partition = ChangelogPartition('t', 0);"
        "state.map('counts').put(b'a', b'1'); state.notes.put(b'n', b'1'); state.times.put(b't', b'1'); state.commit({partition: 1});"
        "state.map('counts').put(b'a', b'2'); state.notes.put(b'n', b'2'); state.times.put(b't', b'2');"
        "state.commit({partition: 2}, later=True);"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=120)
    state = disk(tmp_path)
    assert state.map("counts").get(b"a") == b"1"
    assert state.positions == {ChangelogPartition("t", 0): 1}
    assert state.notes.get(b"n") == b"1", "ahead of its rows it would make the replay drop some"
    assert state.times.get(b"t") == b"2"
    state.close()


def test_a_query_while_commits_wait_sees_rows_and_their_stream_time_of_one_commit(disk: Disk, tmp_path: Path) -> None:
    state = disk(tmp_path)
    state.claim(Owner(1, 0))
    spec = StoreSpec("w", StoreKind.WINDOW, retention_ms=60_000)
    windows: Any = build_store(spec, state)
    windows.put(b"a", b"\0" * 8 + b"1", 600_000)
    state.commit({PARTITION: 1})
    windows.put(b"a", b"\0" * 8 + b"2", 3_600_000)
    state.commit({PARTITION: 2}, later=True)
    with state.snapshot() as snapshot:
        seen: Any = build_store(spec, snapshot)
        assert [start for start, _ in seen.fetch(b"a", 0, 1 << 62)] == [600_000]
        assert seen.stream_time == 600_000
    state.close()


def test_closing_writes_what_waits(disk: Disk, tmp_path: Path) -> None:
    state = disk(tmp_path)
    state.claim(Owner(1, 0))
    state.map("counts").put(b"a", b"1")
    state.commit({PARTITION: 1}, later=True)
    state.close()
    again = disk(tmp_path)
    assert again.map("counts").get(b"a") == b"1"
    assert again.positions == {PARTITION: 1}
    again.close()


@pytest.mark.parametrize("later", [False, True])
def test_rows_below_a_bound_go_and_come_back_with_a_discard(state: TaskState, later: bool) -> None:
    rows = state.map("counts")
    for key in (b"a", b"b", b"c"):
        rows.put(key, b"1")
    state.commit({}, later=later)
    rows.put(b"d", b"1")
    rows.delete_below(b"c")
    assert rows.get(b"b") is None
    assert [key for key, _ in rows.scan()] == [b"c", b"d"]
    state.discard()
    assert rows.get(b"b") == b"1"
    assert [key for key, _ in rows.scan()] == [b"a", b"b", b"c"]
    rows.delete_below(b"b")
    state.commit({}, later=later)
    state.write_out()
    assert [key for key, _ in rows.scan()] == [b"b", b"c"]
    assert rows.approximate_count() == 2


def test_a_count_while_commits_wait_has_each_row_once(disk: Disk, tmp_path: Path) -> None:
    state = disk(tmp_path)
    state.claim(Owner(1, 0))
    rows = state.map("counts")
    for key in (b"a", b"b", b"c"):
        rows.put(key, b"1")
    state.commit({}, later=True)
    rows.put(b"a", b"2")
    rows.put(b"d", b"1")
    assert rows.approximate_count() == 4
    state.close()


def test_a_state_that_cannot_be_written_lets_go_of_its_directory(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = disk(tmp_path)
    state.claim(Owner(1, 0))
    state.map("counts").put(b"a", b"1")
    state.commit({PARTITION: 1}, later=True)

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(state, "_write", full)
    with pytest.raises(OSError, match="No space"):
        state.close()
    assert (tmp_path / "opened").read_text() != "clean"
    again = disk(tmp_path)
    assert again.positions == {}, "rows and positions are replayed together"
    again.close()


@pytest.mark.parametrize(("opened", "error"), [("lmdb.open", lmdb.Error), ("rocksdict.Rdict", Exception)])
def test_a_state_that_cannot_be_opened_lets_go_of_its_directory(
    opened: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk: Disk = LmdbState if opened == "lmdb.open" else RocksState

    def broken(*_: object, **__: object) -> None:
        raise error("a page is torn")

    with monkeypatch.context() as patch:
        patch.setattr(opened, broken)
        with pytest.raises(UserError, match="a page is torn"):
            disk(tmp_path)
    disk(tmp_path).close()


def test_a_snapshot_stays_as_it_was_while_rows_are_written(disk: Disk, tmp_path: Path) -> None:
    state = disk(tmp_path)
    state.claim(Owner(1, 0))
    rows, other = state.map("counts"), state.map("other")
    for key in (b"a", b"c", b"e"):
        rows.put(key, b"1")
    state.commit({})
    with state.snapshot() as snapshot:
        rows.put(b"a", None)
        rows.put(b"b", b"2")
        rows.put(b"c", b"2")
        other.put(b"x", b"2")
        state.commit({})
        seen = snapshot.map("counts")
        assert list(seen.scan()) == [(b"a", b"1"), (b"c", b"1"), (b"e", b"1")]
        assert (seen.get(b"a"), seen.get(b"b"), seen.get(b"c")) == (b"1", None, b"1")
        assert (seen.approximate_count(), list(snapshot.map("other").scan())) == (3, [])
    assert list(rows.scan()) == [(b"b", b"2"), (b"c", b"2"), (b"e", b"1")]
    state.close()


def test_scans_of_a_snapshot_that_take_turns_keep_their_places(disk: Disk, tmp_path: Path) -> None:
    state = disk(tmp_path)
    state.claim(Owner(1, 0))
    keys = [b"%02d" % number for number in range(20)]
    state.map("counts").put_all(dict.fromkeys(keys, b"1"))
    state.commit({})
    with state.snapshot() as snapshot:
        rows = snapshot.map("counts")
        up, down, part = rows.scan(), rows.scan(reverse=True), rows.scan(b"05", b"15")
        seen: list[list[bytes]] = [[], [], []]
        for _ in keys:
            for number, scan in enumerate((up, down, part)):
                seen[number] += [key for key, _ in [next(scan, (b"", b""))] if key]
                assert rows.get(b"07") == b"1"
    assert seen == [keys, keys[::-1], keys[5:15]]
    state.close()


def test_a_scan_that_somebody_has_left_does_not_keep_the_state_open(disk: Disk, tmp_path: Path) -> None:
    """As in the frames of an exception that ended a run: the next one opens the same state."""
    state = disk(tmp_path)
    state.claim(Owner(1, 0))
    state.map("counts").put_all({b"a": b"1", b"b": b"1"})
    state.commit({PARTITION: 1})
    left, rows = state.map("counts").scan(), state.map("counts")
    next(left)
    state.close()
    again = disk(tmp_path)
    assert again.positions == {PARTITION: 1}
    again.close()
    del left, rows


def test_a_state_that_was_closed_answers_no_query(disk: Disk, tmp_path: Path) -> None:
    state = disk(tmp_path)
    state.close()
    with pytest.raises(StateClosed), state.snapshot():
        pass


def test_rows_beyond_a_number_are_estimated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.streams.stores.rocksdb._COUNTED", 5)
    state = RocksState(tmp_path)
    state.claim(Owner(1, 0))
    rows = state.map("counts")
    for value in (b"1", b"2"):
        rows.put_all(dict.fromkeys((b"%d" % number for number in range(10)), value))
        state.commit({})
    assert 10 <= rows.approximate_count() <= 20
    state.close()
