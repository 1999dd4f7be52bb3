"""ARRAY[...], MAP(...) and STRUCT(...): values that are put together of others. An item for which there is no value is
NULL, and the others stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.sql.expressions import closures, generated, list_types
from headwater.sql.expressions.compiled import Compiled, converted, converted_code
from headwater.sql.expressions.list_types import TypeOf
from headwater.sql.language import tree, types
from headwater.sql.language.errors import SqlError


def array_of(items: Sequence[Compiled], node: tree.MakeArray, type_of: TypeOf) -> Compiled:
    item_type = list_types.item_type(node.items, type_of)
    if item_type is None:
        raise SqlError(
            "Array constructor cannot be empty. Please supply at least one element."
            if not items
            else "Cannot construct an array with all NULL elements.",
            position=node.position,
        )
    evaluates = [closures.or_null(converted(item, item_type)) for item in items]
    written = [
        generated.or_null(evaluate, converted_code(item, item_type))
        for evaluate, item in zip(evaluates, items, strict=True)
    ]
    code = generated.computed(lambda *given: list(given), written)
    return Compiled(types.array(item_type), lambda row: [each(row) for each in evaluates], code)


def map_of(keys: Sequence[Compiled], entries: Sequence[Compiled], node: tree.MakeMap, type_of: TypeOf) -> Compiled:
    key_type = list_types.item_type((key for key, _ in node.entries), type_of)
    value_type = list_types.item_type((value for _, value in node.entries), type_of)
    if key_type is None or value_type is None:
        raise SqlError(
            "Cannot construct a map with all NULL keys or values, or without entries.", position=node.position
        )
    pairs = [
        (converted(key, key_type), closures.or_null(converted(value, value_type)))
        for key, value in zip(keys, entries, strict=True)
    ]
    written = [
        code
        for key, value, (_, evaluate) in zip(keys, entries, pairs, strict=True)
        for code in (
            converted_code(key, key_type),
            generated.or_null(evaluate, converted_code(value, value_type)),
        )
    ]
    code = generated.computed(lambda *given: dict(zip(given[::2], given[1::2], strict=True)), written)
    return Compiled(types.mapping(key_type, value_type), lambda row: {key(row): each(row) for key, each in pairs}, code)


def struct_of(fields: Sequence[tuple[str, Compiled]], node: tree.MakeStruct) -> Compiled:
    for name, value in fields:
        if value.type is None:
            raise SqlError(f"The type of field '{name}' is unknown: CAST(NULL AS ...).", position=node.position)
    known = types.struct(*((name, value.type) for name, value in fields if value.type is not None))
    evaluates = [(name, closures.or_null(value.evaluate)) for name, value in fields]
    written = [
        generated.or_null(evaluate, value.written) for (_, evaluate), (_, value) in zip(evaluates, fields, strict=True)
    ]
    names = [name for name, _ in fields]
    code = generated.computed(lambda *given: dict(zip(names, given, strict=True)), written)
    return Compiled(known, lambda row: {name: evaluate(row) for name, evaluate in evaluates}, code)
