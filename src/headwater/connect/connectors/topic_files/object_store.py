"""Files in an object store (S3): an object is there whole or not at all, and nothing can be renamed.

A cut of one file is one object, so its name decides as it does on a disk. A cut of several files has an *intent* while
it is written, an object that names them all:

    <topic>/_cuts/<partition>+<cut's first>+<cut's last>+<writer>.json

1. write the intent, 2. write the files, 3. delete the intent. Whoever finds an intent, and not all of its files, deletes
those that are there and goes on at the cut's first offset: the records make the same files again (`rotation`). Readers
may see some files of a cut before the others, and those of a cut that is undone go and come again.

A task that has lost its partition without knowing writes the same bytes under the same names. Its intent has its own
name, so neither ends the other's; when its intent is gone, it fails, before its group commits. What this does not keep
out: such a task with an *older configuration*, whose files have other offsets than its successor's.

The store must list what was just written, as S3 does. The task's thread owns this.
"""

import json
import re
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.topic_files.names import FileName
from headwater.connect.connectors.topic_files.store import Written, ends_by_partition, told
from headwater.connect.errors import ConnectError

INTENTS: Final = "_cuts"
_INTENT: Final = re.compile(r"(\d+)\+(\d+)\+(\d+)\+[0-9a-f]+\.json", re.ASCII)


class Objects(Protocol):
    """Errors are OSErrors. Keys are below the connector's path."""

    def keys(self, prefix: str) -> list[str]:
        """All that begin with `prefix/`."""

    def get(self, key: str) -> bytes: ...

    def put(self, key: str, data: bytes) -> None: ...

    def delete(self, key: str) -> None:
        """None there is fine."""


class _Intent(NamedTuple):
    key: str
    place: TopicPartition
    first: int
    files: frozenset[str]  # keys


class _Found(NamedTuple):
    finished: dict[str, FileName]  # by key
    intents: list[_Intent]


class ObjectStore:
    def __init__(self, objects: Objects, where: str, offset_width: int) -> None:
        self._objects, self._where, self._width = objects, where, offset_width
        self._writer = uuid.uuid4().hex[:12]

    def recover(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._ends(partitions, mend=True)

    def next_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return self._ends(partitions, mend=False)

    def is_empty(self) -> bool:
        with told(self._where):
            return all(FileName.parse(key.rpartition("/")[2]) is None for key in self._objects.keys(""))

    def _ends(self, partitions: Sequence[TopicPartition], *, mend: bool) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        for topic in sorted({each.topic for each in partitions}):
            with told(f"{self._where}/{topic}"):
                found = self._scan(topic, {each.partition for each in partitions if each.topic == topic})
                begins: dict[TopicPartition, int] = {}
                for intent in found.intents:
                    undone = half_done(intent.place, intent.first, intent.files, found.finished)
                    if undone is not None:
                        begins[intent.place] = intent.first  # also where the group has committed more
                        for key in undone:
                            del found.finished[key]
                    if mend:
                        for key in (*sorted(undone or ()), intent.key):
                            self._objects.delete(key)
            ends |= begins
            for place, end in ends_by_partition(topic, list(found.finished.values())).items():
                ends[place] = max(end, begins.get(place, 0))
        return ends

    def _scan(self, topic: str, partitions: set[int]) -> _Found:
        found = _Found({}, [])
        for key in sorted(self._objects.keys(topic)):
            name = key.rpartition("/")[2]
            file, intent = FileName.parse(name), _INTENT.fullmatch(name)
            if file is not None and file.topic == topic and file.partition in partitions:
                found.finished[key] = file
            elif intent is not None and key == f"{topic}/{INTENTS}/{name}" and int(intent[1]) in partitions:
                found.intents.append(self._read(key, TopicPartition(topic, int(intent[1])), int(intent[2])))
        return found

    def _read(self, key: str, place: TopicPartition, first: int) -> _Intent:
        try:
            files = json.loads(self._objects.get(key))
        except FileNotFoundError:  # whoever wrote it has ended its cut meanwhile
            return _Intent(key, place, first, frozenset())
        return _Intent(key, place, first, frozenset(f"{place.topic}/{each}" for each in files))

    def write(self, place: TopicPartition, extension: str, files: Sequence[Written]) -> None:
        named = {
            f"{each.directory}/{FileName(place.topic, place.partition, each.first, each.last, extension).text(self._width)}": each.data
            for each in files
        }
        with told(f"{self._where}/{place.topic}"):
            if len(named) == 1:
                self._put(place.topic, named)
                return
            first, last = min(each.first for each in files), max(each.last for each in files)
            intent = f"{place.topic}/{INTENTS}/{place.partition}+{first}+{last}+{self._writer}.json"
            self._objects.put(intent, json.dumps(sorted(named)).encode())
            self._put(place.topic, named)
            if intent not in self._objects.keys(f"{place.topic}/{INTENTS}"):
                raise ConnectError(
                    f"{self._where}/{intent} was deleted while its files were written: another task, or another "
                    f"connector, writes there"
                )
            self._objects.delete(intent)

    def _put(self, topic: str, named: dict[str, bytes]) -> None:
        for name, data in sorted(named.items()):
            self._objects.put(f"{topic}/{name}", data)


def half_done(
    place: TopicPartition, first: int, files: frozenset[str], finished: dict[str, FileName]
) -> frozenset[str] | None:
    """The files of a cut that is to be undone, as far as they are there. None: all are there, or others follow them, so
    that its intent was left by a task that is behind.
    """
    there = files & finished.keys()
    if there == files:
        return None
    others = (name for key, name in finished.items() if key not in files and name.partition == place.partition)
    return None if any(other.last >= first for other in others) else there
