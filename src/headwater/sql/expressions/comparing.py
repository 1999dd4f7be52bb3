"""= <> < <= > >= and LIKE. A comparison with NULL is false, `<>` too."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

import re2

from headwater.sql import values
from headwater.sql.expressions import generated
from headwater.sql.expressions.compiled import Compiled, Evaluate
from headwater.sql.expressions.generated import Code
from headwater.sql.language.errors import Position, SqlError
from headwater.sql.language.types import Base, Type
from headwater.sql.values import EvaluationError

OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TIMES: Final[dict[Base, Callable[[str], Any]]] = {
    Base.DATE: values.parse_date,
    Base.TIME: values.parse_time,
    Base.TIMESTAMP: values.parse_timestamp,
}
CompareValue = Callable[[Any, list[Any]], bool]
_UNORDERED: Final = (Base.BOOLEAN, Base.ARRAY, Base.MAP, Base.STRUCT)


def compare(symbol: str, left: Compiled, right: Compiled, position: Position) -> Evaluate:
    """A function that compares the two."""
    _must_be_comparable(symbol, left, right, position)
    one, other, test = _alike(left, right), _alike(right, left), OPERATORS[symbol]

    def run(row: list[Any]) -> bool:
        first, second = one(row), other(row)
        if first is None or second is None:
            return False
        return test(first, second)

    return run


def compare_value(symbol: str, left: Compiled, right: Compiled, position: Position) -> CompareValue:
    """`compare` for who has the value on the left already: a function of it and the row."""
    _must_be_comparable(symbol, left, right, position)
    read, other, test = _reading(left, right), _alike(right, left), OPERATORS[symbol]

    def run(value: Any, row: list[Any]) -> bool:
        first = value if read is None or value is None else read(value)
        second = other(row)
        if first is None or second is None:
            return False
        return test(first, second)

    return run


def are_alike(left: Compiled, right: Compiled) -> bool:
    """Whether their values are compared as they are."""
    return _reading(left, right) is None and _reading(right, left) is None


def comparison_code(symbol: str, left: Compiled, right: Compiled) -> Code:
    """What `compare` gives, written out."""
    return generated.comparison(symbol, _alike_code(left, right), _alike_code(right, left), OPERATORS[symbol])


_NAMES: Final = {
    "=": "EQUAL",
    "<>": "NOT_EQUAL",
    "<": "LESS_THAN",
    "<=": "LESS_THAN_OR_EQUAL",
    ">": "GREATER_THAN",
    ">=": "GREATER_THAN_OR_EQUAL",
}


def _must_be_comparable(symbol: str, left: Compiled, right: Compiled, position: Position) -> None:
    if not _comparable(left.type, right.type, symbol):
        raise SqlError(
            f"Operator {_NAMES[symbol]} cannot be used to compare {left.type} and {right.type}", position=position
        )


def _alike(given: Compiled, beside: Compiled) -> Evaluate:
    """The values of `given` as they are compared."""
    evaluate, read = given.evaluate, _reading(given, beside)
    if read is None:
        return evaluate
    return lambda row: None if (value := evaluate(row)) is None else read(value)


def _alike_code(given: Compiled, beside: Compiled) -> Code:
    read = _reading(given, beside)
    return given.written if read is None else generated.conversion(given.written, _or_none(read))


def _or_none(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _reading(given: Compiled, beside: Compiled) -> Callable[[Any], Any] | None:
    """Text beside a date, time or timestamp is read as one; DATE beside TIMESTAMP becomes its midnight. None: values
    are compared as they are.
    """
    if given.type is None or beside.type is None:
        return None
    if given.type.base is Base.DOUBLE and beside.type.base is Base.DECIMAL:
        return _exact
    if given.type.base is Base.STRING and beside.type.base in _TIMES:
        return _TIMES[beside.type.base]
    if given.type.base is Base.DATE and beside.type.base is Base.TIMESTAMP:
        return _midnight
    return None


def _midnight(day: date) -> datetime:
    return values.from_millis(values.days(day) * 86_400_000)


def _exact(value: float) -> Decimal | float:
    """A double beside a DECIMAL: the number that its shortest digits say."""
    return Decimal(repr(value)) if math.isfinite(value) else value


def _comparable(left: Type | None, right: Type | None, symbol: str) -> bool:
    if left is None or right is None:
        return True
    if left.is_number and right.is_number:
        return True
    pair = {left.base, right.base}
    if pair <= {Base.STRING, Base.DATE} or pair <= {Base.STRING, Base.TIME} or pair <= {Base.STRING, Base.TIMESTAMP}:
        return True
    if pair == {Base.DATE, Base.TIMESTAMP}:
        return True
    if left.base is not right.base:
        return False
    return symbol in ("=", "<>") or left.base not in _UNORDERED


@functools.lru_cache(maxsize=256)
def like_pattern(pattern: str, escape: str | None) -> Any:
    """LIKE's pattern, compiled by RE2, whose time grows with the text and not with the number of wildcards."""
    pieces, at = [], 0
    while at < len(pattern):
        letter = pattern[at]
        if escape is not None and letter == escape and at + 1 < len(pattern):
            at += 1
            pieces.append(re2.escape(pattern[at]))
        else:
            pieces.append({"%": "(?s:.*)", "_": "(?s:.)"}.get(letter) or re2.escape(letter))
        at += 1
    try:
        return re2.compile("".join(pieces))
    except re2.error as error:
        raise EvaluationError(f"the LIKE pattern cannot be used: {error}") from None


def like(operand: Evaluate, pattern: Evaluate, escape: str | None, *, negated: bool) -> Evaluate:
    run = like_of(escape, negated=negated)
    return lambda row: run(operand(row), pattern(row))


def like_of(escape: str | None, *, negated: bool) -> Callable[[Any, Any], bool]:
    def run(text: str | None, wanted: str | None) -> bool:
        if text is None or wanted is None:
            return False
        return matches(text, wanted, escape) != negated

    return run


def matches(text: str, pattern: str, escape: str | None) -> bool:
    return like_pattern(pattern, escape).fullmatch(text) is not None
