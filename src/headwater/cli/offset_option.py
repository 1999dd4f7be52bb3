"""Where reading starts and ends, as people write it after `-o`:

    start, earliest, beginning    the oldest record
    end, latest                   only what comes from now on
    5 or @5                       offset 5 in every partition
    -5                            the last 5 of each partition
    5:9 or @5:9                   offsets 5 to 8
    s@WHEN                        the first record at or after a time;  s@WHEN:e@WHEN or e@WHEN bounds the end

A time is milliseconds since 1970 (10 digits or fewer: seconds), a date or a date and time (`2026-01-31`,
`2026-01-31T12:00:00`, with zone or else UTC), or an age (`-15m`, `-2h30m`, `-1d`). Pure: `now_ms` comes in.
"""

import re
from datetime import UTC, datetime
from typing import Final

from headwater.base.errors import UserError
from headwater.client.positions import AtOffset, AtTime, Beginning, End, Last, Window

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_AGE: Final = re.compile(r"(?:\d+(?:ms|[smhdw]))+")
_AGE_PART: Final = re.compile(r"(\d+)(ms|[smhdw])")
_SECONDS_DIGITS_MAX: Final = 10
_TIME_MS_LIMIT: Final = 1 << 63


def parse_window(text: str, now_ms: int) -> Window:
    cleaned = text.strip()
    lowered = cleaned.lower()
    if lowered in ("start", "earliest", "beginning"):
        return Window(Beginning())
    if lowered in ("end", "latest"):
        return Window(End())
    if lowered in (":end", "start:end"):
        return Window(Beginning(), End())
    if cleaned.startswith(("s@", "e@")):
        return _time_window(cleaned, now_ms)
    if re.fullmatch(r"-\d+", cleaned):
        return Window(Last(int(cleaned[1:])))
    numbers = re.fullmatch(r"@?(\d+)(?:[:-](\d+|end))?", cleaned)
    if not numbers:
        raise _bad(text)
    first, last = numbers.groups()
    stop = None if last is None else End() if last == "end" else AtOffset(int(last))
    return Window(AtOffset(int(first)), stop)


def _time_window(text: str, now_ms: int) -> Window:
    if text.startswith("e@"):
        return Window(Beginning(), AtTime(parse_time(text[2:], now_ms)))
    start, separator, stop = text[2:].partition(":e@")
    window_stop = AtTime(parse_time(stop, now_ms)) if separator else None
    return Window(AtTime(parse_time(start, now_ms)), window_stop)


def parse_time(text: str, now_ms: int) -> int:
    """Milliseconds since 1970, in 64 bits."""
    time_ms = _time_ms(text, now_ms)
    if not -_TIME_MS_LIMIT <= time_ms < _TIME_MS_LIMIT:
        raise UserError(f"Cannot use the time {text!r}", "no timestamp of a record is so far away")
    return time_ms


def _time_ms(text: str, now_ms: int) -> int:
    cleaned = text.strip()
    if cleaned.lower() == "now":
        return now_ms
    if cleaned.isascii() and cleaned.isdigit():
        return int(cleaned) * (1000 if len(cleaned) <= _SECONDS_DIGITS_MAX else 1)
    age = cleaned.removeprefix("-")
    if _AGE.fullmatch(age):
        return now_ms - parse_duration_ms(age)
    try:
        when = datetime.fromisoformat(cleaned)
    except ValueError:
        raise UserError(
            f"Cannot read the time {text!r}",
            "it is none of: milliseconds since 1970, a date (2026-01-31), a date and time (2026-01-31T12:00:00Z), an age (-15m)",
        ) from None
    return round((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


def parse_duration_ms(text: str) -> int:
    """'2h30m' -> 9000000."""
    if not _AGE.fullmatch(text):
        raise UserError(f"Cannot read the duration {text!r}", "write amounts with units, as in 90s, 15m, 2h30m, 7d")
    return sum(int(amount) * _UNITS_MS[unit] for amount, unit in _AGE_PART.findall(text))


def _bad(text: str) -> UserError:
    return UserError(
        f"Cannot read the offset {text!r}", "it is none of: start, end, N, -N, @N, N:M, s@TIME, s@TIME:e@TIME, e@TIME"
    )
