"""Wraps the prose of pages at 120 characters: `python tests/wrap_prose.py` rewrites them (`tests/unit/docs` checks).

How is in `headwater.base.markdown`. Pages that are made from code are made so already.
"""

import sys
from pathlib import Path

from headwater.base.markdown import wrapped

ROOT = Path(__file__).parents[1]


def pages() -> list[Path]:
    """Not the changelog: an entry of it is one line."""
    return sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def main() -> None:
    for page in pages():
        text = page.read_text()
        if wrapped(text) != text:
            page.write_text(wrapped(text))
            sys.stdout.write(f"{page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
