"""A task whose stores lie in LMDB, RocksDB and memory: each with its own position, and none ahead of its changelog."""

import dataclasses
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.streams import App, Materialized, Processor, key_value_store
from headwater.streams.stores.build import build_store
from headwater.streams.stores.combined_state import CombinedState, check_installed, open_state
from headwater.streams.stores.lmdb import LmdbState
from headwater.streams.stores.memory import MemoryState
from headwater.streams.stores.spec import StoreKind, StoreSpec, StoreType
from headwater.streams.stores.state import ChangelogPartition, Owner, TaskState

SPECS = {kind: StoreSpec(f"in-{kind}", timestamped=False, store_type=kind) for kind in StoreType}
CHANGELOGS = {ChangelogPartition(f"app-{spec.name}-changelog", 0): spec for spec in SPECS.values()}
BEGIN, END = dict.fromkeys(CHANGELOGS, 1), dict.fromkeys(CHANGELOGS, 2)
ON_DISK = {where: 1 for where, spec in CHANGELOGS.items() if spec.store_type is not StoreType.IN_MEMORY}


@contextmanager
def opened(directory: Path, specs: Any = SPECS, run: int = 1) -> Iterator[Any]:
    changelogs = {where: specs[kind] for where, kind in zip(CHANGELOGS, specs, strict=True)}
    state = open_state(directory, specs.values(), changelogs)
    try:
        state.claim(Owner(run, 0))
        yield state
    finally:
        state.close()


def put(state: TaskState, value: bytes) -> None:
    for spec in SPECS.values():
        store: Any = build_store(spec, state)
        store.put(b"a", value)


def seen(state: TaskState, specs: Any = SPECS) -> dict[str, bytes | None]:
    stores: dict[str, Any] = {str(kind): build_store(spec, state) for kind, spec in specs.items()}
    return {kind: store.get(b"a") for kind, store in stores.items()}


def all_of(value: bytes | None) -> dict[str, bytes | None]:
    return dict.fromkeys(map(str, StoreType), value)


def test_each_store_lies_where_it_is_to(tmp_path: Path) -> None:
    with opened(tmp_path) as state:
        put(state, b"1")
        assert seen(state) == all_of(b"1")
        state.commit(BEGIN)
        put(state, b"2")
        state.discard()
        assert seen(state) == all_of(b"1")
        assert state.positions == BEGIN
        with state.snapshot() as snapshot:
            put(state, b"3")
            assert seen(snapshot) == all_of(b"1")
    with opened(tmp_path) as state:
        assert seen(state) == {"lmdb": b"1", "rocksDB": b"1", "in_memory": None}
        assert state.positions == ON_DISK
    lmdb = LmdbState(tmp_path)
    assert [key for key, _ in lmdb.map("in-lmdb").scan()] == [b"a"]
    assert list(lmdb.map("in-rocksDB").scan()) == []
    lmdb.close()


def test_a_kill_between_two_parts_leaves_one_behind_and_none_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as state:
        put(state, b"1")
        state.commit(BEGIN)
        put(state, b"2")
        rocks = state.part(SPECS[StoreType.ROCKSDB])

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(rocks, "_write", killed)
            with pytest.raises(KeyboardInterrupt):
                state.commit(END)
        rocks._forget_unwritten()  # what the end of the process takes
    with opened(tmp_path) as state:
        positions = {CHANGELOGS[where].store_type: at for where, at in state.positions.items()}
        assert positions == {StoreType.LMDB: 2, StoreType.ROCKSDB: 1}
        assert seen(state) == {"lmdb": b"2", "rocksDB": b"1", "in_memory": None}


def test_wiping_forgets_all_parts(tmp_path: Path) -> None:
    with opened(tmp_path) as state:
        put(state, b"1")
        state.commit(BEGIN)
        state.wipe()
        assert (seen(state), dict(state.positions)) == (all_of(None), {})


def test_a_run_with_a_lower_number_finds_nothing(tmp_path: Path) -> None:
    with opened(tmp_path, run=2) as state:
        put(state, b"1")
        state.commit(BEGIN)
    with opened(tmp_path, run=1) as state:
        assert dict(state.positions) == {}


def test_a_store_that_comes_back_to_where_it_was_does_not_find_its_old_rows(tmp_path: Path) -> None:
    """Its changelog may have been compacted since: nobody would delete them."""
    elsewhere = {
        kind: StoreSpec(spec.name, timestamped=False, store_type=StoreType.LMDB) for kind, spec in SPECS.items()
    }
    with opened(tmp_path) as state:
        put(state, b"1")
        state.commit(BEGIN)
    assert (tmp_path / "rocksdb").exists()
    with opened(tmp_path, elsewhere) as state:
        assert isinstance(state, LmdbState)
        assert not (tmp_path / "rocksdb").exists()
        assert seen(state, elsewhere)["rocksDB"] is None
        for spec in elsewhere.values():
            store: Any = build_store(spec, state)
            store.put(b"a", b"2")
        state.commit(END)
    with opened(tmp_path) as state:
        assert isinstance(state, CombinedState)
        stayed = next(where for where, spec in CHANGELOGS.items() if spec.store_type is StoreType.LMDB)
        assert (seen(state), dict(state.positions)) == (all_of(None) | {"lmdb": b"2"}, {stayed: 2})


