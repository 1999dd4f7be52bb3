"""MASK and its kin: letters and digits of a text replaced by signs, so that its shape stays and its content does
not.
"""

from __future__ import annotations

import unicodedata

from headwater.sql.functions.registry import scalar
from headwater.sql.functions.text_units import counts_units
from headwater.sql.values import EvaluationError

_DEFAULTS = ("X", "x", "n", "-")
_CATEGORY = "STRING"


_KINDS = {"Lu": 0, "Ll": 1, "Nd": 2}  # of Unicode's categories, the place of its sign; all others have the last one


def _masked(value: str, signs: tuple[str | None, ...]) -> str:
    found = ((letter, signs[_KINDS.get(unicodedata.category(letter), 3)]) for letter in value)
    return "".join(letter if sign is None else sign for letter, sign in found)


def _signs(given: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """NULL leaves that kind as it is."""
    for each in given:
        if each is not None and len(each) != 1:
            raise EvaluationError(f"Invalid mask character. Must be only single character, but was '{each}'")
    return given


_FOUR = "upper STRING, lower STRING, digit STRING, other STRING"


@scalar("MASK", "(value STRING) -> STRING", "Letters become X and x, digits n, all else -.", category=_CATEGORY)
@counts_units
def mask(value: str) -> str:
    return _masked(value, _DEFAULTS)


@scalar("MASK", f"(value STRING, {_FOUR}) -> STRING", nulls=True)
@counts_units
def mask_with(value: str | None, *signs: str | None) -> str | None:
    known = _signs(signs)
    return None if value is None else _masked(value, known)


def _partly(name: str, description: str, cut: str) -> None:
    """`cut` says which part of a text is masked when `count` characters are named."""

    def parts(value: str, count: int) -> tuple[str, str, str]:
        if count < 0:
            raise EvaluationError(
                f"function {name.lower()} requires a non-negative number of characters to mask or skip"
            )
        if cut == "left":
            return "", value[:count], value[count:]
        if cut == "right":
            at = max(len(value) - count, 0)
            return value[:at], value[at:], ""
        if cut == "all but left":
            return value[:count], value[count:], ""
        at = max(len(value) - count, 0)
        return "", value[:at], value[at:]

    @counts_units
    def plain(value: str, count: int) -> str:
        before, middle, after = parts(value, count)
        return before + _masked(middle, _DEFAULTS) + after

    @counts_units
    def chosen(value: str | None, count: int | None, *signs: str | None) -> str | None:
        if value is None or count is None:
            return None
        before, middle, after = parts(value, count)
        return before + _masked(middle, _signs(signs)) + after

    scalar(name, "(value STRING, count INTEGER) -> STRING", description, category=_CATEGORY)(plain)
    scalar(name, f"(value STRING, count INTEGER, {_FOUR}) -> STRING", nulls=True)(chosen)


_partly("MASK_LEFT", "The first characters masked.", "left")
_partly("MASK_RIGHT", "The last characters masked.", "right")
_partly("MASK_KEEP_LEFT", "All but the first characters masked.", "all but left")
_partly("MASK_KEEP_RIGHT", "All but the last characters masked.", "all but right")
