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

    def offset(self, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        found = self._store.get(key_of(self._connector, partition))
        if found is not None:
            return _offset_in(found)
        return next((offset for known, offset in self.all() if known == dict(partition)), None)

    def offsets(self, partitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
        asked = [key_of(self._connector, each) for each in partitions]
        found = [self._store.get(key) for key in asked]
        if None not in found:
            return [_offset_in(each) for each in found]
        known = {key_of(self._connector, partition): offset for partition, offset in self.all()}
        return [known.get(key) for key in asked]

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
        changes: dict[bytes, bytes | None] = {}
        known = {key_of(self._connector, partition): key for key, partition in self._keys()}
        for partition, offset in offsets:
            key = key_of(self._connector, partition)
            changes[known.get(key, key)] = value_of(offset)
        return changes

    def _keys(self) -> Iterable[tuple[bytes, dict[str, Any]]]:
        for key in self._store.all():
            try:
                named = json.loads(key)
            except ValueError:
                continue
            if isinstance(named, list) and len(named) == 2 and named[0] == self._connector:
                yield key, named[1] or {}
