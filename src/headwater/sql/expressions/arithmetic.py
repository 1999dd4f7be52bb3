"""+ - * / %: which type an operation gives, and how it is computed. Numbers widen first; text and bytes are put
together by +.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from headwater.sql import values
from headwater.sql.budget import spend_text
from headwater.sql.expressions import generated
from headwater.sql.expressions.compiled import Compiled, Evaluate, converted, converted_code
from headwater.sql.expressions.generated import Code
from headwater.sql.language import types
from headwater.sql.language.errors import Position, SqlError
from headwater.sql.language.types import Base, DecimalType, Type
from headwater.sql.values import EvaluationError

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

_LEFT: Final = operator.itemgetter(0)
_RIGHT: Final = operator.itemgetter(1)


def arithmetic(symbol: str, left: Compiled, right: Compiled, position: Position) -> Compiled:
    """The operation, compiled."""
    given = left.type or right.type
    if symbol == "+" and given in (types.STRING, types.BYTES) and (left.type or given) == (right.type or given):
        together = generated.operation(left.written, right.written, _of_two(_joined))
        return Compiled(given, _operation(_joined, left.evaluate, right.evaluate), together)
    wide = types.widest(left.type or types.INTEGER, right.type or types.INTEGER)
    if wide is None or given is None:
        shown = f"{left.type or 'NULL'} {symbol} {right.type or 'NULL'}"
        raise SqlError(f"Unsupported arithmetic types: {shown}", position=position)
    if isinstance(wide, DecimalType):
        return _decimals(symbol, left, right)
    one, other = converted(left, wide), converted(right, wide)
    first_code, second_code = converted_code(left, wide), converted_code(right, wide)
    code: Code | None = None
    if wide.base is Base.DOUBLE:
        if symbol in "+-*":
            code = generated.float_arithmetic(symbol, first_code, second_code)
        code = code or generated.operation(first_code, second_code, _of_two(_FLOATING[symbol]))
        return Compiled(wide, _operation(_FLOATING[symbol], one, other), code)
    wrap, bits = (values.int32, 32) if wide.base is Base.INTEGER else (values.int64, 64)
    compute = _WHOLE[symbol]
    if symbol in "+-*":
        code = generated.whole_arithmetic(symbol, first_code, second_code, wrap, bits)

    def wrapped(first: int, second: int) -> int:
        return wrap(compute(first, second))

    code = code or generated.operation(first_code, second_code, _of_two(wrapped))
    return Compiled(wide, _operation(wrapped, one, other), code)


def _joined(left: Any, right: Any) -> Any:
    spend_text(len(left) + len(right))
    return left + right


def joined(given: Type, operands: Sequence[Compiled]) -> Compiled:
    """Text, or bytes, put together; NULL if one is. All operands are worked out, as `+` does."""
    nothing: Any = "" if given == types.STRING else b""

    def together(*found: Any) -> Any:
        if None in found:
            return None
        spend_text(sum(map(len, found)))
        return nothing.join(found)

    evaluates = [each.evaluate for each in operands]
    code = generated.computed(together, [each.written for each in operands])
    return Compiled(given, lambda row: together(*[evaluate(row) for evaluate in evaluates]), code)


def added(operands: Sequence[Compiled], positions: Sequence[Position]) -> Compiled:
    """All of them with `+` between each two, from left to right: the type hangs on that order. However many they are,
    nothing calls itself for each of them.
    """
    found, steps = operands[0].type, []
    for each, position in zip(operands[1:], positions, strict=True):
        step = arithmetic("+", Compiled(found, _LEFT), Compiled(each.type, _RIGHT), position)
        found = step.type
        steps.append(step.evaluate)

    def together(first: Any, *others: Any) -> Any:
        for add, other in zip(steps, others, strict=True):
            first = add([first, other])
        return first

    evaluates = [each.evaluate for each in operands]
    code = generated.computed(together, [each.written for each in operands])
    return Compiled(found, lambda row: together(*[evaluate(row) for evaluate in evaluates]), code)


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


def negative(operand: Compiled, position: Position) -> Compiled:
    """With the other sign, in the same type; of the lowest whole number that is itself."""
    if isinstance(operand.type, DecimalType):
        minus = _of_one(values.EXACT.minus)
        evaluate = operand.evaluate
        return Compiled(operand.type, lambda row: minus(evaluate(row)), generated.computed(minus, [operand.written]))
    if operand.type is not None and operand.type.base is Base.DOUBLE:  # 0 - 0.0 were 0.0
        return arithmetic("*", Compiled(types.DOUBLE, lambda _: -1.0, generated.literal(-1.0)), operand, position)
    return arithmetic("-", Compiled(operand.type, lambda _: 0, generated.literal(0)), operand, position)


def _of_one(compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else compute(value)


def _decimals(symbol: str, left: Compiled, right: Compiled) -> Compiled:
    one, other = types.as_decimal(left.type or types.INTEGER), types.as_decimal(right.type or types.INTEGER)
    result = decimal_result(symbol, one, other)
    compute = _DECIMAL[symbol]

    def fitted(first: Any, second: Any) -> Any:
        return values.fit(compute(first, second), result.precision, result.scale)

    code = generated.operation(converted_code(left, one), converted_code(right, other), _of_two(fitted))
    return Compiled(result, _operation(fitted, converted(left, one), converted(right, other)), code)


def _operation(compute: Callable[[Any, Any], Any], left: Evaluate, right: Evaluate) -> Evaluate:
    of_two = _of_two(compute)
    return lambda row: of_two(left(row), right(row))


def _of_two(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """None of a value is None, and what does not fit is an error of the expression."""

    def run(one: Any, other: Any) -> Any:
        if one is None or other is None:
            return None
        try:
            return compute(one, other)
        except OverflowError as error:
            raise EvaluationError(str(error)) from None

    return run
