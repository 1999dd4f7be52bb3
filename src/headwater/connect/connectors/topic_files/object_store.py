"""Files in an object store (S3): an object is there whole or not at all, and nothing can be renamed.

A cut of one file is one object, so its name decides as it does on a disk. A cut of several files has an *intent* while
it is written, an object that names them all:

    <topic>/_cuts/<partition>+<cut's first>+<cut's last>+<writer>.json

1. write the intent, 2. write the files, 3. see that the intent is still there, 4. delete it. Whoever finds an intent,
and not all of its files, goes on at the cut's first offset: the records make the same files again (`rotation`). Before
it deletes that intent, it writes one of its own for the same files, and keeps it until it has written them all. So
files that a task before it still writes never pass for a whole cut, whoever dies meanwhile. Files of such a cut that
the records do not make again (the configuration is another one) are deleted before the first new one is written; others
are never deleted, so that no late delete can meet a file that counts. Readers may see some files of a cut before the
others.

A task that has lost its partition without knowing writes the same bytes under the same names. Its intent has its own
name, so neither ends the other's; when its intent is gone, it fails, before its group commits, and before it deletes
anything. What this does not keep out: such a task with an *older configuration*, whose files have other offsets than
its successor's, and one that slept between its look at the marks (`offset_marks`) and its write while somebody set the
offsets. S3's conditional puts (`If-None-Match: *`, `If-Match`; Arrow's client has none) would not either: those files
have names that nobody else has written, and files of the same name are the same.

The store must list what was just written, as S3 does. The task's thread owns this.
"""

import json
import re
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.topic_files.names import FileName
from headwater.connect.connectors.topic_files.offset_marks import (
    MARKS,
    REPLACED,
    Mark,
    check_cut,
    check_generation,
    generation_of,
    leaving,
    newest,
    positions,
)
from headwater.connect.connectors.topic_files.store import Written, told
from headwater.connect.errors import ConnectError

INTENTS: Final = "_cuts"
_INTENT: Final = re.compile(r"(\d+)\+(\d+)\+(\d+)\+[0-9a-f]+\.json", re.ASCII)


class Objects(Protocol):
    """Errors are OSErrors. Keys are below the connector's path."""

    def keys(self, prefix: str) -> list[str]:
        """All that begin with `prefix/`."""

    def get(self, key: str) -> bytes: ...

    def put(self, key: str, data: bytes) -> None:
        """The object is there whole, or not at all, also when this fails."""

    def delete(self, key: str) -> None:
        """None there is fine."""


class _Intent(NamedTuple):
    key: str
    place: TopicPartition
    first: int
    last: int
    files: frozenset[str]  # keys


class _Found(NamedTuple):
    finished: dict[str, FileName]  # by key
    intents: list[_Intent]
    marks: list[Mark]


