"""Functions as people write them, brought to the shape that operators call.

A function of one parameter gets the value, one of two gets key and value. So `filter(lambda order: order.total > 9)`
and `filter(lambda key, order: key != "test")` both work. What cannot be looked into (a class, a builtin) gets the
value.
"""

from collections.abc import Callable
from typing import Any

from headwater.base.errors import UserError
from headwater.streams.dsl.expressions import Column
from headwater.streams.dsl.vectorized import Vectorized
from headwater.streams.serdes.port import Serde
from headwater.streams.serdes.resolving import resolve_optional
from headwater.streams.serdes.stock import JSON


def positional_parameters(function: Callable[..., Any]) -> int | None:
    """How many positional parameters without a default a function has; None if that cannot be seen or is any number."""
    code = getattr(function, "__code__", None)
    bound = 0
    if code is None:
        inner = getattr(function, "__func__", None)  # a method that is bound
        if inner is None:
            return _by_signature(function)
        code, bound, function = inner.__code__, 1, inner
    elif getattr(function, "__self__", None) is not None:
        bound = 1
    if code.co_flags & 0x04:  # *args
        return None
    defaults = getattr(function, "__defaults__", None) or ()
    return int(code.co_argcount) - bound - len(defaults)


def _by_signature(function: Callable[..., Any]) -> int | None:
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(1 for one in parameters if one.kind in kinds and one.default is inspect.Parameter.empty)


def with_key(function: Callable[..., Any], operator: str) -> Callable[[Any, Any], Any]:
    """`f(value)` or `f(key, value)` as `f(key, value)`; or a column."""
    if isinstance(function, Vectorized):
        return function.of_records(operator)
    if isinstance(function, Column):
        return function.evaluate if function.evaluate_all is None else _by_column(function)
    return _shape(function, operator, 2, _of_value)


def _by_column(expression: Column) -> Callable[[Any, Any], Any]:
    evaluate = expression.evaluate

    def call(key: Any, value: Any) -> Any:
        return evaluate(key, value)

    call.evaluate_all = expression.evaluate_all  # type: ignore[attr-defined]  # for the lane
    return call


def _of_value(function: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def call(key: Any, value: Any) -> Any:  # noqa: ARG001
        return function(value)

    call.of_value = function  # type: ignore[attr-defined]  # the lane calls it without the way around
    return call


def joiner(function: Callable[..., Any], operator: str) -> Callable[[Any, Any, Any], Any]:
    """`f(left, right)` or `f(key, left, right)` as `f(key, left, right)`."""
    return _shape(function, operator, 3, _of_values)


def _of_values(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    def call(key: Any, left: Any, right: Any) -> Any:  # noqa: ARG001
        return function(left, right)

    call.of_values = function  # type: ignore[attr-defined]
    return call


def aggregator(function: Callable[..., Any], operator: str) -> Callable[[Any, Any, Any], Any]:
    """`f(aggregate, value)`, or Kafka Streams' `f(key, value, aggregate)`, as the latter."""
    return _shape(function, operator, 3, lambda given: lambda key, value, aggregate: given(aggregate, value))  # noqa: ARG005


def value_of(function: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """What `sum`, `min` and `max` take from a value: itself, if nothing was given."""
    if isinstance(function, Column):
        evaluate = function.evaluate
        return lambda value: evaluate(None, value)
    if function is not None:
        check_callable(function, "an aggregation of one field")
    return (lambda value: value) if function is None else function


def added(total: Any, value: Any) -> Any:
    """A value that is None, since its record or its field is, adds nothing: as in SQL."""
    return total if value is None else total + value


def taken_away(total: Any, value: Any) -> Any:
    return total if value is None else total - value


def better(choose: Callable[[Any, Any], Any], best: Any, value: Any) -> Any:
    """Of `min` and `max`: one that is None does not count."""
    return value if best is None else best if value is None else choose(best, value)


def number_serde(of: Any, given: Any, values: Serde | None) -> Serde:
    """What `sum`, `min` and `max` are written with: what was given, else the values' own serde, else JSON."""
    return resolve_optional(given) or (values if of is None and values is not None else JSON)


def check_callable(function: object, operator: str) -> None:
    if not callable(function):
        raise UserError(f"{operator} needs a function", f"it was given {function!r}")


def check_partitioner(function: object, operator: str) -> None:
    """`f(topic, key, value, count)`, or None for the producer's own."""
    if function is not None:
        check_called_with(function, 4, f"the partitioner of {operator}", "topic, key, value and number of partitions")


def check_called_with(function: object, count: int, what: str, arguments: str) -> None:
    """A function that is called with so many arguments: one that takes another number would fail with each record."""
    import inspect

    subject = what[0].upper() + what[1:]
    if not callable(function):
        raise UserError(f"{subject} is no function", f"it was given {function!r}")
    try:
        inspect.signature(function).bind(*(None,) * count)
    except TypeError:
        raise UserError(f"{subject} takes other arguments", f"it is called with {arguments}") from None
    except ValueError:  # of a builtin, which does not tell
        return


def _shape(
    function: Callable[..., Any], operator: str, full: int, adapt: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Callable[..., Any]:
    check_callable(function, operator)
    count = positional_parameters(function)
    if count == full:
        return function
    if count is None or count == full - 1 or (full == 2 and count == 0):
        return adapt(function)
    raise UserError(
        f"The function of {operator} has {count} parameters",
        f"it is called with {full - 1} or {full}",
        "see docs/STREAMS.md",
    )
