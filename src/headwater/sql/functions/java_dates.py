"""Patterns of Java's DateTimeFormatter, as ksqlDB's functions of dates and times take them.

A pattern becomes a list of parts; each part writes itself from a moment and reads itself from text. What a text does
not say is taken from 1970-01-01T00:00. Names of months and days are English. Letters that are not supported are told,
never ignored.
"""

from __future__ import annotations

import calendar
import functools
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headwater.sql.values import EvaluationError

_SUPPORTED: Final = frozenset("yuMLdDHhkKmsSnAaEezZXxVQqwG")
_MONTHS: Final = [calendar.month_name[each] for each in range(1, 13)]
_DAYS: Final = [calendar.day_name[each] for each in range(7)]
# `z` reads the short name of a region, whose clock says whether it is summer: PST in May is PDT.
_SHORT_ZONES: Final = {
    short: region
    for shorts, region in {
        "PST PDT PT": "America/Los_Angeles",
        "MST MDT MT": "America/Denver",
        "CST CDT CT": "America/Chicago",
        "EST EDT ET": "America/New_York",
        "AKST AKDT": "America/Anchorage",
        "HST": "Pacific/Honolulu",
        "BST": "Europe/London",
        "CET CEST": "Europe/Paris",
        "EET EEST": "Europe/Bucharest",
        "WET WEST": "Europe/Lisbon",
        "MSK": "Europe/Moscow",
        "JST": "Asia/Tokyo",
    }.items()
    for short in shorts.split()
}


@dataclass(frozen=True, slots=True)
class Part:
    letter: str  # "" for text that stands as it is
    count: int
    text: str = ""


@functools.lru_cache(maxsize=256)
def parts_of(pattern: str) -> tuple[Part, ...]:
    parts: list[Part] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "'":
            end = pattern.find("'", at + 1)
            if end < 0:
                raise EvaluationError(f"Pattern ends with an incomplete string literal: {pattern}")
            parts.append(Part("", 0, pattern[at + 1 : end] or "'"))
            at = end + 1
        elif letter.isascii() and letter.isalpha():
            if letter not in _SUPPORTED:
                raise EvaluationError(f"Unknown pattern letter: {letter} in {pattern}")
            count = len(pattern[at:]) - len(pattern[at:].lstrip(letter))
            parts.append(Part(letter, count))
            at += count
        else:
            parts.append(Part("", 0, letter))
            at += 1
    return tuple(parts)


def zone(name: str) -> tzinfo:
    """A zone by its name (Europe/Berlin), or an offset (+02:00, UTC+2)."""
    shown = re.fullmatch(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?", name)
    if shown:
        minutes = int(shown[2]) * 60 + int(shown[3] or 0)
        return timezone(timedelta(minutes=minutes if shown[1] == "+" else -minutes))
    try:
        return UTC if name in ("UTC", "Z", "GMT") else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"Unknown time-zone ID: {name}") from None


def format_moment(pattern: str, moment: datetime) -> str:
    return "".join(part.text if not part.letter else _written(part, moment) for part in parts_of(pattern))


