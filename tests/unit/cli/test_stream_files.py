"""Applications in files: what is wrong with one is told of the file, not of us."""

from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.cli.stream_files import load_app, use_brokers
from headwater.streams import App


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


@pytest.mark.parametrize(
    ("named", "typed", "used"),
    [
        (None, None, "elsewhere:9093"),
        ("own:1", None, "own:1"),
        ("localhost:9092", None, "localhost:9092"),
        ("own:1", "typed:2", "typed:2"),
        (None, "typed:2", "typed:2"),
    ],
)
def test_brokers_that_an_application_does_not_name_are_those_of_other_commands(
    monkeypatch: pytest.MonkeyPatch, named: str | None, typed: str | None, used: str
) -> None:
    monkeypatch.setenv("HEADWATER_BOOTSTRAP_SERVER", "elsewhere:9093")
    app = App("orders") if named is None else App("orders", brokers=named)
    use_brokers(app, typed)
    assert app.brokers == used


def test_brokers_that_are_set_later_are_named_too() -> None:
    app = App("orders")
    assert not app.names_brokers
    app.brokers = "own:1"
    assert app.names_brokers
