"""Prose of Markdown pages, wrapped at 120 characters. Pure; for pages that are made from code and for the check of all.

Only blocks (a paragraph, an item of a list) with a line that is too long are filled anew. Code, tables, headings and
what cannot be broken stay as they are; so what is wrapped stays as it is, too.
"""

import re
from collections.abc import Iterator
from typing import Final

WIDTH: Final = 120
_ITEM: Final = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
_MEANS_SOMETHING: Final = re.compile(r"(?:[-*+>|=#]|\d+[.)]$|```)")  # at the beginning of a line
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")
_NO_PROSE: Final = re.compile(r"\s*(?:\||#|<|\[[^\]]+\]:|$)|Measured on: ")


def wrapped(text: str) -> str:
    return "".join(line for is_prose, block in _blocks(text) for line in (_filled(block) if is_prose else block))


def _blocks(text: str) -> Iterator[tuple[bool, list[str]]]:
    """Lines that are filled together, or one that is no prose (False)."""
    block: list[str] = []
    fenced = False
    for line in text.splitlines(keepends=True):
        fence = _FENCE.match(line) is not None
        is_code = fenced or fence or (line.startswith("    ") and not block)
        fenced ^= fence
        if is_code or _NO_PROSE.match(line):
            yield True, block
            yield False, [line]
            block = []
        elif _ITEM.match(line):
            yield True, block
            block = [line]
        else:
            block.append(line)
    yield True, block


def _filled(block: list[str]) -> list[str]:
    if all(len(line.rstrip("\n")) <= WIDTH for line in block):
        return block
    item = _ITEM.match(block[0])
    first = item.group() if item else re.match(r"\s*", block[0]).group()  # type: ignore[union-attr]
    hanging = " " * len(first)
    words = "".join(block)[len(first) :].split()
    lines: list[list[str]] = [[]]
    for word in words:
        indent = first if len(lines) == 1 else hanging
        if lines[-1] and len(indent) + len(" ".join([*lines[-1], word])) > WIDTH:
            carried = [lines[-1].pop()] if _MEANS_SOMETHING.match(word) and len(lines[-1]) > 1 else []
            lines.append(carried)
        lines[-1].append(word)
    return [f"{hanging if at else first}{' '.join(line)}\n" for at, line in enumerate(lines)]
