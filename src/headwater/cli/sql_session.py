"""A session of `headwater sql`: statements one after the other, what they answer for people, scripts, and a spool file.

`RUN SCRIPT`, `SPOOL` and the other commands of the shell (`sql_commands`) are carried out here, as in ksqlDB's command
line; the server never sees them. The session owns the spool file. What is spooled is each statement after a prompt,
what it answered, and its error; a spool file that cannot be written is closed and told, the session goes on.
"""

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import click

from headwater.base.errors import UserError
from headwater.cli.sql_commands import HELP, Command, command_in, set_cli
from headwater.cli.sql_display import Display
from headwater.sql.language.errors import BEGINNING
from headwater.sql.language.parser import Piece, pieces_of, substitute
from headwater.sql.language.tokens import SIZE_MAX
from headwater.sql.shell import as_tables, is_push

if TYPE_CHECKING:
    from headwater.sql.shell import SqlClient

PROMPT: Final = "sql> "
_DEPTH_MAX: Final = 16  # of scripts that run scripts
_CLOSED: Final = re.compile(
    r"\$\$.*?\$\$|'(?:[^']|'')*'|`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL
)
_OPEN: Final = re.compile(r"\$\$|['`\"]|/\*")


def is_session_command(text: str) -> bool:
    """Whether a line begins with what is carried out here: at the terminal such a line needs no semicolon."""
    return command_in(text) is not None


def is_complete(text: str) -> bool:
    """Whether a text ends with a semicolon, but for comments. One in a string, a quoted name, code or a comment that
    goes on in the next line is none.
    """
    if ";" not in text:
        return False
    rest = _CLOSED.sub(" ", text)
    return rest.rstrip().endswith(";") and _OPEN.search(rest) is None


def read_script(path: Path) -> str:
    """The statements of a file."""
    try:
        if path.stat().st_size > SIZE_MAX:
            raise UserError(f"The script {path} is too large", f"a script has {SIZE_MAX} bytes at most", "Split it")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"The script {path} cannot be read", error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise UserError(f"The script {path} is no text", f"it is not in UTF-8 at byte {error.start}") from None


