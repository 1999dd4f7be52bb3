"""The patches of `make mutants` keep up with the code: each applies, and the test that it names is there."""

from pathlib import Path

import pytest
from mutants.run import ROOT, Mutant, applies, mutants

FOUND = list(mutants())


def test_there_are_mutants() -> None:
    assert len(FOUND) > 20


@pytest.mark.parametrize("mutant", FOUND, ids=lambda mutant: mutant.name)
def test_the_patch_still_applies_and_its_test_exists(mutant: Mutant) -> None:
    assert applies(mutant) == ""
    assert mutant.what
    for test in mutant.tests:
        file, _, function = test.partition("::")
        assert f"def {function.partition('[')[0] or 'test_'}" in (ROOT / file).read_text()


def test_a_patch_that_does_not_fit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "wrong.patch"
    path.write_text("--- a/Makefile\n+++ b/Makefile\n@@ -1 +1 @@\n-not what stands there\n+something else\n")
    assert "does not apply" in applies(Mutant(path, "", []))
