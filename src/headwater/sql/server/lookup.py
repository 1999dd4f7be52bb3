"""What a WHERE says of the key and of the start of the window, so that only those rows are looked at. Pure.

The condition itself is still asked of each row that is found: here it is enough to leave out none that it takes. So
only constants of the very type of the column count, of types whose order is that of the index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from headwater.sql.expressions.column_scope import Scope
from headwater.sql.expressions.compiling import Compiler
from headwater.sql.expressions.literals import literal_type
from headwater.sql.functions.collections import hashable
from headwater.sql.language import tree, types
from headwater.sql.language.types import Base
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.plan.rewriting import parts
from headwater.sql.server.key_index import Range
from headwater.sql.values import EvaluationError

Key = tuple[Any, ...]
WINDOW_START: Final = "WINDOWSTART"
_ORDERED: Final = (Base.INTEGER, Base.BIGINT, Base.STRING, Base.DECIMAL)
_WHOLE: Final = (types.INTEGER, types.BIGINT)
_RECKONING: Final = ("+", "-", "*", "/", "%")
_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def key_of(columns: Sequence[Any]) -> Key:
    """The key of a row, as views know it."""
    return tuple(map(hashable, columns))


@dataclass(frozen=True, slots=True)
class Lookup:
    """The only rows that a condition can take: of these keys, else of this range of keys; and of windows that start
    there. None: of all.
    """

    keys: tuple[Key, ...] | None = None
    key_range: Range | None = None
    starts: Range | None = None


def lookup_of(where: tree.Expression | None, source: SourceInfo) -> Lookup:
    conditions = _conjuncts(where)
    keys = _keys_in(conditions, source)
    key_range = None
    if keys is None and len(source.key_columns) == 1 and source.key_columns[0].type.base in _ORDERED:
        column = source.key_columns[0]
        key_range = _range_in(conditions, column.name, column.type)
    starts = _range_in(conditions, WINDOW_START, types.BIGINT) if source.window is not None else None
    return Lookup(keys, key_range, starts)


def _keys_in(conditions: Sequence[tree.Expression], source: SourceInfo) -> tuple[Key, ...] | None:
    """Each key column equal to a constant, or the only one IN a list."""
    names = {each.name: each.type for each in source.key_columns}
    found: dict[str, list[Any]] = {}
    for each in conditions:
        column, constants = _equal_to(each)
        if column is None or column.name not in names or column.name in found:
            continue
        values = [constant(item, names[column.name]) for item in constants]
        if any(value is None for value in values):
            continue
        found[column.name] = values
    if found.keys() != names.keys() or (len(names) > 1 and any(len(each) > 1 for each in found.values())):
        return None
    if len(names) == 1:
        return tuple(dict.fromkeys(key_of([each]) for each in found[next(iter(names))]))
    return (key_of([found[name][0] for name in names]),)


def _range_in(conditions: Sequence[tree.Expression], name: str, wanted: types.Type) -> Range | None:
    """All comparisons of the column with constants together."""
    found: Range | None = None
    for each in conditions:
        one = _range_of(each, name, wanted)
        if one is not None:
            found = one if found is None else found.and_also(one)
    return found


def _range_of(condition: tree.Expression, name: str, wanted: types.Type) -> Range | None:
    if isinstance(condition, tree.Between) and not condition.negated and _is(condition.operand, name):
        low, high = constant(condition.low, wanted), constant(condition.high, wanted)
        return None if low is None or high is None else Range(low, True, high, True)
    if not isinstance(condition, tree.Binary) or condition.operator not in _MIRRORED:
        return None
    operator, value = condition.operator, constant(condition.right, wanted)
    if not _is(condition.left, name):
        if not _is(condition.right, name):
            return None
        operator, value = _MIRRORED[operator], constant(condition.left, wanted)
    if value is None:
        return None
    if operator == "=":
        return Range(value, True, value, True)
    if operator in (">", ">="):
        return Range(low=value, low_included=operator == ">=")
    return Range(high=value, high_included=operator == "<=")


def _is(expression: tree.Expression, name: str) -> bool:
    return isinstance(expression, tree.Column) and expression.name == name


def _conjuncts(where: tree.Expression | None) -> list[tree.Expression]:
    if isinstance(where, tree.Binary) and where.operator == "AND":
        return [*_conjuncts(where.left), *_conjuncts(where.right)]
    return [] if where is None else [where]


def _equal_to(condition: tree.Expression) -> tuple[tree.Column | None, Sequence[tree.Expression]]:
    if isinstance(condition, tree.In) and not condition.negated and isinstance(condition.operand, tree.Column):
        return condition.operand, condition.items
    if isinstance(condition, tree.Binary) and condition.operator == "=":
        for one, other in ((condition.left, condition.right), (condition.right, condition.left)):
            if isinstance(one, tree.Column):
                return one, (other,)
    return None, ()


def constant(item: tree.Expression, wanted: types.Type) -> Any:
    """The value of a literal, or of numbers that are reckoned together, where it is one of this very type; None
    otherwise: then all rows are looked at.
    """
    if isinstance(item, tree.Binary):
        return _reckoned(item, wanted)
    if isinstance(item, tree.Unary) and item.operator == "-":
        value = constant(item.operand, wanted)
        return None if value is None or isinstance(value, str | bool) else -value
    if not isinstance(item, tree.Literal) or item.value is None:
        return None
    given = literal_type(item)
    if given == wanted or (given in _WHOLE and wanted in _WHOLE):
        return item.value
    is_decimal = given is not None and given.base is Base.DECIMAL and wanted.base is Base.DECIMAL
    return item.value if is_decimal else None


def _reckoned(item: tree.Binary, wanted: types.Type) -> Any:
    """`10 + 1`, as the condition itself reckons it. Calls may give another value for each row."""
    if any(
        not isinstance(each, tree.Literal | tree.Unary)
        and not (isinstance(each, tree.Binary) and each.operator in _RECKONING)
        for each in parts(item)
    ):
        return None
    compiled = Compiler(Scope({}, frozenset(), 0)).compile(item)
    if compiled.type != wanted and not (compiled.type in _WHOLE and wanted in _WHOLE):
        return None
    try:
        return compiled.evaluate([])
    except EvaluationError:
        return None
