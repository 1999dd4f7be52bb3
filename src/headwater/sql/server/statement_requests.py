"""What statements do that are sent to a server: who may, what is tried before it is written, which topics and schemas
are made with it. The server itself, its log and its connections are the node's.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, Final, Protocol

from headwater.base.acls import Operation
from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError, placed_at
from headwater.sql.language.parser import pieces_of, substitute
from headwater.sql.plan import inference
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.plan.insertion import Insertion
from headwater.sql.plan.session import PersistentQuery, Session
from headwater.sql.server import answers, push, read_only_statements, rights
from headwater.sql.server.command_log import Command, CommandLog, create_topic
from headwater.sql.server.engine import LOGGED
from headwater.sql.server.read_only_statements import ReadOnlyStatements, StatementContext
from headwater.sql.server.rehearsal import Progress, Rehearsal, refuse_queries
from headwater.sql.server.settable import check_request
from headwater.sql.server.source_topics import Retention, is_deletable, sink_configs, topic_configs
from headwater.web.callers import EVERYBODY, Caller, cluster
from headwater.web.rights import require

logger = logging.getLogger("headwater.sql")
_DEFAULT_REPLICAS: Final = -1  # as the brokers' `default.replication.factor` says
_LOOP: Final = (
    "The query reads the topic {0}, into which it writes: its results are its inputs. Without a condition that some of "
    "them do not meet, it writes for ever."
)


class Server(read_only_statements.Server, Protocol):
    """Whose statements they are. `takes_statements`: any but those of its own file."""

    takes_statements: bool

    @property
    def log(self) -> CommandLog: ...

    async def replicas(self, topic: str) -> int | None: ...

    async def retention(self, topic: str) -> Retention | None: ...

    async def catch_up(self) -> None: ...

    async def applied(self, end: int) -> None: ...

    async def has_executed(self, number: int) -> bool: ...

    async def send(
        self, target: SourceInfo, key: list[Any] | None, value: list[Any] | None, timestamp: int | None
    ) -> None: ...


class StatementRequests:
    """Owned by the loop of its server."""

    def __init__(self, node: Server) -> None:
        self._node = node
        self._read_only = ReadOnlyStatements(node)
        self._writing = asyncio.Lock()

    async def execute(
        self,
        text: str,
        properties: Mapping[str, str],
        variables: Mapping[str, str],
        *,
        of_file: bool = False,
        caller: Caller = EVERYBODY,
        done: list[answers.Entity] | None = None,
    ) -> list[answers.Entity]:
        """All statements of a text, one after the other; `of_file`: but for those that the log has. Raises SqlError.
        Where one is wrong, none is carried out (`rehearsal`); where one fails, those before it are done, and in `done`.
        """
        check_request(properties)
        found = [] if done is None else done
        pieces = await asyncio.to_thread(pieces_of, text)
        if len(pieces) > 1 and self._node.takes_statements:
            permit = partial(self._permit, caller)
            trial = Rehearsal(
                self._node.engine,
                self._node.catch_up,
                permit,
                self._node.run_in_thread,
                self._node.row_queries.has_push,
            )
            await trial.run(pieces, Progress(properties, variables), of_file=of_file)
        progress, places = Progress(properties, variables), itertools.count()
        for piece in pieces:
            shown = substitute(piece.text, progress.variables, begins_at=piece.begins_at)
            for statement in await asyncio.to_thread(self._node.engine.session.parse, shown, piece.begins_at):
                with placed_at(statement.position):
                    if not progress.take(statement):
                        settings, defined = progress.settings, progress.variables
                        place = next(places) if of_file and isinstance(statement, LOGGED) else None
                        answer = await self._execute(statement, shown, settings, defined, caller, place)
                        found += [] if answer is None else [answer]
        return found

    async def _permit(
        self, caller: Caller, statement: tree.Statement, session: Session, settings: Mapping[str, str]
    ) -> None:
        """What a statement needs before it is tried, over the streams and tables of this session, with all its
        settings.
        """
        self._refuse_rows_of_file(statement)
        await rights.require_now(caller, statement, lambda: session)
        await self._require_schemas(caller, statement)
        await require(caller, *rights.of_default_formats(statement, settings))

    async def _execute(
        self,
        statement: tree.Statement,
        text: str,
        settings: Mapping[str, str],
        variables: Mapping[str, str],
        caller: Caller,
        place: int | None,
    ) -> answers.Entity | None:
        """None: there is nothing to tell, as of INSERT VALUES. `place`: see `Command`."""
        if isinstance(statement, tree.ControlQuery) and statement.action == "TERMINATE":
            running = self._node.row_queries.push_named(statement.query_id or "")
            if running is not None:  # of this server alone: no matter for the log
                await self._node.row_queries.end_push(running, caller)
                return answers.entity("terminate_query", text, queryId=running.id, wasTerminated=True)
        await rights.require_now(caller, statement, lambda: self._node.engine.session)
        await self._require_schemas(caller, statement)
        refuse_queries(statement, text)
        if isinstance(statement, LOGGED):
            return await self._change(statement, text, settings, caller, place)
        match statement:
            case tree.InsertValues():
                await self._insert(statement, settings, caller)
                return None
            case _:
                return await self._read_only.answer(statement, text, StatementContext(settings, variables, caller))

    async def _require_schemas(self, caller: Caller, statement: tree.Statement) -> None:
        """A schema shows its columns: whoever may not see it by its subject may not see it by its id."""
        for subject, number in () if caller.may_everything else rights.schema_ids(statement):
            if self._node.schemas is None or not await self._node.run_in_thread(
                self._node.schemas.is_under, subject, number
            ):
                await require(caller, cluster(Operation.ALTER))

    async def _change(
        self, statement: tree.Statement, text: str, settings: Mapping[str, str], caller: Caller, place: int | None
    ) -> answers.Entity | None:
        """A statement for the log: tried here, its topics made, written, and answered when it has been applied and what
        it ends runs no more; if that takes long, the answer says that it is being executed. None: it is of a file, and
        in the log already.
        """
        async with self._turn():
            while place is None or place >= self._node.engine.statements:
                answer = await self._change_now(statement, text, settings, caller, place)
                if answer is not None:
                    return answer
            return None

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """One statement at a time is tried and written, after all that the log has."""
        if not self._node.takes_statements:
            raise SqlError("The server runs the statements of ksql.queries.file and takes no others.")
        async with self._writing:
            await self._node.catch_up()
            yield

    async def drop_as_seen(self, seen: SourceInfo, *, delete_topic: bool) -> None:
        """Drops what has this name now, if anything has. Its topic is deleted if it still is the one that was seen, for
        which the caller has asked for the right, and with the last that is over it. Raises SqlError.
        """
        async with self._turn():
            while (known := self._node.engine.session.catalog.sources.get(seen.name)) is not None:
                name = known.name.replace("`", "``")
                deletes = delete_topic and known.topic == seen.topic and is_deletable(known)
                deletes = deletes and not self._node.engine.session.catalog.others_over(known)
                text = f"DROP {known.kind.value} `{name}`{' DELETE TOPIC' if deletes else ''};"
                (statement,) = self._node.engine.session.parse(text)
                if await self._change_now(statement, text, {}, EVERYBODY) is not None:
                    return

    async def _change_now(
        self,
        statement: tree.Statement,
        text: str,
        settings: Mapping[str, str],
        caller: Caller,
        place: int | None = None,
    ) -> answers.Entity | None:
        """None: another server's statement came before it into the log; to be tried again, as things are by now."""
        tried_after = self._node.engine.applied
        # while it waited for its turn, others may have made what it names
        await rights.require_now(caller, statement, lambda: self._node.engine.session)
        sources = self._node.engine.session.catalog.sources
        dropped = sources.get(statement.name) if isinstance(statement, tree.Drop) else None
        await require(caller, *rights.of_default_formats(statement, {**self._node.engine.of_system, **settings}))
        completed = await self._node.run_in_thread(self._node.engine.completed, statement, settings)
        if completed is not statement:
            statement, text = completed, completed.text
        done = await self._node.run_in_thread(self._node.engine.check, statement, settings)
        session = self._node.engine.session
        told = rights.telling(statement, session)
        await require(caller, *rights.of_outcome(statement, done, session), told=told)
        declares = await self._node.run_in_thread(self._node.engine.declared, statement)
        await self._make_topics(statement, done, settings)
        properties = self._node.engine.for_log(settings)
        command = Command(text, properties, declares=declares, place=place, after=tried_after)
        offset = await self._node.log.append(command)
        await self._node.applied(offset + 1)
        outcome = self._node.engine.outcomes[offset]
        if outcome.overtaken:
            return None
        if outcome.error is not None:
            raise outcome.error
        if outcome.was_there:
            return answers.there_already(text, outcome)
        is_executed = await self._node.has_executed(offset)
        warnings: list[dict[str, str]] = []
        if isinstance(statement, tree.Drop) and statement.delete_topic and dropped is not None:
            warnings = await self._delete_topic(dropped.topic) or await self._delete_schemas(dropped)
        elif isinstance(done, PersistentQuery) and done.reads_its_sink(session.catalog):
            warnings = [{"message": _LOOP.format(done.sink.topic)}]
        return {**answers.current_status(text, outcome, offset, is_executed), "warnings": warnings}

    async def _delete_topic(self, name: str) -> list[dict[str, str]]:
        """The source is gone already: what the brokers do not do is told as a warning, and so is a stream or table that
        another server has made over the topic since it was looked for.
        """
        by_now = self._node.engine.session.catalog.over(name)
        if by_now:
            return [{"message": f"The topic {name} stays: by now it is that of {', '.join(by_now)}"}]
        try:
            problem = (await self._node.admin.delete_topics([name])).get(name)
        except KafkaError as error:
            problem = error
        if problem is None or problem.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return []
        logger.warning("event=topic_not_deleted topic=%s error=%r", name, str(problem))
        return [{"message": f"The topic {name} stays: {problem}"}]

    async def _delete_schemas(self, dropped: SourceInfo) -> list[dict[str, str]]:
        """What goes with its topic. The source is gone already: what the registry does not do is told as warnings."""
        schemas, warnings = self._node.schemas, []
        for subject in inference.subjects(dropped) if schemas is not None else ():
            assert schemas is not None
            try:
                await asyncio.to_thread(schemas.delete, subject)
            except (UserError, OSError) as error:
                logger.warning("event=subject_not_deleted subject=%s error=%r", subject, str(error))
                warnings.append({"message": f"The subject {subject} stays in the schema registry: {error}"})
        return warnings

    async def _make_topics(
        self, statement: tree.Statement, done: PersistentQuery | Insertion | None, settings: Mapping[str, str]
    ) -> None:
        if isinstance(statement, tree.CreateSource) and not self._node.engine.session.has_already(statement):
            trial = self._node.engine.session.copy()
            trial.settings, trial.checks_schemas = {**self._node.engine.of_system, **settings}, False
            trial.execute(statement)
            source = trial.catalog.sources[statement.name]
            count = await self._node.partitions(source.topic)
            if count is not None:
                _check_partitions(statement, source.topic, count)
            else:
                if "PARTITIONS" not in statement.properties:
                    raise SqlError(
                        f"Kafka topic does not exist: {source.topic}",
                        hint="Create it, or name PARTITIONS in the WITH clause, and it is made.",
                        position=statement.position,
                    )
                configs = topic_configs(statement.properties, {})
                await self._make_topic(statement, source, source.partitions, _DEFAULT_REPLICAS, configs)
            await self._node.run_in_thread(inference.register, source)
        if isinstance(done, PersistentQuery):
            topics = frozenset(name for each in done.together for name in each)
            push.check_together(done.together, {name: await self._node.partitions(name) or 0 for name in topics})
        if isinstance(done, PersistentQuery) and isinstance(statement, tree.CreateAs):
            there, count = await self._node.partitions(done.sink.topic), done.sink.partitions
            if there is not None:
                _check_partitions(statement, done.sink.topic, there)
            if "PARTITIONS" not in statement.properties:
                counts = [
                    await self._node.partitions(self._node.engine.session.catalog.find(name).topic)
                    for name in done.sources
                ]
                count = max((each for each in counts if each), default=count)
            left = self._node.engine.session.catalog.find(done.sources[0]).topic
            replicas = await self._node.replicas(left) or _DEFAULT_REPLICAS
            configs = sink_configs(done.sink, statement.properties, await self._node.retention(left))
            await self._make_topic(statement, done.sink, count, replicas, configs)
            await self._node.run_in_thread(inference.register, done.sink)

    async def _make_topic(
        self,
        statement: tree.CreateSource | tree.CreateAs,
        source: SourceInfo,
        partitions: int,
        replicas: int,
        configs: Mapping[str, str],
    ) -> None:
        """Unless it is there. `replicas`: for a statement that does not say it. With fewer, none is made."""
        if "REPLICAS" in statement.properties:
            replicas = source.replicas
        try:
            await create_topic(self._node.admin, source.topic, partitions, replicas, configs, exactly=True)
        except KafkaError as error:
            if error.code != ErrorCode.INVALID_REPLICATION_FACTOR:
                raise
            count = "the brokers' default of" if replicas == _DEFAULT_REPLICAS else replicas
            raise SqlError(
                f"The topic {source.topic} cannot be made with {count} replicas.",
                why=str(error),
                hint="REPLICAS in the WITH clause says how many there are to be.",
                position=statement.properties.place("REPLICAS"),
            ) from None

    def _refuse_rows_of_file(self, statement: tree.Statement) -> None:
        runs_file = self._node.takes_statements and self._node.config.text("ksql.queries.file")
        if runs_file and isinstance(statement, tree.InsertValues):
            raise SqlError(
                "INSERT VALUES cannot be in ksql.queries.file.",
                why="Each start of each server would write the rows again",
                hint="Write them once, with headwater sql or a producer.",
                position=statement.position,
            )

    async def _insert(self, statement: tree.InsertValues, settings: Mapping[str, str], caller: Caller) -> None:
        self._refuse_rows_of_file(statement)
        done = await self._node.run_in_thread(self._node.engine.check, statement, settings)
        assert isinstance(done, Insertion)
        await rights.require_source(caller, Operation.WRITE, done.target)  # by now it may be another than before
        await self._node.send(done.target, done.key, done.value, done.timestamp)


def _check_partitions(statement: tree.CreateSource | tree.CreateAs, topic: str, count: int) -> None:
    """Of a topic that is there, and has so many. Raises SqlError."""
    wanted = statement.properties.get("PARTITIONS")
    if wanted is not None and int(str(wanted)) != count:
        raise SqlError(
            f"A Kafka topic with the name '{topic}' already exists, with different partition configuration.",
            why=f"It has {count} partitions, and PARTITIONS says {wanted}",
            position=statement.properties.place("PARTITIONS"),
        )
