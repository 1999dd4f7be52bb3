"""Functions of a row that are made of other functions of a row: what the compiler puts together, node by node."""

from collections.abc import Callable
from typing import Any

from headwater.sql.expressions.compiled import Evaluate
from headwater.sql.values import EvaluationError


def or_null(evaluate: Evaluate) -> Evaluate:
    """An item for which there is no value is NULL; the others of its array, map or struct stay. A function of Python
    may raise anything.
    """

    def run(row: list[Any]) -> Any:
        try:
            return evaluate(row)
        except Exception:  # noqa: BLE001
            return None

    return run


def truth(value: Any) -> bool:
    if value is None:
        raise EvaluationError("a condition is NULL")
    return bool(value)


def calling(call: Callable[..., Any], arguments: tuple[Evaluate, ...], *, nulls: bool) -> Evaluate:
    if nulls:
        return lambda row: call(*[argument(row) for argument in arguments])
    if len(arguments) == 1:
        (only,) = arguments

        def call_with_one(row: list[Any]) -> Any:
            value = only(row)
            return None if value is None else call(value)

        return call_with_one

    def call_unless_null(row: list[Any]) -> Any:
        given = [argument(row) for argument in arguments]
        for value in given:
            if value is None:
                return None
        return call(*given)

    return call_unless_null


def array_item(of: Evaluate, index: Evaluate) -> Evaluate:
    return lambda row: item_of(of(row), index(row))


def item_of(array: Any, at: Any) -> Any:
    if array is None or at is None:
        return None
    place = at - 1 if at > 0 else len(array) + at
    return array[place] if at != 0 and 0 <= place < len(array) else None


def map_item(of: Evaluate, key: Evaluate) -> Evaluate:
    def item(row: list[Any]) -> Any:
        mapping = of(row)
        return None if mapping is None else mapping.get(key(row))

    return item
