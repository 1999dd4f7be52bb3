"""Pages name files, classes, functions and each other: what they name is there."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src" / "headwater"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def links(page: Path) -> Iterator[tuple[Path, str]]:
    for target, anchor in re.findall(r"\]\(([^)#\s:]*)(#[^)\s]*)?\)", page.read_text()):
        yield (page.parent / target).resolve() if target else page, anchor


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_anchors_are_titles(page: Path) -> None:
    for target, anchor in links(page):
        if anchor and target.suffix == ".md":
            titles = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert anchor in {"#" + re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_functions_are_where_pages_say(page: Path) -> None:
    """`server/loop.py: Loop.run`"""
    for file, name in re.findall(r"`([\w/]+\.py):\s+([\w.]+)`", page.read_text()):
        text = (SOURCES / file).read_text()
        for part in name.split("."):
            assert re.search(rf"\b(?:def|class) {part}\b", text), f"{file}: {name}"


def test_pages_have_such_names() -> None:
    """Or the tests above would look at nothing."""
    text = "".join(page.read_text() for page in PAGES)
    assert len(re.findall(r"`([\w/]+\.py):\s+([\w.]+)`", text)) > 50
    assert sum(bool(anchor) for page in PAGES for _, anchor in links(page)) > 25


def test_methods_are_of_the_classes_that_pages_name() -> None:
    """`Log.read`, where there is a class of that name and its file speaks of such a thing."""
    files: dict[str, list[str]] = {}
    for path in SOURCES.rglob("*.py"):
        text = path.read_text()
        for name in CLASS.findall(text):
            files.setdefault(name, []).append(text)
    looked_at = 0
    for page in PAGES:
        for kind, member in re.findall(r"`([A-Z]\w+)\.(\w+)`", page.read_text()):
            if kind in files:
                looked_at += 1
                assert any(re.search(rf"\b{member}\b", text) for text in files[kind]), (page_id(page), kind, member)
    assert looked_at > 50
