"""Wraps the prose of pages at 120 characters: `python tests/wrap_prose.py` rewrites them (`tests/unit/docs` checks).

Only blocks (a paragraph, an item of a list) with a line that is too long are filled anew. Code, tables, headings and
what cannot be broken stay as they are, and so do pages that are made from code.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

WIDTH = 120
ROOT = Path(__file__).parents[1]
MADE_FROM_CODE = ("docs/CONFIG.md", "docs/CONNECT.md")
ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+")
MEANS_SOMETHING = re.compile(r"(?:[-*+>|=#]|\d+[.)]$|```)")  # at the beginning of a line
FENCE = re.compile(r"\s*(?:```|~~~)")
NO_PROSE = re.compile(r"\s*(?:\||#|<|\[[^\]]+\]:|$)|Measured on: ")


def pages() -> list[Path]:
    """Not the changelog: an entry of it is one line."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    return sorted(each for each in found if str(each.relative_to(ROOT)) not in MADE_FROM_CODE)


def wrapped(text: str) -> str:
    return "".join(line for is_prose, block in blocks(text) for line in (filled(block) if is_prose else block))


def blocks(text: str) -> Iterator[tuple[bool, list[str]]]:
    """Lines that are filled together, or one that is no prose (False)."""
    block: list[str] = []
    fenced = False
    for line in text.splitlines(keepends=True):
        fence = FENCE.match(line) is not None
        is_code = fenced or fence or (line.startswith("    ") and not block)
        fenced ^= fence
        if is_code or NO_PROSE.match(line):
            yield True, block
            yield False, [line]
            block = []
        elif ITEM.match(line):
            yield True, block
            block = [line]
        else:
            block.append(line)
    yield True, block


def filled(block: list[str]) -> list[str]:
    if all(len(line.rstrip("\n")) <= WIDTH for line in block):
        return block
    item = ITEM.match(block[0])
    first = item.group() if item else re.match(r"\s*", block[0]).group()  # type: ignore[union-attr]
    hanging = " " * len(first)
    words = "".join(block)[len(first) :].split()
    lines: list[list[str]] = [[]]
    for word in words:
        indent = first if len(lines) == 1 else hanging
        if lines[-1] and len(indent) + len(" ".join([*lines[-1], word])) > WIDTH:
            carried = [lines[-1].pop()] if MEANS_SOMETHING.match(word) and len(lines[-1]) > 1 else []
            lines.append(carried)
        lines[-1].append(word)
    return [f"{hanging if at else first}{' '.join(line)}\n" for at, line in enumerate(lines)]


def main() -> None:
    for page in pages():
        text = page.read_text()
        if wrapped(text) != text:
            page.write_text(wrapped(text))
            sys.stdout.write(f"{page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
