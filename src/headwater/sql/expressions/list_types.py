"""The one type of the items of ARRAY[...], MAP(...) and IN (...): ksqlDB's coercion of lists that a user wrote.

The first item that is not NULL says what the others have to be. Numbers widen each other, structs have the fields of
all. Literals give way: text among numbers is read as a number and may widen them, among booleans as a boolean; numbers
and booleans among text become text. Arrays, maps and structs that are written out are looked into. What is no literal
keeps its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from headwater.sql.expressions.casting import converter, decimal_of, exact_boolean
from headwater.sql.functions.signatures import common
from headwater.sql.language import tree, types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.types import ArrayType, Base, MapType, StructType, Type
from headwater.sql.values import EvaluationError

TypeOf = Callable[[tree.Expression], Type | None]
_TEXTS: Final = (Base.BOOLEAN, Base.INTEGER, Base.BIGINT, Base.DECIMAL, Base.DOUBLE)
_TIMES: Final = (Base.DATE, Base.TIME, Base.TIMESTAMP)


def item_type(nodes: Iterable[tree.Expression], type_of: TypeOf, first: Type | None = None) -> Type | None:
    """None: all are NULL. `first`: of what stands before the list. Raises SqlError where there is no such type."""
    found = first
    for node in nodes:
        found = _both(found, node, type_of)
    return found


def _both(found: Type | None, node: tree.Expression, type_of: TypeOf) -> Type | None:
    given = type_of(node)
    if found is None or given is None:
        return found or given
    match node, found:
        case tree.MakeArray(), ArrayType():
            item = item_type(node.items, type_of, found.item)
            return types.array(item or found.item)
        case tree.MakeMap(), MapType():
            key = item_type((each for each, _ in node.entries), type_of, found.key)
            value = item_type((each for _, each in node.entries), type_of, found.value)
            return types.mapping(key or found.key, value or found.value)
        case tree.MakeStruct(), StructType():
            return _struct(found, node, type_of)
        case tree.Literal(value=str()), _ if found.is_number:
            return common(found, _number_type(node, found))
        case tree.Literal(value=str()), _ if found.base in (Base.BOOLEAN, *_TIMES):
            _must_read(node, found)
            return found
        case tree.Literal(), _ if found.base is Base.STRING and given.base in _TEXTS:
            return found
    both = common(found, given)
    if both is None:
        raise SqlError(
            f"operator does not exist: {found} = {given}",
            hint="You might need to add explicit type casts.",
            position=node.position,
        )
    return both


def _struct(found: StructType, node: tree.MakeStruct, type_of: TypeOf) -> Type:
    theirs = dict(found.fields)
    ours = {name: _both(theirs.get(name), value, type_of) for name, value in node.fields}
    merged = {name: each for name, each in {**theirs, **ours}.items() if each is not None}
    return types.struct(*merged.items())


def _number_type(node: tree.Literal, found: Type) -> Type:
    """What a text of digits is: a whole number, or a DECIMAL if it has a point or an exponent."""
    text = str(node.value)
    try:
        value = decimal_of(text)
    except EvaluationError:
        raise _no_syntax(node, found) from None
    if not set(text) & set(".eE") and -(2**63) <= value < 2**63:
        return types.INTEGER if -(2**31) <= value < 2**31 else types.BIGINT
    return types.decimal_of_value(value)


def _must_read(node: tree.Literal, wanted: Type) -> None:
    convert = exact_boolean if wanted == types.BOOLEAN else converter(types.STRING, wanted)
    assert convert is not None
    try:
        convert(str(node.value))
    except EvaluationError:
        raise _no_syntax(node, wanted) from None


def _no_syntax(node: tree.Literal, wanted: Type) -> SqlError:
    return SqlError(f'invalid input syntax for type {wanted.base.value}: "{node.value}".', position=node.position)
