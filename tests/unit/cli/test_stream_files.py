"""Applications in files: what is wrong with one is told of the file, not of us."""

from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.cli.stream_files import load_app


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = ", "SyntaxError: invalid syntax"),
        ("import no_such_module_anywhere", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("def f():\n    return 1 / 0\nf()", "line 2, in f"),
    ],
)
def test_a_file_that_fails_shows_its_own_lines_and_none_of_ours(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "app.py"
    path.write_text(text)
    with pytest.raises(UserError, match="cannot be run") as caught:
        load_app(path)
    assert told in caught.value.hint
    assert "stream_files.py" not in caught.value.hint
    assert "runpy" not in caught.value.hint


def test_what_the_file_is_told_by_headwater_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "app.py"
    path.write_text("from headwater.streams import App\napp = App('')")
    with pytest.raises(UserError, match="An application needs a name"):
        load_app(path)
