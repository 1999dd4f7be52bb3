"""State that comes back after a day or more: rows that were deleted meanwhile are not there again."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.client.types import EARLIEST
from headwater.streams import App
from headwater.streams.slot import open_task, standby_tasks
from headwater.streams.slot.changelog_rows import ChangelogRows
from headwater.streams.slot.changelogs import ChangelogBounds, changelogs_of
from headwater.streams.slot.open_task import Clients, OpenTask
from headwater.streams.slot.stale_state import STALE_MS, is_stale
from headwater.streams.slot.standby_tasks import StandbyTasks
from headwater.streams.stores.build import build_store
from headwater.streams.stores.state import Owner


class Changelog:
    """Records by their offset: key and value, None deletes; an offset that is missing is a marker, or was compacted."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[bytes, bytes | None]] = {}
        self.end = 0

    def list_offsets(self, wanted: dict[Any, int], **_: Any) -> dict[Any, Any]:
        return {each: SimpleNamespace(offset=0 if at == EARLIEST else self.end) for each, at in wanted.items()}

    def describe_topic(self, name: str) -> Any:
        return SimpleNamespace(topic_id=name.encode())

    def runs(self, _reader: Any, _partition: Any, begin: int, end: int, *_: Any) -> Iterator[ChangelogRows]:
        for offset in range(begin, end):
            if offset in self.rows:
                key, value = self.rows[offset]
                yield ChangelogRows([key], [value], [7], offset + 1)


@pytest.fixture
def changelog(monkeypatch: pytest.MonkeyPatch) -> Changelog:
    made = Changelog()
    monkeypatch.setattr(open_task, "changelog_runs", made.runs)
    return made


def restored(changelog: Changelog, directory: Path, epoch: int) -> OpenTask:
    app = App("app", key="text", value="text")
    app.table("in", store="rows")
    (plan,) = app.topology().sub_topologies()
    brokers: Any = changelog
    task = OpenTask(plan, 0, app.settings(), directory, Clients(brokers, brokers, threading.Event()), {})
    task.claim(Owner(1, epoch))
    task.replay(task.ends("read_uncommitted"))
    task.save()
    return task


def opened(changelog: Changelog, directory: Path, epoch: int) -> tuple[set[bytes], int]:
    """The keys of a task that is opened here, and how many records it has read for that."""
    with closing(restored(changelog, directory, epoch)) as task:
        store: Any = build_store(task.plan.stores[0].spec, task.state)
        return {key for key, _ in store.all()}, task.restore.records


@pytest.mark.parametrize("away_ms", [STALE_MS - 60_000, STALE_MS + 60_000])
def test_a_row_that_was_deleted_while_the_task_was_away_is_not_there_again(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, away_ms: int
) -> None:
    """Compaction had taken the tombstone with it: the machine to which the task came back went on without."""
    now = [1_000_000]
    monkeypatch.setattr(open_task, "_now_ms", lambda: now[0])
    changelog.rows, changelog.end = {0: (b"a", b"1"), 1: (b"b", b"1")}, 3
    assert opened(changelog, tmp_path, 1) == ({b"a", b"b"}, 2)
    now[0] += away_ms
    changelog.rows |= {3: (b"a", None), 4: (b"c", b"1")}
    changelog.end = 6
    if away_ms > STALE_MS:
        del changelog.rows[0], changelog.rows[3]
    assert opened(changelog, tmp_path, 2) == ({b"b", b"c"}, 2)


def test_a_row_is_not_there_again_where_compaction_left_nothing_behind_its_deletion(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the marker was left of the transaction that had deleted it, which looked as if nothing had happened."""
    now = [1_000_000]
    monkeypatch.setattr(open_task, "_now_ms", lambda: now[0])
    changelog.rows, changelog.end = {0: (b"a", b"1"), 1: (b"b", b"1")}, 2
    assert opened(changelog, tmp_path, 1) == ({b"a", b"b"}, 2)
    now[0] += 2 * STALE_MS
    changelog.end = 5  # markers at 2 and 4, and the tombstone of "a" was at 3
    del changelog.rows[0]
    assert opened(changelog, tmp_path, 2) == ({b"b"}, 1)


def test_old_state_that_lacks_nothing_is_not_restored(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000_000]
    monkeypatch.setattr(open_task, "_now_ms", lambda: now[0])
    changelog.rows, changelog.end = {0: (b"a", b"1"), 1: (b"b", b"1")}, 2
    assert opened(changelog, tmp_path, 1) == ({b"a", b"b"}, 2)
    now[0] += 9 * STALE_MS
    changelog.end = 3  # a marker
    assert opened(changelog, tmp_path, 2) == ({b"a", b"b"}, 0)


def test_state_of_a_task_that_is_always_behind_does_not_grow_old(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are written between commits, every few seconds, and the time was noted at the first one alone: behind a
    kill, a task that had been busy for a day was restored from the beginning of its changelog.
    """
    now = [1_000_000]
    monkeypatch.setattr(open_task, "_now_ms", lambda: now[0])
    with closing(restored(changelog, tmp_path, 1)) as task:
        now[0] += STALE_MS + 60_000
        (rows,) = task.changelogs
        task.wrote(rows, 5)
        task.save(behind=True)
        task.written_at -= 60.0
        assert task.write_what_waits()
        with task.state.snapshot() as written:
            assert not is_stale(written, now[0])


def test_state_that_stayed_open_is_not_old(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first commit after a quiet weekend had an unknown outcome, and all state was read again, though nobody else
    had had the task.
    """
    now = [1_000_000]
    monkeypatch.setattr(open_task, "_now_ms", lambda: now[0])
    changelog.rows, changelog.end = {0: (b"a", b"1"), 1: (b"b", b"1")}, 3
    with closing(restored(changelog, tmp_path, 1)) as task:
        now[0] += 2 * STALE_MS
        changelog.rows[3], changelog.end = (b"c", b"1"), 5
        task.drop()
        task.claim(Owner(1, 2))
        task.replay(task.ends("read_uncommitted"))
        assert task.restore.records == 1


@pytest.mark.parametrize(("end", "begins"), [(3, 3), (4, 3), (5, 0)])
def test_an_old_copy_that_lacks_nothing_stays(
    end: int, begins: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker behind its last record made it begin anew at each start behind a quiet day, and a task whose slot died
    meanwhile had no copy to go on with.
    """
    now = [1_000_000]
    monkeypatch.setattr(standby_tasks, "_now_ms", lambda: now[0])
    read_from: list[int] = []
    monkeypatch.setattr(StandbyTasks, "_assign", lambda _, positions: read_from.extend(positions.values()))
    app = App("app", key="text", value="text")
    app.table("in", store="rows")
    (plan,) = app.topology().sub_topologies()
    (rows,) = changelogs = changelogs_of(plan, 0, "app")
    program: Any = SimpleNamespace(name="app", task_settings=app.settings())
    admin: Any = None

    def copy(end: int) -> StandbyTasks:
        standbys = StandbyTasks(program, admin, tmp_path, 1)
        standbys.add(["0_0"], 1)
        asked: Any = SimpleNamespace(task="0_0", plan=plan, changelogs=changelogs)
        standbys._open(asked, ChangelogBounds(changelogs, {rows: 0}, {rows: end}, {rows.topic: b"id"}))
        return standbys

    with closing(copy(3)) as first:
        first._copies["0_0"].state.commit({rows: 3})
    now[0] += 2 * STALE_MS
    with closing(copy(end)):
        assert read_from == [0, begins]