@pytest.mark.parametrize("before", [StoreType.LMDB, StoreType.ROCKSDB])
def test_a_store_that_changes_its_type_takes_nothing_from_others(tmp_path: Path, before: StoreType) -> None:
    """Nobody brings back rows without a changelog, and the times of operators."""
    after = StoreType.ROCKSDB if before is StoreType.LMDB else StoreType.LMDB
    others = [
        StoreSpec(f"{kind}-{logged}", timestamped=False, store_type=kind, logged=logged)
        for kind in (before, after)
        for logged in (False, True)
    ]
    moved = StoreSpec("moved", StoreKind.WINDOW, retention_ms=1000, window_size_ms=10, store_type=before)
    where = {ChangelogPartition(f"app-{spec.name}-changelog", 0): spec for spec in (moved, *others) if spec.logged}
    (of_moved,) = [each for each, spec in where.items() if spec is moved]

    def stores(state: TaskState, spec: StoreSpec) -> tuple[Any, list[Any]]:
        return build_store(spec, state), [build_store(each, state) for each in others]

    with closing(open_state(tmp_path, [moved, *others], where)) as state:
        state.claim(Owner(1, 0))
        window, kept = stores(state, moved)
        window.put(b"a", bytes(8) + b"1", 70)
        for each in kept:
            each.put(b"a", b"1")
        state.times.put(b"t", b"7")
        state.commit(dict.fromkeys(where, 1))
    there = dataclasses.replace(moved, store_type=after)
    for spec in (there, moved):
        now = {each: there if of is moved and spec is there else of for each, of in where.items()}
        with closing(open_state(tmp_path, [spec, *others], now)) as state:
            state.claim(Owner(1, 0))
            window, kept = stores(state, spec)
            assert (list(window.all()), window.stream_time) == ([], -1)
            assert [each.get(b"a") for each in kept] == [b"1"] * 4
            assert state.times.get(b"t") == b"7"
            assert state.positions == {each: 1 for each in where if each != of_moved}


@pytest.mark.parametrize("before", [StoreType.LMDB, StoreType.ROCKSDB])
def test_a_store_without_a_changelog_begins_empty_where_it_lies_now(tmp_path: Path, before: StoreType) -> None:
    after = StoreType.ROCKSDB if before is StoreType.LMDB else StoreType.LMDB
    for kind in (before, after, before):
        spec = StoreSpec("own", timestamped=False, store_type=kind, logged=False)
        with closing(open_state(tmp_path, [spec], {})) as state:
            state.claim(Owner(1, 0))
            store: Any = build_store(spec, state)
            assert store.get(b"a") is None
            store.put(b"a", b"1")
            state.commit({})


def test_a_query_opens_only_the_part_that_it_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opens: list[StoreType] = []

    def noted(kind: StoreType, taken: Any) -> Any:
        opens.append(kind)
        return taken()

    with opened(tmp_path) as state:
        put(state, b"1")
        state.commit(BEGIN)
        for kind, spec in SPECS.items():
            part = state.part(spec)
            monkeypatch.setattr(part, "snapshot", partial(noted, kind, part.snapshot))
        for kind, spec in SPECS.items():
            opens.clear()
            with state.snapshot() as snapshot:
                store: Any = build_store(spec, snapshot)
                assert (store.get(b"a"), store.get(b"b")) == (b"1", None)
            assert opens == [StoreType.LMDB, kind][kind is StoreType.LMDB :], "LMDB tells whether the state is closed"


def test_a_commit_in_memory_does_not_wait_for_a_query() -> None:
    state, written = MemoryState(), threading.Event()
    rows = state.map("rows")
    rows.put(b"a", b"1")
    rows.put(b"b", b"1")
    state.commit({})
    rows.put(b"a", b"2")
    rows.put(b"b", None)

    def commit() -> None:
        state.commit({})
        written.set()

    other = threading.Thread(target=commit)
    with state.snapshot() as one:
        other.start()
        was_written = written.wait(60)
        with state.snapshot() if was_written else nullcontext(one) as later:
            assert was_written
            assert (list(one.map("rows").scan()), one.map("rows").get(b"b")) == ([(b"a", b"1"), (b"b", b"1")], b"1")
            assert list(later.map("rows").scan()) == [(b"a", b"2")]
    other.join()
    assert list(state.map("rows").scan()) == [(b"a", b"2")]


def test_a_store_in_memory_that_nothing_restores_lies_on_disk() -> None:
    spec = StoreSpec("s", logged=False, store_type=StoreType.IN_MEMORY)
    assert spec.lies_in(StoreType.ROCKSDB) is StoreType.LMDB


def test_an_application_says_where_its_stores_lie_and_each_store_may_say_otherwise() -> None:
    app = App("app", config={"default.dsl.store": "rocksDB"})
    app.table("prices", store=Materialized("prices", store_type="in_memory"))
    app.stream("in").group_by_key().count(store="counts")
    app.add_store(key_value_store("seen", store_type="lmdb"))
    app.stream("more").process(Processor, stores=["seen"])
    default = app.settings().store_type
    found = {name: plan.spec.lies_in(default) for name, plan in app.topology().stores.items()}
    assert found == {"prices": StoreType.IN_MEMORY, "counts": StoreType.ROCKSDB, "seen": StoreType.LMDB}


def test_a_type_that_there_is_not_is_refused() -> None:
    with pytest.raises(UserError, match="'leveldb'"):
        App("app", config={"default.dsl.store": "leveldb"})
    with pytest.raises(UserError, match="rocksDB"):
        key_value_store("seen", store_type="rocksdb")


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.streams.stores.combined_state.find_spec", lambda _: None)
    check_installed([StoreType.LMDB, StoreType.IN_MEMORY])
    with pytest.raises(UserError, match="rocksdict"):
        check_installed([StoreType.ROCKSDB])
