"""Where sources have got to. Keys are the JSON `["connector",{partition}]`, values the JSON of the offset: Kafka
Connect's own.

`FileOffsetStore` keeps all of it in memory and in one file, which is replaced as a whole, so that a crash leaves the
old or the new one. It is for all threads of a worker.
"""

import json
import os
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from headwater.connect.data.json_text import dumps
from headwater.connect.errors import ConnectError
from headwater.connect.runtime.java_map_file import decode, encode


class OffsetStore(Protocol):
    def get(self, key: bytes) -> bytes | None: ...

    def set(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Safe when it returns."""

    def all(self) -> dict[bytes, bytes]: ...


class MemoryOffsetStore:
    def __init__(self, entries: Mapping[bytes, bytes | None] | None = None) -> None:
        self._entries = dict(entries or {})
        self._lock = threading.Lock()

    def get(self, key: bytes) -> bytes | None:
        return self._entries.get(key)

    def set(self, changes: Mapping[bytes, bytes | None]) -> None:
        with self._lock:
            entries = {**self._entries, **changes}
            self._save(entries)
            self._entries = entries

    def all(self) -> dict[bytes, bytes]:
        return {key: value for key, value in self._entries.items() if value is not None}

    def _save(self, entries: Mapping[bytes, bytes | None]) -> None:
        """Memory is all there is."""


class FileOffsetStore(MemoryOffsetStore):
    def __init__(self, path: str) -> None:
        self._path = Path(path)
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            data = b""
        super().__init__(decode(data, path))

    def _save(self, entries: Mapping[bytes, bytes | None]) -> None:
        aside = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
        try:
            with aside.open("wb") as file:
                file.write(encode(entries))
                file.flush()
                os.fsync(file.fileno())
            aside.replace(self._path)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise ConnectError(f"Cannot write the offsets to {self._path}: {error.strerror}") from None


def key_of(connector: str, partition: Mapping[str, Any]) -> bytes:
    """A partition counts as the same whatever the order of its keys."""
    return dumps([connector, dict(sorted(partition.items()))]).encode()


def value_of(offset: Mapping[str, Any] | None) -> bytes | None:
    return None if offset is None else dumps(dict(offset)).encode()


def _offset_in(value: bytes | None) -> dict[str, Any] | None:
    offset = None if value is None else json.loads(value)
    return offset if isinstance(offset, dict) else None


class ConnectorOffsets:
    """What one connector sees of the store. Reads any order of a partition's keys; writes the one order."""

    def __init__(self, store: OffsetStore, connector: str) -> None:
        self._store = store
        self._connector = connector
        self._read: dict[bytes, bytes | None] = {}  # keys of the store as we would write them; None: another's

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        found = self._store.get(key_of(self._connector, partition))
        if found is not None:
            return _offset_in(found)
        other = self._others().get(key_of(self._connector, partition))
        return None if other is None else _offset_in(self._store.get(other))

    def offsets(self, partitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
        asked = [key_of(self._connector, each) for each in partitions]
        found = [self._store.get(key) for key in asked]
        others = self._others() if None in found else {}
        return [
            _offset_in(self._store.get(others[key]) if value is None and key in others else value)
            for key, value in zip(asked, found, strict=True)
        ]

    def all(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        found = []
        for key, value in self._store.all().items():
            try:
                named = json.loads(key)
                offset = json.loads(value)
            except ValueError:
                continue  # not ours
            if isinstance(named, list) and len(named) == 2 and named[0] == self._connector and isinstance(offset, dict):
                found.append((named[1] or {}, offset))
        return found

    def write(self, offsets: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> None:
        changes = self.changes(offsets)
        if changes:
            self._store.set(changes)

    def changes(
        self, offsets: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> dict[bytes, bytes | None]:
        """What is to be written for them."""
        changes = {key_of(self._connector, partition): value_of(offset) for partition, offset in offsets}
        if all(self._store.get(key) is not None for key in changes):
            return changes
        others = self._others()
        return {others.get(key, key): value for key, value in changes.items()}

    def _others(self) -> dict[bytes, bytes]:
        """The store's keys of the connector, by how we would write them: another may have written them otherwise. Each
        is read once, as there may be many.
        """
        there = self._store.all()
        for key in there.keys() - self._read.keys():
            self._read[key] = self._as_ours(key)
        found = ((self._read[key], key) for key in there)
        return {ours: key for ours, key in found if ours is not None and (key == ours or ours not in there)}

    def _as_ours(self, key: bytes) -> bytes | None:
        try:
            named = json.loads(key)
        except ValueError:
            return None
        is_ours = isinstance(named, list) and len(named) == 2 and named[0] == self._connector
        return key_of(self._connector, named[1] or {}) if is_ours and isinstance(named[1], dict | None) else None
