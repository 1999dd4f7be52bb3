"""Windows: which ones a timestamp falls into, how long they stay open, and what identifies one.

Times are milliseconds since 1970, ends of time windows do not belong to them, ends of sessions and sliding windows do.
Grace is how long after its end a window takes late records, by stream time. All immutable.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol

from headwater.base.errors import UserError

LONG_MAX: Final = (1 << 63) - 1


class Windowed(NamedTuple):
    """A key in a window: what rows of a windowed table are called by."""

    key: Any
    start: int
    end: int


class TimeWindowing(Protocol):
    """Windows that are fixed in time."""

    @property
    def size_ms(self) -> int:
        """The longest that a window may be."""

    @property
    def grace_ms(self) -> int: ...

    def windows_for(self, timestamp: int) -> list[tuple[int, int]]:
        """Start and end of all windows that a record falls into, in ascending order."""

    def end_of(self, start: int) -> int: ...

    @property
    def may_emit_on_close(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Tumbling windows, or hopping ones if `advance_ms` is less than `size_ms`."""

    size_ms: int
    advance_ms: int
    grace_ms: int = 0
    may_emit_on_close: bool = True

    def windows_for(self, timestamp: int) -> list[tuple[int, int]]:
        size, advance = self.size_ms, self.advance_ms
        start = max(0, timestamp - size + advance) // advance * advance
        if advance == size:
            return [(start, start + size)]
        return [(at, at + size) for at in range(start, timestamp + 1, advance)]

    def end_of(self, start: int) -> int:
        return start + self.size_ms


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """One window from `start_ms` on that never ends."""

    start_ms: int = 0
    grace_ms: int = 0
    size_ms: int = LONG_MAX
    may_emit_on_close: bool = False

    def windows_for(self, timestamp: int) -> list[tuple[int, int]]:
        return [(self.start_ms, LONG_MAX)] if timestamp >= self.start_ms else []

    def end_of(self, start: int) -> int:  # noqa: ARG002
        return LONG_MAX


@dataclass(frozen=True, slots=True)
class CalendarWindows:
    """Days, weeks or months of a time zone: from midnight to midnight there, so 23 or 25 hours when clocks change. The
    first one begins at 0, as no window begins before: stores and those who ask them look from there on.
    """

    unit: str  # day, week (from Monday), month
    zone: str
    grace_ms: int = 0
    may_emit_on_close: bool = True

    @property
    def size_ms(self) -> int:
        return {"day": 25, "week": 7 * 24 + 1, "month": 31 * 24 + 1}[self.unit] * 3_600_000

    def windows_for(self, timestamp: int) -> list[tuple[int, int]]:
        start = self._midnight(timestamp)
        return [(max(0, _ms(start)), _ms(self._next(start)))]

    def end_of(self, start: int) -> int:
        return _ms(self._next(self._midnight(start)))

    def _midnight(self, timestamp: int) -> datetime:
        at = datetime.fromtimestamp(timestamp // 1000, _zone(self.zone)).replace(hour=0, minute=0, second=0, fold=0)
        if self.unit == "week":
            return at - timedelta(days=at.weekday())
        return at.replace(day=1) if self.unit == "month" else at

    def _next(self, start: datetime) -> datetime:
        if self.unit == "month":
            return (start + timedelta(days=31)).replace(day=1)
        return start + timedelta(days=7 if self.unit == "week" else 1)


_zones: dict[str, Any] = {}


def _zone(name: str) -> Any:
    zone = _zones.get(name)
    if zone is None:
        from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

        try:
            zone = _zones[name] = ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError):
            raise UserError(f"There is no time zone {name!r}", "", "names are like Europe/Berlin or UTC") from None
    return zone


def _ms(local: datetime) -> int:
    """The instant of a local time: arithmetic on local times went by the calendar, not by hours."""
    return int(local.astimezone(UTC).timestamp()) * 1000


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows of records that are at most `difference_ms` apart, ends included."""

    difference_ms: int
    grace_ms: int = 0


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Records of a key with no pause longer than `gap_ms`, ends included."""

    gap_ms: int
    grace_ms: int = 0


AnyWindows = TimeWindows | UnlimitedWindows | CalendarWindows | SlidingWindows | SessionWindows
