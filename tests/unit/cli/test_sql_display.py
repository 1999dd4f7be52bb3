"""Tables that fit the terminal, the settings of `SET CLI`, and the commands of the shell."""

import io
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import click
import pytest

from headwater.base.errors import UserError
from headwater.cli import sql_display
from headwater.cli.sql_commands import Command, command_in
from headwater.cli.sql_display import Display, Waiting
from headwater.cli.sql_session import SqlSession
from headwater.cli.sql_tables import Layout, cell, row, table, text_width
from headwater.sql.shell import SqlClient, as_tables, is_push


@pytest.mark.parametrize(
    ("layout", "count", "widths"),
    [
        (Layout(), 3, None),
        (Layout(terminal=80), 2, [38, 38]),
        (Layout(terminal=80), 40, [6] * 40),  # no column is narrower: lines are longer then
        (Layout(terminal=80, column_width=5), 2, [5, 5]),
        (Layout(column_width=5), 1, [5]),
        (Layout(terminal=80), 0, None),
    ],
)
def test_columns_of_rows_share_the_terminal(layout: Layout, count: int, widths: list[int] | None) -> None:
    assert layout.widths(count) == widths


def test_of_a_whole_table_the_widest_columns_give_way() -> None:
    head, rows = ["ID", "STATEMENT"], [["a", "x" * 100], ["bb", "y"]]
    assert Layout(terminal=200).fitted(head, rows) is None
    assert Layout().fitted(head, rows) is None
    widths = Layout(terminal=40).fitted(head, rows)
    assert widths == [2, 35]
    assert all(len(each) <= 40 for line in table(head, rows, widths, wraps=True) for each in line.split("\n"))
    assert Layout(terminal=20).fitted(["A", "B"], [["x" * 90, "y" * 80]]) == [8, 9]
    assert Layout(terminal=3).fitted(["A", "B"], [["x" * 90, "y" * 80]]) == [6, 6]


def test_cells_go_on_in_the_next_line_or_are_cut() -> None:
    assert row(["abcdefgh", "1"], [5, 3], wraps=True) == "|abcde|1  |\n|fgh  |   |"
    assert row(["abcdefgh", "1"], [5, 3], wraps=False) == "|ab...|1  |"
    assert row(["日本語", "1"], [4, 1], wraps=True) == "|日本|1|\n|語  | |"
    assert text_width("e\u0301") == 1


def test_a_value_is_shown_as_sql_writes_it_not_as_python_does() -> None:
    assert (cell(True), cell(Decimal("12345678901234567890.10")), cell(1e308)) == (
        "true",
        "12345678901234567890.10",
        "1e+308",
    )
    assert cell([True, None, "it's", {"X": Decimal("1.50")}]) == '[true, null, "it\'s", {"X": 1.50}]'


@pytest.mark.parametrize("form", ["table", "json"])
def test_rows_in_a_pipe_keep_the_digits_of_decimals(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    display = Display(form, lambda _: None)
    display.rows(["D", "B"], iter([[Decimal("0.10"), True]]), endless=True)
    assert capsys.readouterr().out == {"table": "D|B\n0.10|true\n", "json": '{"D": 0.10, "B": true}\n'}[form]


def test_a_decimal_is_described_with_its_digits() -> None:
    schema = {"type": "DECIMAL", "parameters": {"precision": 10, "scale": 2}, "fields": None, "memberSchema": None}
    described = {
        "@type": "sourceDescription",
        "sourceDescription": {"name": "S", "fields": [{"name": "D", "schema": schema}], "windowType": None},
    }
    assert "DECIMAL(10, 2)" in str(as_tables(described))


def test_a_value_sends_no_commands_to_the_terminal() -> None:
    assert cell("a\x1b[2Jb\nc") == "a\\x1b[2Jb\\nc"
    assert (cell(None), cell(5), cell("é")) == ("null", "5", "é")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("set cli wrap off", Command("SET CLI", ("wrap", "off"))),
        ("OUTPUT JSON;", Command("OUTPUT", ("JSON",))),
        ("SPOOL 'it''s'", Command("SPOOL", ("it's",), quoted=True)),
        ("server http://localhost:8088;", Command("SERVER", ("http://localhost:8088",))),
        ("SET 'auto.offset.reset'='earliest';", None),
        ("SELECT output FROM s;", None),
    ],
)
def test_commands_are_known_by_their_first_words(text: str, found: Command | None) -> None:
    assert command_in(text) == found


@pytest.mark.parametrize(
    "text", ["SET CLI WRAP MAYBE", "SET CLI COLUMN-WIDTH -1", "SET CLI COLOUR ON", "SET CLI WRAP", "OUTPUT XML"]
)
def test_what_cannot_be_set_is_told(text: str) -> None:
    with SqlSession(SqlClient("http://localhost:1"), "table") as session, pytest.raises(UserError):
        session.run(text)


