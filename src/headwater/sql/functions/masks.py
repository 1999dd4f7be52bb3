"""MASK and its kin: letters and digits of a text replaced by signs, so that its shape stays and its content does
not.
"""

from __future__ import annotations

from headwater.sql.functions.registry import scalar

_DEFAULTS = ("X", "x", "n", "-")
_CATEGORY = "STRING"


def _masked(value: str, signs: tuple[str | None, ...]) -> str:
    upper, lower, digit, other = signs
    out = []
    for letter in value:
        if letter.isupper():
            sign = upper
        elif letter.islower():
            sign = lower
        else:
            sign = digit if letter.isdigit() else other
        out.append(letter if sign is None else sign)
    return "".join(out)


def _signs(given: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """The first character of each; NULL leaves that kind as it is."""
    return tuple(each[:1] if each else None for each in given)


_FOUR = "upper STRING, lower STRING, digit STRING, other STRING"


@scalar("MASK", "(value STRING) -> STRING", "Letters become X and x, digits n, all else -.", category=_CATEGORY)
def mask(value: str) -> str:
    return _masked(value, _DEFAULTS)


@scalar("MASK", f"(value STRING, {_FOUR}) -> STRING", nulls=True)
def mask_with(value: str | None, *signs: str | None) -> str | None:
    return None if value is None else _masked(value, _signs(signs))


def _partly(name: str, description: str, cut: str) -> None:
    """`cut` says which part of a text is masked when `count` characters are named."""

    def parts(value: str, count: int) -> tuple[str, str, str]:
        count = max(count, 0)
        if cut == "left":
            return "", value[:count], value[count:]
        if cut == "right":
            at = max(len(value) - count, 0)
            return value[:at], value[at:], ""
        if cut == "all but left":
            return value[:count], value[count:], ""
        at = max(len(value) - count, 0)
        return "", value[:at], value[at:]

    def plain(value: str, count: int) -> str:
        before, middle, after = parts(value, count)
        return before + _masked(middle, _DEFAULTS) + after

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
