"""The windows that people name: `tumbling("5m")`, `hopping`, `sliding`, `session`, `unlimited`, `daily`, `weekly`,
`monthly`.

Durations are milliseconds, a `timedelta`, or text as `500ms`, `30s`, `5m`, `2h`, `1d`.
"""

from datetime import timedelta
from typing import Final

from headwater.base.errors import UserError
from headwater.streams.model.time import whole
from headwater.streams.model.windows import (
    CalendarWindows,
    SessionWindows,
    SlidingWindows,
    TimeWindows,
    UnlimitedWindows,
)

Duration = int | str | timedelta

_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def milliseconds(duration: Duration, what: str = "duration") -> int:
    """A duration in milliseconds."""
    if isinstance(duration, timedelta):
        return int(duration / timedelta(milliseconds=1))
    if isinstance(duration, str):
        number = duration.rstrip("abcdefghijklmnopqrstuvwxyz")
        unit = duration[len(number) :]
        if unit not in _UNITS or not number.strip().isdigit():
            raise UserError(f"{duration!r} is no {what}", "", "durations are like 500ms, 30s, 5m, 2h or 1d")
        return int(number) * _UNITS[unit]
    found = whole(duration)
    if found is None:
        raise UserError(f"{duration!r} is no {what}", "", "durations are milliseconds, a timedelta, or text as 30s")
    return found


def _positive(duration: Duration, what: str) -> int:
    found = milliseconds(duration, what)
    if found <= 0:
        raise UserError(f"The {what} of a window is {found} ms", "it must be more than 0")
    return found


def _grace(duration: Duration) -> int:
    found = milliseconds(duration, "grace")
    if found < 0:
        raise UserError(f"The grace of a window is {found} ms", "it must not be negative")
    return found


def tumbling(size: Duration, *, grace: Duration = 0) -> TimeWindows:
    """Windows that follow one another without gaps."""
    size_ms = _positive(size, "size")
    return TimeWindows(size_ms, size_ms, _grace(grace))


def hopping(size: Duration, advance: Duration, *, grace: Duration = 0) -> TimeWindows:
    """Windows that begin every `advance` and overlap."""
    size_ms, advance_ms = _positive(size, "size"), _positive(advance, "advance")
    if advance_ms > size_ms:
        raise UserError(f"Windows of {size_ms} ms advance by {advance_ms} ms", "records between them would be lost")
    return TimeWindows(size_ms, advance_ms, _grace(grace))


def sliding(difference: Duration, *, grace: Duration = 0) -> SlidingWindows:
    """For every set of records that are at most `difference` apart, one window."""
    found = milliseconds(difference, "difference")
    if found < 0:
        raise UserError(f"The difference of sliding windows is {found} ms", "it must not be negative")
    return SlidingWindows(found, _grace(grace))


def session(gap: Duration, *, grace: Duration = 0) -> SessionWindows:
    """Records of a key without a pause longer than `gap`."""
    return SessionWindows(_positive(gap, "gap"), _grace(grace))


def unlimited(start_ms: int = 0) -> UnlimitedWindows:
    """One window that never ends."""
    if start_ms < 0:
        raise UserError(f"An unlimited window cannot begin at {start_ms}", "times are milliseconds since 1970")
    return UnlimitedWindows(start_ms)


def daily(zone: str, *, grace: Duration = 0) -> CalendarWindows:
    """Days of a time zone, with 23 or 25 hours when clocks change."""
    return _calendar("day", zone, grace)


def weekly(zone: str, *, grace: Duration = 0) -> CalendarWindows:
    """Weeks of a time zone, from Monday."""
    return _calendar("week", zone, grace)


def monthly(zone: str, *, grace: Duration = 0) -> CalendarWindows:
    """Months of a time zone."""
    return _calendar("month", zone, grace)


def _calendar(unit: str, zone: str, grace: Duration) -> CalendarWindows:
    windows = CalendarWindows(unit, zone, _grace(grace))
    windows.windows_for(0)  # a zone that is not there is told of now
    return windows
