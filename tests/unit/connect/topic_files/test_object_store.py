"""Cuts in an object store: a crash, or another task, before each call of the store."""

import json
from collections.abc import Callable
from random import Random
from threading import Semaphore, Thread
from typing import Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.topic_files import connector as module
from headwater.connect.connectors.topic_files.connector import TopicFilesConnector
from headwater.connect.connectors.topic_files.names import FileName
from headwater.connect.connectors.topic_files.object_store import INTENTS, ObjectStore, half_done
from headwater.connect.connectors.topic_files.store import Written, told
from headwater.connect.errors import ConnectError
from headwater.testing.connect import SinkKit
from unit.connect.topic_files.memory_objects import Crash, MemoryObjects

HERE = TopicPartition("t", 0)
FILES = [Written("k=a", 4, 6, b"a"), Written("k=b", 5, 5, b"b"), Written("k=c", 3, 7, b"c")]
NAMES = {"t/k=a/t+0+4+6.json": b"a", "t/k=b/t+0+5+5.json": b"b", "t/k=c/t+0+3+7.json": b"c"}


class Stepped(MemoryObjects):
    """A task in a thread of its own; each call of the store waits for its `step`."""

    def __init__(self, shared: MemoryObjects, task: Callable[[MemoryObjects], None]) -> None:
        super().__init__(lambda _: None)
        self.there = shared.there
        self.error: BaseException | None = None
        self.done_calls, self._dead = 0, False
        self._go, self._came = Semaphore(0), Semaphore(0)
        self._thread = Thread(target=self._run, args=(task,))
        self._thread.start()
        self._came.acquire()

    def _run(self, task: Callable[[MemoryObjects], None]) -> None:
        try:
            task(self)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        self._dead = True
        self._came.release()

    def _wait(self) -> None:
        self._came.release()
        self._go.acquire()
        if self._dead:
            raise Crash

    def step(self) -> bool:
        """False: it has ended."""
        if self._dead:
            self._thread.join()
            return False
        self.done_calls += 1
        self._go.release()
        self._came.acquire()
        return True

    def __enter__(self) -> "Stepped":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        if not self._dead:
            self._dead = True
            self._go.release()
        self._thread.join()

    def keys(self, prefix: str) -> list[str]:
        self._wait()
        return super().keys(prefix)

    def get(self, key: str) -> bytes:
        self._wait()
        return super().get(key)

    def _change(self) -> None:
        self._wait()


def store(objects: MemoryObjects) -> ObjectStore:
    return ObjectStore(objects, "s3://b", 1)


@pytest.mark.parametrize("step", range(1, 6))
def test_a_crash_at_each_step_leaves_all_of_a_cut_or_nothing(step: int) -> None:
    """An intent, three files, and the intent's end."""

    def crash(change: int) -> None:
        if change == step:
            raise Crash

    objects = MemoryObjects()
    store(objects).write(HERE, "json", [Written("k=a", 0, 2, b"before")])
    assert objects.changes == 1  # a cut of one file needs no intent
    objects.changes, objects.before = 0, crash
    with pytest.raises(Crash):
        store(objects).write(HERE, "json", FILES)
    objects.before = lambda _: None
    assert store(objects).recover([TopicPartition("t", 1)]) == {}  # another's: nothing of it is touched
    end = {HERE: 8 if step == 5 else 3}
    assert store(objects).next_offsets([HERE]) == end
    successor = store(objects)
    assert successor.recover([HERE]) == end
    if step != 5:
        successor.write(HERE, "json", FILES)
    assert objects.there == {"t/k=a/t+0+0+2.json": b"before"} | NAMES


def test_an_undone_cut_begins_where_it_began_whatever_the_group_committed() -> None:
    objects = MemoryObjects()
    objects.there = {f"t/{INTENTS}/0+3+7+ff.json": json.dumps([name[2:] for name in NAMES]).encode()}
    for _ in range(2):
        assert store(objects).recover([HERE]) == {HERE: 3}
    (intent,) = objects.there  # the last successor's
    assert intent.startswith(f"t/{INTENTS}/0+3+7+")
    assert intent != f"t/{INTENTS}/0+3+7+ff.json"


