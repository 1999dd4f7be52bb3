"""Cuts in an object store: a crash, or another task, before each call of the store."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.topic_files import connector as module
from headwater.connect.connectors.topic_files.connector import TopicFilesConnector
from headwater.connect.connectors.topic_files.names import FileName
from headwater.connect.connectors.topic_files.object_store import INTENTS, ObjectStore, half_done
from headwater.connect.connectors.topic_files.store import Written
from headwater.connect.errors import ConnectError
from headwater.testing.connect import SinkKit

HERE = TopicPartition("t", 0)
FILES = [Written("k=a", 4, 6, b"a"), Written("k=b", 5, 5, b"b"), Written("k=c", 3, 7, b"c")]
NAMES = {"t/k=a/t+0+4+6.json": b"a", "t/k=b/t+0+5+5.json": b"b", "t/k=c/t+0+3+7.json": b"c"}


class MemoryObjects:
    """`before` runs before each change, with its number."""

    def __init__(self, before: Callable[[int], None] = lambda _: None) -> None:
        self.there: dict[str, bytes] = {}
        self.changes, self.before = 0, before

    def _change(self) -> None:
        self.changes += 1
        self.before(self.changes)

    def keys(self, prefix: str) -> list[str]:
        return [key for key in self.there if not prefix or key.startswith(f"{prefix}/")]

    def get(self, key: str) -> bytes:
        if key not in self.there:
            raise FileNotFoundError(key)
        return self.there[key]

    def put(self, key: str, data: bytes) -> None:
        self._change()
        self.there[key] = data

    def delete(self, key: str) -> None:
        self._change()
        self.there.pop(key, None)


class Crash(BaseException):
    pass


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
    assert store(objects).recover([HERE]) == end
    assert objects.there == {"t/k=a/t+0+0+2.json": b"before"} | (NAMES if step == 5 else {})


def test_an_undone_cut_begins_where_it_began_whatever_the_group_committed() -> None:
    objects = MemoryObjects()
    objects.there = {f"t/{INTENTS}/0+3+7+ff.json": json.dumps([name[2:] for name in NAMES]).encode()}
    assert store(objects).recover([HERE]) == {HERE: 3}
    assert objects.there == {}


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
    found = store(objects).recover([HERE])
    assert objects.there == (NAMES if found == {HERE: 8} else {})
    assert found in ({HERE: 8}, {HERE: 3})


def test_an_intent_of_a_task_that_is_behind_undoes_nothing() -> None:
    finished = {"t/k=a/t+0+0+5.json": FileName("t", 0, 0, 5, "json"), "t/k=a/t+0+6+9.json": FileName("t", 0, 6, 9, "json")}  # fmt: skip
    listed = frozenset({"t/k=a/t+0+0+5.json", "t/k=b/t+0+3+3.json"})
    assert half_done(HERE, 0, listed, finished) is None
    assert half_done(HERE, 0, listed, {"t/k=a/t+0+0+5.json": finished["t/k=a/t+0+0+5.json"]}) == {"t/k=a/t+0+0+5.json"}


def test_an_intent_that_goes_while_it_is_read_is_no_failure() -> None:
    class Late(MemoryObjects):
        def get(self, key: str) -> bytes:
            del self.there[key]
            return super().get(key)

    objects = Late()
    objects.there = dict(NAMES) | {f"t/{INTENTS}/0+3+7+ff.json": b"[]"}
    assert store(objects).recover([HERE]) == {HERE: 8}
    assert objects.there == NAMES


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
