"""Versioned key-value stores: every version of a value with the time in which it holds, as far back as the history
retention.

Three maps: the latest value of each key (key -> timestamp (8), value); versions that hold no longer, and deletions
(key, timestamp (8) -> valid to (8), 1 or 0 for a deletion, value); and what expires when (segment of the time from
which it does not hold (8), key, timestamp -> nothing). The latest value of a key never expires. Time is the largest
timestamp that was put, and survives in the task's notes. The changelog has one record for each put, with its timestamp:
replayed in order they give the same versions.
"""

from collections.abc import Iterator

from headwater.streams.stores.formats import LONG, LONG_MAX, stamped, unstamped
from headwater.streams.stores.port import NOT_PUT, VALID_TO_UNDEFINED, Changelog, RestoresOneByOne, VersionedRecord
from headwater.streams.stores.spec import StoreSpec
from headwater.streams.stores.state import TaskState


class Versions(RestoresOneByOne):
    """A `port.VersionedKeyValueStore`."""

    def __init__(self, spec: StoreSpec, state: TaskState, changelog: Changelog | None) -> None:
        self.name = spec.name
        self._retention_ms = spec.retention_ms
        self._interval_ms = spec.segment_interval_ms or version_interval_ms(spec.retention_ms)
        self._log = changelog
        self._latest = state.map(spec.name)
        self._versions = state.map(spec.name + "/versions")
        self._expiry = state.map(spec.name + "/expiry")
        self._notes = state.notes
        self._note_key = b"stream-time\x00" + spec.name.encode()
        self.stream_time = -1
        self.expired_records = 0
        self._oldest = 0  # nothing lies in a segment below this one
        self._reload()
        state.on_discard(self._reload)

    def _reload(self) -> None:
        note = self._notes.get(self._note_key)
        self.stream_time = LONG.unpack(note)[0] if note is not None else -1
        self._oldest = 0

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        valid_to = self._put(key, value, timestamp)
        if self._log is not None:
            self._log(key, value, timestamp)
        return valid_to

    def delete(self, key: bytes, timestamp: int) -> VersionedRecord | None:
        expired = timestamp < self.stream_time - self._retention_ms
        found = None if expired else self.get_as_of(key, timestamp)
        self.put(key, None, timestamp)
        return found

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self._put(key, value, timestamp)

    def get(self, key: bytes) -> VersionedRecord | None:
        raw = self._latest.get(key)
        return VersionedRecord(*unstamped(raw)) if raw is not None else None

    def get_as_of(self, key: bytes, timestamp: int) -> VersionedRecord | None:
        latest = self.get(key)
        if latest is not None and latest.timestamp <= timestamp:
            return latest
        if timestamp < self.stream_time - self._retention_ms:
            return None
        found = self._at_or_before(key, timestamp)
        if found is None or found[2] is None or found[1] <= timestamp:
            return None
        since, valid_to, value = found
        assert value is not None
        return VersionedRecord(value, since, valid_to)

    def history(self, key: bytes, time_from: int, time_to: int, *, reverse: bool = False) -> Iterator[VersionedRecord]:
        found = []
        if time_to >= self.stream_time - self._retention_ms:
            for since, valid_to, value in self._rows(key, 0, time_to):
                if value is not None and valid_to > time_from:
                    found.append(VersionedRecord(value, since, valid_to))
        latest = self.get(key)
        if latest is not None and latest.timestamp <= time_to:
            found.append(latest)
        return reversed(found) if reverse else iter(found)

    def _put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        if timestamp < self.stream_time - self._retention_ms:
            self.expired_records += 1
            return NOT_PUT
        self._observe(timestamp)
        latest = self.get(key)
        if latest is not None and timestamp >= latest.timestamp:
            if timestamp > latest.timestamp:
                self._write(key, latest.timestamp, timestamp, latest.value)
            return self._put_latest(key, value, timestamp)
        later = next(self._rows(key, timestamp + 1, LONG_MAX), None)
        before = self._at_or_before(key, timestamp)
        if before is not None and before[0] < timestamp < before[1]:
            self._write(key, before[0], timestamp, before[2], was_valid_to=before[1])
        if later is None and latest is None:
            if before is not None and before[0] == timestamp:
                self._forget(key, timestamp, before[1])
            return self._put_latest(key, value, timestamp)
        valid_to = later[0] if later is not None else _timestamp(latest)
        replaced = before[1] if before is not None and before[0] == timestamp else None
        self._write(key, timestamp, valid_to, value, was_valid_to=replaced)
        return valid_to

    def _put_latest(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        self._latest.put(key, stamped(value, timestamp) if value is not None else None)
        if value is None:
            self._write(key, timestamp, LONG_MAX, None)
        return VALID_TO_UNDEFINED

    def _write(
        self, key: bytes, since: int, valid_to: int, value: bytes | None, was_valid_to: int | None = None
    ) -> None:
        if was_valid_to is not None and was_valid_to != valid_to:
            self._forget(key, since, was_valid_to)
        flag = b"\x01" + value if value is not None else b"\x00"
        self._versions.put(key + LONG.pack(since), LONG.pack(valid_to) + flag)
        self._expiry.put(self._expiry_key(key, since, valid_to), b"")

    def _forget(self, key: bytes, since: int, valid_to: int) -> None:
        self._versions.put(key + LONG.pack(since), None)
        self._expiry.put(self._expiry_key(key, since, valid_to), None)

    def _expiry_key(self, key: bytes, since: int, valid_to: int) -> bytes:
        """A deletion that is the last word on its key is needed until its own time has expired."""
        until = since if valid_to == LONG_MAX else valid_to
        return LONG.pack(until // self._interval_ms) + key + LONG.pack(since)

    def _at_or_before(self, key: bytes, timestamp: int) -> tuple[int, int, bytes | None] | None:
        return next(self._rows(key, 0, timestamp, reverse=True), None)

    def _rows(
        self, key: bytes, time_from: int, time_to: int, *, reverse: bool = False
    ) -> Iterator[tuple[int, int, bytes | None]]:
        """(since, valid to, value) of versions that began in these times, the latest value not among them."""
        if time_to < time_from:  # also where it is negative: its bytes would come behind those of all others
            return
        size = len(key) + 8
        upper = key + LONG.pack(time_to) + b"\x00"
        for raw, row in self._versions.scan(key + LONG.pack(time_from), upper, reverse=reverse):
            if len(raw) == size and raw.startswith(key):
                value = row[9:] if row[8] else None
                yield LONG.unpack_from(raw, size - 8)[0], LONG.unpack_from(row)[0], value

    def _observe(self, timestamp: int) -> None:
        if timestamp <= self.stream_time:
            return
        self.stream_time = timestamp
        self._notes.put(self._note_key, LONG.pack(timestamp))
        oldest = max(timestamp - self._retention_ms, 0) // self._interval_ms
        if oldest > self._oldest:
            for expired, _ in self._expiry.scan(None, LONG.pack(oldest)):
                self._versions.put(expired[8:], None)
                self._expiry.put(expired, None)
            self._oldest = oldest


def version_interval_ms(retention_ms: int) -> int:
    return max(retention_ms // 5, 60_000) if retention_ms > 60_000 else max(retention_ms // 3, 2_000)


def _timestamp(latest: VersionedRecord | None) -> int:
    assert latest is not None  # there is a later row or a latest value
    return latest.timestamp
