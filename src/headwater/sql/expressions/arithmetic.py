"""+ - * / %: which type an operation gives, and how it is computed. Numbers widen first; text and bytes are put together by +."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from headwater.sql.expressions import values
from headwater.sql.expressions.budget import spend_text
from headwater.sql.expressions.casting import converter
from headwater.sql.expressions.values import EvaluationError
from headwater.sql.language import types
from headwater.sql.language.errors import Position, SqlError
from headwater.sql.language.types import Base, DecimalType, Type

Evaluate = Callable[[list[Any]], Any]


class Typed(Protocol):
    """An expression that has been compiled."""

    @property
    def type(self) -> Type | None: ...

    @property
    def evaluate(self) -> Evaluate: ...


T = TypeVar("T")
_WHOLE: Final[dict[str, Callable[[int, int], int]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": values.quotient,
    "%": values.remainder,
}
_FLOATING: Final[dict[str, Callable[[float, float], float]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": values.float_quotient,
    "%": values.float_remainder,
}
_DECIMAL: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": values.EXACT.add,
    "-": values.EXACT.subtract,
    "*": values.EXACT.multiply,
    "/": values.decimal_quotient,
    "%": values.decimal_remainder,
}


def arithmetic(
    symbol: str, left: Typed, right: Typed, position: Position, make: Callable[[Type | None, Evaluate], T]
) -> T:
    """The operation, compiled; `make` puts type and function together."""
    given = left.type or right.type
    if symbol == "+" and given in (types.STRING, types.BYTES) and (left.type or given) == (right.type or given):
        return make(given, _operation(_joined, left.evaluate, right.evaluate))
    wide = types.widest(left.type or types.INTEGER, right.type or types.INTEGER)
    if wide is None or given is None:
        raise SqlError(f"Unsupported arithmetic types: {left.type} {symbol} {right.type}", position=position)
    if isinstance(wide, DecimalType):
        return make(*_decimals(symbol, left, right))
    one, other = _widened(left, wide), _widened(right, wide)
    if wide.base is Base.DOUBLE:
        return make(wide, _operation(_FLOATING[symbol], one, other))
    wrap = values.int32 if wide.base is Base.INTEGER else values.int64
    compute = _WHOLE[symbol]
    return make(wide, _operation(lambda first, second: wrap(compute(first, second)), one, other))


def _joined(left: Any, right: Any) -> Any:
    spend_text(len(left) + len(right))
    return left + right


def decimal_result(symbol: str, one: DecimalType, other: DecimalType) -> DecimalType:
    """The DECIMAL that an operation on two gives."""
    if symbol in "+-":
        scale = max(one.scale, other.scale)
        return types.decimal(max(one.precision - one.scale, other.precision - other.scale) + scale + 1, scale)
    if symbol == "*":
        return types.decimal(one.precision + other.precision + 1, one.scale + other.scale)
    if symbol == "/":
        scale = max(6, one.scale + other.precision + 1)
        return types.decimal(one.precision - one.scale + other.scale + scale, scale)
    scale = max(one.scale, other.scale)
    return types.decimal(max(min(one.precision - one.scale, other.precision - other.scale) + scale, 1), scale)


def _decimals(symbol: str, left: Typed, right: Typed) -> tuple[Type, Evaluate]:
    one, other = types.as_decimal(left.type or types.INTEGER), types.as_decimal(right.type or types.INTEGER)
    result = decimal_result(symbol, one, other)
    compute = _DECIMAL[symbol]
    fitted = _operation(
        lambda first, second: values.fit(compute(first, second), result.precision, result.scale),
        _widened(left, one),
        _widened(right, other),
    )
    return result, fitted


def _widened(given: Typed, wanted: Type) -> Evaluate:
    if given.type == wanted:
        return given.evaluate
    convert = converter(given.type, wanted)
    assert convert is not None
    evaluate = given.evaluate
    return lambda row: convert(evaluate(row))


def _operation(compute: Callable[[Any, Any], Any], left: Evaluate, right: Evaluate) -> Evaluate:
    def run(row: list[Any]) -> Any:
        one, other = left(row), right(row)
        if one is None or other is None:
            return None
        try:
            return compute(one, other)
        except OverflowError as error:
            raise EvaluationError(str(error)) from None

    return run
