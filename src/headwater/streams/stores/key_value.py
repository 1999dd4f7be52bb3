"""Key-value stores: a map, and its changelog. A timestamped one logs the plain value under the value's own
timestamp.
"""

from collections.abc import Iterable, Iterator

from headwater.streams.stores.formats import after_prefix, stamped, stamped_cells, unstamped
from headwater.streams.stores.port import Changelog
from headwater.streams.stores.spec import StoreSpec
from headwater.streams.stores.state import TaskState


class KeyValues:
    """A `port.KeyValueStore`."""

    def __init__(self, spec: StoreSpec, state: TaskState, changelog: Changelog | None) -> None:
        self.name = spec.name
        self._timestamped = spec.timestamped
        self.rows = state.map(spec.name)
        self._log = changelog
        self.get = self.rows.get  # the hot path: no call between

    def put(self, key: bytes, value: bytes | None) -> None:
        self.rows.put(key, value)
        if self._log is not None:
            if self._timestamped and value is not None:
                plain, timestamp = unstamped(value)
                self._log(key, plain, timestamp)
            else:
                self._log(key, value, None)

    def put_all(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        for key, value in entries:
            self.put(key, value)

    def put_if_absent(self, key: bytes, value: bytes) -> bytes | None:
        found = self.get(key)
        if found is None:
            self.put(key, value)
        return found

    def delete(self, key: bytes) -> bytes | None:
        found = self.get(key)
        self.put(key, None)
        return found

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self.rows.put(key, stamped(value, timestamp) if value is not None and self._timestamped else value)

    def restore_run(self, keys: list[bytes], values: list[bytes | None], timestamps: list[int]) -> None:
        rows = stamped_cells(values, timestamps) if self._timestamped else values
        self.rows.put_all(dict(zip(keys, rows, strict=True)))

    def range(
        self, lower: bytes | None, upper: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return self.rows.scan(lower, upper + b"\x00" if upper is not None else None, reverse=reverse)

    def all(self, *, reverse: bool = False) -> Iterator[tuple[bytes, bytes]]:
        return self.rows.scan(reverse=reverse)

    def prefix(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self.rows.scan(prefix, after_prefix(prefix))

    def approximate_count(self) -> int:
        return self.rows.approximate_count()
