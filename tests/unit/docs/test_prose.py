"""Prose of pages is wrapped: what does it (`python tests/wrap_prose.py`) has nothing left to do, and breaks nothing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.base.config.document import document as config_page
from headwater.base.markdown import WIDTH, wrapped
from headwater.connect.document import document as connect_page
from wrap_prose import ROOT, pages

LONG = "word " * 40


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_is_wrapped(page: Path) -> None:
    text = page.read_text()
    new = dict.fromkeys(wrapped(text).splitlines())
    assert wrapped(text) == text, ["run: python tests/wrap_prose.py", *(x for x in text.splitlines() if x not in new)]


@pytest.mark.parametrize("made", [config_page, connect_page], ids=["CONFIG", "CONNECT"])
def test_what_makes_pages_wraps_their_prose_and_leaves_their_tables(made: Callable[[], str]) -> None:
    long = [line for line in made().splitlines() if len(line) > WIDTH]
    assert any(line.startswith("| ") for line in long)
    assert [line for line in long if not line.startswith(("| ", "headwater connect run "))] == []


@pytest.mark.parametrize(
    "text",
    [
        f"```\n{LONG}\n```\n",
        f"    {LONG}\n",
        f"| {LONG} |\n",
        f"# {LONG}\n",
        f"<!-- {LONG}-->\n",
        f"{'x' * 200}\n",
        f"{'short ' * 5}\nand no longer than this\n",
    ],
    ids=["fenced", "indented", "table", "heading", "comment", "cannot be broken", "short"],
)
def test_what_is_no_prose_or_short_enough_stays(text: str) -> None:
    assert wrapped(text) == text


def test_items_are_filled_with_their_indentation_and_others_stay() -> None:
    found = wrapped(f"- {LONG}\n  behind it\n- short\n  1. {LONG}\n").splitlines()
    assert [line[:5] for line in found] == ["- wor", "  wor", "- sho", "  1. ", "     "]
    assert all(len(line) <= WIDTH for line in found)
    assert " ".join(found).split() == f"- {LONG} behind it - short 1. {LONG}".split()


@pytest.mark.parametrize("mark", ["-", "+", "#", "1.", ">", "|"])
def test_no_line_begins_with_what_would_mean_something_there(mark: str) -> None:
    first, second = wrapped(f"{'x' * 100} {'y' * 19} {mark} and {'z' * 50}\n").splitlines()
    assert first == "x" * 100
    assert second.startswith("y" * 19 + f" {mark} and")
