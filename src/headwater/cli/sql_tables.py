"""Tables that fit a terminal: cells that are too wide go on in the next line, or are cut. Pure.

Rows of a query come one by one, so their columns are equally wide from the first line on; a table that is known whole
has columns as wide as their cells, and only the widest give way.
"""

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from headwater.base.printable import printable

WIDTH_MIN: Final = 6
_CUT: Final = "..."
_BORDERS: Final = 1  # one between any two columns, and one at each end


@dataclass(frozen=True, slots=True)
class Layout:
    """The settings of `SET CLI`, and the terminal: 0 columns where there is none."""

    terminal: int = 0
    column_width: int = 0  # 0: what the terminal has room for
    wraps: bool = True

    def widths(self, count: int) -> list[int] | None:
        """Of the columns of rows that are still to come; None: as wide as they are, for programs."""
        if self.column_width:
            return [self.column_width] * count
        if not self.terminal or not count:
            return None
        return [max((self.terminal - _BORDERS) // count - _BORDERS, WIDTH_MIN)] * count

    def fitted(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int] | None:
        """Of the columns of a table that is known whole; None: it fits as it is."""
        natural = [max(map(text_width, column)) for column in zip(head, *rows, strict=True)]
        if self.column_width:
            return [min(self.column_width, each) for each in natural]
        room = self.terminal - _BORDERS * (len(natural) + 1)
        if not self.terminal or sum(natural) <= room:
            return None
        widths = list(natural)
        while sum(widths) > room and max(widths) > WIDTH_MIN:
            widest = widths.index(max(widths))
            others = sorted(widths)[-2:-1]
            down_to = max([WIDTH_MIN, widths[widest] - (sum(widths) - room), *others[:1]])
            widths[widest] = min(down_to, widths[widest] - 1)
        return widths


def text_width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_letter_width(each) for each in text)


def _letter_width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cell(value: Any) -> str:
    """A value in a row, on one line; what a terminal would take as a command is shown, not sent."""
    return printable(value_text(value))


def value_text(value: Any) -> str:
    """A value as SQL and JSON write it, not as Python does: `true`, `null`, `["a", null]`, all digits of a decimal."""
    return value if isinstance(value, str) else as_json(value)


def as_json(value: Any) -> str:
    """On one line; a decimal with its digits."""
    match value:
        case Decimal():
            return format(value, "f")
        case list():
            return f"[{', '.join(map(as_json, value))}]"
        case dict():
            return "{" + ", ".join(f"{as_json(str(name))}: {as_json(each)}" for name, each in value.items()) + "}"
        case _:
            return json.dumps(value, ensure_ascii=False)


def line(widths: Sequence[int]) -> str:
    return "+" + "+".join("-" * each for each in widths) + "+"


def row(cells: Sequence[str], widths: Sequence[int], *, wraps: bool) -> str:
    """One row, of as many lines as its longest cell needs."""
    pieces = [_pieces(text, width, wraps) for text, width in zip(cells, widths, strict=True)]
    lines = []
    for number in range(max(map(len, pieces), default=0)):
        shown = [each[number] if number < len(each) else "" for each in pieces]
        padded = [text + " " * (width - text_width(text)) for text, width in zip(shown, widths, strict=True)]
        lines.append("|" + "|".join(padded) + "|")
    return "\n".join(lines)


def _pieces(text: str, width: int, wraps: bool) -> list[str]:
    if text_width(text) <= width:
        return [text]
    if not wraps:
        return [_cut(text, width - len(_CUT))[0] + _CUT if width > len(_CUT) else _cut(text, width)[0]]
    pieces, rest = [], text
    while rest:
        piece, rest = _cut(rest, width)
        pieces.append(piece)
    return pieces


def _cut(text: str, width: int) -> tuple[str, str]:
    """As much as fits, at least one letter, and the rest."""
    used = 0
    for place, letter in enumerate(text):
        used += _letter_width(letter)
        if used > width and place:
            return text[:place], text[place:]
    return text, ""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], *, wraps: bool) -> list[str]:
    """A whole table, line by line."""
    shown = [row(each, widths, wraps=wraps) for each in rows]
    return [line(widths), row(head, widths, wraps=wraps), line(widths), *shown, line(widths)]
