"""`headwater sql`: scripts, the spool file, and what is told when they cannot be read or written. The server is one
that answers at once.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headwater.base.errors import UserError
from headwater.cli import sql_session
from headwater.cli.root import cli
from headwater.cli.sql_session import SqlSession, is_complete, is_session_command
from headwater.sql import shell
from headwater.sql.shell import Rows, SqlClient


class AnsweringClient(SqlClient):
    def __init__(self, url: str = "http://localhost:1", *_: object) -> None:
        super().__init__(url)
        self.asked: list[str] = []

    def run(self, text: str) -> list[dict[str, Any]]:
        text = text.lstrip()  # what stands before it in its text is sent as white space
        self.asked.append(text)
        if text.startswith("BAD"):
            raise UserError("no such statement", "BAD is none")
        if text.startswith("INSERT"):
            return []
        if "IF NOT EXISTS" in text:
            return [{"@type": "warning_entity", "message": "Cannot add stream `S`"}]
        return [{"@type": "currentStatus", "commandStatus": {"message": f"made {len(self.asked)}"}}]

    @contextlib.contextmanager
    def query(self, text: str) -> Iterator[Rows]:
        self.asked.append(text.lstrip())
        yield ["A", "B"], iter([[1, None]])

    @contextlib.contextmanager
    def printed(self, text: str) -> Iterator[Iterator[str]]:
        self.asked.append(text.lstrip())
        yield iter(["key: 1\n", "key: 2\n"])


@pytest.fixture
def client() -> AnsweringClient:
    return AnsweringClient()


@pytest.fixture
def session(client: AnsweringClient) -> Iterator[SqlSession]:
    with SqlSession(client, "table") as session:
        yield session


def test_a_script_shares_the_variables_and_settings_of_the_session(
    session: SqlSession, client: AnsweringClient, tmp_path: Path
) -> None:
    (tmp_path / "a.sql").write_text(
        "-- makes one\nCREATE ${kind} x;\nSET 'auto.offset.reset'='earliest';\nDEFINE y = 'later';"
    )
    session.run(f"DEFINE kind = 'STREAM'; DEFINE dir = '{tmp_path}'; RUN SCRIPT '${{dir}}/a.sql'; DROP STREAM ${{y}}")
    assert client.asked == ["CREATE STREAM x;", "DROP STREAM later;"]
    assert client.settings == {"auto.offset.reset": "earliest"}


def test_a_script_stops_at_its_first_error_which_names_the_file(
    session: SqlSession, client: AnsweringClient, tmp_path: Path
) -> None:
    (tmp_path / "inner.sql").write_text("SHOW STREAMS; BAD; SHOW TABLES;")
    (tmp_path / "outer.sql").write_text(f"RUN SCRIPT '{tmp_path}/inner.sql'; SHOW TOPICS;")
    with pytest.raises(UserError) as told:
        session.run_script(tmp_path / "outer.sql")
    assert told.value.what == f"{tmp_path}/outer.sql: {tmp_path}/inner.sql: no such statement"
    assert told.value.why == "BAD is none"
    assert client.asked == ["SHOW STREAMS;", "BAD;"]
    session.run("SHOW QUERIES;")  # the session goes on


def test_a_script_that_leads_back_to_itself_is_refused(session: SqlSession, tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(f"RUN SCRIPT '{tmp_path}/b.sql';")
    (tmp_path / "b.sql").write_text(f"RUN SCRIPT '{tmp_path}/a.sql';")
    with pytest.raises(UserError, match=r"is not run again\. it is running"):
        session.run_script(tmp_path / "a.sql")


def test_scripts_call_each_other_to_a_limit(session: SqlSession, tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.sql").write_text(f"RUN SCRIPT '{tmp_path}/{number + 1}.sql';")
    with pytest.raises(UserError, match="16 deep at most"):
        session.run_script(tmp_path / "0.sql")


def test_scripts_that_cannot_be_read_are_told(
    session: SqlSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"nowhere.sql cannot be read. No such file"):
        session.run(f"RUN SCRIPT '{tmp_path}/nowhere.sql';")
    (tmp_path / "bytes.sql").write_bytes(b"SHOW \xff;")
    with pytest.raises(UserError, match="not in UTF-8 at byte 5"):
        session.run_script(tmp_path / "bytes.sql")
    monkeypatch.setattr(sql_session, "SIZE_MAX", 3)
    with pytest.raises(UserError, match="too large"):
        session.run_script(tmp_path / "bytes.sql")


def test_statements_are_sent_so_that_the_server_tells_their_places_in_the_script(
    session: SqlSession, client: AnsweringClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(client, "run", lambda text: sent.append(text) or [])
    (tmp_path / "a.sql").write_text("SET 'a'='b';\n/* two\n lines */ DROP STREAM s;  DROP\n STREAM t;")
    session.run_script(tmp_path / "a.sql")
    assert sent == ["\n\n" + " " * 10 + "DROP STREAM s;", "\n\n" + " " * 26 + "DROP\n STREAM t;"]


def test_the_spool_has_statements_answers_and_errors(session: SqlSession, tmp_path: Path) -> None:
    spool = tmp_path / "session.txt"
    spool.write_text("from an earlier session")
    (tmp_path / "a.sql").write_text("BAD;")
    session.run(f"SHOW STREAMS; SPOOL '{spool}'; SET 'a'='b'; SHOW TABLES; SELECT * FROM t; PRINT 'x';")
    with pytest.raises(UserError):
        session.run(f"RUN SCRIPT '{tmp_path}/a.sql';")
    session.run("spool off; SHOW TOPICS;")
    assert spool.read_text().splitlines() == [
        "sql> SET 'a'='b';",
        "sql> SHOW TABLES;",
        "made 2",
        "sql> SELECT * FROM t;",
        "A|B",
        "1|null",
        "sql> PRINT 'x';",
        "key: 1",
        "key: 2",
        f"sql> RUN SCRIPT '{tmp_path}/a.sql';",
        "sql> BAD;",
        f"{tmp_path}/a.sql: no such statement. BAD is none",
        "sql> spool off;",
        f"The session was written to {spool}",
    ]


def test_one_spool_at_a_time_and_none_to_end(session: SqlSession, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="There is no spool file"):
        session.run("SPOOL OFF;")
    session.run(f"SPOOL '{tmp_path}/one';")
    with pytest.raises(UserError, match=r"one spool file at a time\. SPOOL OFF"):
        session.run(f"SPOOL '{tmp_path}/two';")
    assert not (tmp_path / "two").exists()
    session.run(f"SPOOL OFF; SPOOL '{tmp_path}/two';")
    with pytest.raises(UserError, match=r"cannot be written\. No such file or directory"):
        session.run(f"SPOOL OFF; SPOOL '{tmp_path}/nowhere/three';")


def test_a_spool_that_cannot_be_written_is_closed_and_the_session_goes_on(
    session: SqlSession, client: AnsweringClient, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run("SPOOL '/dev/full'; SHOW STREAMS; SHOW TABLES;")
    assert client.asked == ["SHOW STREAMS;", "SHOW TABLES;"]
    assert capsys.readouterr().err == "The spool file /dev/full was closed: No space left on device\n"


@pytest.mark.parametrize(
    "text", ["RUN SCRIPT;", "RUN SCRIPT a;", "SPOOL;", "SPOOL file;", "SPOOL '';", "SPOOL 'a' 'b'"]
)
def test_what_is_neither_is_told_with_an_example(session: SqlSession, client: AnsweringClient, text: str) -> None:
    with pytest.raises(UserError, match=r"between quotes\. (RUN SCRIPT|SPOOL) '"):
        session.run(text)
    assert client.asked == []


def test_lines_that_need_no_semicolon() -> None:
    assert all(map(is_session_command, ["spool off", " SPOOL'x'", "run  script 'x'", "SPOOL;"]))
    assert not any(map(is_session_command, ["SPOOLS", "RUN", "SHOW STREAMS", "SELECT 'SPOOL'"]))


def test_the_shell_and_the_file_option_take_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "SqlClient", AnsweringClient)
    script, spool = tmp_path / "a.sql", tmp_path / "session.txt"
    script.write_text("SHOW STREAMS;\nSHOW TABLES -- the last has no semicolon")
    typed = f"SPOOL '{spool}'\nRUN SCRIPT '{script}'\nSPOOL\nSPOOL OFF\nexit\n"
    result = CliRunner().invoke(cli, ["sql"], input=typed, standalone_mode=False)
    assert result.exception is None
    assert "made 1" in result.output
    assert "made 2" in result.output
    assert "SPOOL takes one file, or OFF" in spool.read_text()
    script.write_text(f"SPOOL '{spool}'; SHOW TOPICS;")
    result = CliRunner().invoke(cli, ["sql", "-f", str(script)], standalone_mode=False)
    assert result.exception is None
    assert spool.read_text() == "sql> SHOW TOPICS;\nmade 1\n"


def test_statements_of_a_pipe_are_all_carried_out_and_an_error_is_an_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "SqlClient", AnsweringClient)
    result = CliRunner().invoke(cli, ["sql"], input="SHOW STREAMS;\nSHOW TABLES\n", standalone_mode=False)
    assert (result.output, result.return_value) == ("made 1\nmade 2\n", 0)
    result = CliRunner().invoke(cli, ["sql"], input="SPOOL nothing;\nSHOW TABLES;\n", standalone_mode=False)
    assert result.output.endswith("made 1\n")
    assert result.return_value == 1


def test_what_an_insertion_and_a_warning_are_told_as(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "SqlClient", AnsweringClient)
    typed = "INSERT INTO s VALUES (1);\nCREATE STREAM IF NOT EXISTS s (a INT);\n"
    assert CliRunner().invoke(cli, ["sql"], input=typed, standalone_mode=False).output == (
        "done\nCannot add stream `S`\n"
    )


def test_a_semicolon_at_the_end_of_a_line_ends_no_string_and_no_comment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a statement was torn in two, typed or through a pipe; with -f it was carried out."""
    made: list[AnsweringClient] = []

    class NotedClient(AnsweringClient):
        def __init__(self, *_: object) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(shell, "SqlClient", NotedClient)
    statements = [
        "INSERT INTO s VALUES ('a;\nit''s b');",
        "CREATE FUNCTION f AS $$\nx = 1;\n$$;",
        "DROP STREAM `a;\nb`;",
    ]
    text = "\n".join([*statements, "/* none;\n of these */ SHOW STREAMS; -- don't", "SHOW TABLES; -- all;", ""])
    result = CliRunner().invoke(cli, ["sql"], input=text, standalone_mode=False)
    assert (result.return_value, made[0].asked) == (0, [*statements, "SHOW STREAMS;", "SHOW TABLES;"])


