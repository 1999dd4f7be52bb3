"""Where the answers of `headwater sql` go: a terminal, page by page if they are long, or a file or pipe, as they are.

At a terminal rows stand in columns that fit it; elsewhere values stand between `|`, for programs. Whatever the server
says, a terminal gets no control characters of it: they are shown as text. A query whose rows do
not come for a second says so on stderr, and for how long, until they come.
"""

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import click

from headwater.base.errors import UserError
from headwater.base.printable import for_stream, printable, printable_lines
from headwater.cli import sql_tables
from headwater.cli.output import cell_text, render_table
from headwater.cli.sql_tables import Layout

_QUIET_S: Final = 1.0
_TICK_S: Final = 0.5
FORMS: Final = {"TABULAR": "table", "TABLE": "table", "JSON": "json"}


@dataclass(slots=True)
class Settings:
    """What SET CLI and OUTPUT change."""

    form: str
    column_width: int = 0
    wraps: bool = True
    pages: bool = False


class Display:
    """`spool` is told everything that is shown."""

    def __init__(self, form: str, spool: Callable[[str], None], *, pages: bool = False) -> None:
        self.settings = Settings(form, pages=pages)
        self._spool = spool

    def set(self, name: str, value: str) -> None:
        """SET CLI name value. Raises UserError."""
        match name.upper(), value.upper():
            case "COLUMN-WIDTH", width if width.isascii() and width.isdigit() and int(width) <= 10_000:
                self.settings = replace(self.settings, column_width=int(width))
            case "WRAP", "ON" | "OFF" as word:
                self.settings = replace(self.settings, wraps=word == "ON")
            case "PAGER", "ON" | "OFF" as word:
                self.settings = replace(self.settings, pages=word == "ON")
            case known, _ if known in ("COLUMN-WIDTH", "WRAP", "PAGER"):
                wanted = "a number, 0 for what fits" if known == "COLUMN-WIDTH" else "ON or OFF"
                raise UserError(f"SET CLI {known} cannot be {value}", f"it is {wanted}")
            case _:
                raise UserError(f"There is no setting {name}", "SET CLI sets COLUMN-WIDTH, WRAP and PAGER")

    def output(self, form: str) -> None:
        """OUTPUT TABULAR or JSON. Raises UserError."""
        if form.upper() not in FORMS:
            raise UserError(f"There is no output {form}", "it is TABULAR or JSON", "OUTPUT JSON")
        self.settings = replace(self.settings, form=FORMS[form.upper()])

    @property
    def layout(self) -> Layout:
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        return Layout(columns, self.settings.column_width, self.settings.wraps)

    # -- what is shown -------------------------------------------------------------------------------------------------

    def echo(self, text: str) -> None:
        text = for_stream(text, sys.stdout)
        click.echo(text)
        self._spool(text + "\n")

    def echo_all(self, lines: Iterable[str]) -> None:
        """Page by page where that is on."""
        if not (self.settings.pages and sys.stdout.isatty()):
            for each in lines:
                self.echo(each)
            return
        os.environ.setdefault("LESS", "FRX")  # what fits one page is shown at once
        click.echo_via_pager(self._told(lines))

    def _told(self, lines: Iterable[str]) -> Iterator[str]:
        for each in map(printable_lines, lines):
            self._spool(each + "\n")
            yield each + "\n"

    def table(self, head: list[str], rows: list[list[Any]]) -> None:
        layout = self.layout
        head = [printable(each) for each in head]
        shown = [[sql_tables.cell(cell_text(each)) for each in row] for row in rows]
        widths = layout.fitted(head, shown)
        if widths is None:
            cells = [[_cleaned(each) for each in row] for row in rows]
            self.echo_all(render_table(head, cells).removesuffix("\n").split("\n"))
        else:
            self.echo_all(sql_tables.table(head, shown, widths, wraps=layout.wraps))

    def rows(self, names: list[str], rows: Iterator[list[Any]], *, endless: bool) -> None:
        """As they come: a push query has no end that a table or a page could wait for."""
        lines = self._lines(names, waited_for(rows))
        if endless:
            for each in lines:
                self.echo(each)
        else:
            self.echo_all(lines)

    def _lines(self, names: list[str], rows: Iterator[list[Any]]) -> Iterator[str]:
        if self.settings.form == "json":
            for row in rows:
                yield sql_tables.as_json(dict(zip(names, row, strict=True)))
            return
        layout = self.layout
        widths = layout.widths(len(names))
        if widths is None:
            yield "|".join(names)
            for row in rows:
                yield "|".join(map(sql_tables.value_text, row))
            return
        border = sql_tables.line(widths)
        yield f"{border}\n{sql_tables.row([printable(each) for each in names], widths, wraps=layout.wraps)}\n{border}"
        for row in rows:
            yield sql_tables.row([sql_tables.cell(each) for each in row], widths, wraps=layout.wraps)
        yield border


def _cleaned(value: Any) -> Any:
    """Numbers stay what they are: they stand to the right."""
    return value if value is None or isinstance(value, int | float) else sql_tables.cell(cell_text(value))


def waited_for(rows: Iterator[list[Any]]) -> Iterator[list[Any]]:
    """The rows; and on a terminal, until the first comes, for how long one has waited."""
    if not sys.stderr.isatty():
        yield from rows
        return
    waiting = Waiting()
    waiting.start()
    try:
        for row in rows:
            waiting.stop()
            yield row
    finally:
        waiting.stop()


class Waiting(threading.Thread):
    """Says on stderr how long it has waited, on one line, and takes it away at the end."""

    def __init__(self) -> None:
        super().__init__(name="sql-waiting", daemon=True)
        self._ended = threading.Event()

    def run(self) -> None:
        began = time.monotonic()
        if self._ended.wait(_QUIET_S):
            return
        while True:
            sys.stderr.write(f"\rwaiting for rows: {time.monotonic() - began:.0f} s (Ctrl-C ends)")
            sys.stderr.flush()
            if self._ended.wait(_TICK_S):
                break
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()

    def stop(self) -> None:
        if not self._ended.is_set():
            self._ended.set()
            self.join()
