"""What an expression becomes: its type, and a function of a row. Expressions of other types are widened and converted
here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headwater.sql.expressions import generated
from headwater.sql.expressions.casting import converter
from headwater.sql.expressions.generated import Code
from headwater.sql.language import types
from headwater.sql.language.errors import Position, SqlError
from headwater.sql.language.types import Base, Type

Evaluate = Callable[[list[Any]], Any]


@dataclass(frozen=True, slots=True)
class Compiled:
    type: Type | None  # None: the type of NULL
    evaluate: Evaluate
    code: Code | None = None  # the same, written out; None: there is no shorter way than to call `evaluate`

    @property
    def written(self) -> Code:
        return self.code or generated.calling(self.evaluate)


def widened(given: Compiled, wanted: Type, position: Position | None = None) -> Evaluate:
    """The values of `given` as `wanted`. Raises SqlError if that is another type, and no wider one."""
    if given.type is None or given.type == wanted:
        return given.evaluate
    convert = converter(given.type, wanted)
    if convert is None or not types.can_widen(given.type, wanted):
        raise SqlError(f"{given.type} cannot be taken as {wanted}.", position=position)
    evaluate = given.evaluate
    return lambda row: convert(evaluate(row))


def converted_code(given: Compiled, wanted: Type | None) -> Code:
    """What `converted` gives, written out."""
    if wanted is None or given.type is None or given.type == wanted:
        return given.written
    bases = given.type.base, wanted.base
    if bases == (Base.INTEGER, Base.BIGINT):
        return given.written
    convert = converter(given.type, wanted)
    assert convert is not None
    word = "float" if bases in ((Base.INTEGER, Base.DOUBLE), (Base.BIGINT, Base.DOUBLE)) else ""
    return generated.conversion(given.written, convert, word)


def converted(given: Compiled, wanted: Type | None) -> Evaluate:
    """The values of `given` as `wanted`, which is known to fit; None: as they are."""
    if wanted is None or given.type is None or given.type == wanted:
        return given.evaluate
    convert = converter(given.type, wanted)
    assert convert is not None
    evaluate = given.evaluate
    return lambda row: convert(evaluate(row))
