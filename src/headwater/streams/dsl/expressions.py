"""Column expressions: `orders[orders.amount > 100]`, `orders.select(total=orders.amount * 1.2)`.

An expression is a tree that is compiled into one function of key and value. Its rules are SQL's, which are Spark's: a
missing field or a None makes the result None, `&` and `|` know three values, and a filter takes what is true. Values
may be dicts or objects with attributes. Immutable.
"""

import operator
from collections.abc import Callable, Iterable
from typing import Any, Final

from headwater.base.errors import UserError

Evaluate = Callable[[Any, Any], Any]
EvaluateAll = Callable[[list[Any], list[Any]], list[Any]]


class Column:
    """An expression. `text` is how it was written, for `describe` and errors. `evaluate_all`, of one that takes whole
    columns, is of lists.
    """

    __slots__ = ("evaluate", "evaluate_all", "text")

    def __init__(self, evaluate: Evaluate, text: str, evaluate_all: EvaluateAll | None = None) -> None:
        self.evaluate = evaluate
        self.text = text
        self.evaluate_all = evaluate_all

    def evaluate_for(self, keys: list[Any], values: list[Any]) -> list[Any]:
        """For each record."""
        if self.evaluate_all is not None:
            return self.evaluate_all(keys, values)
        evaluate = self.evaluate
        return [evaluate(key, value) for key, value in zip(keys, values, strict=True)]

    def __repr__(self) -> str:
        return f"Column<{self.text}>"

    def __bool__(self) -> bool:
        raise UserError(
            f"{self.text} is an expression and has no truth of its own", "", "use & | ~ instead of and, or, not"
        )

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise UserError(f"{self.text} is a column, not a function", "streams and tables have no method of that name")

    def __iter__(self) -> Any:
        """Python would take 0, 1, 2 and so on for names of fields, and never come to an end."""
        raise UserError(
            f"{self.text} is an expression and has no elements",
            "",
            "flat_map_values(...) goes through those of a value",
        )

    def __getitem__(self, name: str) -> "Column":
        """A field within."""
        return Column(_field(self.evaluate, name), f"{self.text}.{name}")

    def __getattr__(self, name: str) -> "Column":
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __add__(self, other: Any) -> "Column":
        return binary("+", operator.add, self, other)

    def __radd__(self, other: Any) -> "Column":
        return binary("+", operator.add, other, self)

    def __sub__(self, other: Any) -> "Column":
        return binary("-", operator.sub, self, other)

    def __rsub__(self, other: Any) -> "Column":
        return binary("-", operator.sub, other, self)

    def __mul__(self, other: Any) -> "Column":
        return binary("*", operator.mul, self, other)

    def __rmul__(self, other: Any) -> "Column":
        return binary("*", operator.mul, other, self)

    def __truediv__(self, other: Any) -> "Column":
        return binary("/", _divide, self, other)

    def __rtruediv__(self, other: Any) -> "Column":
        return binary("/", _divide, other, self)

    def __mod__(self, other: Any) -> "Column":
        return binary("%", _remainder, self, other)

    def __neg__(self) -> "Column":
        return unary("-", operator.neg, self)

    def __eq__(self, other: object) -> "Column":  # type: ignore[override]  # an expression, as in pandas and Spark
        return binary("==", operator.eq, self, other)

    def __ne__(self, other: object) -> "Column":  # type: ignore[override]
        return binary("!=", operator.ne, self, other)

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: Any) -> "Column":
        return binary("<", operator.lt, self, other)

    def __le__(self, other: Any) -> "Column":
        return binary("<=", operator.le, self, other)

    def __gt__(self, other: Any) -> "Column":
        return binary(">", operator.gt, self, other)

    def __ge__(self, other: Any) -> "Column":
        return binary(">=", operator.ge, self, other)

    def __and__(self, other: Any) -> "Column":
        left, right = column(self), column(other)
        one, two = left.evaluate, right.evaluate

        def both(key: Any, value: Any) -> Any:
            first = one(key, value)
            if first is False:
                return False
            second = two(key, value)
            return False if second is False else None if first is None or second is None else True

        return Column(both, f"({left.text} & {right.text})")

    def __or__(self, other: Any) -> "Column":
        left, right = column(self), column(other)
        one, two = left.evaluate, right.evaluate

        def either(key: Any, value: Any) -> Any:
            first = one(key, value)
            if first is True:
                return True
            second = two(key, value)
            return True if second is True else None if first is None or second is None else False

        return Column(either, f"({left.text} | {right.text})")

    def __invert__(self) -> "Column":
        return unary("~", operator.not_, self)

    def is_null(self) -> "Column":
        inner = self.evaluate
        return Column(lambda key, value: inner(key, value) is None, f"{self.text}.is_null()")

    def is_not_null(self) -> "Column":
        inner = self.evaluate
        return Column(lambda key, value: inner(key, value) is not None, f"{self.text}.is_not_null()")

    def is_in(self, values: Iterable[Any]) -> "Column":
        known = list(values)
        return unary("is_in ", lambda found: found in known, self)

    def or_else(self, other: Any) -> "Column":
        """The other where this is None."""
        inner, default = self.evaluate, column(other)

        def found(key: Any, value: Any) -> Any:
            result = inner(key, value)
            return default.evaluate(key, value) if result is None else result

        return Column(found, f"{self.text}.or_else({default.text})")


