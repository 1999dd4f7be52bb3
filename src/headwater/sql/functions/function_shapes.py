"""What a function of CREATE FUNCTION takes and gives, without its code: as data that the log of statements keeps.

A server whose config does not allow the code, or that does not have its module, knows by its shape which types the
queries have that call it. So its streams and tables are those of all servers, though it does not run these queries.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headwater.sql.language.errors import SqlError
from headwater.sql.language.token_reader import TokenReader
from headwater.sql.language.tokens import tokenize
from headwater.sql.language.types import Type


class Kind(StrEnum):
    SCALAR = "SCALAR"
    TABLE = "TABLE"
    AGGREGATE = "AGGREGATE"


@dataclass(frozen=True, slots=True)
class Taken:
    """A parameter, or what a function gives."""

    type: Type
    null: bool = False  # it takes, or gives, NULL
    column: bool = False  # as an array of Arrow
    many: bool = False
    name: str = ""
    variadic: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """`undoes`, `merges`: of an aggregate, whether it takes rows back, and whether it has sessions."""

    kind: Kind
    takes: tuple[Taken, ...]
    gives: Taken
    doc: str = ""
    undoes: bool = False
    merges: bool = False

    def encode(self) -> str:
        document = {
            "kind": self.kind,
            "takes": [_written(each) for each in self.takes],
            "gives": _written(self.gives),
            "doc": self.doc,
            "undoes": self.undoes,
            "merges": self.merges,
        }
        return json.dumps(document, ensure_ascii=False)

    @classmethod
    def decode(cls, text: str) -> Shape:
        """Raises ValueError for what is no shape of ours."""
        try:
            found: Any = json.loads(text)
            takes = tuple(_read(each) for each in found["takes"])
            flags = bool(found["undoes"]), bool(found["merges"])
            return cls(Kind(found["kind"]), takes, _read(found["gives"]), str(found["doc"]), *flags)
        except (KeyError, TypeError, ValueError, RecursionError, SqlError) as problem:
            raise ValueError(f"it is no shape of a function: {problem}") from None


def sql_type(text: str) -> Type:
    """A type as SQL writes it. Raises SqlError, and TypeError for more than a type."""
    reader = TokenReader(tokenize(text), text, {})
    found = reader.type()
    if not reader.at_end:
        raise TypeError(f"{text!r} is no type of SQL")
    return found


def _written(taken: Taken) -> dict[str, Any]:
    flags = {name: True for name in ("null", "column", "many", "variadic") if getattr(taken, name)}
    return {"name": taken.name, "type": str(taken.type), **flags}


def _read(found: Any) -> Taken:
    return Taken(
        sql_type(found["type"]),
        null=bool(found.get("null")),
        column=bool(found.get("column")),
        many=bool(found.get("many")),
        name=str(found["name"]),
        variadic=bool(found.get("variadic")),
    )
