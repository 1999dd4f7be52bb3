"""A session of `headwater sql`: statements one after the other, what they answer for people, scripts, and a spool file.

`RUN SCRIPT` and `SPOOL` are carried out here, as in ksqlDB's command line; the server never sees them. The session owns
the spool file. What is spooled is each statement after a prompt, what it answered, and its error; a spool file that
cannot be written is closed and told, the session goes on.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from headwater.base.errors import UserError
from headwater.cli.output import render_table
from headwater.sql.language.parser import split
from headwater.sql.language.tokens import SIZE_MAX, Kind, tokenize
from headwater.sql.shell import as_table

if TYPE_CHECKING:
    from headwater.sql.shell import SqlClient

PROMPT: Final = "sql> "
_DEPTH_MAX: Final = 16  # of scripts that run scripts


def is_session_command(text: str) -> bool:
    """Whether a line begins with what is carried out here: at the terminal such a line needs no semicolon."""
    return re.match(r"\s*(SPOOL|RUN\s+SCRIPT)\b", text, re.IGNORECASE) is not None


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
    def __init__(self, client: "SqlClient", form: str) -> None:
        self.client = client
        self._form = form
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
        for piece in split(text):
            self._to_spool(f"{PROMPT}{piece}\n")
            for statement in self.client.statements(piece):
                if is_session_command(statement):
                    self._carry_out(statement)
                else:
                    self._ask(statement)

    # What is carried out here

    def _carry_out(self, statement: str) -> None:
        tokens = [each for each in tokenize(statement) if each.kind is not Kind.END and each.text != ";"]
        verb, last = tokens[0].text, tokens[-1]
        if verb == "RUN" and len(tokens) == 3 and last.kind is Kind.STRING and last.text:
            self._run_script(Path(last.text).expanduser())
        elif verb == "SPOOL" and len(tokens) == 2 and last.kind is Kind.STRING and last.text:
            self._open_spool(Path(last.text).expanduser())
        elif verb == "SPOOL" and len(tokens) == 2 and last.kind is Kind.NAME and last.text == "OFF":
            if self._spool is None:
                raise UserError("There is no spool file", "this session writes none", "Begin one with SPOOL 'file';")
            self._echo(f"The session was written to {self._spool[0]}")
            self._close_spool()
        elif verb == "RUN":
            raise UserError("RUN SCRIPT takes one file", "its name stands between quotes", "RUN SCRIPT 'file.sql';")
        else:
            raise UserError(
                "SPOOL takes one file, or OFF", "the file's name stands between quotes", "SPOOL 'file'; or SPOOL OFF;"
            )

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
        if first == "SELECT":
            with self.client.query(statement) as (names, rows):
                self._show_rows(names, rows)
        elif first == "PRINT":
            with self.client.printed(statement) as lines:
                for line in lines:
                    self._echo(line.removesuffix("\n"))
        else:
            found = self.client.run(statement)
            if self._form == "json":
                self._echo(json.dumps(found, ensure_ascii=False, indent=2))
                return
            for each in found:
                shown = as_table(each)
                self._echo(shown if isinstance(shown, str) else render_table(*shown).removesuffix("\n"))

    def _show_rows(self, names: list[str], rows: Iterator[list[Any]]) -> None:
        """Rows as they come: a push query has no end that a table could wait for."""
        if self._form == "table":
            self._echo("|".join(names))
        for row in rows:
            if self._form == "json":
                self._echo(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False))
            else:
                self._echo("|".join("null" if each is None else str(each) for each in row))

    def _echo(self, text: str) -> None:
        click.echo(text)
        self._to_spool(text + "\n")
