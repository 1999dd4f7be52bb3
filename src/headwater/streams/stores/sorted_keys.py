"""Keys in order, for maps in memory: a list of short sorted lists, so that an insert moves little. Owned by one map."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from typing import Final

_CHUNK: Final = 512


class SortedKeys:
    __slots__ = ("_chunks", "_firsts")

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        ordered = sorted(keys)
        self._chunks = [ordered[i : i + _CHUNK] for i in range(0, len(ordered), _CHUNK)]
        self._firsts = [chunk[0] for chunk in self._chunks]

    def add(self, key: bytes) -> None:
        """A key that is not there yet."""
        if not self._chunks:
            self._chunks.append([key])
            self._firsts.append(key)
            return
        at = self._chunk_of(key)
        chunk = self._chunks[at]
        insort(chunk, key)
        self._firsts[at] = chunk[0]
        if len(chunk) > 2 * _CHUNK:
            self._chunks[at : at + 1] = [chunk[:_CHUNK], chunk[_CHUNK:]]
            self._firsts[at : at + 1] = [chunk[0], chunk[_CHUNK]]

    def discard(self, key: bytes) -> None:
        if not self._chunks:
            return
        at = self._chunk_of(key)
        chunk = self._chunks[at]
        index = bisect_left(chunk, key)
        if index == len(chunk) or chunk[index] != key:
            return
        del chunk[index]
        if chunk:
            self._firsts[at] = chunk[0]
        else:
            del self._chunks[at], self._firsts[at]

    def between(self, lower: bytes | None, upper: bytes | None) -> Iterator[bytes]:
        """From `lower` until before `upper`, as they are now: changes while it runs are not allowed."""
        at = self._chunk_of(lower) if lower is not None else 0
        for chunk in self._chunks[at:]:
            begin = bisect_left(chunk, lower) if lower is not None else 0
            if upper is not None and chunk[-1] >= upper:
                yield from chunk[begin : bisect_left(chunk, upper)]
                return
            yield from chunk[begin:] if begin else chunk

    def _chunk_of(self, key: bytes) -> int:
        at = bisect_left(self._firsts, key)
        if at < len(self._firsts) and self._firsts[at] == key:
            return at
        return max(at - 1, 0)