def column(given: Any) -> Column:
    """An expression as it is; anything else as a constant."""
    return given if isinstance(given, Column) else Column(lambda key, value: given, repr(given))  # noqa: ARG005


def field(name: str) -> Column:
    """A field of the value."""
    return Column(_field(_value, name), name)


KEY: Final = Column(lambda key, value: key, "key")  # noqa: ARG005


def _value(key: Any, value: Any) -> Any:  # noqa: ARG001
    return value


def _field(inner: Evaluate, name: str) -> Evaluate:
    def get(key: Any, value: Any) -> Any:
        owner = inner(key, value)
        if isinstance(owner, dict):
            return owner.get(name)
        return None if owner is None else getattr(owner, name)

    return get


def _divide(left: Any, right: Any) -> Any:
    return None if right == 0 else left / right  # as Spark does


def _remainder(left: Any, right: Any) -> Any:
    return None if right == 0 else left % right


def binary(sign: str, combine: Callable[[Any, Any], Any], left: Any, right: Any) -> Column:
    one, two = column(left), column(right)
    first, second = one.evaluate, two.evaluate

    def evaluate(key: Any, value: Any) -> Any:
        a, b = first(key, value), second(key, value)
        return None if a is None or b is None else combine(a, b)

    def evaluate_all(keys: list[Any], values: list[Any]) -> list[Any]:
        pairs = zip(one.evaluate_for(keys, values), two.evaluate_for(keys, values), strict=True)
        return [None if a is None or b is None else combine(a, b) for a, b in pairs]

    by_column = one.evaluate_all is not None or two.evaluate_all is not None
    return Column(evaluate, f"({one.text} {sign} {two.text})", evaluate_all if by_column else None)


def unary(sign: str, change: Callable[[Any], Any], inner: Column) -> Column:
    evaluate = inner.evaluate

    def changed(key: Any, value: Any) -> Any:
        found = evaluate(key, value)
        return None if found is None else change(found)

    def all_changed(keys: list[Any], values: list[Any]) -> list[Any]:
        return [None if found is None else change(found) for found in inner.evaluate_for(keys, values)]

    return Column(changed, f"{sign}{inner.text}", None if inner.evaluate_all is None else all_changed)


def row(names: tuple[str | Column, ...], named: dict[str, Any]) -> Evaluate:
    """A dict of columns, for `select`."""
    columns: dict[str, Column] = {}
    for name in names:
        if isinstance(name, str):
            columns[name] = field(name)
        else:
            columns[name.text.rsplit(".", 1)[-1]] = name
    columns.update({name: column(expression) for name, expression in named.items()})
    made = {name: each.evaluate for name, each in columns.items()}

    def dict_of(key: Any, value: Any) -> Any:
        return {name: evaluate(key, value) for name, evaluate in made.items()}

    def all_dicts(keys: list[Any], values: list[Any]) -> list[Any]:
        rows = zip(*(each.evaluate_for(keys, values) for each in columns.values()), strict=True)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    if any(each.evaluate_all is not None for each in columns.values()):
        dict_of.evaluate_all = all_dicts  # type: ignore[attr-defined]  # for the lane
    return dict_of


class HasColumns:
    """What streams and tables share: fields by attribute or by name, `[...]` as filter, `select`."""

    @property
    def key(self) -> Column:
        """The key of the records, as a column."""
        return KEY

    def __getattr__(self, name: str) -> Column:
        if name.startswith("_"):
            raise AttributeError(name)
        return field(name)
