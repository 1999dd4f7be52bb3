"""The JSON format a run of records at a time, for lanes: the rows and the bytes that `json_rows` gives one by one.

All records of a run are parsed by one call, with a word between them that nobody can know. A record that is no JSON
value by itself (`1, 2`, or a half string whose other half is in another record) would put such a word elsewhere than
between two values, and the run is refused; whoever called takes its records one by one then, and tells which one it
was. Columns whose values all have the type that is wanted need no look at each of them.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring
from typing import Any, Final

from headwater.sql.json_text import text_of
from headwater.sql.language.types import Base, Type

Convert = Callable[[Any], Any]
_BETWEEN: Final = secrets.token_hex(8)
_NOTHING: Final = type(None)
_WHOLE: Final = {Base.INTEGER: 1 << 31, Base.BIGINT: 1 << 63}
_KEPT_MAX: Final = 1_000_000  # characters of names, and of sets of names, of fields that were met: records may have any
_PER_NAME: Final = 50  # characters that a name costs beside its own
_SHAPES_MAX: Final = 8  # of the records of a run: what names they have, in which order
_CONTAINERS: Final = (Base.ARRAY, Base.MAP, Base.STRUCT)


class NotTogether(ValueError):
    """These records cannot be read as one text."""


class Digits(str):
    """A number with a point or an exponent, as it stands in the text."""

    __slots__ = ()


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


class Columns:
    """Reads and writes rows of these columns. `item`: the value of the column in this place out of JSON's, where that
    is not a matter of course; `digits`: what a number with a point or an exponent is to it.
    """

    def __init__(
        self,
        names: Sequence[str],
        types: Sequence[Type],
        item: Callable[[int, Any], Any],
        digits: Callable[[str], Any],
        texts: Sequence[Callable[[Any], str]],
    ) -> None:
        self._names = list(names)
        self._types = list(types)
        self._exact = set(names)
        self._by_upper_case = {name.upper(): name for name in names}
        self._taken = set(names)  # by their exact names; with names that no column has, whatever their case
        self._shapes: dict[tuple[str, ...], dict[str, str]] = {}
        self._kept = 0  # characters of what was met
        self._item = item
        self._digits = digits
        self._texts = list(texts)
        nested = any(each.base in _CONTAINERS for each in types)
        decoder = json.JSONDecoder(parse_float=digits if nested else Digits, parse_constant=_no_constant)
        self._decode = decoder.decode
        fields = [encode_basestring(name).replace("%", "%%") + ":%s" for name in names]
        self._form = "{" + ",".join(fields) + "}"

    def read(self, cells: list[bytes | None]) -> list[list[Any] | None]:
        present = [cell for cell in cells if cell is not None]
        objects = self._together(present)
        columns = [self._column(place, values) for place, values in enumerate(self._cells(objects))]
        rows: list[list[Any] | None] = [list(row) for row in zip(*columns, strict=True)]
        if len(rows) == len(cells):
            return rows
        left = iter(rows)
        return [None if cell is None else next(left) for cell in cells]

    def _together(self, cells: list[bytes]) -> list[dict[str, Any]]:
        if not cells:
            return []
        if not all(len(cell) >= 4 and cell[0] == 0x7B and cell[1] for cell in cells):
            raise NotTogether("no object, or not in UTF-8")
        text = b"[" + f',"{_BETWEEN}",'.encode().join(cells) + b"]"
        found = self._decode(text_of(text))
        between = found[1::2]
        if len(found) != 2 * len(cells) - 1 or between.count(_BETWEEN) != len(cells) - 1:
            raise NotTogether("a record is no value by itself")
        return found[::2]  # type: ignore[no-any-return]  # each begins with a brace

    def _cells(self, objects: list[dict[str, Any]]) -> list[list[Any]]:
        """The values of each column. Records of a run mostly have the same names in the same order, so how these are
        written is found out once for all of them.
        """
        shapes = set(map(tuple, objects))
        if len(shapes) <= _SHAPES_MAX:
            written = self._written_names([self._shape(each) for each in shapes])
            if written is not None:
                return [
                    [None] * len(objects) if name is None else [each.get(name) for each in objects] for name in written
                ]
        named = [self._named(each) for each in objects]
        return [[each.get(name) for each in named] for name in self._names]

    def _shape(self, names: tuple[str, ...]) -> dict[str, str]:
        """Of a record with these names: which of them each column has. NotTogether as `_named`."""
        known = self._shapes.get(names)
        if known is None:
            known = {}
            for name in names:
                column = name if name in self._exact else self._by_upper_case.get(name.upper())
                if column is not None and column in known:
                    raise NotTogether(f"a record has {column} twice")
                if column is not None:
                    known[column] = name
            if self._may_keep(*names):
                self._shapes[names] = known
        return known

    def _may_keep(self, *names: str) -> bool:
        """Whether there is room for them, which is taken then."""
        size = _PER_NAME * len(names) + sum(map(len, names))
        if self._kept + size > _KEPT_MAX:
            return False
        self._kept += size
        return True

    def _written_names(self, shapes: list[dict[str, str]]) -> list[str | None] | None:
        """How each column is written in all records, None where no record has it; None where they differ in that."""
        found: list[str | None] = []
        for column in self._names:
            names = {each[column] for each in shapes if column in each}
            if len(names) > 1:
                return None
            found.append(next(iter(names), None))
        return found

    def _named(self, value: dict[str, Any]) -> dict[str, Any]:
        """With the names of columns, however they are written. NotTogether if a column is met twice: alone, a record is
        refused for the first of two values, too.
        """
        if value.keys() <= self._taken:
            return value
        found: dict[str, Any] = {}
        for name, each in value.items():
            column = name if name in self._exact else self._by_upper_case.get(name.upper())
            if column is not None:
                if column in found:
                    raise NotTogether(f"a record has {column} twice")
                found[column] = each
            elif name not in self._taken and self._may_keep(name):
                self._taken.add(name)
        return found

    def _column(self, place: int, values: list[Any]) -> list[Any]:
        kinds = set(map(type, values)) - {_NOTHING}
        base = self._types[place].base
        if base is Base.STRING and kinds <= {str}:
            return values
        if base is Base.BOOLEAN and kinds <= {bool}:
            return values
        if base in _WHOLE and kinds <= {int}:
            bound = _WHOLE[base]
            there = [each for each in values if each is not None]
            if not there or (-bound <= min(there) and max(there) < bound):
                return values
        if base is Base.DOUBLE and kinds <= {int, Digits}:
            return [None if each is None else float(each) for each in values]
        item, plain = self._item, self._plain
        return [None if each is None else item(place, plain(each)) for each in values]

    def _plain(self, value: Any) -> Any:
        """With the numbers that they are to whoever reads a record alone."""
        kind = type(value)
        if kind is Digits:
            return self._digits(value)
        if kind is list:
            return [self._plain(each) for each in value]
        if kind is dict:
            return {name: self._plain(each) for name, each in value.items()}
        return value

    def write(self, rows: list[list[Any] | None]) -> list[bytes | None]:
        present = [row for row in rows if row is not None]
        columns = [self._written(place, list(values)) for place, values in enumerate(zip(*present, strict=True))]
        form = self._form
        made: list[bytes | None] = [(form % cells).encode("utf-8", "replace") for cells in zip(*columns, strict=True)]
        if len(made) == len(rows):
            return made
        left = iter(made)
        return [None if row is None else next(left) for row in rows]

    def _written(self, place: int, values: list[Any]) -> list[str]:
        kinds = set(map(type, values))
        base = self._types[place].base
        text: Callable[[Any], str] = self._texts[place]
        if kinds <= {str, _NOTHING} and base is Base.STRING:
            text = encode_basestring
        elif kinds <= {int, _NOTHING} and base in _WHOLE:
            text = str
        elif kinds <= {float, _NOTHING} and base is Base.DOUBLE and all(map(math.isfinite, filter(None, values))):
            text = float.__repr__
        if _NOTHING not in kinds:
            return list(map(text, values))
        return ["null" if each is None else text(each) for each in values]
