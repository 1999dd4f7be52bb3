"""PARSE_DATE's own way to read a date: ksqlDB reads it with another library than its siblings, and its patterns mean
other things. A number takes all digits that stand there (`2021-1-5` by `yyyy-MM-dd`), what a calendar does not have
goes on with the next month (the 30th of February is the 1st or 2nd of March), two digits of a year are within the last
80 years and the next 20, and nobody looks at what stands behind the pattern.
"""

from __future__ import annotations

import calendar
import functools
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Final

from headwater.sql.functions.java_dates import SHORT_ZONES, zone
from headwater.sql.values import EvaluationError

_DAY_MS: Final = 86_400_000
_YEARS_BACK: Final = 80  # that two digits of a year may mean
_NUMBERS: Final = frozenset("DFHKSWdhkmsuwyY")
_NAMES: Final = {
    "M": {
        name.lower(): place for names in (calendar.month_name, calendar.month_abbr) for place, name in enumerate(names)
    },
    "E": {name.lower(): place for names in (calendar.day_name, calendar.day_abbr) for place, name in enumerate(names)},
    "a": {"am": 0, "pm": 1},
    "G": {"ad": 1, "bc": 0, "anno domini": 1, "before christ": 0},
}
_OFFSETS: Final = {
    "X": r"Z|[+-]\d{2}", "XX": r"Z|[+-]\d{4}", "XXX": r"Z|[+-]\d{2}:\d{2}", "ZZ": r"Z|[+-]\d{2}:\d{2}",
    "Z": r"[+-]\d{4}|GMT[+-]\d{1,2}:\d{2}|[A-Za-z]{2,4}", "z": r"[+-]\d{4}|GMT[+-]\d{1,2}:\d{2}|[A-Za-z]{2,4}",
}  # fmt: skip

Said = dict[str, int]
Step = Callable[[str, int, Said], int]
"""Reads from a place in the text on, notes what it said, and gives the place behind it. Raises ValueError."""


def parse_lenient_date(pattern: str, text: str) -> date:
    said: Said = {}
    try:
        at = 0
        for step in _steps(pattern):
            at = step(text, at, said)
        return _assembled(said)
    except (ValueError, OverflowError) as error:
        raise EvaluationError(f"Failed to parse date '{text}' with formatter '{pattern}': {error}") from None


@functools.lru_cache(maxsize=256)
def _steps(pattern: str) -> tuple[Step, ...]:
    pieces = _pieces(pattern)
    steps: list[Step] = []
    for place, (letter, shown) in enumerate(pieces):
        if not letter:
            steps.append(functools.partial(_literal, shown))
        elif letter in "ML" and len(shown) >= 3:
            steps.append(functools.partial(_name, "M"))
        elif letter in "EaG":
            steps.append(functools.partial(_name, letter))
        elif letter in _NUMBERS or letter in "ML":
            follows = place + 1 < len(pieces) and _is_number(*pieces[place + 1])
            steps.append(functools.partial(_number, letter.replace("L", "M"), len(shown), len(shown) if follows else 0))
        elif shown in _OFFSETS or letter in "zZ":
            steps.append(functools.partial(_offset, _OFFSETS.get(shown, _OFFSETS["z"])))
        else:
            raise ValueError(f"Format '{letter}' not supported")
    return tuple(steps)


def _is_number(letter: str, shown: str) -> bool:
    return bool(letter) and (letter in _NUMBERS or (letter in "ML" and len(shown) < 3))


def _pieces(pattern: str) -> list[tuple[str, str]]:
    """Runs of a letter, and text as it stands (without a letter)."""
    pieces: list[tuple[str, str]] = []
    text, quoted, at = "", False, 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "'":
            if pattern[at + 1 : at + 2] == "'":
                text += "'"
                at += 1
            else:
                quoted = not quoted
            at += 1
        elif quoted or not (letter.isascii() and letter.isalpha()):
            text += letter
            at += 1
        else:
            count = len(pattern[at:]) - len(pattern[at:].lstrip(letter))
            pieces += [*([("", text)] if text else []), (letter, letter * count)]
            text = ""
            at += count
    if quoted:
        raise ValueError("Unterminated quote")
    return [*pieces, *([("", text)] if text else [])]


def _literal(expected: str, text: str, at: int, _said: Said) -> int:
    if not text.startswith(expected, at):
        raise ValueError(f"'{expected}' is missing")
    return at + len(expected)


def _number(letter: str, count: int, digits_max: int, text: str, at: int, said: Said) -> int:
    if not digits_max:
        at = len(text) - len(text[at:].lstrip())
    end = at
    while end < len(text) and text[end].isdecimal() and (not digits_max or end - at < digits_max):
        end += 1
    number = int(text[at:end])  # of nothing: ValueError
    if letter in "yYu":
        letter, number = "y", _full_year(number) if count <= 2 and number < 100 and letter != "u" else number
    _note(said, letter, number)
    return end


def _full_year(two_digits: int) -> int:
    first = datetime.now(UTC).year - _YEARS_BACK
    year = first // 100 * 100 + two_digits
    return year if year >= first else year + 100


def _name(letter: str, text: str, at: int, said: Said) -> int:
    names = _NAMES[letter]
    found = next(
        (each for each in sorted(names, key=len, reverse=True) if each and text[at : at + len(each)].lower() == each),
        None,
    )
    if found is None:
        raise ValueError(f"'{text[at:]}' begins with no name that is known")
    _note(said, letter, names[found])
    return at + len(found)


def _offset(expected: str, text: str, at: int, said: Said) -> int:
    found = re.compile(expected, re.IGNORECASE).match(text, at)
    if found is None:
        raise ValueError(f"'{text[at:]}' begins with no time zone")
    shown = found[0].upper()
    known = zone(SHORT_ZONES.get(shown, shown))
    _note(said, "zone", int((datetime(1970, 1, 1, tzinfo=known).utcoffset() or timedelta()).total_seconds()))
    return found.end()


def _note(said: Said, field: str, number: int) -> None:
    said.pop(field, None)  # so that the latest stands last
    said[field] = number


def _assembled(said: Said) -> date:
    if said.get("G", 1) == 0:
        raise ValueError("a year before 1")
    months = said.get("y", 1970) * 12 + said.get("M", 1) - 1
    order = list(said)
    by_year = "D" in said and all(order.index(each) < order.index("D") for each in ("d", "M") if each in said)
    if by_year:
        day = date(said.get("y", 1970), 1, 1) + timedelta(days=said["D"] - 1)
    else:
        day = date(months // 12, months % 12 + 1, 1) + timedelta(days=said.get("d", 1) - 1)
    hour = said.get("H", said.get("k", 0) % 24)
    if "h" in said or "K" in said:
        hour = said.get("h", said.get("K", 0)) % 12 + 12 * said.get("a", 0)
    seconds = (hour * 60 + said.get("m", 0)) * 60 + said.get("s", 0) - said.get("zone", 0)
    days, rest = divmod(seconds * 1000 + said.get("S", 0), _DAY_MS)
    if rest:
        raise ValueError("Date format contains time field.")
    return day + timedelta(days=days)
