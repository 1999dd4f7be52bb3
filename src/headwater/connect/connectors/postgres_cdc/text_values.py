"""Texts of PostgreSQL's values, read as numbers and parts: arrays, intervals, dates, times, bit strings, points,
hstores. Pure.

The texts are those of a session with ISO dates, iso_8601 intervals, UTC, hexadecimal bytes and the C locale for money
(`replication.SESSION_OPTIONS`). Dates and times are counted, not made into Python's own, for PostgreSQL's reach
further: to years before Christ, to 24:00:00, and to infinity.
"""

import re
import struct
from decimal import Decimal
from typing import Final, NamedTuple

from headwater.connect.errors import DataError

DAY_US: Final = 86_400_000_000
_EPOCH_DAY: Final = 719_468  # days from 0000-03-01 to 1970-01-01
INFINITY_US: Final = 9_223_372_036_825_200_000  # what PostgreSQL's Java driver has for them
MINUS_INFINITY_US: Final = -9_223_372_036_832_400_000
_DATE: Final = re.compile(r"(\d{4,})-(\d\d)-(\d\d)( BC)?")
_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?")
_TIMESTAMP: Final = re.compile(
    r"(\d{4,})-(\d\d)-(\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)(?:([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?)?( BC)?"
)
_TIMETZ: Final = re.compile(r"(\d\d:\d\d:\d\d(?:\.\d{1,6})?)([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?")
_INTERVAL: Final = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?)(\d+)(?:\.(\d{1,6}))?S)?)?"
)
_MONTH_US: Final = DAY_US * 487 // 16  # 30.4375 days, a twelfth of 365.25


def _matched(pattern: re.Pattern[str], text: str, what: str) -> re.Match[str]:
    found = pattern.fullmatch(text)
    if found is None:
        raise DataError(f"Not {what}: {text!r}")
    return found


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970 of a date of the Gregorian calendar, before its time too; the year 0 is 1 BC."""
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - _EPOCH_DAY


def date_of(days: int) -> tuple[int, int, int]:
    """The other way round."""
    era, of_era = divmod(days + _EPOCH_DAY, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    return year + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def _year(text: str, before_christ: str | None) -> int:
    return 1 - int(text) if before_christ else int(text)


def date_days(text: str) -> int:
    """`infinity` is the last day that 32 bits can count, `-infinity` the first: PostgreSQL's own numbers for them."""
    if text.endswith("infinity"):
        return -(1 << 31) if text[0] == "-" else (1 << 31) - 1
    year, month, day, era = _matched(_DATE, text, "a date").groups()
    return days_of(_year(year, era), int(month), int(day))


def time_us(text: str) -> int:
    hours, minutes, seconds, fraction = _matched(_TIME, text, "a time").groups()
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000 + int((fraction or "").ljust(6, "0"))


def _zone_us(sign: str | None, hours: str | None, minutes: str | None, seconds: str | None) -> int:
    size = (int(hours or 0) * 60 + int(minutes or 0)) * 60 + int(seconds or 0)
    return (-size if sign == "-" else size) * 1_000_000


def timestamp_us(text: str) -> int:
    """Microseconds since 1970 in UTC, or of a clock without a zone."""
    if text.endswith("infinity"):
        return MINUS_INFINITY_US if text[0] == "-" else INFINITY_US
    year, month, day, clock, sign, hours, minutes, seconds, era = _matched(_TIMESTAMP, text, "a timestamp").groups()
    days = days_of(_year(year, era), int(month), int(day))
    return days * DAY_US + time_us(clock) - _zone_us(sign, hours, minutes, seconds)


def timetz_us(text: str) -> int:
    """The time of day in UTC, in microseconds."""
    clock, *zone = _matched(_TIMETZ, text, "a time with a zone").groups()
    return (time_us(clock or "") - _zone_us(*zone)) % DAY_US


def clock_text(micros: int, *, digits: int = 6) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    shown = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{shown}.{fraction:06d}"[: 9 + digits] if digits else shown


def date_text(days: int) -> str:
    year, month, day = date_of(days)
    shown = f"{year:04d}" if 0 <= year <= 9999 else f"{'-' if year < 0 else '+'}{abs(year):04d}"
    return f"{shown}-{month:02d}-{day:02d}"


