"""What queries are called, and their applications. An id becomes part of the names of groups, topics and directories,
so it has only what these may have.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container
from typing import Final

from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError

_RESERVED: Final = ("INSERTQUERY_", "CTAS_", "CSAS_", "CST_", "TRANSIENT_")


def made(kind: str, name: str, number: int) -> str:
    """Of a query whose statement gives it no id."""
    return f"{kind}_{re.sub(r'[^A-Za-z0-9_]', '_', name)[:100]}_{number}"


def given(statement: tree.InsertInto, taken: Container[str]) -> str | None:
    """What WITH (QUERY_ID='...') calls the query. Raises SqlError."""
    for name in statement.properties:
        if name != "QUERY_ID":
            raise SqlError(
                f"Invalid config variable(s) in the WITH clause: {name}", position=statement.properties.place(name)
            )
    said = statement.properties.get("QUERY_ID")
    if said is None:
        return None
    found, place = str(said).upper(), statement.properties.place("QUERY_ID")
    if found.startswith(_RESERVED):
        raise SqlError(
            f"Query IDs must not start with a reserved query ID prefix ({', '.join(_RESERVED)}). Got '{found}'.",
            position=place,
        )
    if not re.fullmatch("[A-Z0-9_]{1,100}", found):
        raise SqlError(
            f"Query IDs may contain only alphanumeric characters and '_'. Got: '{found[:100]}'", position=place
        )
    if found in taken:
        raise SqlError(f"Query ID '{found}' already exists.", position=place)
    return found


def meant(query_id: str, known: Collection[str]) -> str | None:
    """The id that a statement means: without quotes, it says ids in capitals, which have the letters of their stream
    or table. None: there is none, or more than one.
    """
    if query_id in known:
        return query_id
    alike = [each for each in known if each.upper() == query_id.upper()]
    return alike[0] if len(alike) == 1 else None


def of_successor(query_id: str, number: int) -> str:
    """The name of the application of a query that has the id of one that is no more. It begins anew, whatever that has
    left: the place of its statement, behind a letter that no id has, tells them apart on all servers.
    """
    return f"{query_id}_r{number}"
