"""INSERT INTO ... SELECT: names of the result are those of its target, and its types fit without a loss. A DECIMAL
takes whole numbers of any type; one that is too large for it is NULL, and the processing log tells of it.
"""

from __future__ import annotations

from headwater.sql.language import tree, types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.types import Base
from headwater.sql.plan import queries
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.plan.relations import Errors


def cast_to(result: queries.Result, target: SourceInfo, statement: tree.InsertInto, errors: Errors) -> queries.Result:
    """The result as its target has it. Raises SqlError if it does not fit."""
    ours = [(each.name, each.type) for each in (*result.key, *result.value)]
    theirs = [(each.name, each.type) for each in (*target.key_columns, *target.value_columns)]
    keys = len(result.key)
    fits = len(ours) == len(theirs) and ours[:keys] == theirs[: len(target.key_columns)]
    if not fits or not all(
        name == other and (types.can_widen(given, wanted) or _is_whole_for_decimal(given, wanted))
        for (name, given), (other, wanted) in zip(ours, theirs, strict=True)
    ):
        raise SqlError(
            "Incompatible schema between results and sink.",
            why=f"Result schema is [{types.listed(ours)}], sink schema is [{types.listed(theirs)}]",
            position=statement.position,
        )
    return result if ours == theirs else queries.widened_to(result, target, errors)


def _is_whole_for_decimal(given: types.Type, wanted: types.Type) -> bool:
    return given.base in (Base.INTEGER, Base.BIGINT) and wanted.base is Base.DECIMAL
