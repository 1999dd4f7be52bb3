"""What DuckDB says of a query that it does not carry out, in our own sentences: with the name that is wrong, so that
its place in the statement can be told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from headwater.sql.language.errors import Position, SqlError, SqlSyntaxError, did_you_mean
from headwater.sql.language.parser import Piece
from headwater.sql.language.tokens import tokenize

FUNCTIONS_OF_DUCKDB: Final = (
    "DuckDB carries out joins, sub-queries, GROUP BY and ORDER BY of such questions, with its own functions, and scalar "
    "ones of CREATE FUNCTION whose types are plain. ksqlDB's and all others are known in questions to one stream or table "
    "without these, and in persistent queries."
)


class WrongNameError(SqlError):
    """A name of the query is what is wrong. `source`: what stands before it, and a dot."""

    def __init__(
        self,
        what: str,
        why: str = "",
        hint: str = "",
        position: Position | None = None,
        *,
        name: str = "",
        source: str = "",
    ) -> None:
        super().__init__(what, why, hint, position)
        self.name, self.source = name, source

    def placed_in(self, piece: Piece) -> WrongNameError:
        """The same, with the place of the name in the text of the statement, if it stands there."""
        place = self.position or place_of(self.name, piece, self.source)
        return type(self)(self.message, self.why, self.hint, place, name=self.name, source=self.source)


class UnknownNameError(WrongNameError):
    """DuckDB does not know a name of the query, or does not take it there; ksqlDB's language may."""


class UnknownSourceError(UnknownNameError):
    """A query names a source that it was not given."""


def place_of(name: str, piece: Piece, source: str = "") -> Position | None:
    """Of the first name like this that stands alone, or behind its `source` and a dot; else of the first one at all."""
    tokens = tokenize(piece.text, piece.begins_at)
    found = [at for at, each in enumerate(tokens) if each.is_name and each.text.upper() == name.upper()]

    def is_there(at: int) -> bool:
        is_behind_dot = at > 1 and tokens[at - 1].text == "."
        return is_behind_dot == bool(source) and (not source or tokens[at - 2].text.upper() == source.upper())

    at = next(filter(is_there, found), found[0] if found else None)
    return None if at is None else tokens[at].position


# What DuckDB says, our sentence, and what helps. `near` are the names that it suggests.
_SENTENCES: Final = (
    (
        r'Referenced column "(?P<name>.+?)" not found in FROM clause!?(?: Candidate bindings: (?P<near>.+))?',
        "Column '{name}' cannot be resolved.",
        "",
    ),
    (
        r'(?:Table|Values list) "(?P<source>.+?)" does not have a column named "(?P<name>.+?)"',
        "Column '{source}.{name}' cannot be resolved.",
        "",
    ),
    (
        r'Column "(?P<name>.+?)" (?:does not exist|in \w+ list not found)',
        "Column '{name}' cannot be resolved.",
        "",
    ),
    (
        r'Referenced table "(?P<name>.+?)" not found!?(?: Candidate tables: (?P<near>.+))?',
        "'{name}' is not a valid stream/table name or alias.",
        "",
    ),
    (
        r'Ambiguous reference to column name "(?P<name>.+?)"',
        "Column '{name}' is ambiguous.",
        "Write its source before it.",
    ),
    (
        r'column "?(?P<name>.+?)"? must appear in the GROUP BY clause',
        "Non-aggregate SELECT expression(s) not part of GROUP BY: {name}.",
        "Either add the column(s) to the GROUP BY or remove them from the SELECT.",
    ),
    (
        r'\w+ Function with name "?(?P<name>\S+?)"? (?:does not exist|is not in the catalog)',
        "Can't find any functions with the name '{name}'.",
        FUNCTIONS_OF_DUCKDB,
    ),
    (
        r"No function matches the given name and argument types '(?P<name>\w+)\((?P<given>.*?)\)'",
        "Function '{name}' does not accept parameters ({given}).",
        "CAST(... AS ...) gives a value another type.",
    ),
    (
        r"No function matches the given name and argument types '(?P<name>.+?)\((?P<given>.*?)\)'",
        "The operator {name} does not take {given}.",
        "CAST(... AS ...) gives a value another type.",
    ),
    (r"Type with name (?P<name>\S+) does not exist", "There is no type {name}.", ""),
)
_OF_NAMES: Final = ("Binder", "Catalog")


def told(message: str, names: Mapping[str, str]) -> SqlError:
    """`names`: of functions that DuckDB knows by others."""
    kind, said = _parted(message)
    for pattern, sentence, hint in _SENTENCES:
        found = re.match(pattern, said)
        if found is not None and kind in _OF_NAMES:
            parts = {key: value or "" for key, value in found.groupdict().items()}
            name = names.get(parts["name"], parts["name"])
            what = sentence.format(**{**parts, "name": name, "given": parts.get("given", "").replace("_LITERAL", "")})
            near = re.findall(r'"(?:[^"]*\.)?([^".]+)"', parts.get("near", ""))
            return UnknownNameError(
                what, hint=hint or did_you_mean(name.upper(), near), name=name, source=parts.get("source", "")
            )
    sentence = said[:1].upper() + said[1:].rstrip("!.") + "."
    if kind == "Parser":
        return SqlSyntaxError(sentence)
    return UnknownNameError(sentence) if kind in _OF_NAMES else SqlError(sentence)


def _parted(message: str) -> tuple[str, str]:
    """The kind of an error, and the first paragraph of what is said of it, without the picture of the place."""
    first = " ".join(re.split(r"\n\s*\n|\nLINE ", message)[0].split())
    kind = re.match("([A-Z][A-Za-z ]*) Error: ", first)
    return ("", first) if kind is None else (kind[1], first[kind.end() :])
