"""Several statements in one request: all are tried on a copy before the first is carried out, so that where one is
wrong, none is, as in ksqlDB.

What only shows when statements are carried out still ends a request halfway: topics that are there already, brokers or
a schema registry that refuse, what ASSERT finds. Where a statement takes its columns from the registry and these may be
those of a statement before it, what follows is not tried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headwater.sql.language import tree
from headwater.sql.language.errors import SchemaMissingError, placed_at
from headwater.sql.language.parser import Piece, substitute
from headwater.sql.plan import properties as clauses
from headwater.sql.server.config import bare
from headwater.sql.server.engine import LOGGED, Engine
from headwater.sql.server.inspecting import inspected
from headwater.sql.server.refusals import WrongEndpointError
from headwater.sql.server.settable import check_settable, check_system

if TYPE_CHECKING:
    from headwater.sql.plan.session import Session

Permit = Callable[[tree.Statement, "Session", Mapping[str, str]], Awaitable[None]]


class Progress:
    """What SET and DEFINE of a request have said so far."""

    def __init__(self, properties: Mapping[str, str], variables: Mapping[str, str]) -> None:
        self.settings, self.variables = dict(properties), dict(variables)

    def take(self, statement: tree.Statement) -> bool:
        """Whether that is all that the statement does. Raises SqlError."""
        match statement:
            case tree.SetProperty():
                check_settable(statement.name, statement.value)
                self.settings[bare(statement.name)] = statement.value
            case tree.UnsetProperty(name=None):
                self.settings.clear()
            case tree.UnsetProperty(name=str(name)):
                self.settings.pop(bare(name), None)
            case tree.Define():
                self.variables[statement.name] = statement.value
            case tree.Undefine():
                self.variables.pop(statement.name, None)
            case _:
                return False
        return True


def refuse_queries(statement: tree.Statement, text: str) -> None:
    if isinstance(statement, tree.Select | tree.Print):
        raise WrongEndpointError(
            "The following statement types should be issued to the websocket endpoint '/query': " + text,
            hint="POST it to /query-stream." if isinstance(statement, tree.Select) else "POST it to /query.",
            position=statement.position,
        )


class Rehearsal:
    """`catch_up` waits for the end of the log, which only statements for it need; `permit` raises where the caller may
    not carry out a statement, before it is tried; `run_in_thread` calls what may ask the schema registry; `is_push`:
    whether a query of this id is none of the log's.
    """

    def __init__(
        self,
        engine: Engine,
        catch_up: Callable[[], Awaitable[object]],
        permit: Permit,
        run_in_thread: Callable[..., Awaitable[Any]],
        is_push: Callable[[str], bool],
    ) -> None:
        self._engine, self._catch_up, self._permit = engine, catch_up, permit
        self._run_in_thread, self._is_push = run_in_thread, is_push
        self._is_up_to_date = False
        self._place = 0  # of the next statement of a file, among those for the log
        self._begin()
        self._written: set[str] = set()  # topics whose schemas may be others once the statements are carried out
        self._tried = 0  # statements for the log

    def _begin(self) -> None:
        """As the server has it now."""
        self._trial = self._engine.session.copy()
        self._system = dict(self._engine.of_system)  # with what ALTER SYSTEM of this request has said
        self._there = self._engine.statements

    async def run(self, pieces: Sequence[Piece], progress: Progress, *, of_file: bool = False) -> None:
        """`of_file`: statements that the log has are not tried. Raises SqlError."""
        for piece in pieces:
            text = substitute(piece.text, progress.variables, begins_at=piece.begins_at)
            for statement in await asyncio.to_thread(self._trial.parse, text, piece.begins_at):
                with placed_at(statement.position):
                    if of_file and isinstance(statement, LOGGED) and await self._is_there():
                        continue
                    if not progress.take(statement) and not await self._try(statement, text, progress.settings):
                        return

    async def _is_there(self) -> bool:
        """Whether the next statement of a file is in the log."""
        await self._begin_up_to_date()
        self._place += 1
        return self._place <= self._there

    async def _begin_up_to_date(self) -> None:
        if not self._is_up_to_date:
            await self._catch_up()
            self._begin()
            self._is_up_to_date = True

    async def _try(self, statement: tree.Statement, text: str, settings: Mapping[str, str]) -> bool:
        """Whether what follows can be tried, too."""
        refuse_queries(statement, text)
        if isinstance(statement, (*LOGGED, tree.InsertValues)):
            return await self._goes_on(statement, settings)
        await self._inspect(statement, settings)
        return True

    async def _inspect(self, statement: tree.Statement, settings: Mapping[str, str]) -> None:
        """One that asks alone, over what the server has now and what the statements before it make of it."""
        settings = {**self._system, **settings}
        await self._permit(statement, self._trial, settings)
        await self._run_in_thread(inspected, statement, self._trial, settings)

    async def _goes_on(self, statement: tree.Statement, settings: Mapping[str, str]) -> bool:
        if isinstance(statement, tree.ControlQuery) and self._is_push(statement.query_id or ""):
            return True
        await self._begin_up_to_date()
        trial = self._trial
        trial.settings = {**self._system, **settings}
        trial.next_query_number = self._engine.applied + self._tried
        await self._permit(statement, trial, trial.settings)
        if isinstance(statement, tree.AlterSystem):
            check_system(statement.name, statement.value)
            self._system[bare(statement.name)] = statement.value
        if isinstance(statement, tree.CreateSource):
            try:
                completed = await self._run_in_thread(trial.completed, statement)
            except SchemaMissingError:
                if self._tried:
                    return False
                raise
            if completed is not statement and clauses.read(statement.properties, sink=False).topic in self._written:
                return False  # these are the columns of before
            statement = completed
        if isinstance(statement, tree.Drop):
            self._note_topic(statement.name)
        await self._run_in_thread(trial.execute, statement)
        if isinstance(statement, tree.CreateSource | tree.CreateAs):
            self._note_topic(statement.name)
        self._tried += isinstance(statement, LOGGED)
        return True

    def _note_topic(self, name: str) -> None:
        source = self._trial.catalog.sources.get(name)
        if source is not None:
            self._written.add(source.topic)
