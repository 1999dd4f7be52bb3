"""docs/STATUS.md names tests; each of them is there. And the README's files are."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STATUS = (ROOT / "docs/STATUS.md").read_text()
IDS = sorted(set(re.findall(r"tests/[\w/]+\.py(?:::\w+)?", STATUS)))
ROWS = re.findall(r"^\| ([A-H]\d) \|.*\| (done|partly|missing) \|(.*)\|$", STATUS, re.MULTILINE)
DOCUMENTS = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]


@cache
def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


@pytest.mark.parametrize("test_id", IDS)
def test_the_test_exists(test_id: str) -> None:
    file, _, name = test_id.partition("::")
    assert (ROOT / file).is_file()
    assert not name or name in names_in(ROOT / file)


def test_every_row_that_is_done_names_a_test() -> None:
    assert len(ROWS) > 10
    assert [row for row, state, tests in ROWS if state == "done" and "tests/" not in tests] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_between_documents_lead_somewhere(document: str) -> None:
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), target