def test_settings_of_the_shell_shape_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    spooled: list[str] = []
    display = Display("table", spooled.append)
    display.set("column-width", "4")
    display.set("WRAP", "off")
    display.rows(["A", "B"], iter([[1, "long text"]]), endless=False)
    assert capsys.readouterr().out == "+----+----+\n|A   |B   |\n+----+----+\n|1   |l...|\n+----+----+\n"
    assert "".join(spooled).endswith("|1   |l...|\n+----+----+\n")
    display.output("json")
    display.rows(["A"], iter([[None]]), endless=True)
    assert capsys.readouterr().out == '{"A": null}\n'


def test_long_answers_come_page_by_page_at_a_terminal_and_rows_without_end_do_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sql_display.sys, "stdout", Terminal())
    monkeypatch.setenv("LESS", "F")
    monkeypatch.setenv("COLUMNS", "20")
    paged: list[str] = []
    monkeypatch.setattr(click, "echo_via_pager", lambda lines: paged.extend(lines))
    display = Display("table", lambda _text: None, pages=True)
    display.rows(["A", "B"], iter([[1, 2]]), endless=False)
    assert "".join(paged).splitlines()[1] == "|A       |B       |"
    paged.clear()
    display.rows(["A"], iter([[1]]), endless=True)
    display.set("PAGER", "OFF")
    display.table(["A"], [["x"]])
    assert paged == []


def test_who_waits_is_told_and_the_line_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = Terminal()
    monkeypatch.setattr(sql_display.sys, "stderr", shown)
    monkeypatch.setattr(sql_display, "_QUIET_S", 0.0)

    def rows() -> Iterator[list[Any]]:
        while "waiting for rows" not in shown.getvalue():
            pass
        yield [1]

    assert list(sql_display.waited_for(rows())) == [[1]]
    assert shown.getvalue().endswith("\r\x1b[K")
    waiting = Waiting()
    waiting.start()
    waiting.stop()
    assert not waiting.is_alive()


@pytest.mark.parametrize(
    ("text", "endless"),
    [
        ("SELECT * FROM s EMIT CHANGES;", True),
        ("SELECT * FROM s EMIT CHANGES LIMIT 5;", False),
        ("SELECT 'EMIT CHANGES' FROM s;", False),
    ],
)
def test_which_queries_have_no_end(text: str, endless: bool) -> None:
    assert is_push(text) is endless


def test_descriptions_for_people() -> None:
    field = {"name": "A", "schema": {"type": "ARRAY", "fields": None, "memberSchema": {"type": "INTEGER"}}}
    offsets = {"partition": 0, "logStartOffset": 1, "logEndOffset": 9, "consumerOffset": 5}
    source = {
        "name": "S",
        "fields": [field],
        "extended": True,
        "topic": "t",
        "readQueries": [],
        "writeQueries": [{"id": "Q", "state": "RUNNING", "queryString": "CREATE ..."}],
        "queryOffsetSummaries": [{"groupId": "g", "topicSummaries": [{"kafkaTopic": "in", "offsets": [offsets]}]}],
    }
    name, fields, facts, queries, progress = as_tables({"@type": "source_descriptions", "sourceDescriptions": [source]})
    assert (name, fields) == ("S:", (["FIELD", "TYPE", "ROLE"], [["A", "ARRAY<INTEGER>", ""]]))
    assert "topic: t" in facts
    assert queries[1] == [["writes", "Q", "RUNNING", "CREATE ..."]]
    assert progress[1] == [["in", 0, 1, 9, 5]]


def test_nothing_that_a_server_says_commands_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sql_display.sys, "stdout", terminal)
    monkeypatch.setattr(click, "echo_via_pager", lambda lines: terminal.writelines(lines))
    monkeypatch.setenv("LESS", "F")
    monkeypatch.setenv("COLUMNS", "60")
    evil = "\x1b[2J\x9b"
    for pages in (False, True):
        spooled: list[str] = []
        display = Display("table", spooled.append, pages=pages)
        display.table([f"A{evil}", "B", "C"], [[f"x{evil}", 5, [evil]], ["y", 17, True]])  # it fits
        display.rows([f"A{evil}"], iter([[evil]]), endless=False)
        display.echo_all([f"CSAS\t{evil}"])
        display.echo(f"key: {evil}")
        display.output("json")
        display.rows(["A"], iter([[evil]]), endless=True)
        shown = terminal.getvalue()
        assert shown == "".join(spooled)
        assert "\x1b" not in shown
        assert "\x9b" not in shown
        assert shown.startswith("A\\x1b[2J\\x9b   B  C\nx\\x1b[2J\\x9b   5  \\x1b[2J\\x9b\ny             17  yes\n")
        assert "\nCSAS\t\\x1b[2J\\x9b\n" in shown
        terminal.seek(0)
        terminal.truncate()
