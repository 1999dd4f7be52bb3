"""What statements that ask and change nothing are about, over one session: that of the server, or the copy in which the
statements of a request are tried before the first is carried out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headwater.sql.functions import scope
from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.plan.session import PersistentQuery
from headwater.sql.server import answers, push

if TYPE_CHECKING:
    from headwater.sql.plan.session import Session

Subject = SourceInfo | PersistentQuery | push.Plan | None


def inspected(statement: tree.Statement, session: Session, settings: Mapping[str, str]) -> Subject:
    """The stream or table of DESCRIBE, the query of EXPLAIN. Raises SqlError where the statement is wrong; nothing is
    changed. May ask the schema registry, so it is for threads.
    """
    match statement:
        case tree.Describe(function=True):
            answers.function("", statement.name, session.catalog.functions)
        case tree.Describe():
            try:
                return session.catalog.find(statement.name, statement.position)
            except SqlError as error:
                what = f"Could not find STREAM/TABLE '{statement.name}' in the Metastore"
                raise SqlError(what, error.why, error.hint, error.position) from None
        case tree.Explain(target=str(query_id)):
            query = session.query_named(query_id)
            if query is None:
                raise SqlError(
                    f"Query with id:{query_id} does not exist, use SHOW QUERIES to view the full set of queries."
                )
            return query
        case tree.Explain():
            return _explained(statement, session, settings)
        case tree.Assert(what="SCHEMA"):
            if not {"SUBJECT", "ID"} & statement.properties.keys():
                raise SqlError("ASSERT SCHEMA needs SUBJECT, ID or both.", position=statement.position)
        case tree.AssertValues():
            raise SqlError(
                "ASSERT VALUES is a statement of test files.",
                hint="Ask with SELECT, or use `headwater sql test`.",
                position=statement.position,
            )
        case tree.Show() | tree.DescribeAll() | tree.Assert(what="TOPIC"):
            pass
        case _:
            raise SqlError("This statement is not carried out by a server.", position=statement.position)
    return None


def _explained(statement: tree.Explain, session: Session, settings: Mapping[str, str]) -> PersistentQuery | push.Plan:
    """The query that the statement would make. A SELECT on its own is planned as a push query, whose rows ORDER BY and
    LIMIT only sort and count.
    """
    assert isinstance(statement.target, tree.Statement)
    inner = statement.target
    if isinstance(inner, tree.Select):
        query = replace(inner.query, order_by=(), limit=None)
        with scope.using(session.catalog.functions, settings, session.catalog.withheld):
            return push.plan(query, session.catalog.copy(), session.brokers, settings)
    if not isinstance(inner, tree.CreateAs | tree.InsertInto):
        raise SqlError("Only queries can be explained.", position=statement.position)
    return _query_of(inner, session, settings)


def _query_of(
    statement: tree.CreateAs | tree.InsertInto, session: Session, settings: Mapping[str, str]
) -> PersistentQuery:
    trial = session.copy()
    trial.settings = dict(settings)
    made = trial.execute(statement)
    if not isinstance(made, PersistentQuery):  # IF NOT EXISTS of one that is there
        raise SqlError("Only queries can be explained.", position=statement.position)
    return made
