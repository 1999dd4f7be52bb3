"""What a literal is: its type when it stands alone, and what it is read as beside something that it is compared
with.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final

from headwater.sql import values
from headwater.sql.expressions.casting import decimal_of, exact_boolean
from headwater.sql.expressions.compiled import Compiled
from headwater.sql.language import tree, types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.types import Base, Type
from headwater.sql.values import EvaluationError


def literal_type(node: tree.Literal) -> Type | None:
    match node.value:
        case None:
            return None
        case bool():
            return types.BOOLEAN
        case int():
            return types.BIGINT if node.big else types.INTEGER
        case float():
            return types.DOUBLE
        case Decimal():
            return types.decimal_of_value(node.value)
        case _:
            return types.STRING


def beside_operand(item: Compiled, operand: Compiled, node: tree.Expression) -> Compiled:
    """Literals in IN (...) are read as what they are compared with: '4' beside numbers, 'true' beside BOOLEAN, 4 beside
    text.
    """
    wanted = operand.type
    if wanted is None or item.type is None or item.type == wanted or not isinstance(node, tree.Literal):
        return item
    value: Any = None
    try:
        if item.type == types.STRING and wanted.is_number:
            value = values.fit(decimal_of(str(node.value)), 40, 20)
            return Compiled(types.decimal(40, 20), lambda _: value)
        if item.type == types.STRING and wanted == types.BOOLEAN:
            truth = exact_boolean(str(node.value))
            return Compiled(types.BOOLEAN, lambda _: truth)
    except EvaluationError as error:
        raise SqlError(f"Invalid Predicate: {error}", position=node.position) from None
    if wanted == types.STRING and item.type.base in (
        Base.BOOLEAN,
        Base.INTEGER,
        Base.BIGINT,
        Base.DOUBLE,
        Base.DECIMAL,
    ):
        value = values.as_text(node.value)
        return Compiled(types.STRING, lambda _: value)
    return item


def as_moment(node: tree.Expression, given: Compiled, beside: Compiled) -> Compiled:
    """Text beside ROWTIME, WINDOWSTART or WINDOWEND is a moment: '2020-05-04T10:00' and the like, in milliseconds.
    Text beside a DATE, TIME or TIMESTAMP is read when rows are compared, unless only ISO reads it so: with a blank
    before the time, or with microseconds. Statements had that before texts were read to the letter of ksqlDB.
    """
    if given.type != types.STRING or beside.type is None or not isinstance(node, tree.Literal):
        return given
    text = str(node.value)
    if beside.type == types.BIGINT:
        moment = _read(text, values.parse_timestamp, _iso_timestamp)
        return given if moment is None else _constant(types.BIGINT, values.millis(moment))
    readers = _READERS.get(beside.type.base)
    if readers is None or _read(text, readers[0]) is not None:
        return given
    value = _read(text, readers[1])
    return given if value is None else _constant(beside.type, value)


def _constant(given: Type, value: Any) -> Compiled:
    return Compiled(given, lambda _: value)


def _read(text: str, *readers: Callable[[str], Any]) -> Any:
    """As the first reads it that can; None: none of them can."""
    for each in readers:
        with contextlib.suppress(EvaluationError, ValueError, OverflowError):
            return each(text)
    return None


def _iso_timestamp(text: str) -> datetime:
    moment = datetime.fromisoformat(text.strip())
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _iso_date(text: str) -> date:
    return date.fromisoformat(text.strip()[:10])


def _iso_time(text: str) -> time:
    return time.fromisoformat(text.strip()).replace(tzinfo=None)


_READERS: Final[dict[Base, tuple[Callable[[str], Any], Callable[[str], Any]]]] = {
    Base.DATE: (values.parse_date, _iso_date),
    Base.TIME: (values.parse_time, _iso_time),
    Base.TIMESTAMP: (values.parse_timestamp, _iso_timestamp),
}
