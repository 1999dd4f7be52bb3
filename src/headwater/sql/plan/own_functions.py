"""CREATE FUNCTION and DROP FUNCTION: what they do to the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.sql.functions import python_functions, scope
from headwater.sql.language import tree
from headwater.sql.language.errors import NotAllowedHereError, SqlError

if TYPE_CHECKING:
    from headwater.sql.functions.function_shapes import Shape
    from headwater.sql.plan.catalog import Catalog


def create(catalog: Catalog, statement: tree.CreateFunction, allowed: python_functions.Policy) -> None:
    """Raises SqlError."""
    if _may(catalog, statement):
        made = python_functions.make(statement.name, statement.source, statement.target, allowed)
        catalog.withheld.pop(statement.name, None)
        catalog.functions[statement.name] = made


def create_accepted(
    catalog: Catalog, statement: tree.CreateFunction, allowed: python_functions.Policy, declared: Shape | None
) -> None:
    """One that a server has accepted. Its code need not be here, or may not be run here: then it is withheld, if it is
    `declared` what it takes and gives. Raises SqlError.
    """
    if not _may(catalog, statement):
        return
    catalog.withheld.pop(statement.name, None)
    try:
        made = python_functions.make(statement.name, statement.source, statement.target, allowed)
    except SqlError as error:
        if declared is None:
            raise NotAllowedHereError(error.what, error.why, error.hint) from None
        made = python_functions.withheld(statement.name, declared)
        catalog.withheld[statement.name] = error
    catalog.functions[statement.name] = made


def _may(catalog: Catalog, statement: tree.CreateFunction) -> bool:
    """Whether it is to be made: not if it is there and may be. Raises SqlError."""
    if scope.is_built_in(statement.name):
        raise SqlError(f"{statement.name} is a function of SQL itself.", position=statement.position)
    if statement.name not in catalog.functions or statement.or_replace:
        return True
    if statement.if_not_exists:
        return False
    raise SqlError(
        f"A function with the name {statement.name} already exists.",
        hint="CREATE OR REPLACE FUNCTION: queries that run go on with the one that they have.",
        position=statement.position,
    )


def drop(catalog: Catalog, statement: tree.DropFunction, users: Sequence[str]) -> None:
    """`users`: queries that use it. Raises SqlError."""
    if statement.name not in catalog.functions:
        if statement.if_exists:
            return
        what = "is a function of SQL itself" if scope.is_built_in(statement.name) else "does not exist"
        raise SqlError(f"The function {statement.name} {what}.", position=statement.position)
    if users:
        raise SqlError(
            f"Cannot drop the function {statement.name}.",
            why=f"The following queries use it: [{', '.join(users)}]",
            hint="TERMINATE them first.",
            position=statement.position,
        )
    del catalog.functions[statement.name]
    catalog.withheld.pop(statement.name, None)