@pytest.mark.parametrize("step", range(1, 6))
def test_a_task_that_lost_its_partition_does_not_end_what_its_successor_writes(step: int) -> None:
    """Its successor finds the cut half done and writes it itself, and is killed before its last file."""

    def last_file(change: int) -> None:
        if change == 4:
            raise Crash

    def successor(change: int) -> None:
        if change == step:
            objects.before = lambda _: None
            new = store(objects)
            assert new.recover([HERE]) == ({} if step == 1 else {HERE: 8} if step == 5 else {HERE: 3})
            if step < 5:
                objects.changes, objects.before = 0, last_file
                with pytest.raises(Crash):
                    new.write(HERE, "json", FILES)
                objects.before = lambda _: None

    objects = MemoryObjects(successor)
    if step in (1, 5):
        store(objects).write(HERE, "json", FILES)
    else:
        with pytest.raises(ConnectError, match="another task"):
            store(objects).write(HERE, "json", FILES)
    third = store(objects)
    found = third.recover([HERE])
    assert found in ({HERE: 8}, {HERE: 3})
    if found == {HERE: 3}:
        third.write(HERE, "json", FILES)
    assert objects.there == NAMES


@pytest.mark.parametrize("puts", [1, 2, 3])
def test_a_successor_that_dies_before_it_writes_leaves_no_cut_that_passes_for_whole(puts: int) -> None:
    """The task before it has written one file, and writes others, or all, when its successor has recovered."""
    objects = MemoryObjects()
    with Stepped(objects, lambda own: store(own).write(HERE, "json", FILES)) as first:
        for _ in range(2):
            first.step()
        assert store(objects).recover([HERE]) == {HERE: 3}
        for _ in range(puts - 1):
            first.step()
        while puts == 3 and first.step():
            pass
    assert isinstance(first.error, ConnectError if puts == 3 else Crash)
    third = store(objects)
    assert third.recover([HERE]) == {HERE: 8 if puts == 3 else 3}
    if puts < 3:
        third.write(HERE, "json", FILES)
    assert objects.there == NAMES


@pytest.mark.parametrize("seed", range(200))
def test_three_tasks_that_overlap_lose_no_file(seed: int) -> None:
    """The first is a task that lost its partition, the second dies, and the third goes on:
    in any order of their calls.
    """
    random = Random(seed)
    objects = MemoryObjects()
    following = [Written("k=a", 8, 8, b"d"), Written("k=b", 9, 9, b"e")]

    def work(own: MemoryObjects, begin: int | None) -> None:
        here = store(own)
        if begin is None:
            begin = here.recover([HERE]).get(HERE, 3)
        if begin == 3:
            here.write(HERE, "json", FILES)
        if begin <= 8:
            here.write(HERE, "json", following)

    with (
        Stepped(objects, lambda own: work(own, 3)) as first,
        Stepped(objects, lambda own: work(own, None)) as second,
        Stepped(objects, lambda own: work(own, None)) as third,
    ):
        for _ in range(random.randrange(8)):
            first.step()
        for _ in range(random.randrange(20)):
            random.choice([first, second, second]).step()
        second.end()
        while third.step():
            if random.random() < 0.3:
                first.step()
            if third.done_calls == random.randrange(20):
                third.end()  # dies, too
        while first.step():
            pass
    assert isinstance(first.error, ConnectError | None)
    assert isinstance(second.error, ConnectError | Crash | None)
    assert isinstance(third.error, ConnectError | Crash | None)
    last = store(objects)
    end = last.recover([HERE]).get(HERE, 3)
    assert end in (3, 8, 10)
    if end >= 8:
        assert objects.there.items() >= NAMES.items()
    if end == 3:
        last.write(HERE, "json", FILES)
    if end < 10:
        last.write(HERE, "json", following)
    assert objects.there == NAMES | {"t/k=a/t+0+8+8.json": b"d", "t/k=b/t+0+9+9.json": b"e"}


def test_files_that_the_records_do_not_make_again_are_deleted_before_others_are_written() -> None:
    """flush.size is another one."""
    objects = MemoryObjects()
    objects.there = dict(list(NAMES.items())[1:]) | {f"t/{INTENTS}/0+3+7+ff.json": json.dumps([name[2:] for name in NAMES]).encode()}  # fmt: skip
    new = store(objects)
    assert new.recover([HERE]) == {HERE: 3}
    new.write(HERE, "json", [Written("k=c", 3, 3, b"new")])
    assert objects.there == {"t/k=c/t+0+3+3.json": b"new"}


