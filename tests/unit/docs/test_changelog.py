"""An entry of the changelog is one line that can be read at a glance, and stands there once: merges of branches have
put some there twice.
"""

from collections import Counter
from pathlib import Path

ENTRY_MAX = 400
LINES = (Path(__file__).parents[3] / "CHANGELOG.md").read_text().splitlines()
ENTRIES = [line for line in LINES if line.startswith("- ")]


def test_every_line_is_a_title_or_an_entry() -> None:
    assert ENTRIES
    assert [line for line in LINES if line and not line.startswith(("- ", "#"))] == []


def test_no_entry_stands_there_twice() -> None:
    beginnings = Counter(" ".join(entry.split()[:12]) for entry in ENTRIES)
    assert [entry for entry, times in beginnings.items() if times > 1] == []


def test_no_entry_is_long() -> None:
    assert [entry for entry in ENTRIES if len(entry) > ENTRY_MAX] == []
