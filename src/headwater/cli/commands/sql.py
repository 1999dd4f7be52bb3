"""`headwater sql`: SQL over streams."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headwater.base.errors import UserError
from headwater.base.printable import for_stream
from headwater.cli.options import login_options

if TYPE_CHECKING:
    from headwater.cli.sql_editing import Completer
    from headwater.cli.sql_session import SqlSession

_DEFAULT_URL: Final = "http://localhost:8088"


@click.group(invoke_without_command=True)
@click.option(
    "--server", "url", metavar="URL", help="The SQL server.  [default: the profile's, or that of `headwater up`]"
)
@login_options
@click.option("-e", "--execute", "text", metavar="SQL", help="Run these statements and end.")
@click.option(
    "-f", "--file", "path", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Run a file and end."
)
@click.option("-o", "--output", "form", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.pass_context
def sql(
    context: click.Context,
    url: str | None,
    text: str | None,
    path: Path | None,
    form: str,
    command_config: str | None,
    profile: str | None,
) -> int:
    """SQL over streams: a shell to a SQL server, or `-e` and `-f`; and the server itself.

    Without `-e` or `-f` statements are read from the terminal or a pipe, each ended by a semicolon; Ctrl-D ends. RUN
    SCRIPT 'file' runs the statements of a file, SPOOL 'file' writes the session to a file until SPOOL OFF; HELP has the
    rest.
    """
    if context.invoked_subcommand is not None:
        return 0
    from headwater.cli.door_access import door_access, security_for
    from headwater.cli.settings import SQL, ConnectOptions, find_door
    from headwater.cli.sql_session import SqlSession
    from headwater.sql.shell import SqlClient

    options = ConnectOptions(None, command_config, profile)
    door = find_door(url, "HEADWATER_SQL_URL", SQL, _DEFAULT_URL, options)
    access = door_access(door.url, door.security, "a SQL server", _DEFAULT_URL, 8088)

    def connect(other: str) -> SqlClient:
        there = door_access(other, {}, "a SQL server", _DEFAULT_URL, 8088)
        security = security_for(there, access, door.security)
        there = door_access(other, security, "a SQL server", _DEFAULT_URL, 8088)
        return SqlClient(there.url, there.authorization, there.tls)

    client = SqlClient(access.url, access.authorization, access.tls)
    is_shell = text is None and path is None
    with SqlSession(client, form, pages=is_shell, history=_typed, connect=connect) as session:
        if text is not None:
            session.run(text)
        elif path is not None:
            session.run_script(path)
        else:
            return _shell(session)
    return 0


def _typed() -> list[str]:
    """The lines that were typed, in this session and earlier ones."""
    try:
        import readline
    except ImportError:
        return []
    return [readline.get_history_item(place) for place in range(1, readline.get_current_history_length() + 1)]


def _shell(session: "SqlSession") -> int:
    """Statements from the terminal, or from a pipe. An error is told, and the next statement is read."""
    from headwater.cli.paths import sql_history_file
    from headwater.cli.sql_editing import Completer, editing, names_known_to

    completer = Completer(lambda: names_known_to(session.client.run))
    if not sys.stdin.isatty():
        return _read_statements(session, completer, typed=False)
    try:
        import readline
    except ImportError:
        return _read_statements(session, completer, typed=True)
    with editing(readline, completer, sql_history_file()):
        return _read_statements(session, completer, typed=True)


def _read_statements(session: "SqlSession", completer: "Completer", *, typed: bool) -> int:
    """The exit code: what comes through a pipe is a script, which has failed if one of its statements has. Its last
    one needs no semicolon.
    """
    from headwater.cli.sql_session import PROMPT, is_complete, is_session_command

    waiting, failures = "", 0
    prompt, prompt_within = (PROMPT, "...> ") if typed else ("", "")
    while True:
        at_end = False
        try:
            waiting += input(prompt if not waiting else prompt_within) + "\n"
        except EOFError:
            at_end = True
        except KeyboardInterrupt:
            click.echo()
            if not typed:
                return 1
            waiting = ""
            continue
        if at_end and typed:
            click.echo()
            return 0
        if waiting.strip().lower().rstrip(";") in ("exit", "quit"):
            return 1 if failures and not typed else 0
        if not waiting.strip():
            waiting = ""
        elif at_end or is_complete(waiting) or is_session_command(waiting):
            try:
                session.run(waiting)
            except UserError as error:
                click.echo(for_stream(str(error), sys.stderr), err=True)
                failures += 1
            except KeyboardInterrupt:
                click.echo("closed", err=True)
                failures += 1
            completer.forget()
            waiting = ""
        if at_end:
            return 1 if failures else 0


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@sql.command()
@click.option("--sql-file", "-s", type=_FILE, required=True, help="The statements.")
@click.option(
    "--input-file", "-i", type=_FILE, required=True, help='Records: {"inputs": [{"topic", "key", "value", ...}]}.'
)
@click.option("--output-file", "-o", type=_FILE, required=True, help='What the sinks must receive: {"outputs": [...]}.')
def test(sql_file: Path, input_file: Path, output_file: Path) -> int:
    """Run statements over given records and compare what comes out: the three files of ksqlDB's test runner.

    Exit code 0 if all is as expected, 1 if not.
    """
    from headwater.sql.testing import differences, run

    found = run(sql_file.read_text(encoding="utf-8"), _records(input_file, "inputs"))
    wrong = differences(_records(output_file, "outputs"), found)
    if not wrong:
        click.echo("Test passed!")
        return 0
    for each in wrong:
        click.echo(str(each))
    click.echo("Test failed.", err=True)
    return 1


def _records(path: Path, name: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is no JSON", str(error)) from None
    records = found.get(name) if isinstance(found, dict) else None
    if not isinstance(records, list) or not all(isinstance(each, dict) and "topic" in each for each in records):
        raise UserError(
            f"{path} has no list of records", f'it must be {{"{name}": [{{"topic": ..., "key": ..., "value": ...}}]}}'
        )
    return records


@sql.command()
@click.option(
    "--config",
    "config_path",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="ksql-server.properties, with ksqlDB's own names.",
)
@click.option(
    "--set", "sets", metavar="KEY=VALUE", multiple=True, help="A setting over the file; may come several times."
)
@click.option("--stop-on-eof", is_flag=True, hidden=True, help="Stop when stdin ends: for a supervisor.")
def server(config_path: str | None, sets: tuple[str, ...], stop_on_eof: bool) -> int:
    """Run a SQL server in the foreground, until SIGTERM or Ctrl-C.

    Prints a line beginning with `ready` on stdout when it serves.
    """
    import logging

    from headwater.base.extras import STREAMS, require_extra

    require_extra("sql", "A SQL server", STREAMS)
    from headwater.server import logs_for_people
    from headwater.sql.server.config import SqlServerConfig
    from headwater.sql.server.service import SqlService
    from headwater.web.process import run_service

    text = Path(config_path).read_text(encoding="utf-8", errors="replace") if config_path is not None else None
    config, warnings = SqlServerConfig.load(text, list(sets))
    logs_for_people.configure(config.text("log.format"))
    for warning in warnings:
        logging.getLogger("headwater.sql").warning("%s", warning)
    return run_service(lambda: SqlService(config), stop_on_eof=stop_on_eof)