def test_a_task_that_slept_while_its_configuration_was_taken_back_deletes_nothing() -> None:
    """Its successor, with the configuration from before, has written the files that the sleeper was to replace."""
    objects = MemoryObjects()
    objects.there = {f"t/{INTENTS}/0+3+7+ff.json": json.dumps([name[2:] for name in NAMES]).encode()}
    sleeper, successor = store(objects), store(objects)
    assert sleeper.recover([HERE]) == successor.recover([HERE]) == {HERE: 3}
    successor.write(HERE, "json", FILES)
    with pytest.raises(ConnectError, match="another task"):
        sleeper.write(HERE, "json", [Written("k=c", 3, 3, b"other")])
    assert objects.there == NAMES


def test_an_intent_of_a_task_that_is_behind_undoes_nothing() -> None:
    finished = {"t/k=a/t+0+0+5.json": FileName("t", 0, 0, 5, "json"), "t/k=a/t+0+6+9.json": FileName("t", 0, 6, 9, "json")}  # fmt: skip
    listed = frozenset({"t/k=a/t+0+0+5.json", "t/k=b/t+0+3+3.json"})
    assert half_done(HERE, 0, listed, finished) is None
    assert half_done(HERE, 0, listed, {"t/k=a/t+0+0+5.json": finished["t/k=a/t+0+0+5.json"]}) == {"t/k=a/t+0+0+5.json"}


def test_an_intent_that_goes_while_it_is_read_makes_another_look() -> None:
    """Its task has written the other files when the first list was made."""

    class Late(MemoryObjects):
        def get(self, key: str) -> bytes:
            self.there |= NAMES
            del self.there[key]
            return super().get(key)

    objects = Late()
    objects.there = {"t/k=a/t+0+4+6.json": b"a", f"t/{INTENTS}/0+3+7+ff.json": b"[]"}
    assert store(objects).recover([HERE]) == {HERE: 8}
    assert objects.there == NAMES


def test_files_that_come_while_others_are_listed_are_seen() -> None:
    class Late(MemoryObjects):
        def keys(self, prefix: str) -> list[str]:
            found = super().keys(prefix)
            self.there |= NAMES
            return found

    objects = Late()
    objects.there = {"t/k=a/t+0+4+6.json": b"a"}
    assert store(objects).next_offsets([HERE]) == {HERE: 8}


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError("When uploading: refused\nmore"), "Cannot write s3://b: When uploading: refused"),
        (OSError(28, "No space left"), "Cannot write s3://b: No space left"),
        (OSError(), "Cannot write s3://b: OSError"),
    ],
)
def test_errors_without_a_number_are_told(error: OSError, text: str) -> None:
    with pytest.raises(ConnectError) as raised, told("s3://b"):
        raise error
    assert str(raised.value) == text


def lines(objects: MemoryObjects) -> list[Any]:
    return sorted(json.loads(line)["n"] for key, data in objects.there.items() if INTENTS not in key for line in data.splitlines())  # fmt: skip


@pytest.mark.parametrize("step", range(1, 16))
@pytest.mark.parametrize("then", ["3", "2"])
def test_a_task_that_is_killed_anywhere_gives_each_record_once(
    monkeypatch: pytest.MonkeyPatch, step: int, then: str
) -> None:
    """Also if files are to be shorter afterwards."""

    def crash(change: int) -> None:
        if change == step:
            raise Crash

    objects = MemoryObjects(crash)
    monkeypatch.setattr(module, "open_store", lambda config: store(objects))
    config = {"path": "s3://b", "format": "json", "partitioner": "field", "partition.field.name": "kind"}

    def put_all(flush_size: str) -> None:
        sink = SinkKit(TopicFilesConnector, {**config, "flush.size": flush_size})
        while sink.next_offset < 24:
            sink.put({"n": sink.next_offset, "kind": "abc"[sink.next_offset % 3]})

    with pytest.raises(Crash):
        put_all("3")
    objects.before = lambda _: None
    put_all(then)
    found = lines(objects)
    assert found == list(range(len(found)))
    assert len(found) >= 20
