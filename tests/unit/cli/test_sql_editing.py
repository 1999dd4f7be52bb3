"""Tab and the arrows in `headwater sql`: what completes a word, and a history that is its owner's alone."""

import stat
from pathlib import Path
from typing import Any

from headwater.base.errors import UserError
from headwater.cli.paths import sql_history_file
from headwater.cli.sql_editing import Completer, editing, names_known_to


def test_words_functions_and_names_complete_a_word_in_its_own_letters() -> None:
    completer = Completer(lambda: ["ORDERS", "ORDER_ID", "`mixed Case`", "UCASE"])
    assert completer.candidates("ORD") == ["ORDER", "ORDERS", "ORDER_ID"]
    assert completer.candidates("ord") == ["order", "orders", "order_id"]
    assert completer.candidates("sel") == ["select"]
    assert completer.candidates("uc") == ["ucase"]
    assert completer.candidates("`m") == ["`mixed Case`"]
    assert completer.candidates("nothing") == []


def test_readline_gets_one_after_the_other_and_then_none() -> None:
    completer = Completer(lambda: ["STREETS"])
    assert [completer("STRE", state) for state in range(4)] == ["STREAM", "STREAMS", "STREETS", None]


def test_the_server_is_asked_again_when_a_statement_was_run_and_only_then() -> None:
    asked: list[int] = []

    def names() -> list[str]:
        asked.append(1)
        return [f"NAME{len(asked)}"]

    completer = Completer(names)
    assert completer.candidates("NAME") == completer.candidates("NAME") == ["NAME1"]
    completer.forget()
    assert completer.candidates("NAME") == ["NAME2"]


def test_a_server_that_does_not_answer_leaves_the_words_of_the_language() -> None:
    def names() -> list[str]:
        raise UserError("The SQL server does not answer")

    assert Completer(names).candidates("SEL") == ["SELECT"]


def test_names_of_an_answer() -> None:
    answers: dict[str, list[dict[str, Any]]] = {
        "SHOW STREAMS; SHOW TABLES; SHOW FUNCTIONS;": [
            {"@type": "streams", "streams": [{"name": "S"}]},
            {"@type": "tables", "tables": [{"name": "t`t"}]},
            {"@type": "function_names", "functions": [{"name": "UCASE"}]},
        ],
        "DESCRIBE `S`; DESCRIBE `t``t`;": [{"sourceDescription": {"fields": [{"name": "ID"}, {"name": "V"}]}}],
    }
    assert names_known_to(lambda text: answers[text]) == ["UCASE", "S", "t`t", "ID", "V"]
    assert names_known_to(lambda _text: []) == []


class Readline:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.completer: Any = None

    def set_completer(self, completer: Any) -> None:
        self.completer = completer

    def set_completer_delims(self, _text: str) -> None: ...

    def parse_and_bind(self, _text: str) -> None: ...

    def set_history_length(self, _count: int) -> None: ...

    def read_history_file(self, path: str) -> None:
        self.lines = Path(path).read_text().splitlines()

    def write_history_file(self, path: str) -> None:
        Path(path).write_text("\n".join(self.lines))


def test_the_history_is_there_in_the_next_session_and_nobody_elses(tmp_path: Path) -> None:
    path = sql_history_file({"XDG_STATE_HOME": str(tmp_path)})
    first, second = Readline(), Readline()
    with editing(first, Completer(list), path):
        assert first.completer is not None
        first.lines.append("SHOW STREAMS;")
    assert first.completer is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with editing(second, Completer(list), path):
        assert second.lines == ["SHOW STREAMS;"]


def test_a_history_that_cannot_be_kept_is_left(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with editing(Readline(), Completer(list), tmp_path / "file" / "history"):
        pass
