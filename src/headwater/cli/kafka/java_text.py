"""Numbers and times as Java prints them. Pure."""

import math
import re
from collections.abc import Callable
from datetime import datetime
from typing import Final

from headwater.cli.kafka.options import Usage

_TOKENS: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_FIELDS: Final[dict[str, Callable[[datetime, int], str]]] = {
    "y": lambda at, width: f"{at.year % 100:02}" if width == 2 else f"{at.year:0{width}}",
    "M": lambda at, width: f"{at.month:0{width}}" if width < 3 else at.strftime("%b" if width == 3 else "%B"),
    "d": lambda at, width: f"{at.day:0{width}}",
    "D": lambda at, width: f"{at.timetuple().tm_yday:0{width}}",
    "E": lambda at, width: at.strftime("%a" if width < 4 else "%A"),
    "a": lambda at, _: at.strftime("%p"),
    "H": lambda at, width: f"{at.hour:0{width}}",
    "h": lambda at, width: f"{at.hour % 12 or 12:0{width}}",
    "m": lambda at, width: f"{at.minute:0{width}}",
    "s": lambda at, width: f"{at.second:0{width}}",
    "S": lambda at, width: f"{at.microsecond // 1000:0{width}}",
    "Z": lambda at, _: at.strftime("%z"),
    "z": lambda at, _: at.strftime("%Z"),
}


def number(value: float, digits: int) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return f"{value:.{digits}f}"


def double(value: float) -> str:
    """As Double.toString writes it: with an exponent below a thousandth and from ten million on."""
    if not value or 1e-3 <= abs(value) < 1e7 or math.isinf(value) or math.isnan(value):
        return repr(float(value))
    mantissa, _, shift = repr(float(value)).partition("e")
    whole, _, part = mantissa.lstrip("-").partition(".")
    significant = (whole + part).lstrip("0").rstrip("0") or "0"
    exponent = int(shift or 0) + (len(whole) - 1 if whole.strip("0") else -(len(part) - len(part.lstrip("0"))) - 1)
    sign = "-" if value < 0 else ""
    return f"{sign}{significant[0]}.{significant[1:] or '0'}E{exponent}"


def ratio(amount: float, by: float) -> float:
    """A division that may be by zero."""
    if by:
        return amount / by
    return math.copysign(math.inf, amount) if amount else math.nan


def date_format(pattern: str) -> Callable[[datetime], str]:
    """A pattern of Java's SimpleDateFormat, as a function."""
    parts: list[str | tuple[Callable[[datetime, int], str], int]] = []
    at = 0
    while at < len(pattern):
        token = _TOKENS.match(pattern, at)
        if token is None:
            raise Usage("Unterminated quote in the date format")
        at = token.end()
        letter = token[2]
        if letter is None:
            parts.append(token[0] if token[1] is None else token[1].replace("''", "'") or "'")
        elif letter in _FIELDS:
            parts.append((_FIELDS[letter], len(token[0])))
        else:
            raise Usage(f"Illegal pattern character '{letter}' in the date format; there are {', '.join(_FIELDS)}")

    def text(when: datetime) -> str:
        return "".join(part if isinstance(part, str) else part[0](when, part[1]) for part in parts)

    return text
