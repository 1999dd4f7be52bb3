"""Patterns of Java's DateTimeFormatter, as ksqlDB's functions of dates and times take them.

A pattern becomes a list of parts; each part writes itself from a moment and reads itself from text. What a text does
not say is taken from 1970-01-01T00:00. Names of months and days are English, and weeks begin on Sunday. Letters that
are not supported are told, never ignored.
"""

from __future__ import annotations

import calendar
import functools
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headwater.sql.functions import patterns
from headwater.sql.values import EvaluationError

Kind = Literal["date", "time", "moment"]
"""What is written or read: a DATE has no time of day, a TIME no day, and neither has a zone."""

_ONE_TO: Final = {  # how often each letter may stand
    **dict.fromkeys("yuY", 19),
    **dict.fromkeys("MLQqEecG", 5),
    **dict.fromkeys("XxZ", 5),
    **dict.fromkeys("dHhkKmsw", 2),
    **dict.fromkeys("nNA", 19),
    "D": 3,
    "S": 9,
    "a": 1,
    "W": 1,
    "z": 4,
    "V": 2,
    "O": 4,
}
_DATE_FIELDS: Final = {
    "G": "Era", "u": "Year", "y": "YearOfEra", "Y": "WeekBasedYear", "D": "DayOfYear", "M": "MonthOfYear",
    "L": "MonthOfYear", "Q": "QuarterOfYear", "q": "QuarterOfYear", "w": "WeekOfWeekBasedYear", "W": "WeekOfMonth",
    "d": "DayOfMonth", "E": "DayOfWeek", "e": "DayOfWeek", "c": "DayOfWeek",
}  # fmt: skip
_TIME_FIELDS: Final = {
    "a": "AmPmOfDay", "h": "ClockHourOfAmPm", "K": "HourOfAmPm", "k": "ClockHourOfDay", "H": "HourOfDay",
    "m": "MinuteOfHour", "s": "SecondOfMinute", "S": "NanoOfSecond", "A": "MilliOfDay", "n": "NanoOfSecond",
    "N": "NanoOfDay",
}  # fmt: skip
_ZONE_FIELDS: Final = dict.fromkeys("VzOXxZ", "OffsetSeconds")
_MISSING: Final[dict[Kind, dict[str, str]]] = {
    "date": {**_TIME_FIELDS, **_ZONE_FIELDS},
    "time": {**_DATE_FIELDS, **_ZONE_FIELDS},
    "moment": {},
}
_MONTHS: Final = [calendar.month_name[each] for each in range(1, 13)]
_DAYS: Final = [calendar.day_name[each] for each in range(7)]
GMT: Final = timezone(timedelta(), "GMT")
# `z` reads the short name of a region, whose clock says whether it is summer: PST in May is PDT.
SHORT_ZONES: Final = {
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
    letter: str  # "" for text that stands as it is, "[" and "]" around what may be missing
    count: int
    text: str = ""


@functools.lru_cache(maxsize=256)
def parts_of(pattern: str) -> tuple[Part, ...]:
    parts: list[Part] = []
    at = depth = 0
    while at < len(pattern):
        letter = pattern[at]
        count = 1
        if letter == "'":
            end = pattern.find("'", at + 1)
            if end < 0:
                raise EvaluationError(f"Pattern ends with an incomplete string literal: {pattern}")
            parts.append(Part("", 0, pattern[at + 1 : end] or "'"))
            count = end + 1 - at
        elif letter.isascii() and letter.isalpha():
            count = len(pattern[at:]) - len(pattern[at:].lstrip(letter))
            _check_letter(letter, count, pattern)
            parts.append(Part(letter, count))
        elif letter in "[]":
            depth += 1 if letter == "[" else -1
            if depth < 0:
                raise EvaluationError("Pattern invalid as it contains ] without previous [")
            parts.append(Part(letter, 0))
        elif letter in "{}#":
            raise EvaluationError(f"Pattern includes reserved character: '{letter}'")
        else:
            parts.append(Part("", 0, letter))
        at += count
    return (*parts, *[Part("]", 0)] * depth)


def _check_letter(letter: str, count: int, pattern: str) -> None:
    if letter not in _ONE_TO:
        raise EvaluationError(f"Unknown pattern letter: {letter} in {pattern}")
    if count > _ONE_TO[letter]:
        raise EvaluationError(f"Too many pattern letters: {letter} in {pattern}")
    if (letter == "V" and count != 2) or (letter == "O" and count not in (1, 4)):
        raise EvaluationError(f"Pattern letter count must be {'2' if letter == 'V' else '1 or 4'}: {letter}")


def zone(name: str) -> tzinfo:
    """A zone by its name (Europe/Berlin), or an offset (+02:00, UTC+2)."""
    shown = re.fullmatch(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::?(\d{2}))?", name)
    if shown:
        minutes = int(shown[2]) * 60 + int(shown[3] or 0)
        return timezone(timedelta(minutes=minutes if shown[1] == "+" else -minutes))
    try:
        return GMT if name == "GMT" else UTC if name in ("UTC", "Z") else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise EvaluationError(f"Unknown time-zone ID: {name}") from None


# -- writing -----------------------------------------------------------------------------------------------------------


def format_moment(pattern: str, moment: datetime, kind: Kind = "moment") -> str:
    parts = parts_of(pattern)
    for part in parts:
        if part.letter in _MISSING[kind]:
            raise EvaluationError(f"Unsupported field: {_MISSING[kind][part.letter]}")
    return "".join(_written(part, moment) if part.letter.isalpha() else part.text for part in parts)


def _written(part: Part, moment: datetime) -> str:
    letter, count = part.letter, part.count
    if letter in "yuY":
        year = moment.year if letter != "Y" else _week(moment)[0]
        return f"{year % 100:02}" if count == 2 else str(year).zfill(count)
    if letter in "ML":
        return _named(_MONTHS[moment.month - 1], count) if count >= 3 else str(moment.month).zfill(count)
    if letter == "E" or (letter in "ec" and count >= 3):
        return _named(_DAYS[moment.weekday()], max(count, 3))
    if letter == "S":
        return f"{moment.microsecond * 1000:09}"[:count].ljust(count, "0")
    if letter == "a":
        return "AM" if moment.hour < 12 else "PM"
    if letter == "G":
        return {4: "Anno Domini", 5: "A"}.get(count, "AD")
    if letter in _ZONE_FIELDS:
        return _zone_text(letter, count, moment)
    if letter in "Qq" and count >= 3:
        quarter = (moment.month + 2) // 3
        return (f"Q{quarter}", f"{quarter}{('st', 'nd', 'rd', 'th')[quarter - 1]} quarter", str(quarter))[count - 3]
    micros_of_day = ((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1_000_000 + moment.microsecond
    numbers = {
        "d": moment.day,
        "D": moment.timetuple().tm_yday,
        "H": moment.hour,
        "k": moment.hour or 24,
        "K": moment.hour % 12,
        "h": moment.hour % 12 or 12,
        "m": moment.minute,
        "s": moment.second,
        "n": moment.microsecond * 1000,
        "N": micros_of_day * 1000,
        "A": micros_of_day // 1000,
        "Q": (moment.month + 2) // 3,
        "q": (moment.month + 2) // 3,
        "w": _week(moment)[1],
        "W": (moment.day - 1 + moment.replace(day=1).isoweekday() % 7) // 7 + 1,
        "e": moment.isoweekday() % 7 + 1,
        "c": moment.isoweekday() % 7 + 1,
    }
    return str(numbers[letter]).zfill(count)


def _week(moment: date) -> tuple[int, int]:
    """The year that the week counts for, and its number. The first week is that of the first of January."""
    saturday = moment.toordinal() + 6 - moment.isoweekday() % 7
    if saturday >= date(moment.year, 12, 31).toordinal() + 1:
        return moment.year + 1, 1
    first = date(moment.year, 1, 1)
    return moment.year, (saturday - (first.toordinal() + 6 - first.isoweekday() % 7)) // 7 + 1


def _named(name: str, count: int) -> str:
    """Three letters are short, four the whole name, five its first letter."""
    return {3: name[:3], 5: name[:1]}.get(count, name)


def _zone_text(letter: str, count: int, moment: datetime) -> str:
    offset = moment.utcoffset() or timedelta()
    minutes = int(offset.total_seconds()) // 60
    sign = "-" if minutes < 0 else "+"
    hours, rest = divmod(abs(minutes), 60)
    if letter in "Vz":
        known = getattr(moment.tzinfo, "key", None) if letter == "V" else None
        name = known or moment.tzname() or "UTC"
        return f"{sign}{hours:02}:{rest:02}" if name.startswith(("UTC+", "UTC-")) else name
    if letter == "O" or (letter == "Z" and count == 4):
        if not offset:
            return "GMT"
        short = f"{hours}:{rest:02}" if rest else str(hours)
        return f"GMT{sign}{short if count == 1 else f'{hours:02}:{rest:02}'}"
    if not offset and (letter == "X" or (letter == "Z" and count == 5)):
        return "Z"
    if letter == "Z":
        return f"{sign}{hours:02}:{rest:02}" if count == 5 else f"{sign}{hours:02}{rest:02}"
    if count == 1 and not rest:
        return f"{sign}{hours:02}"
    return f"{sign}{hours:02}:{rest:02}" if count in (3, 5) else f"{sign}{hours:02}{rest:02}"


# -- reading -----------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _reader(pattern: str) -> tuple[Any, tuple[str, ...]]:
    """A regular expression over the text, and the meaning of each of its groups. It is RE2's: Python's tries each of
    many `[...]` with and without, and with fifty of them it never ends.
    """
    pieces, letters = [], []
    parts = parts_of(pattern)
    for place, part in enumerate(parts):
        if part.letter in ("[", "]"):
            pieces.append("(?:" if part.letter == "[" else ")?")
            continue
        if not part.letter:
            pieces.append(re.escape(part.text))
            continue
        adjacent = place + 1 < len(parts) and parts[place + 1].letter.isalpha()
        pieces.append(f"({_expected(part, adjacent=adjacent)})")
        letters.append(part.letter + ("2" if part.letter in "yu" and part.count == 2 else ""))
    return patterns.pattern("(?i)" + "".join(pieces)), tuple(letters)


def _expected(part: Part, *, adjacent: bool) -> str:
    letter, count = part.letter, part.count
    if letter in "ML" and count >= 3:
        return "|".join(_named(each, count) for each in _MONTHS)
    if letter == "E" or (letter in "ec" and count >= 3):
        return "|".join(_named(each, max(count, 3)) for each in _DAYS)
    if letter == "S":
        return rf"\d{{{count}}}"
    if letter == "a":
        return "AM|PM"
    if letter == "G":
        return "AD"
    if letter in "XxZ":
        return r"Z|(?:GMT)?[+-]\d{2}(?::?\d{2})?"
    if letter == "O":
        return r"GMT(?:[+-]\d{1,2}(?::\d{2})?)?"
    if letter in "zV":
        return r"[A-Za-z][A-Za-z0-9_/+\-:]{0,60}|[+-]\d{2}:?\d{2}"
    if letter in "yuY" and count != 2:
        return rf"\d{{{count}}}" if adjacent else r"[+-]?\d{1,9}" if count == 1 else rf"\d{{{count},9}}"
    if letter in "nNA":
        return r"\d{1,18}"
    return rf"\d{{{count}}}" if count > 1 or adjacent else r"\d{1,3}"


def parse_moment(pattern: str, text: str, default_zone: tzinfo | None = None, kind: Kind = "moment") -> datetime:
    """The moment that `text` says; with a zone if pattern or `default_zone` have one. All of a date must be said for a
    DATE, and nothing of it for a TIME.
    """
    expression, letters = _reader(pattern)
    try:
        found = expression.fullmatch(text)
    except ValueError:  # half a character, which has no bytes
        found = None
    if found is None:
        raise EvaluationError(f"Text '{text}' could not be parsed with the pattern '{pattern}'")
    read = {letter: said for letter, said in zip(letters, found.groups(), strict=True) if said is not None}
    if kind == "time" and read.keys() & {*_DATE_FIELDS, "y2", "u2"}:
        raise EvaluationError("Time format contains date field.")
    try:
        _check(read, kind)
        return _assembled(read, default_zone)
    except (ValueError, OverflowError) as error:
        raise EvaluationError(f"Text '{text}' could not be parsed: {error}") from None


def _check(read: dict[str, str], kind: Kind) -> None:
    """Raises ValueError where fields say too little, or no two of them the same."""
    named = read.keys()
    if kind == "date" and not (
        named & {"y", "u", "y2", "u2"} and ("D" in named or ({"d"} < named and named & {"M", "L"}))
    ):
        raise ValueError("it says no year, month and day")
    if kind == "time":
        hours = named & {"H", "k", "A", "N"} or (named & {"h", "K"} and "a" in named)
        if not hours or ("s" in named and "m" not in named) or ("S" in named and "s" not in named):
            raise ValueError("it says no time of day")
    if "h" in named and not 1 <= int(read["h"]) <= 12:
        raise ValueError(f"{read['h']} is no hour from 1 to 12")
    if "K" in named and int(read["K"]) > 11:
        raise ValueError(f"{read['K']} is no hour from 0 to 11")
    if "a" in named and "H" in named and (int(read["H"]) >= 12) != (read["a"].upper() == "PM"):
        raise ValueError(f"{read['H']} o'clock is not {read['a']}")


def _assembled(read: dict[str, str], default_zone: tzinfo | None) -> datetime:
    year = int(read.get("y") or read.get("u") or 1970)
    if "y2" in read or "u2" in read:
        year = 2000 + int(read.get("y2") or read.get("u2") or 0)
    month_text = read.get("M") or read.get("L") or "1"
    month = int(month_text) if month_text.isdigit() else _place(_MONTHS, month_text)
    day = int(read.get("d", 1))
    if 28 < day <= 31 and 1 <= month <= 12:  # the last day of the month, where it has not so many
        day = min(day, calendar.monthrange(year, month)[1])
    hour = int(read.get("H") or (12 if read.get("a", "").upper() == "PM" else 0))
    if "k" in read:
        hour = int(read["k"]) % 24
    if "h" in read or "K" in read:
        hour = int(read.get("h") or read.get("K") or 0) % 12 + (12 if read.get("a", "").upper() == "PM" else 0)
    minute, second = int(read.get("m", 0)), int(read.get("s", 0))
    micro = int(read["S"].ljust(6, "0")[:6]) if "S" in read else int(read.get("n", 0)) // 1000
    days = 0
    if hour == 24 and not (minute or second or micro):
        hour, days = 0, 1 if read.keys() & {"d", "D"} else 0
    moment = datetime(year, month, day, hour, minute, second, micro) + timedelta(days=days)  # noqa: DTZ001
    if "N" in read or "A" in read:
        of_day = int(read["N"]) // 1000 if "N" in read else int(read["A"]) * 1000
        moment = datetime(year, month, day) + timedelta(microseconds=of_day)  # noqa: DTZ001
    if "D" in read:
        moment = moment.replace(month=1, day=1) + timedelta(days=int(read["D"]) - 1)
        if moment.year != year:
            raise ValueError(f"the year has no day {read['D']}")
    weekday = read.get("E")
    if weekday and "d" in read and _place(_DAYS, weekday) != moment.isoweekday():
        raise ValueError(f"{moment.date()} is no {weekday}")
    short = SHORT_ZONES.get(read.get("z", "").upper())
    named = read.get("V") or short or read.get("z") or read.get("X") or read.get("x") or read.get("Z") or read.get("O")
    known = zone(named.upper() if len(named) == 1 else named) if named else default_zone
    return moment.replace(tzinfo=known)


def _place(names: list[str], text: str) -> int:
    return next(place for place, name in enumerate(names, 1) if name.lower().startswith(text.lower()))


def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day)  # noqa: DTZ001
