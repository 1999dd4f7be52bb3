"""`INSERT ... VALUES`: the record that it writes, if its target may be written and each value has a place there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headwater.sql import budget, values
from headwater.sql.expressions import lossless
from headwater.sql.expressions.column_scope import Scope
from headwater.sql.expressions.compiling import Compiler
from headwater.sql.language import tree, types
from headwater.sql.language.errors import SqlError, did_you_mean
from headwater.sql.language.tree import SourceKind
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.plan.sources import PSEUDO, check_writable
from headwater.sql.values import EvaluationError


@dataclass(frozen=True, slots=True)
class Insertion:
    """A record of INSERT VALUES."""

    target: SourceInfo
    key: list[Any] | None
    value: list[Any] | None
    timestamp: int | None


def insertion_of(target: SourceInfo, statement: tree.InsertValues) -> Insertion:
    check_insertable(target)
    names = _names(target, statement)
    given: dict[str, Any] = {}
    known = {each.name: each.type for each in target.columns} | {"ROWTIME": types.BIGINT}
    for name, expression in zip(names, statement.values, strict=True):
        if name in PSEUDO and name not in known:
            raise SqlError(
                f"Inserting into column {types.quoted(name)} is not allowed.",
                why="The broker gives it to each record",
                position=expression.position,
            )
        if name not in known:
            raise SqlError(
                f"Column name {types.quoted(name)} does not exist.",
                hint=did_you_mean(name, known),
                position=expression.position,
            )
        given[name] = _constant(expression, known[name], name)
    keys = [given.get(each.name) for each in target.key_columns]
    check_key(target, keys)
    row = [given.get(each.name) for each in target.value_columns]
    key = None if not keys or all(each is None for each in keys) else keys
    return Insertion(target, key, row, given.get("ROWTIME"))


def _names(target: SourceInfo, statement: tree.InsertValues) -> tuple[str, ...]:
    """The column of each value. A record that is inserted has no headers: whoever names no columns means these, too."""
    count = len(statement.values)
    headers = [each.name for each in target.header_columns if not statement.columns or each.name in statement.columns]
    if headers:
        raise SqlError(f"Cannot insert into HEADER columns: {', '.join(headers)}", position=statement.position)
    if statement.columns:
        if len(statement.columns) != count:
            raise SqlError(
                f"Expected number columns and values to match: {len(statement.columns)}, {count}",
                position=statement.position,
            )
        return statement.columns
    names = tuple(each.name for each in (*target.key_columns, *target.value_columns))
    if len(names) != count:
        shown = ", ".join(map(types.quoted, names))
        raise SqlError(
            f"Expected a value for each column. Expected Columns: [{shown}]. Got {count} values.",
            hint="Name the columns that have values before VALUES; the others are NULL.",
            position=statement.position,
        )
    return names


def check_insertable(target: SourceInfo) -> None:
    """Rows of INSERT, however they come, are for sources that can be written."""
    check_writable(target.topic)
    if target.window is not None:
        raise SqlError("Cannot insert values into windowed stream/table!")
    if target.read_only:
        raise SqlError(f"Cannot insert values into read-only {target.kind.value.lower()}: {target.name}")


def check_key(target: SourceInfo, key: Sequence[Any]) -> None:
    if target.kind is SourceKind.TABLE and any(each is None for each in key):
        names = ", ".join(each.name for each in target.key_columns)
        raise SqlError(f"Value for primary key column(s) {names} is required for tables")


def _constant(expression: tree.Expression, wanted: types.Type, name: str) -> Any:
    given = Compiler(Scope()).compile(expression)
    convert = lossless.converter(given.type, wanted)
    refusal = f"Expected type {wanted} for field {types.quoted(name)} but got {given.type}"
    if convert is None:
        raise SqlError(refusal, position=expression.position)
    budget.begin()
    try:
        value = given.evaluate([])
    except (EvaluationError, ArithmeticError, ValueError, TypeError) as error:
        raise SqlError(str(error) or type(error).__name__, position=expression.position) from None
    try:
        return convert(value)
    except EvaluationError as error:
        shown = values.as_text(value)
        shown = shown if len(shown) <= 100 else f"{shown[:100]}..."
        raise SqlError(f"{refusal}({shown})", str(error), position=expression.position) from None
