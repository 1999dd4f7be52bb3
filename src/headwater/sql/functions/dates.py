"""Functions of dates, times and timestamps."""

from __future__ import annotations

import calendar
import time as clocks
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

from headwater.sql import values
from headwater.sql.functions.java_dates import GMT, format_moment, midnight, parse_moment, zone
from headwater.sql.functions.lenient_dates import parse_lenient_date
from headwater.sql.functions.registry import scalar
from headwater.sql.values import EvaluationError

_CATEGORY = "DATE / TIME"
_UNITS_MS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 604_800_000,
}


def _naive(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _added(moment: datetime, unit: str, count: int) -> datetime:
    try:
        if unit in ("MONTH", "YEAR"):
            months = moment.year * 12 + moment.month - 1 + count * (12 if unit == "YEAR" else 1)
            year, month = divmod(months, 12)
            day = min(moment.day, calendar.monthrange(year, month + 1)[1])
            return moment.replace(year=year, month=month + 1, day=day)
        return moment + timedelta(milliseconds=_UNITS_MS[unit] * count)
    except (OverflowError, ValueError) as error:
        raise EvaluationError(f"{count} {unit}S from {moment} are out of range: {error}") from None


@scalar(
    "TIMESTAMPADD",
    "(unit INTERVALUNIT, interval INTEGER, timestamp TIMESTAMP) -> TIMESTAMP",
    "A timestamp, later by an interval.",
    category=_CATEGORY,
)
def timestampadd(unit: str, count: int, moment: datetime) -> datetime:
    return _added(moment, unit, count)


@scalar(
    "TIMESTAMPSUB",
    "(unit INTERVALUNIT, interval INTEGER, timestamp TIMESTAMP) -> TIMESTAMP",
    "A timestamp, earlier by an interval.",
    category=_CATEGORY,
)
def timestampsub(unit: str, count: int, moment: datetime) -> datetime:
    return _added(moment, unit, -count)


@scalar(
    "DATEADD",
    "(unit INTERVALUNIT, interval INTEGER, date DATE) -> DATE",
    "A date, later by an interval.",
    category=_CATEGORY,
)
def dateadd(unit: str, count: int, day: date) -> date:
    """Hours that are left over are cut off towards 1970, as in ksqlDB."""
    moved = _added(midnight(day), unit, count)
    return moved.date() if moved >= values.EPOCH or moved == midnight(moved) else moved.date() + timedelta(days=1)


@scalar(
    "DATESUB",
    "(unit INTERVALUNIT, interval INTEGER, date DATE) -> DATE",
    "A date, earlier by an interval.",
    category=_CATEGORY,
)
def datesub(unit: str, count: int, day: date) -> date:
    return dateadd(unit, -count, day)


@scalar(
    "TIMEADD",
    "(unit INTERVALUNIT, interval INTEGER, time TIME) -> TIME",
    "A time of day, later by an interval.",
    category=_CATEGORY,
)
def timeadd(unit: str, count: int, moment: time) -> time:
    if unit not in _UNITS_MS:
        raise EvaluationError(f"A TIME cannot be moved by {unit}S")
    return values.from_time_millis((values.time_millis(moment) + _UNITS_MS[unit] * count) % 86_400_000)


@scalar(
    "TIMESUB",
    "(unit INTERVALUNIT, interval INTEGER, time TIME) -> TIME",
    "A time of day, earlier by an interval.",
    category=_CATEGORY,
)
def timesub(unit: str, count: int, moment: time) -> time:
    return timeadd(unit, -count, moment)


@scalar("UNIX_TIMESTAMP", "() -> BIGINT", "Milliseconds since 1970: now, or of a timestamp.", category=_CATEGORY)
def unix_timestamp() -> int:
    return clocks.time_ns() // 1_000_000


@scalar("UNIX_TIMESTAMP", "(timestamp TIMESTAMP) -> BIGINT")
def unix_timestamp_of(moment: datetime) -> int:
    return values.millis(moment)


@scalar("UNIX_DATE", "() -> INTEGER", "Days since 1970: today, or of a date.", category=_CATEGORY)
def unix_date() -> int:
    return values.days(datetime.now(UTC).date())


@scalar("UNIX_DATE", "(date DATE) -> INTEGER")
def unix_date_of(day: date) -> int:
    return values.days(day)


@scalar(
    "FROM_UNIXTIME", "(millis BIGINT) -> TIMESTAMP", "The timestamp of milliseconds since 1970.", category=_CATEGORY
)
def from_unixtime(value: int) -> datetime:
    return values.from_millis(value)


@scalar("FROM_DAYS", "(days INTEGER) -> DATE", "The date of days since 1970.", category=_CATEGORY)
def from_days(value: int) -> date:
    return values.from_days(value)


@scalar(
    "CONVERT_TZ",
    "(timestamp TIMESTAMP, from STRING, to STRING) -> TIMESTAMP",
    "A timestamp from one time zone in another.",
    category=_CATEGORY,
)
def convert_tz(moment: datetime, source: str, target: str) -> datetime:
    """The clocks of both zones are looked at in the moment that the timestamp is in UTC, as ksqlDB does."""
    before, after = (moment.replace(tzinfo=UTC).astimezone(zone(each)).utcoffset() for each in (source, target))
    return moment + (after or timedelta()) - (before or timedelta())


def _formatted(moment: datetime, pattern: str, known: tzinfo) -> str:
    return format_moment(pattern, moment.replace(tzinfo=UTC).astimezone(known))


@scalar(
    "FORMAT_TIMESTAMP",
    "(timestamp TIMESTAMP, format STRING) -> STRING",
    "A timestamp as text, by a pattern of Java.",
    category=_CATEGORY,
)
def format_timestamp(moment: datetime, pattern: str) -> str:
    return _formatted(moment, pattern, GMT)


@scalar("FORMAT_TIMESTAMP", "(timestamp TIMESTAMP, format STRING, zone STRING) -> STRING")
def format_timestamp_in(moment: datetime, pattern: str, zone_name: str) -> str:
    return _formatted(moment, pattern, zone(zone_name))


@scalar(
    "FORMAT_DATE", "(date DATE, format STRING) -> STRING", "A date as text, by a pattern of Java.", category=_CATEGORY
)
def format_date(day: date, pattern: str) -> str:
    return format_moment(pattern, midnight(day), "date")


@scalar(
    "FORMAT_TIME",
    "(time TIME, format STRING) -> STRING",
    "A time of day as text, by a pattern of Java.",
    category=_CATEGORY,
)
def format_time(moment: time, pattern: str) -> str:
    return format_moment(pattern, datetime.combine(values.EPOCH.date(), moment), "time")


@scalar(
    "PARSE_TIMESTAMP",
    "(text STRING, format STRING) -> TIMESTAMP",
    "Text as a timestamp, by a pattern of Java.",
    category=_CATEGORY,
)
def parse_timestamp(text: str, pattern: str) -> datetime:
    return _naive(parse_moment(pattern, text))


@scalar("PARSE_TIMESTAMP", "(text STRING, format STRING, zone STRING) -> TIMESTAMP")
def parse_timestamp_in(text: str, pattern: str, zone_name: str) -> datetime:
    return _naive(parse_moment(pattern, text, zone(zone_name)))


@scalar(
    "PARSE_DATE", "(text STRING, format STRING) -> DATE", "Text as a date, by a pattern of Java.", category=_CATEGORY
)
def parse_date(text: str, pattern: str) -> date:
    return parse_lenient_date(pattern, text)


@scalar(
    "PARSE_TIME",
    "(text STRING, format STRING) -> TIME",
    "Text as a time of day, by a pattern of Java.",
    category=_CATEGORY,
)
def parse_time(text: str, pattern: str) -> time:
    return parse_moment(pattern, text, kind="time").time()


@scalar(
    "TIMESTAMPTOSTRING",
    "(millis BIGINT, format STRING) -> STRING",
    "Milliseconds since 1970 as text, by a pattern of Java.",
    category=_CATEGORY,
)
def timestamptostring(value: int, pattern: str) -> str:
    return _formatted(values.from_millis(value), pattern, UTC)


@scalar("TIMESTAMPTOSTRING", "(millis BIGINT, format STRING, zone STRING) -> STRING")
def timestamptostring_in(value: int, pattern: str, zone_name: str) -> str:
    return _formatted(values.from_millis(value), pattern, zone(zone_name))


@scalar(
    "STRINGTOTIMESTAMP",
    "(text STRING, format STRING) -> BIGINT",
    "Text as milliseconds since 1970, by a pattern of Java.",
    category=_CATEGORY,
)
def stringtotimestamp(text: str, pattern: str) -> int:
    return values.millis(_naive(parse_moment(pattern, text)))


@scalar("STRINGTOTIMESTAMP", "(text STRING, format STRING, zone STRING) -> BIGINT")
def stringtotimestamp_in(text: str, pattern: str, zone_name: str) -> int:
    return values.millis(_naive(parse_moment(pattern, text, zone(zone_name))))


@scalar(
    "DATETOSTRING",
    "(days INTEGER, format STRING) -> STRING",
    "Days since 1970 as text, by a pattern of Java.",
    category=_CATEGORY,
)
def datetostring(value: int, pattern: str) -> str:
    return format_moment(pattern, midnight(values.from_days(value)), "date")


@scalar(
    "STRINGTODATE",
    "(text STRING, format STRING) -> INTEGER",
    "Text as days since 1970, by a pattern of Java.",
    category=_CATEGORY,
)
def stringtodate(text: str, pattern: str) -> Any:
    return values.days(parse_moment(pattern, text, kind="date").date())
