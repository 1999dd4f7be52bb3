"""Table functions of SELECT, such as EXPLODE: each is a column, and each row as many rows as the longest has items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headwater.sql.expressions.compiled import Compiled
from headwater.sql.expressions.compiling import Compiler
from headwater.sql.formats.internal import ROWS
from headwater.sql.functions.scope import table_function_named
from headwater.sql.functions.tables import TableFunction
from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError
from headwater.sql.language.tree import SourceKind
from headwater.sql.language.types import Type
from headwater.sql.plan import grouping
from headwater.sql.plan.relations import Errors, Relation, RowColumn
from headwater.sql.plan.rewriting import parts, replaced


def table_functions(query: tree.Query) -> list[tree.Call]:
    found: dict[tree.Call, None] = {}
    for item in query.select:
        if isinstance(item, tree.SelectItem):
            for each in parts(item.expression):
                if isinstance(each, tree.Call) and table_function_named(each.function):
                    found[each] = None
    return list(found)


def synthetic(expression: tree.Expression, names: Mapping[tree.Call, str]) -> tree.Expression:
    """With the columns that table functions have become, in their places."""
    return replaced(
        expression,
        lambda each: (
            tree.Column(names[each], position=each.position) if isinstance(each, tree.Call) and each in names else None
        ),
    )


def exploded(calls: Sequence[tree.Call], relation: Relation, errors: Errors) -> Relation:
    """Each table function of SELECT becomes a column; each row as many rows as the longest of them has items."""
    if relation.kind is SourceKind.TABLE:
        raise SqlError("Table source is not supported with table functions", position=calls[0].position)
    compiler = relation.compiler()
    compiled = [_compiled(call, compiler) for call in calls]
    width = len(relation.row)
    taken = [(function.name, each) for function, arguments, _ in compiled for each in arguments]
    precomputed = grouping.PrecomputedColumns(taken, width, errors, runs=True)
    evaluates = iter(precomputed.evaluates)
    functions = [(function.call, [next(evaluates) for _ in arguments]) for function, arguments, _ in compiled]

    def explode(row: list[Any] | None) -> list[list[Any]]:
        if row is None:
            return []
        found = []
        for function, arguments in functions:
            try:
                found.append(function(*(each(row) for each in arguments)))
            except Exception as error:  # noqa: BLE001  a row that cannot be spread is left out
                errors.note("table function", error)
                found.append([])
        longest = max(map(len, found))
        own = row[:width]
        return [[*own, *(each[at] if at < len(each) else None for each in found)] for at in range(longest)]

    new = tuple(
        RowColumn(None, f"KSQL_SYNTH_{place}", given, pseudo=True) for place, (_, _, given) in enumerate(compiled)
    )
    node = precomputed.before(relation.node, "TABLE-FUNCTION-COLUMNS")
    node = node.flat_map_values(lambda row: explode(row), value=ROWS)
    return replace(relation, node=node, row=(*relation.row, *new))


def _compiled(call: tree.Call, compiler: Compiler) -> tuple[TableFunction, list[Compiled], Type]:
    function = table_function_named(call.function)
    assert function is not None
    arguments = [compiler.compile(each) for each in call.arguments]
    known = [each.type for each in arguments if each.type is not None]
    returns = function.returns(known) if len(known) == len(arguments) else None
    if returns is None:
        shown = ", ".join(str(each.type) for each in arguments)
        raise SqlError(
            f"Function '{call.function}' does not accept parameters ({shown}).",
            why="Valid alternatives are:\n" + "\n".join(call.function + form for form in function.forms),
            position=call.position,
        )
    return function, arguments, returns
