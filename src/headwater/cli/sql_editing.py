"""The line that is being typed in `headwater sql`: Tab completes it, and the arrows call back what was typed in earlier
sessions.

Completed are the words of the language, functions, streams, tables and their columns. Names are asked of the server
when Tab is pressed and what was known may have changed; a server that does not answer leaves the words of the language.
The history is its owner's alone: statements may hold passwords.
"""

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from headwater.base.errors import UserError

_LANGUAGE: Final = """
ADVANCE ALL ALTER AND ARRAY AS ASSERT BEGINNING BETWEEN BIGINT BOOLEAN BY BYTES CASE CAST CHANGES COLUMN CREATE
DATE DECIMAL DEFINE DELETE DESCRIBE DOUBLE DROP ELSE EMIT END EXISTS EXPLAIN EXTENDED FINAL FOREIGN FROM FULL
FUNCTION FUNCTIONS GRACE GROUP HAVING HEADERS HOPPING IF IN INNER INSERT INT INTERVAL INTO IS JOIN KEY LEFT LIKE
LIMIT MAP NOT NULL ON OR ORDER OUTER PARTITION PAUSE PERIOD PRIMARY PRINT PROPERTIES QUERIES REPLACE RESUME
RETENTION RIGHT RUN SCHEMA SCRIPT SELECT SESSION SET SHOW SIZE SOURCE SPOOL STREAM STREAMS STRING STRUCT TABLE
TABLES TERMINATE THEN TIME TIMESTAMP TOPIC TOPICS TUMBLING TYPE TYPES UNDEFINE UNSET VALUES VARIABLES WHEN WHERE
WINDOW WITH WITHIN
"""
WORDS: Final = tuple(_LANGUAGE.split())
HISTORY_LINES: Final = 1_000
DESCRIBED_MAX: Final = 100  # streams and tables whose columns are asked for
_BETWEEN_WORDS: Final = " \t\n\"\\'@$><=;|&{(,.)+-*/%:"


class Completer:
    """What may stand for the beginning of a word. `names` asks the server; it is called again after `forget`."""

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names
        self._known: list[str] | None = None
        self._found: list[str] = []

    def forget(self) -> None:
        """A statement was run: there may be other names now."""
        self._known = None

    def candidates(self, text: str) -> list[str]:
        """In the letters that the word was begun with: small ones complete it in small ones."""
        if self._known is None:
            try:
                self._known = sorted({*WORDS, *self._names()})
            except UserError:
                self._known = sorted(WORDS)
        begun = text.upper()
        found = [each for each in self._known if each.upper().startswith(begun)]
        return [each.lower() if text and text == text.lower() and each == each.upper() else each for each in found]

    def __call__(self, text: str, state: int) -> str | None:
        """As readline asks: again and again, until there is none."""
        if state == 0:
            self._found = self.candidates(text)
        return self._found[state] if state < len(self._found) else None


def names_known_to(run: Callable[[str], list[dict[str, Any]]]) -> list[str]:
    """Functions, streams, tables, and the columns of the latter: of the first hundred."""
    functions: list[str] = []
    sources: list[str] = []
    for entity in run("SHOW STREAMS; SHOW TABLES; SHOW FUNCTIONS;"):
        functions += [str(each["name"]) for each in entity.get("functions", ())]
        sources += [str(each["name"]) for kind in ("streams", "tables") for each in entity.get(kind, ())]
    described = [f"DESCRIBE `{each.replace('`', '``')}`;" for each in sources[:DESCRIBED_MAX]]
    columns = [
        str(field["name"])
        for entity in (run(" ".join(described)) if described else ())
        for field in entity.get("sourceDescription", {}).get("fields", ())
    ]
    return [*functions, *sources, *columns]


@contextlib.contextmanager
def editing(readline: ModuleType | Any, completer: Completer, path: Path) -> Any:
    """Sets readline up, and keeps what was typed when the session ends. A history that cannot be read or written is
    left.
    """
    readline.set_completer(completer)
    readline.set_completer_delims(_BETWEEN_WORDS)
    readline.parse_and_bind("tab: complete")
    readline.set_history_length(HISTORY_LINES)
    with contextlib.suppress(OSError):
        readline.read_history_file(str(path))
    try:
        yield
    finally:
        readline.set_completer(None)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            readline.write_history_file(str(path))
