"""What becomes of the state on disk where changelogs do not fit it: that of one store, or all of it after a reset."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headwater.streams.slot.changelogs import ChangelogBounds, changelogs_of, read_from
from headwater.streams.stores.build import build_store
from headwater.streams.stores.combined_state import open_state
from headwater.streams.stores.memory import MemoryState
from headwater.streams.stores.spec import StoreKind, StoreSpec, StoreType
from headwater.streams.stores.state import ChangelogPartition, Owner, TaskState
from headwater.streams.topology.stores import StorePlan
from headwater.streams.topology.topology import SubTopology

ONE, TWO, WINDOWS = (ChangelogPartition(f"app-{name}-changelog", 0) for name in ("one", "two", "windows"))
IDS = {each.topic: each.topic.encode() for each in (ONE, TWO, WINDOWS)}
OF_OPERATORS = b"stream-time of an operator"


def plan(
    two_in: StoreType | None = None, ttl_ms: int | None = None, retention_ms: int = 60_000, time_ordered: bool = False
) -> SubTopology:
    specs = [
        StoreSpec("one", timestamped=False, ttl_ms=ttl_ms),
        StoreSpec("two", timestamped=False, store_type=two_in),
        StoreSpec("windows", StoreKind.WINDOW, timestamped=False, retention_ms=retention_ms, time_ordered=time_ordered),
        StoreSpec("unlogged", timestamped=False, logged=False),
    ]
    return SubTopology(0, [], [StorePlan(spec) for spec in specs], {}, frozenset())


def opened_on_disk(directory: Path, of: SubTopology) -> TaskState:
    return open_state(directory, [store.spec for store in of.stores], changelogs_of(of, 0, "app"))


Opens = Callable[[SubTopology], Any]


@pytest.fixture(params=["lmdb", "rocksdb beside lmdb", "memory"])
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[SubTopology, Opens]]:
    if request.param == "memory":
        kept = MemoryState()
        yield plan(), lambda of: kept
    else:
        two_in = StoreType.ROCKSDB if request.param != "lmdb" else None
        yield plan(two_in), lambda of: opened_on_disk(tmp_path, of)


def bounds(
    begins: Mapping[ChangelogPartition, int] | None = None,
    ends: Mapping[ChangelogPartition, int] | None = None,
    ids: Mapping[str, bytes] | None = None,
) -> ChangelogBounds:
    everywhere = dict.fromkeys((ONE, TWO, WINDOWS), 0)
    return ChangelogBounds(
        changelogs_of(plan(), 0, "app"),
        everywhere | dict(begins or {}),
        dict.fromkeys(everywhere, 9) | dict(ends or {}),
        IDS | dict(ids or {}),
    )


def fill(state: TaskState, of: SubTopology) -> None:
    """A run that has got to offset 5 of each changelog."""
    state.claim(Owner(1, 1))
    read_from(of, state, bounds())
    for store in of.stores:
        opened: Any = build_store(store.spec, state)
        opened.put(b"key", b"value", *([5_000] if store.spec.kind is StoreKind.WINDOW else []))
    state.times.put(OF_OPERATORS, b"7")
    state.commit(dict.fromkeys((ONE, TWO, WINDOWS), 5))


def found(state: TaskState, of: SubTopology) -> set[str]:
    """What still has its row."""
    by_name: dict[str, Any] = {store.name: build_store(store.spec, state) for store in of.stores}
    rows = {name for name, store in by_name.items() if name != "windows" and store.get(b"key") is not None}
    if by_name["windows"].get(b"key", 5_000) is not None:
        assert by_name["windows"].stream_time == 5_000
        rows.add("windows")
    else:
        assert by_name["windows"].stream_time == -1
    return rows | ({"times"} if state.times.get(OF_OPERATORS) is not None else set())


EVERYTHING = {"one", "two", "windows", "unlogged", "times"}

MISFITS = {
    "the changelog is shorter": (bounds(ends={ONE: 4}), {ONE: 0}, {"one"}),
    "its beginning is gone": (bounds(begins={WINDOWS: 6}), {WINDOWS: 6}, {"windows"}),
    "it was made anew": (bounds(ids={TWO.topic: b"another"}), {TWO: 0}, {"two"}),
    "two of three": (bounds(ends={ONE: 4, WINDOWS: 1}), {ONE: 0, WINDOWS: 0}, {"one", "windows"}),
    "all shorter": (bounds(ends=dict.fromkeys((ONE, TWO, WINDOWS), 1)), dict.fromkeys((ONE, TWO, WINDOWS), 0),
                    {"one", "two", "windows"}),
    "all made anew, as by a reset": (bounds(ids=dict.fromkeys(IDS, b"another")),
                                     dict.fromkeys((ONE, TWO, WINDOWS), 0), EVERYTHING),
    "none": (bounds(), {}, set()),
}  # fmt: skip


@pytest.mark.parametrize("why", MISFITS)
def test_only_the_store_is_wiped_whose_changelog_does_not_fit(opens: tuple[SubTopology, Opens], why: str) -> None:
    of, opened = opens
    asked, read_anew, gone = MISFITS[why]
    with closing(opened(of)) as state:
        fill(state, of)
    with closing(opened(of)) as state:
        state.claim(Owner(2, 1))
        assert read_from(of, state, asked) == dict.fromkeys((ONE, TWO, WINDOWS), 5) | read_anew
        assert found(state, of) == EVERYTHING - gone
        state.commit({})
    with closing(opened(of)) as state:  # it stays so, and what was noted fits now
        state.claim(Owner(3, 1))
        assert read_from(of, state, asked) == dict.fromkeys((ONE, TWO, WINDOWS), 5) | read_anew
        assert found(state, of) == EVERYTHING - gone


def test_state_that_is_open_and_not_written_yet_is_treated_the_same(opens: tuple[SubTopology, Opens]) -> None:
    """As after a failed commit: the state stays open, and commits may wait in memory."""
    of, opened = opens
    with closing(opened(of)) as state:
        fill(state, of)
        for store in of.stores:
            again: Any = build_store(store.spec, state)
            again.put(b"key", b"newer", *([5_000] if store.spec.kind is StoreKind.WINDOW else []))
        state.commit(dict.fromkeys((ONE, TWO, WINDOWS), 6), later=True)
        assert read_from(of, state, bounds(ends={WINDOWS: 5})) == {ONE: 6, TWO: 6, WINDOWS: 0}
        assert found(state, of) == EVERYTHING - {"windows"}
        one: Any = build_store(of.stores[0].spec, state)
        assert one.get(b"key") == b"newer"
        state.commit({})
    if not isinstance(state, MemoryState):
        with closing(opened(of)) as state:
            assert found(state, of) == EVERYTHING - {"windows"}


def test_a_store_that_gets_a_time_to_live_is_restored_and_others_stay(tmp_path: Path) -> None:
    before, after = plan(), plan(ttl_ms=1_000)
    with closing(opened_on_disk(tmp_path, before)) as state:
        fill(state, before)
    for of, positions in ((after, {ONE: 0}), (before, {ONE: 0}), (before, {ONE: 0})):
        with closing(opened_on_disk(tmp_path, of)) as state:
            state.claim(Owner(1, 1))
            assert read_from(of, state, bounds()) == {ONE: 5, TWO: 5, WINDOWS: 5} | positions
            state.commit({})
            assert found(state, before) == EVERYTHING - {"one"}


@pytest.mark.parametrize("after", [plan(retention_ms=7_200_000), plan(time_ordered=True)])
def test_windows_that_would_lie_elsewhere_are_restored_and_others_stay(tmp_path: Path, after: SubTopology) -> None:
    """A longer grace moved the borders of segments: the windows that were open seemed to be empty, and counted anew."""
    before = plan()
    with closing(opened_on_disk(tmp_path, before)) as state:
        fill(state, before)
    with closing(opened_on_disk(tmp_path, after)) as state:
        state.claim(Owner(2, 1))
        assert read_from(after, state, bounds()) == {ONE: 5, TWO: 5, WINDOWS: 0}
        assert found(state, after) == EVERYTHING - {"windows"}
        restored: Any = build_store(after.stores[2].spec, state)
        restored.put(b"key", b"value", 5_000)  # as the changelog has it
        state.commit({WINDOWS: 5})
    with closing(opened_on_disk(tmp_path, after)) as state:
        state.claim(Owner(3, 1))
        assert read_from(after, state, bounds()) == dict.fromkeys((ONE, TWO, WINDOWS), 5)
        assert found(state, after) == EVERYTHING


def test_a_retention_that_moves_no_border_restores_nothing(tmp_path: Path) -> None:
    with closing(opened_on_disk(tmp_path, plan())) as state:
        fill(state, plan())
    after = plan(retention_ms=90_000)  # segments are a minute at least
    with closing(opened_on_disk(tmp_path, after)) as state:
        state.claim(Owner(2, 1))
        assert read_from(after, state, bounds()) == dict.fromkeys((ONE, TWO, WINDOWS), 5)
        assert found(state, after) == EVERYTHING
