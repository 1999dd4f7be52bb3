"""The offsets of TopicFiles are set and deleted: what the names of files say goes with them, on disks and in object
stores.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.topic_files import connector as module
from headwater.connect.connectors.topic_files.connector import TopicFilesConnector
from headwater.connect.connectors.topic_files.object_store import INTENTS, ObjectStore
from headwater.connect.connectors.topic_files.offset_marks import MARKS, REPLACED, Mark
from headwater.connect.connectors.topic_files.store import FileStore, Store, Written
from headwater.connect.errors import ConnectError
from unit.connect.topic_files.memory_objects import Crash, MemoryObjects
from unit.connect.topic_files.sink_kit import contents, kit, lines, put_range

HERE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
CUTS = [
    [Written("k=a", 0, 2, b"a"), Written("k=b", 1, 1, b"b")],
    [Written("k=a", 3, 4, b"c")],
    [Written("k=b", 5, 9, b"d")],
]


@pytest.fixture(params=["files", "objects"])
def stores(
    request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[Callable[[], Store], Callable[[], dict[str, bytes]]]:
    """A new task's store of the same place, and what is there."""
    if request.param == "files":
        return lambda: FileStore(tmp_path, 1), lambda: contents(tmp_path)
    objects = MemoryObjects()
    return lambda: ObjectStore(objects, "s3://b", 1), lambda: dict(sorted(objects.there.items()))


def written(store: Store, place: TopicPartition = HERE) -> None:
    store.recover([place])
    for cut in CUTS:
        store.write(place, "json", cut)


Stores = tuple[Callable[[], Store], Callable[[], dict[str, bytes]]]


@pytest.mark.parametrize(("offset", "left"), [(0, b""), (3, b"ab"), (5, b"abc"), (10, b"abcd"), (25, b"abcd")])
def test_a_task_goes_on_where_it_was_told_and_later_files_are_kept_aside(
    stores: Stores, offset: int, left: bytes
) -> None:
    make, there = stores
    written(make())
    make().set_offset(HERE, offset)
    assert make().recover([HERE]) == make().next_offsets([HERE]) == {HERE: offset}
    counted = [data for path, data in there().items() if f"/{REPLACED}/" not in path and data]
    assert sorted(counted) == [left[n : n + 1] for n in range(len(left))]
    assert sorted(data for data in there().values() if data) == [b"a", b"b", b"c", b"d"]


def test_a_partition_without_files_begins_at_its_mark_too(stores: Stores) -> None:
    make, there = stores
    make().set_offset(OTHER, 7)
    assert make().recover([HERE, OTHER]) == {OTHER: 7}
    assert make().partitions() == {OTHER}
    make().set_offset(OTHER, 7)
    assert list(there()) == [f"t/{MARKS}/1+1+7.mark"]


def test_an_offset_that_is_deleted_leaves_the_group_to_say_where_to_begin(stores: Stores) -> None:
    make, there = stores
    written(make())
    written(make(), OTHER)
    make().set_offset(HERE, None)
    assert make().recover([HERE, OTHER]) == {OTHER: 10}
    assert make().partitions() == {HERE, OTHER}  # of the mark there may be more to forget
    assert [path for path in there() if MARKS in path] == [f"t/{MARKS}/0+1+none.mark"]


def test_offsets_are_set_again_and_again(stores: Stores) -> None:
    make, there = stores
    written(make())
    for generation, offset in enumerate((30, 5, 20, 0), start=1):
        make().set_offset(HERE, offset)
        assert make().recover([HERE]) == {HERE: offset}
        assert [path for path in there() if MARKS in path] == [f"t/{MARKS}/0+{generation}+{offset}.mark"]
    written(make())
    assert make().recover([HERE]) == {HERE: 10}
    assert sorted(data for path, data in there().items() if REPLACED not in path and data) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize(("offset", "choice"), [(1, "0, or 3"), (2, "0, or 3"), (4, "3, or 5"), (9, "5, or 10")])
def test_a_file_is_not_cut_in_two(stores: Stores, offset: int, choice: str) -> None:
    make, there = stores
    written(make())
    before = there()
    for ask in (make().check_offset, make().set_offset):
        with pytest.raises(ConnectError, match=f"choose {choice}"):
            ask(HERE, offset)
    assert there() == before