class ObjectStore:
    def __init__(self, objects: Objects, where: str, offset_width: int) -> None:
        self._objects, self._where, self._width = objects, where, offset_width
        self._writer = uuid.uuid4().hex[:12]
        self._kept: dict[TopicPartition, list[_Intent]] = {}  # our intents of cuts that are to be written again
        self._generations: dict[TopicPartition, int] = {}  # of the marks when a partition was taken

    def recover(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._ends(partitions, mend=True)

    def next_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._ends(partitions, mend=False)

    def partitions(self) -> set[TopicPartition]:
        """Intents count: they say where to go on, too."""
        found = set()
        with told(self._where):
            keys = self._objects.keys("")
        for key in keys:
            topic, _, below = key.partition("/")
            directory, name = below.partition("/")[0], key.rpartition("/")[2]
            file, intent, mark = FileName.parse(name), _INTENT.fullmatch(name), Mark.parse(name)
            if directory == INTENTS and intent is not None:
                found.add(TopicPartition(topic, int(intent[1])))
            elif directory == MARKS and mark is not None:
                found.add(TopicPartition(topic, mark.partition))
            elif directory != REPLACED and file is not None and file.topic == topic:
                found.add(TopicPartition(topic, file.partition))
        return found

    def check_offset(self, place: TopicPartition, offset: int | None) -> None:
        with told(f"{self._where}/{place.topic}"):
            _check(place, offset, self._scan_twice(place.topic, {place.partition}))

    def set_offset(self, place: TopicPartition, offset: int | None) -> None:
        topic, number = place
        with told(f"{self._where}/{topic}"):
            found = self._scan_twice(topic, {number})
            is_set = all(each.is_set for each in found.marks)
            if offset is not None and is_set and self.next_offsets([place]).get(place) == offset:
                return
            _check(place, offset, found)
            mark = Mark(number, generation_of(number, found.marks) + 1, offset, is_set=False)
            self._objects.put(f"{topic}/{MARKS}/{mark.text()}", b"")
            self._make_room(place, mark, found)

    def _make_room(self, place: TopicPartition, mark: Mark, found: _Found) -> None:
        """For a mark that is there."""
        topic, marks = place.topic, f"{place.topic}/{MARKS}"
        for key in leaving(place, mark.offset, found.finished.items()):
            self._set_aside(topic, key, mark.generation)
        for intent in found.intents:
            if intent.place == place and intent.last >= (mark.offset or 0):
                self._objects.delete(intent.key)
        self._objects.put(f"{marks}/{mark._replace(is_set=True).text()}", b"")
        for old in (*found.marks, mark):
            if old.partition == mark.partition:
                self._objects.delete(f"{marks}/{old.text()}")

    def _set_aside(self, topic: str, key: str, generation: int) -> None:
        """A copy and a delete: nothing can be renamed here."""
        below = key.removeprefix(f"{topic}/")
        self._objects.put(f"{topic}/{REPLACED}/{generation}/{below}", self._objects.get(key))
        self._objects.delete(key)

    def _ends(self, partitions: Sequence[TopicPartition], *, mend: bool) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        for topic in sorted({each.topic for each in partitions}):
            with told(f"{self._where}/{topic}"):
                wanted = {each.partition for each in partitions if each.topic == topic}
                found = self._scan_twice(topic, wanted)
                for mark in newest(found.marks).values():
                    if mend and not mark.is_set:
                        self._make_room(TopicPartition(topic, mark.partition), mark, found)
                        found = self._scan_twice(topic, wanted)
                again: list[_Intent] = []
                for intent in found.intents:
                    undone = half_done(intent.place, intent.first, intent.files, found.finished)
                    if undone is not None:
                        again.append(intent)
                        for key in undone:
                            del found.finished[key]
                if mend:
                    for place in partitions:
                        if place.topic == topic:
                            self._generations[place] = generation_of(place.partition, found.marks)
                    self._take_over([each for each in partitions if each.topic == topic], again, found.intents)
            begins: dict[TopicPartition, int] = {}
            for intent in again:  # also where the group has committed more
                begins[intent.place] = min(intent.first, begins.get(intent.place, intent.first))
            ends |= begins
            for place, end in positions(topic, list(found.finished.values()), found.marks).items():
                ends[place] = max(end, begins.get(place, 0))
        return ends

    def _take_over(
        self, partitions: Sequence[TopicPartition], again: Sequence[_Intent], found: Sequence[_Intent]
    ) -> None:
        """Our intents of the cuts that are to be written `again` are there before the others go."""
        ours: dict[str, _Intent] = {}
        for intent in again:
            key = self._intent_key(intent.place, intent.first, intent.last)
            files = intent.files | (ours[key].files if key in ours else frozenset())
            ours[key] = intent._replace(key=key, files=files)
        for intent in ours.values():
            self._put_intent(intent)
        for intent in found:
            if intent.key not in ours:
                self._objects.delete(intent.key)
        for place in partitions:
            self._kept[place] = [each for each in ours.values() if each.place == place]

    def _scan_twice(self, topic: str, partitions: set[int]) -> _Found:
        """Objects come and go while they are listed and read;
        what two scans saw was there between them, all at once.
        """
        before = None
        while True:
            try:
                found = self._scan(topic, partitions)
            except FileNotFoundError:  # whoever wrote that intent has ended its cut meanwhile
                before = None
                continue
            if found == before:
                return found
            before = found

    def _scan(self, topic: str, partitions: set[int]) -> _Found:
        found = _Found({}, [], [])
        for key in sorted(self._objects.keys(topic)):
            name = key.rpartition("/")[2]
            file, intent, mark = FileName.parse(name), _INTENT.fullmatch(name), Mark.parse(name)
            if key.startswith(f"{topic}/{REPLACED}/"):
                continue
            if key == f"{topic}/{MARKS}/{name}":
                if mark is not None and mark.partition in partitions:
                    found.marks.append(mark)
            elif key == f"{topic}/{INTENTS}/{name}":
                if intent is not None and int(intent[1]) in partitions:
                    place = TopicPartition(topic, int(intent[1]))
                    files = frozenset(f"{topic}/{each}" for each in json.loads(self._objects.get(key)))
                    found.intents.append(_Intent(key, place, int(intent[2]), int(intent[3]), files))
            elif file is not None and file.topic == topic and file.partition in partitions:
                found.finished[key] = file
        return found

    def _intent_key(self, place: TopicPartition, first: int, last: int) -> str:
        return f"{place.topic}/{INTENTS}/{place.partition}+{first}+{last}+{self._writer}.json"

    def _put_intent(self, intent: _Intent) -> None:
        below = sorted(key.removeprefix(f"{intent.place.topic}/") for key in intent.files)
        self._objects.put(intent.key, json.dumps(below).encode())

    def write(self, place: TopicPartition, extension: str, files: Sequence[Written]) -> None:
        named = {
            f"{place.topic}/{each.directory}/{FileName(place.topic, place.partition, each.first, each.last, extension).text(self._width)}": each.data
            for each in files
        }
        first, last = min(each.first for each in files), max(each.last for each in files)
        kept = self._kept.get(place, [])
        with told(f"{self._where}/{place.topic}"):
            marks = [Mark.parse(key.rpartition("/")[2]) for key in self._objects.keys(f"{place.topic}/{MARKS}")]
            check_generation(place, self._generations.get(place, 0), [each for each in marks if each is not None])
            intents = [each.key for each in kept]
            self._look_for(place.topic, intents)  # else these files may be another's, and count
            for key in sorted(frozenset().union(*(each.files for each in kept)) - named.keys()):
                self._objects.delete(key)
            own = _Intent(self._intent_key(place, first, last), place, first, last, frozenset(named))
            if len(named) > 1 and own not in kept:
                self._put_intent(own)
                intents = [*(key for key in intents if key != own.key), own.key]
            for key, data in sorted(named.items()):
                self._objects.put(key, data)
            self._end(place.topic, intents)
        self._kept.pop(place, None)

    def _end(self, topic: str, intents: Sequence[str]) -> None:
        self._look_for(topic, intents)
        for key in intents:
            self._objects.delete(key)

    def _look_for(self, topic: str, intents: Sequence[str]) -> None:
        there = self._objects.keys(f"{topic}/{INTENTS}") if intents else ()
        for key in intents:
            if key not in there:
                raise ConnectError(
                    f"{self._where}/{key} was deleted while its files were written: another task, or another "
                    f"connector, writes there"
                )


def _check(place: TopicPartition, offset: int | None, found: _Found) -> None:
    for intent in found.intents:
        undone = half_done(intent.place, intent.first, intent.files, found.finished)
        if undone is not None and offset is not None and offset > intent.first:
            raise ConnectError(
                f"Files of {place.topic}-{place.partition} with the offsets {intent.first} to {intent.last} are half written: "
                f"resume the connector, which ends them, or choose {intent.first} or less"
            )
    check_cut(place, offset, found.finished.values())


def half_done(
    place: TopicPartition, first: int, files: frozenset[str], finished: dict[str, FileName]
) -> frozenset[str] | None:
    """The files of a cut that is to be written again, as far as they are there. None: all are there, or others follow
    them, so that its intent was left by a task that is behind.
    """
    there = files & finished.keys()
    if there == files:
        return None
    others = (name for key, name in finished.items() if key not in files and name.partition == place.partition)
    return None if any(other.last >= first for other in others) else there
