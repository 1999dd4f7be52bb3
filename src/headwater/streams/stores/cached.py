"""Stores whose changes wait in a record cache (`cache`) before the changelog and the nodes behind them are told. `log`
tells the changelog; stores without a cache do that in `put` itself, without another call.
"""

from headwater.streams.stores.cache import StoreCache
from headwater.streams.stores.formats import session_key, unstamped, window_key
from headwater.streams.stores.key_value import KeyValues
from headwater.streams.stores.port import Changelog
from headwater.streams.stores.session import Sessions
from headwater.streams.stores.spec import StoreSpec
from headwater.streams.stores.state import TaskState
from headwater.streams.stores.window import Windows


class CachedKeyValues(KeyValues):
    def __init__(self, spec: StoreSpec, state: TaskState, changelog: Changelog | None, cache: StoreCache) -> None:
        super().__init__(spec, state, changelog)
        self.cache = cache
        self.get = self._get

    def _get(self, key: bytes) -> bytes | None:
        value = self.rows.get(key)
        self.cache.read(key, value)
        return value

    def put(self, key: bytes, value: bytes | None) -> None:
        before = None if self.cache.has_change(key) else self.rows.get(key)
        self.rows.put(key, value)
        self.cache.put(key, value, before)

    def log(self, key: bytes, value: bytes | None) -> None:
        _log_row(self._log, self._timestamped, key, value)


class CachedWindows(Windows):
    """Without duplicates: of those, none is the last."""

    def __init__(self, spec: StoreSpec, state: TaskState, changelog: Changelog | None, cache: StoreCache) -> None:
        super().__init__(spec, state, changelog)
        self.cache = cache

    def get(self, key: bytes, start: int) -> bytes | None:
        value = super().get(key, start)
        self.cache.touch(window_key(key, start))
        return value

    def put(self, key: bytes, value: bytes | None, start: int) -> None:
        raw = window_key(key, start)
        before = None if self.cache.has_change(raw) else super().get(key, start)
        self._put_raw(key, start, raw, value)
        self.cache.put(raw, value, before)

    def log(self, key: bytes, value: bytes | None) -> None:
        _log_row(self._log, self._timestamped, key, value)


class CachedSessions(Sessions):
    def __init__(self, spec: StoreSpec, state: TaskState, changelog: Changelog | None, cache: StoreCache) -> None:
        super().__init__(spec, state, changelog)
        self.cache = cache

    def get(self, key: bytes, start: int, end: int) -> bytes | None:
        value = super().get(key, start, end)
        self.cache.touch(session_key(key, start, end))
        return value

    def put(self, key: bytes, start: int, end: int, value: bytes | None) -> None:
        raw = session_key(key, start, end)
        before = None if self.cache.has_change(raw) else super().get(key, start, end)
        if value is None:
            self._remove_raw(raw)
        else:
            self._put_raw(raw, value)
        self.cache.put(raw, value, before)

    def remove(self, key: bytes, start: int, end: int) -> None:
        self.put(key, start, end, None)

    def log(self, key: bytes, value: bytes | None) -> None:
        _log_row(self._log, False, key, value)


def _log_row(changelog: Changelog | None, timestamped: bool, key: bytes, value: bytes | None) -> None:
    if changelog is None:
        return
    if timestamped and value is not None:
        plain, timestamp = unstamped(value)
        changelog(key, plain, timestamp)
    else:
        changelog(key, value, None)
