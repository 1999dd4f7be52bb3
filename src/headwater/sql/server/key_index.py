"""Names of rows in the order of a value, so that those of a range are found without a look at the others.

Most names lie in one sorted list; those that came since it was made in a second, small one, which is merged into it
when it has grown to a sixteenth of it. Names that were taken away stay until the next merge: `is_there` knows which
rows there are. So a name costs a merge's share when it comes, and a range two binary searches.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")
_RECENT_MIN: Final = 256


class Range(NamedTuple):
    """Between two values, either of which may be missing (None)."""

    low: Any = None
    low_included: bool = True
    high: Any = None
    high_included: bool = True

    def and_also(self, other: Range) -> Range:
        """What is in both."""
        low, high = self[:2], self[2:]
        if self.low is None or (other.low is not None and (other.low, not other.low_included) > (low[0], not low[1])):
            low = other[:2]
        if self.high is None or (other.high is not None and (other.high, other.high_included) < high):
            high = other[2:]
        return Range(*low, *high)


class SortedIndex(Generic[T]):
    """`value` gives what a name is sorted by; `is_there`, whether it still counts."""

    def __init__(self, names: Iterable[T], value: Callable[[T], Any], is_there: Callable[[T], bool]) -> None:
        self._value = value
        self._is_there = is_there
        self._main = sorted(names, key=value)
        self._recent: list[T] = []
        self._unsorted = 0  # at the end of the recent ones

    def __len__(self) -> int:
        """Of all names that are kept, also those that are no more."""
        return len(self._main) + len(self._recent)

    def add(self, name: T) -> None:
        """A name that is there now."""
        self._recent.append(name)
        self._unsorted += 1
        if len(self._recent) > max(_RECENT_MIN, len(self._main) // 16):
            self._merge()

    def between(self, wanted: Range) -> list[T]:
        """In their order, each once."""
        if self._unsorted:
            self._recent.sort(key=self._value)
            self._unsorted = 0
        found = dict.fromkeys((*cut(self._main, wanted, self._value), *cut(self._recent, wanted, self._value)))
        names = [each for each in found if self._is_there(each)]
        return names if not self._recent else sorted(names, key=self._value)

    def _merge(self) -> None:
        self._main = [each for each in dict.fromkeys((*self._main, *self._recent)) if self._is_there(each)]
        self._main.sort(key=self._value)  # two runs that are almost sorted: a merge
        self._recent, self._unsorted = [], 0


def cut(names: list[T], wanted: Range, value: Callable[[T], Any]) -> list[T]:
    """Those of a sorted list that are in the range."""
    first, end = 0, len(names)
    if wanted.low is not None:
        first = (bisect_left if wanted.low_included else bisect_right)(names, wanted.low, key=value)
    if wanted.high is not None:
        end = (bisect_right if wanted.high_included else bisect_left)(names, wanted.high, key=value)
    return names[first:end]
