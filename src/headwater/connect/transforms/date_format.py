"""Dates in the letters of Java's SimpleDateFormat, English and UTC: written, and read as leniently as Java reads them.

Known: G y Y M L d D E a H k K h m s S z Z X, text in single quotes. What is not known is refused with the pattern.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from headwater.connect.errors import ConfigError, DataError

_MONTHS: Final = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS: Final = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_NUMERIC: Final = frozenset("yDdHkKhmsS")
_LETTERS: Final = _NUMERIC | frozenset("GMLEazZX")
_ZONE: Final = re.compile(r"(Z|UTC|GMT)?([+-]\d\d:?\d\d|[+-]\d\d)?")


class _Part(NamedTuple):
    letter: str  # "" for text
    width: int
    text: str = ""


class DateFormat:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._parts = list(_parts(pattern))

    def format(self, moment: datetime) -> str:
        return "".join(_write(part, moment) for part in self._parts)

    def parse(self, text: str, now: datetime | None = None) -> datetime:
        """What follows behind the pattern is not looked at, as in Java."""
        found: dict[str, int] = {}
        at = 0
        for index, part in enumerate(self._parts):
            following = self._parts[index + 1] if index + 1 < len(self._parts) else None
            at = self._read(part, following, text, at, found)
        try:
            return _moment(found, now or datetime.now(UTC))
        except (OverflowError, ValueError):
            raise self._mismatch(text) from None

    def _mismatch(self, text: str) -> DataError:
        return DataError(f"Could not parse timestamp: value ({text}) does not match pattern ({self.pattern})")

    def _read(self, part: _Part, following: _Part | None, text: str, at: int, found: dict[str, int]) -> int:
        letter, count, literal = part
        if not letter:
            if text[at : at + len(literal)] != literal:
                raise self._mismatch(text)
            return at + len(literal)
        while at < len(text) and text[at] in " \t":
            at += 1
        if letter in _NUMERIC or (letter in "ML" and count < 3):
            fixed = following is not None and _is_number(following)
            digits = re.compile(rf"\d{{1,{count if fixed else 19}}}").match(text, at)
            if digits is None:
                raise self._mismatch(text)
            found["M" if letter == "L" else letter] = int(digits[0])
            if letter == "y" and count <= 2 and len(digits[0]) == 2:
                found["two-digit year"] = 1
            return digits.end()
        if letter in "zZX":
            zone = _ZONE.match(text, at)
            if zone is None or not zone[0]:
                raise self._mismatch(text)
            found["zone"] = _minutes(zone[2])
            return zone.end()
        names, key = {
            "M": (_MONTHS, "M"),
            "L": (_MONTHS, "M"),
            "E": (_DAYS, "E"),
            "a": (["AM", "PM"], "a"),
            "G": (["BC", "AD"], "G"),
        }[letter]
        for number, name in enumerate(names, 1):
            for form in (name, name[:3]):
                if text[at : at + len(form)].lower() == form.lower():
                    found[key] = number
                    return at + len(form)
        raise self._mismatch(text)


def _is_number(part: _Part) -> bool:
    return part.letter in _NUMERIC or (part.letter in ("M", "L") and part.width < 3)


def _parts(pattern: str) -> "list[_Part]":
    parts: list[_Part] = []
    for found in re.finditer(r"'((?:[^']|'')*)'|''|([A-Za-z])\2*|[^A-Za-z']+|'", pattern):
        whole = found[0]
        if whole == "'":
            raise _refused(pattern, "a quote that does not end")
        if whole[0] == "'":
            parts.append(_Part("", 0, "'" if whole == "''" else found[1].replace("''", "'")))
        elif found[2]:
            letter = "y" if found[2] == "Y" else found[2]
            if letter not in _LETTERS:
                raise _refused(pattern, f"Illegal pattern character '{found[2]}'")
            parts.append(_Part(letter, len(whole)))
        else:
            parts.append(_Part("", 0, whole))
    return parts


def _refused(pattern: str, why: str) -> ConfigError:
    return ConfigError(f"A SimpleDateFormat-compatible pattern is needed for string timestamps: {pattern} ({why})")


def _write(part: _Part, moment: datetime) -> str:
    letter, count, literal = part
    hour = moment.hour
    match letter:
        case "":
            return literal
        case "y":
            return f"{moment.year % 100:02d}" if count == 2 else f"{moment.year:0{count}d}"
        case "M" | "L":
            name = _MONTHS[moment.month - 1]
            return f"{moment.month:0{count}d}" if count < 3 else name if count > 3 else name[:3]
        case "E":
            name = _DAYS[moment.weekday()]
            return name if count > 3 else name[:3]
        case "a":
            return "AM" if hour < 12 else "PM"
        case "G":
            return "AD"
        case "z":
            return "Coordinated Universal Time" if count > 3 else "UTC"
        case "Z":
            return "+0000"
        case "X":
            return "Z"
    number = {
        "d": moment.day,
        "D": moment.timetuple().tm_yday,
        "H": hour,
        "k": hour or 24,
        "K": hour % 12,
        "h": hour % 12 or 12,
        "m": moment.minute,
        "s": moment.second,
        "S": moment.microsecond // 1000,
    }[letter]
    return f"{number:0{count}d}"


def _minutes(offset: str | None) -> int:
    if not offset:
        return 0
    digits = offset[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return -minutes if offset[0] == "-" else minutes


def _moment(found: dict[str, int], now: datetime) -> datetime:
    """Lenient: month 13 is January of the next year, hour 25 one o'clock of the next day."""
    year = found.get("y", 1970)
    if "two-digit year" in found:
        first = now.year - 80
        year += first - first % 100
        if year < first or (year == first and (found.get("M", 1), found.get("d", 1)) < (now.month, now.day)):
            year += 100
    month = found.get("M", 1) - 1
    start = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    if "D" in found and "M" not in found and "d" not in found:
        start = datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=found["D"] - 1)
    hour = found.get("H", 0)
    if "k" in found:
        hour = found["k"] % 24 if found["k"] == 24 else found["k"]
    if "h" in found or "K" in found:
        half = found["K"] if "K" in found else (0 if found["h"] == 12 else found["h"])
        hour = half + (12 if found.get("a") == 2 else 0)
    elif "a" in found and "H" not in found and "k" not in found:
        hour = 12 if found["a"] == 2 else 0
    return start + timedelta(
        days=found.get("d", 1) - 1 if "D" not in found or "d" in found else 0,
        hours=hour,
        minutes=found.get("m", 0) - found.get("zone", 0),
        seconds=found.get("s", 0),
        milliseconds=found.get("S", 0),
    )