class SqlSession:
    def __init__(
        self,
        client: "SqlClient",
        form: str,
        *,
        pages: bool = False,
        history: Callable[[], Iterable[str]] = tuple,
        connect: "Callable[[str], SqlClient] | None" = None,
    ) -> None:
        """`pages`: long answers come page by page at a terminal. `history`: the lines that were typed. `connect`: for
        SERVER, which goes to another server.
        """
        self.client = client
        self.display = Display(form, self._to_spool, pages=pages)
        self._history = history
        self._connect = connect
        self._spool: tuple[Path, TextIO] | None = None
        self._scripts: list[Path] = []

    def __enter__(self) -> "SqlSession":
        return self

    def __exit__(self, *_: object) -> None:
        self._close_spool()

    def run(self, text: str) -> None:
        """Statements until one fails; its error is spooled, and raised."""
        with self._spooled_errors():
            self._run(text)

    def run_script(self, path: Path) -> None:
        """The statements of a file. They see the settings and variables of the session, and what they set stays."""
        with self._spooled_errors():
            self._run_script(path)

    @contextlib.contextmanager
    def _spooled_errors(self) -> Iterator[None]:
        try:
            yield
        except UserError as error:
            self._to_spool(f"{error}\n")
            raise

    def _run(self, text: str) -> None:
        command = command_in(text)
        alone = text.strip().removesuffix(";")
        is_command = command is not None and ";" not in alone
        for piece, begins_at in [Piece(f"{alone};", BEGINNING)] if is_command else pieces_of(text):
            self._to_spool(f"{PROMPT}{piece}\n")
            found = command_in(piece)
            if found is not None:
                self._carry_out(command_in(substitute(piece, self.client.variables)) if "${" in piece else found)
                continue
            for statement in self.client.statements(piece):
                self._ask(begins_at.white_space + statement)  # the server tells places as they are in the text

    # What is carried out here

    def _carry_out(self, command: Command | None) -> None:
        assert command is not None
        name, words = command.name, command.words
        match name:
            case "RUN SCRIPT":
                self._run_script(_file(command, "RUN SCRIPT takes one file", "RUN SCRIPT 'file.sql';"))
            case "SPOOL":
                self._spool_command(command)
            case "SET CLI":
                self.display.set(*set_cli(words))
            case "OUTPUT":
                if words:
                    self.display.output(words[0])
                form = "TABULAR" if self.display.settings.form == "table" else "JSON"
                self.display.echo(f"Current output format: {form}")
            case "CLEAR":
                click.clear()
            case "HELP":
                self.display.echo_all(HELP.split("\n"))
            case "HISTORY":
                self.display.echo_all(f"{number:4d}: {line}" for number, line in enumerate(self._history(), 1))
            case "SERVER":
                self._server(words)
            case "VERSION":
                found = self.client.info()
                self.display.echo(f"Version: {found.get('headwaterVersion') or found.get('version', '')}")
            case _:
                raise UserError(f"{name} is not there", "each statement is sent when the one before it is answered")

    def _spool_command(self, command: Command) -> None:
        if command.quoted or not command.words or command.words[0].upper() != "OFF":
            self._open_spool(_file(command, "SPOOL takes one file, or OFF", "SPOOL 'file'; or SPOOL OFF;"))
            return
        if self._spool is None:
            raise UserError("There is no spool file", "this session writes none", "Begin one with SPOOL 'file';")
        self.display.echo(f"The session was written to {self._spool[0]}")
        self._close_spool()

    def _server(self, words: tuple[str, ...]) -> None:
        """The server that is asked; with an address another from now on, if it answers. Settings and variables stay."""
        if not words:
            self.display.echo(self.client.url)
            return
        if self._scripts:
            raise UserError("A script does not go to another server", "its statements are for the one of the session")
        if self._connect is None:
            raise UserError("The session cannot go to another server")
        other = self._connect(words[0].strip("'"))
        other.info()
        other.settings, other.variables = self.client.settings, self.client.variables
        self.client = other
        self.display.echo(f"Now asking {other.url}")

    def _run_script(self, path: Path) -> None:
        where = path.absolute()
        if len(self._scripts) >= _DEPTH_MAX or where in self._scripts:
            why = "it is running" if where in self._scripts else f"scripts call each other {_DEPTH_MAX} deep at most"
            raise UserError(f"The script {path} is not run again", why, "Take the RUN SCRIPT out that leads back to it")
        text = read_script(path)
        self._scripts.append(where)
        try:
            self._run(text)
        except UserError as error:
            raise UserError(f"{path}: {error.what}", error.why, error.hint) from None
        finally:
            self._scripts.pop()

    def _open_spool(self, path: Path) -> None:
        if self._spool is not None:
            raise UserError(
                f"The session is written to {self._spool[0]} already", "there is one spool file at a time", "SPOOL OFF;"
            )
        try:
            # Statements may hold passwords: the file is its owner's.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            self._spool = path, os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", buffering=1)
        except OSError as error:
            raise UserError(f"The spool file {path} cannot be written", error.strerror or str(error)) from None
        click.echo(f"The session is written to {path}, until SPOOL OFF")

    def _close_spool(self) -> None:
        if self._spool is not None:
            (_, file), self._spool = self._spool, None
            with contextlib.suppress(OSError):  # what could not be written was told when it was written
                file.close()

    def _to_spool(self, text: str) -> None:
        if self._spool is None:
            return
        path, file = self._spool
        try:
            file.write(text)
        except OSError as error:
            self._close_spool()
            click.echo(f"The spool file {path} was closed: {error.strerror or error}", err=True)

    # What the server answers

    def _ask(self, statement: str) -> None:
        first = statement.split(None, 1)[0].upper()
        display = self.display
        if first in ("SELECT", "WITH"):
            with self.client.query(statement) as (names, rows):
                display.rows(names, rows, endless=is_push(statement))
        elif first == "PRINT":
            with self.client.printed(statement) as lines:
                for line in lines:
                    display.echo(line.removesuffix("\n"))
        else:
            found = self.client.run(statement)
            if display.settings.form == "json":
                display.echo_all(json.dumps(found, ensure_ascii=False, indent=2).split("\n"))
                return
            for shown in [each for entity in found for each in as_tables(entity)] or ["done"]:
                if isinstance(shown, str):
                    display.echo_all(shown.split("\n"))
                else:
                    display.table(*shown)


def _file(command: Command, what: str, hint: str) -> Path:
    if not command.quoted or not command.words[0]:
        raise UserError(what, "its name stands between quotes", hint)
    return Path(command.words[0]).expanduser()