def _written(part: Part, moment: datetime) -> str:
    letter, count = part.letter, part.count
    millis = moment.microsecond // 1000
    if letter in "yu":
        return f"{moment.year % 100:02}" if count == 2 else str(moment.year).zfill(count)
    if letter in "ML":
        return _named(_MONTHS[moment.month - 1], count) if count >= 3 else str(moment.month).zfill(count)
    if letter == "E" or (letter == "e" and count >= 3):
        return _named(_DAYS[moment.weekday()], max(count, 3))
    if letter == "S":
        return f"{moment.microsecond * 1000:09}"[:count].ljust(count, "0")
    if letter == "a":
        return "AM" if moment.hour < 12 else "PM"
    if letter == "G":
        return "AD"
    if letter in "zZXxV":
        return _zone_text(letter, count, moment)
    if letter in "Qq" and count >= 3:
        quarter = (moment.month + 2) // 3
        return (f"Q{quarter}", f"{quarter}{('st', 'nd', 'rd', 'th')[quarter - 1]} quarter", str(quarter))[count - 3]
    day_of_year = moment.timetuple().tm_yday
    numbers = {
        "d": moment.day,
        "D": day_of_year,
        "H": moment.hour,
        "k": moment.hour or 24,
        "K": moment.hour % 12,
        "h": moment.hour % 12 or 12,
        "m": moment.minute,
        "s": moment.second,
        "n": moment.microsecond * 1000,
        "A": ((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1000 + millis,
        "Q": (moment.month + 2) // 3,
        "q": (moment.month + 2) // 3,
        "w": moment.isocalendar().week,
        "e": moment.isoweekday() % 7 + 1,
    }
    return str(numbers[letter]).zfill(count)


def _named(name: str, count: int) -> str:
    """Three letters are short, four the whole name, five its first letter."""
    return {3: name[:3], 5: name[:1]}.get(count, name)


def _zone_text(letter: str, count: int, moment: datetime) -> str:
    offset = moment.utcoffset() or timedelta()
    if letter == "V":
        return str(getattr(moment.tzinfo, "key", None) or moment.tzname() or "UTC")
    if letter == "z":
        return moment.tzname() or "UTC"
    if letter == "X" and not offset:
        return "Z"
    minutes = int(offset.total_seconds()) // 60
    sign = "-" if minutes < 0 else "+"
    hours, rest = divmod(abs(minutes), 60)
    if letter == "Z":
        return f"{sign}{hours:02}{rest:02}" if count < 4 else f"GMT{sign}{hours:02}:{rest:02}"
    if count == 1 and not rest:
        return f"{sign}{hours:02}"
    return f"{sign}{hours:02}:{rest:02}" if count in (3, 5) else f"{sign}{hours:02}{rest:02}"


@functools.lru_cache(maxsize=256)
def _reader(pattern: str) -> tuple[re.Pattern[str], tuple[str, ...]]:
    """A regular expression over the text, and the meaning of each of its groups. Each group is bounded, so it ends
    quickly.
    """
    pieces, letters = [], []
    parts = parts_of(pattern)
    for place, part in enumerate(parts):
        if not part.letter:
            pieces.append(re.escape(part.text))
            continue
        adjacent = place + 1 < len(parts) and bool(parts[place + 1].letter)
        pieces.append(f"({_expected(part, adjacent=adjacent)})")
        letters.append(part.letter + ("2" if part.letter in "yu" and part.count == 2 else ""))
    return re.compile("".join(pieces), re.IGNORECASE), tuple(letters)


def _expected(part: Part, *, adjacent: bool) -> str:
    letter, count = part.letter, part.count
    if letter in "ML" and count >= 3:
        return "|".join(_named(each, count) for each in _MONTHS)
    if letter == "E" or (letter == "e" and count >= 3):
        return "|".join(_named(each, max(count, 3)) for each in _DAYS)
    if letter == "S":
        return rf"\d{{{count}}}"
    if letter == "a":
        return "AM|PM"
    if letter == "G":
        return "AD"
    if letter in "XxZ":
        return r"Z|(?:GMT)?[+-]\d{2}(?::?\d{2})?"
    if letter in "zV":
        return r"[A-Za-z][A-Za-z0-9_/+\-:]{0,60}|[+-]\d{2}:?\d{2}"
    if letter in "yu" and count != 2:
        return rf"\d{{{count}}}" if adjacent else r"[+-]?\d{1,9}" if count == 1 else rf"\d{{{count},9}}"
    if letter in "nA":
        return r"\d{1,18}"
    return rf"\d{{{count}}}" if count > 1 or adjacent else r"\d{1,3}"


def parse_moment(pattern: str, text: str, default_zone: tzinfo | None = None, *, whole: bool = True) -> datetime:
    """The moment that `text` says; with a zone if pattern or `default_zone` have one. `whole`: nothing may stand
    behind it.
    """
    expression, letters = _reader(pattern)
    found = expression.fullmatch(text) if whole else expression.match(text)
    if found is None:
        raise EvaluationError(f"Text '{text}' could not be parsed with the pattern '{pattern}'")
    read = dict(zip(letters, found.groups(), strict=True))
    try:
        return _assembled(read, default_zone)
    except (ValueError, OverflowError) as error:
        raise EvaluationError(f"Text '{text}' could not be parsed: {error}") from None


def _assembled(read: dict[str, str], default_zone: tzinfo | None) -> datetime:
    year = int(read.get("y") or read.get("u") or 1970)
    if "y2" in read or "u2" in read:
        year = 2000 + int(read.get("y2") or read.get("u2") or 0)
    month_text = read.get("M") or read.get("L") or "1"
    month = int(month_text) if month_text.isdigit() else _place(_MONTHS, month_text)
    day = int(read.get("d", 1))
    hour = int(read.get("H") or 0)
    if "k" in read:
        hour = int(read["k"]) % 24
    if "h" in read or "K" in read:
        hour = int(read.get("h") or read.get("K") or 0) % 12 + (12 if read.get("a", "").upper() == "PM" else 0)
    micro = int(read["S"].ljust(6, "0")[:6]) if "S" in read else int(read.get("n", 0)) // 1000
    moment = datetime(year, month, day, hour, int(read.get("m", 0)), int(read.get("s", 0)), micro)  # noqa: DTZ001
    if "D" in read:
        moment = moment.replace(month=1, day=1) + timedelta(days=int(read["D"]) - 1)
    short = _SHORT_ZONES.get(read.get("z", "").upper())
    named = read.get("V") or short or read.get("z") or read.get("X") or read.get("x") or read.get("Z")
    known = zone(named.upper() if len(named) == 1 else named) if named else default_zone
    return moment.replace(tzinfo=known)


def _place(names: list[str], text: str) -> int:
    return next(place for place, name in enumerate(names, 1) if name.lower().startswith(text.lower()))


def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001
