"""What is wrong with a statement, told to whoever wrote it.

`SqlError` is the only error that this package raises for bad statements. It carries the position of the text at fault,
so that the shell and the REST door can show the place.
"""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from headwater.base.errors import UserError


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the text of statements; both count from 1, as editors do."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}:{self.column}"

    @property
    def white_space(self) -> str:
        """What stands before this place, so that a part of a text can be sent alone and is told of by its place."""
        return "\n" * (self.line - 1) + " " * (self.column - 1)


BEGINNING: Final = Position(1, 1)


class SqlError(UserError):
    """A statement cannot be carried out as it stands; nothing has been created."""

    def __init__(self, what: str, why: str = "", hint: str = "", position: Position | None = None) -> None:
        super().__init__(f"{position}: {what}" if position else what, why, hint)
        self.position = position
        self.message = what


class SqlSyntaxError(SqlError):
    """The text is no statement."""


class NotAllowedHereError(SqlError):
    """What the config of this server does not allow; that of another one may."""


class SchemaMissingError(SqlError):
    """The schema registry does not have the columns that a statement leaves to it; a statement before it may register
    them.
    """


class RegistryMissingError(SqlError):
    """A statement needs a schema registry, and the server has none."""


class DeclinedError(SqlError):
    """A statement of ksqlDB that is understood and not carried out here; the message says what to do instead."""


@contextmanager
def placed_at(position: Position | None) -> Iterator[None]:
    """A refusal within that names no place has this one."""
    try:
        yield
    except SqlError as error:
        if error.position is None and position is not None:
            raise type(error)(error.message, error.why, error.hint, position) from error
        raise


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """A hint for a name that is none of these: the same in other letters, else the nearest, if one is as near as
    `cutoff`. One that has to stand between quotes is shown so.
    """
    names = list(known)
    alike = [each for each in names if each.casefold() == name.casefold()]
    near = alike or difflib.get_close_matches(name, names, 1, cutoff)
    if not near:
        return otherwise
    needs_quotes = bool(alike) and near[0] != near[0].upper()
    return f"Did you mean {f'`{near[0]}`' if needs_quotes else near[0]}?"