class Interval(NamedTuple):
    months: int
    days: int
    micros: int

    @property
    def total_us(self) -> int:
        """A month is a twelfth of 365.25 days."""
        return self.months * _MONTH_US + self.days * DAY_US + self.micros

    @property
    def iso(self) -> str:
        """Every part, zero or not: P1Y2M3DT4H5M6.789S."""
        years, months = _divided(self.months, 12)
        minutes, micros = _divided(self.micros, 60_000_000)
        hours, minutes = _divided(minutes, 60)
        seconds = Decimal(micros).scaleb(-6).normalize() + 0
        return f"P{years}Y{months}M{self.days}DT{hours}H{minutes}M{seconds:f}S"


def _divided(value: int, by: int) -> tuple[int, int]:
    """Towards zero, as signs of intervals go."""
    quotient = abs(value) // by * (-1 if value < 0 else 1)
    return quotient, value - quotient * by


def interval_of(text: str) -> Interval:
    found = _matched(_INTERVAL, text, "an interval")
    years, months, days, hours, minutes = (int(each or 0) for each in found.groups()[:5])
    sign, seconds, fraction = found.groups()[5:]
    micros = int(seconds or 0) * 1_000_000 + int((fraction or "").ljust(6, "0"))
    clock = (hours * 60 + minutes) * 60_000_000 + (-micros if sign == "-" else micros)
    return Interval(years * 12 + months, days, clock)


def money_of(text: str) -> Decimal:
    """`-$12,345.67`."""
    digits = "".join(each for each in text if each.isdigit() or each == ".")
    try:
        found = Decimal(digits)
    except ArithmeticError:
        raise DataError(f"Not an amount of money: {text!r}") from None
    return -found if text.startswith(("-", "(")) else found


def bytes_of(text: str) -> bytes:
    try:
        return bytes.fromhex(text[2:]) if text.startswith("\\x") else text.encode()
    except ValueError:
        raise DataError("Not bytes in hexadecimal") from None


def bits_of(text: str) -> bytes:
    """`1100110011`: the last bit first, in as few bytes as they need, at least one."""
    if text.strip("01"):
        raise DataError(f"Not a bit string: {text!r}")
    size = max(1, -(-len(text) // 8))
    return int(text or "0", 2).to_bytes(size, "little")


def point_of(text: str) -> tuple[float, float, bytes]:
    """x, y, and the same as well-known binary."""
    try:
        x, y = (float(each) for each in text.strip("()").split(","))
    except ValueError:
        raise DataError(f"Not a point: {text!r}") from None
    return x, y, struct.pack("<BIdd", 1, 1, x, y)


def array_of(text: str, delimiter: str = ",") -> list[str | None]:
    """The elements of an array of one dimension; those of arrays in arrays are read as one list of texts."""
    start = text.find("{")
    if start < 0 or not text.endswith("}"):
        raise DataError(f"Not an array: {text!r}")
    found: list[str | None] = []
    at, depth, quoted, current, was_quoted, any_character = start, 0, False, [], False, False
    while at < len(text):
        character = text[at]
        if quoted:
            if character == "\\":
                at += 1
                current.append(text[at])
            elif character == '"':
                quoted = False
            else:
                current.append(character)
        elif character == '"':
            quoted = was_quoted = any_character = True
        elif character == "{":
            depth += 1
        elif character in (delimiter, "}"):
            if any_character:
                word = "".join(current)
                found.append(None if word == "NULL" and not was_quoted else word)
            current, was_quoted, any_character = [], False, False
            depth -= character == "}"
        else:
            current.append(character)
            any_character = True
        at += 1
    if depth or quoted:
        raise DataError(f"An array has no end: {text!r}")
    return found


_HSTORE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)(?:, |$)')


def hstore_of(text: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    at = 0
    while at < len(text):
        pair = _HSTORE.match(text, at)
        if pair is None:
            raise DataError("Not an hstore")
        key, value = pair.groups()
        found[re.sub(r"\\(.)", r"\1", key)] = None if value is None else re.sub(r"\\(.)", r"\1", value)
        at = pair.end()
    return found