def test_a_task_that_slept_while_offsets_were_set_writes_nothing(stores: Stores) -> None:
    make, there = stores
    asleep = make()
    asleep.recover([HERE, OTHER])
    asleep.write(HERE, "json", CUTS[0])
    make().set_offset(HERE, 0)
    with pytest.raises(ConnectError, match="was set while this task slept"):
        asleep.write(HERE, "json", CUTS[1])
    assert make().recover([HERE]) == {HERE: 0}
    asleep.write(OTHER, "json", CUTS[1])  # another partition's are its own
    assert make().recover([OTHER]) == {OTHER: 5}
    assert b"c" in there().values()


@pytest.mark.parametrize("step", range(1, 7))
def test_a_task_that_writes_while_offsets_are_set_leaves_no_file_behind_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Somebody else sets the offset before each step of its writing:
    either it sees that, or its files are taken along.
    """
    task = FileStore(tmp_path, 1)
    task.recover([HERE])
    task.write(HERE, "json", [Written("k=a", 0, 2, b"before")])
    steps = 0

    def stepped(name: str) -> None:
        real = getattr(task._files, name)

        def call(*given: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == step:
                FileStore(tmp_path, 1).set_offset(HERE, 0)
            return real(*given)

        monkeypatch.setattr(task._files, name, call)

    for name in ("write", "rename", "sync", "walk"):
        stepped(name)
    outcomes: list[Exception | None] = [None]
    try:
        task.write(HERE, "json", [Written("k=a", 3, 5, b"late")])
    except ConnectError as error:
        outcomes.append(error)
    assert steps >= step
    assert (outcomes[-1] is None) == (step == 6)  # before the last one all was there, and went
    assert FileStore(tmp_path, 1).recover([HERE]) == {HERE: 0}
    assert all(REPLACED in name or MARKS in name for name in contents(tmp_path))


@pytest.mark.parametrize("change", range(1, 14))
@pytest.mark.parametrize("again", [False, True])
def test_setting_offsets_of_objects_that_was_cut_short_is_ended_by_the_next_task(change: int, again: bool) -> None:
    objects = MemoryObjects()
    written(ObjectStore(objects, "s3://b", 1))
    objects.changes = 0

    def crash(number: int) -> None:
        if number == change:
            raise Crash

    objects.before = crash
    with suppress(Crash):
        ObjectStore(objects, "s3://b", 1).set_offset(HERE, 0)
    assert objects.changes <= change
    objects.before = lambda _: None
    if again:
        ObjectStore(objects, "s3://b", 1).set_offset(HERE, 3 if change == 1 else 0)
    expected = {(1, False): 10, (1, True): 3}.get((change, again), 0)
    task = ObjectStore(objects, "s3://b", 1)
    assert task.next_offsets([HERE]) == task.recover([HERE]) == {HERE: expected}
    if not expected:
        assert all(REPLACED in key or MARKS in key for key in objects.there)
    task.write(HERE, "json", [Written("k=a", expected, 20, b"new")])
    assert ObjectStore(objects, "s3://b", 1).recover([HERE]) == {HERE: 21}


@pytest.mark.parametrize("change", range(1, 8))
def test_setting_offsets_of_files_that_was_cut_short_is_ended_by_the_next_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: int
) -> None:
    store = FileStore(tmp_path, 1)
    written(store)
    changes = 0

    def crashing(name: str) -> None:
        real = getattr(store._files, name)

        def call(*given: Any) -> Any:
            nonlocal changes
            changes += 1
            if changes == change:
                raise Crash
            return real(*given)

        monkeypatch.setattr(store._files, name, call)

    for name in ("write", "rename", "unlink"):
        crashing(name)
    with suppress(Crash):  # six changes: a mark, four files, its name
        store.set_offset(HERE, 0)
    task = FileStore(tmp_path, 1)
    assert task.next_offsets([HERE]) == task.recover([HERE]) == {HERE: 10 if change == 1 else 0}
    assert (changes < change) == (change == 7)
    task.write(HERE, "json", [Written("k=a", 10, 20, b"new")])
    assert FileStore(tmp_path, 1).recover([HERE]) == {HERE: 21}


def test_cuts_that_are_half_written_go_too_or_have_to_be_ended_first() -> None:
    objects = MemoryObjects()
    objects.there = {
        "t/k=a/t+0+4+6.json": b"a",
        f"t/{INTENTS}/0+3+7+ff.json": b'["k=a/t+0+4+6.json", "k=b/t+0+3+7.json"]',
    }
    store = ObjectStore(objects, "s3://b", 1)
    with pytest.raises(ConnectError, match="half written: resume the connector, which ends them, or choose 3 or less"):
        store.set_offset(HERE, 8)
    assert store.partitions() == {HERE}
    store.set_offset(HERE, 2)
    assert store.recover([HERE]) == {HERE: 2}
    assert not any(INTENTS in key for key in objects.there)


def test_all_partitions_are_set_or_none(tmp_path: Path) -> None:
    written(FileStore(tmp_path, 1))
    written(FileStore(tmp_path, 1), OTHER)
    before = contents(tmp_path)
    with pytest.raises(ConnectError, match="choose 3, or 5"):
        TopicFilesConnector().alter_offsets({"path": str(tmp_path)}, {HERE: 0, OTHER: 4})
    assert contents(tmp_path) == before


def test_records_are_in_one_file_each_after_offsets_were_set_back_and_on(tmp_path: Path) -> None:
    config = {"partitioner": "field", "partition_field_name": "kind"}
    sink = kit(tmp_path, **config)
    put_range(sink, 11)
    connector, props = TopicFilesConnector(), {"path": str(tmp_path)}
    ends = sink.commit()
    assert connector.alter_offsets(props, {HERE: 0})
    sink = kit(tmp_path, **config)
    assert sink.next_offset == 0
    put_range(sink, ends)
    assert connector.alter_offsets(props, {HERE: 20})
    sink = kit(tmp_path, **config)
    assert sink.next_offset == 20
    put_range(sink, 31)
    counted = [each for path in (tmp_path / "t").iterdir() if "=" in path.name for each in lines(path)]
    numbers = sorted(each["n"] for each in counted)
    assert numbers == [*range(ends), *range(20, sink.commit())]
    assert len(numbers) > ends + 6


def test_an_offset_behind_the_end_of_the_topic_is_told_as_one_that_was_set(tmp_path: Path) -> None:
    """The consumer begins with the earliest record then; the sentence spoke of files that were not there."""
    FileStore(tmp_path, 1).set_offset(HERE, 1000)
    sink = kit(tmp_path)
    with pytest.raises(ConnectError, match="gives offset 0, but it goes on at 1000, where its files end or its offset"):
        sink.task.put([sink.record({"n": 0}).replaced(offset=0)])


def test_a_reset_forgets_all_partitions_whatever_the_group_knows(tmp_path: Path) -> None:
    written(FileStore(tmp_path, 1))
    written(FileStore(tmp_path, 1), OTHER)
    assert TopicFilesConnector().reset_offsets({"path": str(tmp_path), "topics": "t"}, [TopicPartition("u", 3)])
    assert FileStore(tmp_path, 1).recover([HERE, OTHER, TopicPartition("u", 3)]) == {}
    assert sink_begins_anew(tmp_path)


@pytest.mark.parametrize("subscription", [{"topics": "u, t"}, {"topics.regex": "t|u.*"}])
def test_a_reset_leaves_the_files_of_topics_that_the_connector_does_not_read(
    tmp_path: Path, subscription: dict[str, str]
) -> None:
    """Two connectors with one path and topics of their own: the files of the other went aside, and its task failed."""
    others = TopicPartition("tt", 0)
    other = FileStore(tmp_path, 1)
    written(FileStore(tmp_path, 1))
    written(other, others)
    assert TopicFilesConnector().reset_offsets({"path": str(tmp_path), **subscription}, [])
    assert FileStore(tmp_path, 1).recover([HERE]) == {}
    other.write(others, "json", [Written("k=a", 10, 12, b"e")])
    assert FileStore(tmp_path, 1).recover([others]) == {others: 13}


def sink_begins_anew(path: Path) -> bool:
    sink = kit(path)
    put_range(sink, 3)
    return (path / "t/partition=0/t+0+0000000000+0000000002.json").exists()


def test_a_reset_of_objects_takes_half_written_cuts_along(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = MemoryObjects()
    monkeypatch.setattr(module, "open_store", lambda config: ObjectStore(objects, "s3://b", 1))
    objects.there = {f"t/{INTENTS}/0+3+7+ff.json": b'["k=b/t+0+3+7.json"]'}
    assert TopicFilesConnector().reset_offsets({"path": "s3://b", "format": "json", "topics": "t"}, [])
    assert list(objects.there) == [f"t/{MARKS}/0+1+none.mark"]


@pytest.mark.parametrize("text", ["0+1.mark", "0+1+x.mark", "0+1+2.json", "-1+1+2.mark", "0+1+none.mark.part"])
def test_other_names_are_no_marks(text: str) -> None:
    assert Mark.parse(text) is None
