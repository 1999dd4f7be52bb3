"""What the statements of the log have made: a session that every server has in the same state, and what became of each
statement.

`apply` is called for each statement in the order of the log and depends on nothing else; `check` tries one on a copy,
before it is written.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headwater.sql.formats.registry.port import Schemas
from headwater.sql.functions import python_functions
from headwater.sql.functions.function_shapes import Shape
from headwater.sql.functions.python_functions import Policy
from headwater.sql.language import tree
from headwater.sql.language.errors import NotAllowedHereError, SqlError
from headwater.sql.language.tree import SourceKind
from headwater.sql.plan.insertion import Insertion
from headwater.sql.plan.processing_errors import Listener
from headwater.sql.plan.session import PersistentQuery, Session
from headwater.sql.server.command_log import (
    BOUNDS_SPREAD,
    KEYS_FORMATTED,
    QUERIES_NAMED,
    SUCCESSORS_CHECKED,
    Command,
)
from headwater.sql.server.config import bare
from headwater.sql.server.settable import check_system

OUTCOMES_KEPT: Final = 10_000

# What goes into the log: everything that changes what all servers must agree on.
LOGGED: Final = (
    tree.CreateSource,
    tree.CreateAs,
    tree.InsertInto,
    tree.Drop,
    tree.AlterSource,
    tree.CreateType,
    tree.DropType,
    tree.CreateFunction,
    tree.DropFunction,
    tree.ControlQuery,
    tree.AlterSystem,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a statement: a sentence, the query that it started, or the error that it met. `ends`: a query that
    ran before it is not to run any more, or another in its place. `was_there`: what it would make, so that it did
    nothing. `overtaken`: another server's statement came between its trial and its place in the log, or it is of a file
    and another server has written it, so that it did nothing.
    """

    command_id: str
    message: str
    query_id: str | None = None
    error: SqlError | None = None
    ends: bool = False
    was_there: bool = False
    overtaken: bool = False


_OVERTAKEN: Final = Outcome("unknown", "Another server has written a statement before this one.", overtaken=True)


