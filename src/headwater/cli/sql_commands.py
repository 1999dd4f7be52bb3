"""What is typed at `headwater sql` and is no statement: ksqlDB's commands of the shell, found by their first words."""

import re
from typing import Final, NamedTuple

from headwater.base.errors import UserError

_COMMANDS: Final = (
    ("RUN SCRIPT", r"RUN\s+SCRIPT\b"),
    ("SPOOL", r"SPOOL\b"),
    ("SET CLI", r"SET\s+CLI\b"),
    ("OUTPUT", r"OUTPUT\b"),
    ("CLEAR", r"CLEAR\b"),
    ("HELP", r"HELP\b"),
    ("HISTORY", r"HISTORY\b"),
    ("SERVER", r"SERVER\b"),
    ("VERSION", r"VERSION\b"),
    ("REQUEST-PIPELINING", r"REQUEST-PIPELINING\b"),
)
HELP: Final = """\
Statements end with a semicolon; these need none:
  RUN SCRIPT 'file'         run the statements of a file
  SPOOL 'file', SPOOL OFF   write the session to a file, or no longer
  OUTPUT [TABULAR | JSON]   show or set the form of answers
  SET CLI COLUMN-WIDTH n    how wide the columns of rows are; 0: what the terminal has room for
  SET CLI WRAP ON | OFF     whether cells that are too wide go on in the next line, or are cut
  SET CLI PAGER ON | OFF    whether long answers come page by page
  SERVER [URL]              show the server, or go to another
  VERSION, HISTORY, CLEAR, HELP, EXIT
Tab completes, the arrows call back earlier lines, Ctrl-C ends a query, Ctrl-D the session."""


class Command(NamedTuple):
    name: str
    words: tuple[str, ...]  # what follows, without quotes and the semicolon
    quoted: bool = False  # whether the last word stood between quotes


def command_in(text: str) -> Command | None:
    """The command that a text is; None: it is something else."""
    for name, pattern in _COMMANDS:
        found = re.match(rf"\s*{pattern}", text, re.IGNORECASE)
        if found is not None:
            rest = text[found.end() :].strip().removesuffix(";").strip()
            quoted = re.fullmatch(r"'((?:[^']|'')*)'", rest)
            if quoted is not None:
                return Command(name, (quoted[1].replace("''", "'"),), quoted=True)
            return Command(name, tuple(rest.split()))
    return None


def set_cli(words: tuple[str, ...]) -> tuple[str, str]:
    """The name and the value of SET CLI. Raises UserError."""
    pieces = [each for each in " ".join(words).replace("=", " ").split() if each]
    if len(pieces) != 2:
        raise UserError("SET CLI takes a setting and its value", "as COLUMN-WIDTH, WRAP, PAGER", "SET CLI WRAP OFF")
    return pieces[0].strip("'"), pieces[1].strip("'")
