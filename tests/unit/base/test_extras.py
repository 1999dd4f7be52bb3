"""What a plain installation lacks is said before anything is begun, with the command that gets it."""

import re
import tomllib
from pathlib import Path

import pytest

from headwater.base import extras
from headwater.base.errors import UserError
from headwater.base.extras import STREAMS, require_extra
from headwater.cli.root import run
from headwater.streams import App


@pytest.fixture(autouse=True)
def plain_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)


@pytest.mark.parametrize(
    ("packages", "told"),
    [
        (["lmdb"], "lmdb is not installed"),
        (["lmdb", "numpy"], "lmdb and numpy are not installed"),
        (STREAMS, "lmdb, pyarrow and numpy are not installed"),
    ],
)
def test_what_is_missing_is_named(packages: list[str], told: str) -> None:
    with pytest.raises(UserError) as caught:
        require_extra("streams", "An application that runs", packages)
    assert (caught.value.what, caught.value.why) == ("An application that runs needs more packages", told)
    assert caught.value.hint == "Run: pip install 'headwater[streams]'"


def test_what_is_there_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: object())
    require_extra("streams", "An application that runs", STREAMS)


def test_an_application_that_runs_says_what_to_install() -> None:
    app = App("orders")
    app.stream("orders").to("copies")
    with pytest.raises(UserError, match=r"pip install 'headwater\[streams\]'"):
        app.run_here()
    with pytest.raises(UserError, match=r"pip install 'headwater\[streams\]'"):
        app.run(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (["stream", "run", "APP"], "streams"),
        (["stream", "run", "APP", "--master", "local[1]"], "streams,spark"),
        (["stream", "serve", "APP"], "streams"),
        (["sql", "server"], "sql"),
        (["up", "--sql", "--data-dir", "DATA"], "sql"),
    ],
)
def test_a_command_says_what_to_install(
    command: list[str], extra: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app.py"
    path.write_text("from headwater.streams import App\napp = App('orders')\napp.stream('orders').to('copies')\n")
    words = {"APP": str(path), "DATA": str(tmp_path / "data")}
    assert run([words.get(word, word) for word in command]) == 1
    assert f"Run: pip install 'headwater[{extra}]'" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_all_is_everything_and_the_readme_names_each_extra() -> None:
    root = Path(__file__).parents[3]
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (everything,) = declared["all"]
    assert set(everything.removeprefix("headwater[").removesuffix("]").split(",")) == set(declared) - {"all"}
    named = set(
        re.findall(
            r"`(\w+)`", re.findall(r"\| extra \| for \|\n(.*?)\n\n", (root / "README.md").read_text(), re.DOTALL)[0]
        )
    )
    needs_more = {name for name, packages in declared.items() if packages}
    assert needs_more <= named
    told = "".join(path.read_text() for path in (root / "src").rglob("*.py"))
    assert set(re.findall(r"headwater\[(\w+)\]", told)) <= set(declared)