class Engine:
    """Owns the session. Not safe for threads: the loop of the server calls it."""

    def __init__(
        self,
        service_id: str,
        brokers: str,
        schemas: Schemas | None = None,
        functions_allowed: Policy | None = None,
        listener: Listener | None = None,
        defaults: Mapping[str, str] | None = None,
    ) -> None:
        """`defaults`: properties of statements that neither ALTER SYSTEM nor they themselves set, on this server."""
        self.session = Session(
            service_id=service_id,
            brokers=brokers,
            schemas=schemas,
            functions_allowed=functions_allowed or Policy(),
            listener=listener,
        )
        self.system: dict[str, str] = {}  # of ALTER SYSTEM: for every statement that does not set them itself
        self._defaults = dict(defaults or {})
        self.applied = 0  # how far in the log
        self.statements = 0  # of the log until there that counted: those of a file once, none that was overtaken
        self._changed = 0  # behind the last of them
        self.ends = 0  # behind the last of them that ended a query
        self.outcomes: OrderedDict[int, Outcome] = OrderedDict()
        self._refused: dict[str, SqlError] = {}  # functions of the log that are not here and of an unknown shape

    @property
    def withheld(self) -> dict[str, SqlError]:
        """Functions of the log whose code this server does not have, and why: queries that need one do not run here."""
        return {**self._refused, **self.session.catalog.withheld}

    @property
    def of_system(self) -> dict[str, str]:
        """What holds here for a statement that sets nothing."""
        return {**self._defaults, **self.system}

    def for_log(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties with which a statement goes into the log: with what this server's config says, which others
        need not know. What ALTER SYSTEM says is in the log already.
        """
        return {**{name: each for name, each in self._defaults.items() if name not in self.system}, **properties}

    def check(self, statement: tree.Statement, properties: Mapping[str, str]) -> PersistentQuery | Insertion | None:
        """What a statement would do. Raises SqlError; nothing is changed here. May ask the schema registry, so it is
        for threads.
        """
        if isinstance(statement, tree.AlterSystem):
            check_system(statement.name, statement.value)
        trial = self.session.copy()
        trial.settings = {**self.of_system, **properties}
        return trial.execute(statement)

    def completed(self, statement: tree.Statement, properties: Mapping[str, str]) -> tree.Statement:
        """What goes into the log: a CREATE with the columns that the schema registry has, where it names none; ids of
        queries in their own letters.
        """
        if isinstance(statement, tree.ControlQuery):
            return self.session.with_id(statement)
        if not isinstance(statement, tree.CreateSource):
            return statement
        trial = self.session.copy()
        trial.settings = {**self.of_system, **properties}
        return trial.completed(statement)

    def apply(self, offset: int, data: bytes) -> Outcome:
        """Carries out a statement of the log. One that fails fails everywhere, and changes nothing."""
        counts = True
        try:
            command = Command.decode(data)
        except ValueError as problem:
            outcome = Outcome(
                "unknown", "", error=SqlError(f"The log of statements has no statement at {offset}: {problem}")
            )
        else:
            counts = not self._is_overtaken(command)
            outcome = self._run(offset, command) if counts else _OVERTAKEN
        self.outcomes[offset] = outcome
        while len(self.outcomes) > OUTCOMES_KEPT:
            self.outcomes.popitem(last=False)
        self.applied, self.statements = offset + 1, self.statements + counts
        if counts:  # also where it fails: a function that is missing on one server must not tell it from the others
            self._changed = offset + 1
        return outcome

    def _is_overtaken(self, command: Command) -> bool:
        if command.place is not None and command.place < self.statements:
            return True
        return command.after is not None and command.after < self._changed

    def pass_over(self, offset: int) -> None:
        """What the log has up to there holds no statement."""
        self.applied = offset + 1

    def declared(self, statement: tree.Statement) -> str | None:
        """What goes into the log beside a CREATE FUNCTION, for servers that do not have its code. Raises SqlError."""
        if not isinstance(statement, tree.CreateFunction):
            return None
        allowed = self.session.functions_allowed
        return python_functions.shape_of(statement.name, statement.source, statement.target, allowed).encode()

    def _note_refused(self, statement: tree.Statement, error: SqlError | None) -> None:
        """A function that this server does not have, out of a log that does not tell its shape."""
        if isinstance(statement, tree.CreateFunction | tree.DropFunction):
            self._refused.pop(statement.name, None)
            if error is not None:
                self._refused[statement.name] = error

    def _run(self, offset: int, command: Command) -> Outcome:
        trial = self.session.copy()
        trial.settings = {**self.system, **command.properties}
        trial.next_query_number = offset
        trial.checks_schemas = False
        trial.declared = _shape(command.declares)
        trial.names_queries = command.version >= QUERIES_NAMED  # else a query that runs would begin anew
        trial.checks_successors = command.version >= SUCCESSORS_CHECKED
        trial.spreads_bounds = command.version >= BOUNDS_SPREAD
        trial.formats_keys = command.version >= KEYS_FORMATTED
        command_id = "unknown"
        try:
            (statement,) = trial.parse(command.statement, accepted=True)
            command_id = command_id_of(statement)
            self._note_refused(statement, None)
            done = trial.execute(statement)
        except NotAllowedHereError as error:
            self._note_refused(statement, error)
            return Outcome(command_id, "", error=error)
        except SqlError as error:
            return Outcome(command_id, "", error=error)
        except Exception as problem:  # noqa: BLE001  it fails alike on every server, and must stop none of them
            return Outcome(command_id, "", error=SqlError(f"The statement cannot be carried out: {problem!r}"))
        if isinstance(statement, tree.AlterSystem):
            self.system = {**self.system, bare(statement.name): statement.value}
        trial.settings, trial.declared = {}, None
        trial.checks_schemas = trial.names_queries = trial.checks_successors = trial.spreads_bounds = True
        trial.formats_keys = True
        before, self.session = self.session, trial
        query_id = done.id if isinstance(done, PersistentQuery) else None
        idle, ends = _what_was_there(statement, before), _ends_any(before, trial)
        self.ends = offset + 1 if ends else self.ends
        there = bool(idle) and isinstance(statement, tree.CreateSource | tree.CreateAs)
        told = idle or _sentence(statement, query_id, before)
        return Outcome(command_id, told, query_id, ends=ends, was_there=there)


def _shape(declares: str | None) -> Shape | None:
    try:
        return None if declares is None else Shape.decode(declares)
    except ValueError:
        return None  # of a later version, or of nobody: the function is refused if its code is not here


def command_id_of(statement: tree.Statement) -> str:
    """`stream/`S`/create`: how ksqlDB names a statement in /status."""
    match statement:
        case tree.CreateSource() | tree.CreateAs():
            return f"{statement.kind.value.lower()}/`{statement.name}`/create"
        case tree.Drop():
            return f"{statement.kind.value.lower()}/{statement.name}/drop"
        case tree.AlterSource():
            return f"{statement.kind.value.lower()}/{statement.name}/alter"
        case tree.InsertInto():
            return f"stream/`{statement.target}`/create"
        case tree.CreateType():
            return f"type/{statement.name}/create"
        case tree.DropType():
            return f"type/{statement.name}/drop"
        case tree.CreateFunction():
            return f"function/{statement.name}/create"
        case tree.DropFunction():
            return f"function/{statement.name}/drop"
        case tree.AlterSystem():
            return f"cluster/{statement.name}/alter"
        case tree.ControlQuery():
            return f"{statement.action.lower()}/{statement.query_id or 'ALL'}/execute"
        case _:
            return "unknown"


def _ends_any(before: Session, after: Session) -> bool:
    """One that is paused may still be on its way to its end."""
    paused = after.paused - before.paused
    return any(name in paused or after.queries.get(name) is not each for name, each in before.queries.items())


def _what_was_there(statement: tree.Statement, before: Session) -> str:
    """Why a statement with IF [NOT] EXISTS did nothing; empty if it did something."""
    catalog = before.catalog
    match statement:
        case tree.CreateSource(if_not_exists=True) | tree.CreateAs(if_not_exists=True):
            known = catalog.sources.get(statement.name)
            kind = statement.kind.value.lower()
            if known is not None and not statement.or_replace:
                there = known.kind.value.lower()
                return f"Cannot add {kind} `{statement.name}`: A {there} with the same name already exists."
        case tree.Drop(if_exists=True) if statement.name not in catalog.sources:
            return f"Source `{statement.name}` does not exist."
        case tree.CreateType(if_not_exists=True) if statement.name in catalog.custom_types:
            return f"{statement.name} is already registered with type {catalog.custom_types[statement.name]}"
        case tree.DropType(if_exists=True) if statement.name not in catalog.custom_types:
            return f"Type '{statement.name}' does not exist"
        case tree.CreateFunction(if_not_exists=True) if not statement.or_replace:
            if statement.name in catalog.functions:
                return f"The function {statement.name} already exists"
        case tree.DropFunction(if_exists=True) if statement.name not in catalog.functions:
            return f"The function {statement.name} does not exist"
    return ""


def _sentence(statement: tree.Statement, query_id: str | None, before: Session) -> str:
    match statement:
        case _ if query_id is not None:
            return f"Created query with ID {query_id}"
        case tree.CreateSource() | tree.CreateAs():
            return "Stream created" if statement.kind is SourceKind.STREAM else "Table created"
        case tree.Drop():
            topic = before.catalog.sources[statement.name].topic
            return f"Source `{statement.name}` (topic: {topic}) was dropped."
        case tree.AlterSource():
            return f"{statement.kind.value.title()} altered"
        case tree.CreateType():
            return f"Registered custom type with name '{statement.name}' and SQL type {statement.type}"
        case tree.DropType():
            return f"Dropped type '{statement.name}'"
        case tree.CreateFunction():
            return f"Created function {statement.name}"
        case tree.DropFunction():
            return f"Dropped function {statement.name}"
        case tree.AlterSystem():
            return f"System property {bare(statement.name)} was set to {statement.value}."
        case tree.ControlQuery():
            return {"TERMINATE": "Query terminated.", "PAUSE": "Query paused.", "RESUME": "Query resumed."}[
                statement.action
            ]
        case _:
            return ""