@pytest.mark.parametrize(
    ("text", "is_whole"),
    [
        ("SHOW STREAMS;\n", True),
        ("SHOW STREAMS; -- it's all\n", True),
        ("SELECT '--' AS x;", True),
        ("SHOW STREAMS\n", False),
        ("SHOW STREAMS -- ;\n", False),
        ("SELECT 'a;\n", False),
        ('SELECT "a;\n', False),
        ("SELECT 1 /* ;\n", False),
        ("CREATE FUNCTION f AS $$ x;\n", False),
    ],
)
def test_a_statement_goes_on_until_its_semicolon(text: str, is_whole: bool) -> None:
    assert is_complete(text) is is_whole


def test_a_script_does_not_take_the_session_to_another_server(tmp_path: Path) -> None:
    script = tmp_path / "a.sql"
    script.write_text("SERVER; SERVER http://elsewhere:8088; SHOW STREAMS;")
    reached: list[str] = []

    def connect(url: str) -> SqlClient:
        reached.append(url)
        return ServerClient(url)

    class ServerClient(AnsweringClient):
        def info(self) -> dict[str, Any]:
            return {}

    with SqlSession(ServerClient(), "table", connect=connect) as session:
        for run in (lambda: session.run_script(script), lambda: session.run(f"RUN SCRIPT '{script}';")):
            with pytest.raises(UserError, match="A script does not go to another server"):
                run()
        assert reached == []
        session.run("SERVER http://elsewhere:8088;")
        assert session.client.url == "http://elsewhere:8088"


def test_the_login_goes_to_no_other_server_than_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clients: list[tuple[str, str]] = []

    class ServerClient(AnsweringClient):
        def __init__(self, url: str, authorization: str = "", *_: object) -> None:
            super().__init__(url)
            clients.append((url, authorization))

        def info(self) -> dict[str, Any]:
            return {}

    monkeypatch.setattr(shell, "SqlClient", ServerClient)
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=org.apache.kafka.common.security.plain."
        'PlainLoginModule required username="alice" password="secret";\n'
    )
    addresses = ["https://elsewhere:8088", "https://localhost:9099", "https://bob:own@elsewhere", "https://localhost"]
    typed = "".join(f"SERVER {each}\n" for each in addresses) + "exit\n"
    arguments = ["sql", "--server", "https://localhost:8088", "--command-config", str(config)]
    result = CliRunner().invoke(cli, arguments, input=typed, standalone_mode=False)
    assert result.exception is None, result.output
    (_, login), *others = clients
    assert login.startswith("Basic ")
    assert others[:2] == [(addresses[0], ""), (addresses[1], "")]
    assert others[2][1] not in ("", login)
    assert others[3] == ("https://localhost:8088", login)
