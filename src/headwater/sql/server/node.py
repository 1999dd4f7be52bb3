"""One server: the engine that follows the log of statements, what runs the queries, and what answers them. The doors
call it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from headwater.base.acls import Operation
from headwater.base.errors import UserError
from headwater.client import AsyncAdmin, AsyncProducer
from headwater.sql.functions.python_functions import Policy
from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError
from headwater.sql.language.parser import split, substitute
from headwater.sql.language.tree import SourceKind
from headwater.sql.plan import inference, reading
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.plan.insertion import Insertion
from headwater.sql.plan.session import PersistentQuery, Session
from headwater.sql.server import answers, push, rights
from headwater.sql.server.closing import LAST_WORDS_S
from headwater.sql.server.command_log import Command, CommandLog, create_topic
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.engine import LOGGED, Engine
from headwater.sql.server.leading import Leading
from headwater.sql.server.peers import ServerName, Watch
from headwater.sql.server.processing_log import LogSettings, ProcessingLog
from headwater.sql.server.query_host import StoreProgress
from headwater.sql.server.query_states import (
    QueryState,
    Report,
    Reporter,
    ReportKey,
    Reports,
    outdated,
    state_elsewhere,
)
from headwater.sql.server.read_only_statements import ReadOnlyStatements, StatementContext
from headwater.sql.server.rehearsal import Progress, Rehearsal, refuse_queries
from headwater.sql.server.row_queries import RowQueries
from headwater.sql.server.runner import QueryRunner
from headwater.sql.server.schemas import RegistrySchemas, schemas_of
from headwater.sql.server.settable import check_request, defaults_of
from headwater.sql.server.source_topics import is_deletable, topic_configs
from headwater.streams.engine.failures import ClusterFailure
from headwater.web.callers import EVERYBODY, Caller, cluster
from headwater.web.rights import require

logger = logging.getLogger("headwater.sql")
T = TypeVar("T")


class SqlNode:
    """Owned by the loop of its process."""

    def __init__(self, config: SqlServerConfig) -> None:
        self.config = config
        self._schemas = schemas_of(config)
        allowed = Policy(
            bool(config.values["ksql.functions.python.source.enabled"]),
            tuple(config.values["ksql.functions.python.modules"]),
        )
        self._processing_log = ProcessingLog(LogSettings.of(config))
        self.engine = Engine(
            config.service_id, config.brokers, self._schemas, allowed, self._processing_log.put, defaults_of(config)
        )
        self._reporter = Reporter(config, self._reports_now, self._outdated_reports)
        self._reports = Reports(config)
        self.runner = QueryRunner(config, on_change=self._reporter.notice)
        self._log = CommandLog(config.client, config.command_topic, config.number("ksql.internal.topic.replicas"))
        self.row_queries = RowQueries(config, lambda: self.engine.session, lambda: self.engine.of_system)
        self._leading = Leading(
            config.client, f"_confluent-ksql-{config.service_id}servers", config.command_topic, self._lead
        )
        self._read_only = ReadOnlyStatements(self)
        self._admin: AsyncAdmin | None = None
        self._producer: AsyncProducer | None = None
        self._following: asyncio.Task[None] | None = None
        self._moved = asyncio.Condition()
        self._writing = asyncio.Lock()
        self._withheld: frozenset[str] = frozenset()  # functions that the log of this process has told of
        self.cluster_id = ""
        self._takes_statements = not config.text("ksql.queries.file")

    # -- its life ------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Serves when this returns: every statement of the log has been applied."""
        self._admin = AsyncAdmin(self.config.client)
        self._producer = AsyncProducer({**self.config.client, "acks": "all", "linger.ms": 0})
        self._processing_log.open()
        await self._log.open()
        self.cluster_id = (await self._admin.describe_cluster()).cluster_id or ""
        self._following = asyncio.create_task(self._follow())
        await self._applied(await self._log.end())
        self.row_queries.open()
        if self.config.text("ksql.queries.file"):
            await self._run_file(Path(self.config.text("ksql.queries.file")))

    def join(self, name: ServerName) -> None:
        """The other servers learn that this one is there, and where;
        from now on it may be the one that runs queries.
        """
        interval_s = self.config.number("ksql.heartbeat.check.interval.ms") / 1000
        self._reporter.start()
        self._leading.start(
            name,
            interval_s,
            self.config.number("ksql.heartbeat.missed.threshold.ms"),
            self.config.number("ksql.heartbeat.silent.max.ms"),
        )

    async def _run_file(self, path: Path) -> None:
        """Statements of a file, once: those that are in the log already are not written again."""
        try:
            text = await asyncio.to_thread(path.read_text, encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"ksql.queries.file cannot be read: {path}", str(error)) from None
        self._takes_statements = True
        try:
            await self.execute(text, {}, {}, skip=self.engine.statements)
        finally:
            self._takes_statements = False

    async def close(self) -> None:
        self.row_queries.close_pushes()
        await self._leading.stop()
        await asyncio.gather(self._reporter.stop(), self._reports.close())
        if self._following is not None:
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._following
        await self.runner.close()
        await self.row_queries.close()
        last = [self._processing_log.close(), self._log.close()]
        if self._producer is not None:
            last.append(self._producer.close(LAST_WORDS_S))
        await asyncio.gather(*last)
        if self._admin is not None:
            await self._admin.close()
        if self._schemas is not None:
            self._schemas.close()

    async def broken(self) -> UserError:
        assert self._following is not None
        leading = asyncio.create_task(self._leading.ended())
        tasks = (self._following, leading)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        leading.cancel()
        for task in tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                return UserError("The server cannot follow its log of statements", str(task.exception()))
        return UserError("The server no longer follows its log of statements")

    async def _follow(self) -> None:
        async for offset, data in self._log.statements():
            if data is None:
                self.engine.pass_over(offset)
            elif (outcome := self.engine.apply(offset, data)).error is not None:
                logger.warning("event=statement_refused offset=%d error=%r", offset, str(outcome.error))
            self._tell_withheld()
            await self._run_what_is_wanted()
            await self.row_queries.keep(self.engine.session.catalog.sources)
            async with self._moved:
                self._moved.notify_all()

    def _tell_withheld(self) -> None:
        for name, error in self.engine.withheld.items():
            if name not in self._withheld:
                logger.error(
                    "event=function_not_here function=%s reason=%r note='queries do not run'", name, str(error)
                )
        self._withheld = frozenset(self.engine.withheld)

    async def _lead(self, leads: bool) -> None:
        self.runner.leads = leads
        self._reporter.begin_anew()
        logger.info("event=%s service=%s", "leads" if leads else "follows", self.config.service_id)
        await self._run_what_is_wanted()

    async def _run_what_is_wanted(self) -> None:
        await self.runner.follow(dict(self.engine.session.queries), set(self.engine.session.paused))

    async def _applied(self, end: int) -> None:
        async with self._moved:
            while self.engine.applied < end:
                if self._following is not None and self._following.done():
                    self._following.result()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._moved.wait(), 1.0)

    async def has_applied(self, number: int) -> bool:
        """Whether a statement of the log, and all before it, are carried out here within a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.number("ksql.server.command.response.timeout.ms") / 1000):
                await self._applied(number + 1)
        return self.engine.applied > number

    # -- statements ----------------------------------------------------------------------------------------------------

    @property
    def watch(self) -> Watch | None:
        """What is known of all servers; None before this one has joined them."""
        return self._leading.watch

    @property
    def follows(self) -> bool:
        """Whether statements of the log are still carried out."""
        return self._following is not None and not self._following.done()

    async def statements_behind(self) -> int:
        """How many statements of the log have not been carried out yet."""
        return max(0, await self._log.end() - self.engine.applied)

    @property
    def admin(self) -> AsyncAdmin:
        assert self._admin is not None
        return self._admin

    @property
    def schemas(self) -> RegistrySchemas | None:
        return self._schemas

    async def ask_states(self) -> None:
        """Before `state` is asked on a server that does not lead: learns what the one that does has reported."""
        if not self.runner.leads and self.engine.session.queries:
            await self._reports.read()

    def state(self, query_id: str) -> QueryState:
        is_paused = query_id in self.engine.session.paused
        if self.runner.leads or is_paused:
            own = self.watch.own.address if self.watch is not None and self.runner.leads else ""
            return QueryState(*self.runner.state_of(query_id, is_paused), own)
        return state_elsewhere(self._report(query_id), self.watch.leader() if self.watch else None)

    def restoring(self, query_id: str) -> Sequence[StoreProgress]:
        """The stores of a query that starts, as far as they are restored."""
        if self.runner.leads:
            return self.runner.restoring(query_id)
        report = self._report(query_id)
        return report.restoring if report is not None else ()

    def _report(self, query_id: str) -> Report | None:
        """What the server that leads says of a query."""
        leader = self.watch.leader() if self.watch is not None else None
        return self._reports.of(query_id, leader[0]) if leader is not None else None

    def _reports_now(self) -> list[tuple[str, Report]]:
        if not self.runner.leads or self.watch is None:
            return []
        server, session = str(self.watch.own), self.engine.session
        return [
            (name, Report(server, *self.runner.state_of(name, False), tuple(self.runner.restoring(name))))
            for name in session.queries
            if name not in session.paused
        ]

    async def _outdated_reports(self) -> list[ReportKey] | None:
        assert self.watch is not None
        await self._reports.read()
        known = list(self._reports.known)
        return outdated(known, await self._leading.members(self.admin), self.watch.own)

    async def execute(
        self,
        text: str,
        properties: Mapping[str, str],
        variables: Mapping[str, str],
        *,
        skip: int = 0,
        caller: Caller = EVERYBODY,
        done: list[answers.Entity] | None = None,
    ) -> list[answers.Entity]:
        """All statements of a text, one after the other, but for the first `skip` of those for the log. Raises
        SqlError. Where one is wrong, none is carried out (`rehearsal`); where one fails, those before it are done, and
        in `done`.
        """
        check_request(properties)
        found = [] if done is None else done
        pieces = await asyncio.to_thread(split, text)
        if len(pieces) > 1 and self._takes_statements:
            permit = partial(self._permit, caller)
            trial = Rehearsal(self.engine, self._catch_up, permit, self.run_in_thread, self.row_queries.has_push)
            await trial.run(pieces, Progress(properties, variables), skip)
        progress = Progress(properties, variables)
        for piece in pieces:
            shown = substitute(piece, progress.variables)
            for statement in await asyncio.to_thread(self.engine.session.parse, shown):
                if skip and isinstance(statement, LOGGED):
                    skip -= 1
                elif not progress.take(statement):
                    found.append(await self._execute(statement, shown, progress.settings, progress.variables, caller))
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

    async def _catch_up(self) -> None:
        await self._applied(await self._log.end())

    async def _execute(
        self,
        statement: tree.Statement,
        text: str,
        settings: Mapping[str, str],
        variables: Mapping[str, str],
        caller: Caller,
    ) -> answers.Entity:
        if isinstance(statement, tree.ControlQuery) and statement.action == "TERMINATE":
            running = self.row_queries.push_named(statement.query_id or "")
            if running is not None:  # of this server alone: no matter for the log
                await self.row_queries.end_push(running, caller)
                return answers.entity("terminate_query", text, queryId=running.id, wasTerminated=True)
        await rights.require_now(caller, statement, lambda: self.engine.session)
        await self._require_schemas(caller, statement)
        refuse_queries(statement, text)
        if isinstance(statement, LOGGED):
            return await self._change(statement, text, settings, caller)
        match statement:
            case tree.InsertValues():
                await self._insert(statement, settings, caller)
                return answers.entity(
                    "currentStatus",
                    text,
                    commandId="",
                    commandStatus={"status": "SUCCESS", "message": "", "queryId": None},
                )
            case _:
                return await self._read_only.answer(statement, text, StatementContext(settings, variables, caller))

    async def _require_schemas(self, caller: Caller, statement: tree.Statement) -> None:
        """A schema shows its columns: whoever may not see it by its subject may not see it by its id."""
        for subject, number in () if caller.may_everything else rights.schema_ids(statement):
            if self._schemas is None or not await self.run_in_thread(self._schemas.is_under, subject, number):
                await require(caller, cluster(Operation.ALTER))

    async def _change(
        self, statement: tree.Statement, text: str, settings: Mapping[str, str], caller: Caller
    ) -> answers.Entity:
        """A statement for the log: tried here, its topics made, written, and answered when it has been applied."""
        async with self._turn():
            return await self._change_now(statement, text, settings, caller)

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """One statement at a time is tried and written, after all that the log has."""
        if not self._takes_statements:
            raise SqlError("The server runs the statements of ksql.queries.file and takes no others.")
        async with self._writing:
            await self._applied(await self._log.end())
            yield

    async def drop_as_seen(self, seen: SourceInfo, *, delete_topic: bool) -> None:
        """Drops what has this name now, if anything has. Its topic is deleted if it still is the one that was seen, for
        which the caller has asked for the right. Raises SqlError.
        """
        async with self._turn():
            known = self.engine.session.catalog.sources.get(seen.name)
            if known is None:
                return
            name = known.name.replace("`", "``")
            deletes = delete_topic and known.topic == seen.topic and is_deletable(known)
            text = f"DROP {known.kind.value} `{name}`{' DELETE TOPIC' if deletes else ''};"
            (statement,) = self.engine.session.parse(text)
            await self._change_now(statement, text, {}, EVERYBODY)

    async def _change_now(
        self, statement: tree.Statement, text: str, settings: Mapping[str, str], caller: Caller
    ) -> answers.Entity:
        # while it waited for its turn, others may have made what it names
        await rights.require_now(caller, statement, lambda: self.engine.session)
        sources = self.engine.session.catalog.sources
        dropped = sources.get(statement.name) if isinstance(statement, tree.Drop) else None
        await require(caller, *rights.of_default_formats(statement, {**self.engine.of_system, **settings}))
        completed = await self.run_in_thread(self.engine.completed, statement, settings)
        if completed is not statement:
            statement, text = completed, completed.text
        done = await self.run_in_thread(self.engine.check, statement, settings)
        session = self.engine.session
        told = rights.telling(statement, session)
        await require(caller, *rights.of_outcome(statement, done, session), told=told)
        declares = await self.run_in_thread(self.engine.declared, statement)
        await self._make_topics(statement, done, settings)
        offset = await self._log.append(Command(text, self.engine.for_log(settings), declares=declares))
        await self._applied(offset + 1)
        outcome = self.engine.outcomes[offset]
        if outcome.error is not None:
            raise outcome.error
        warnings: list[dict[str, str]] = []
        if isinstance(statement, tree.Drop) and statement.delete_topic and dropped is not None:
            assert self._admin is not None
            await self._admin.delete_topics([dropped.topic])
            warnings = await self._delete_schemas(dropped)
        return {**answers.current_status(text, outcome, offset), "warnings": warnings}

    async def _delete_schemas(self, dropped: SourceInfo) -> list[dict[str, str]]:
        """What goes with its topic. The source is gone already: what the registry does not do is told as warnings."""
        schemas, warnings = self._schemas, []
        for subject in inference.subjects(dropped) if schemas is not None else ():
            assert schemas is not None
            try:
                await asyncio.to_thread(schemas.delete, subject)
            except (UserError, OSError) as error:
                logger.warning("event=subject_not_deleted subject=%s error=%r", subject, str(error))
                warnings.append({"message": f"The subject {subject} stays in the schema registry: {error}"})
        return warnings

    async def run_in_thread(self, ask: Callable[..., T], *arguments: Any) -> T:
        """In a thread, for it may ask the schema registry. One that does not answer is told to whoever asked."""
        try:
            return await asyncio.to_thread(ask, *arguments)
        except ClusterFailure as failure:
            raise SqlError("The schema registry does not answer.", why=str(failure.cause)) from None

    async def _make_topics(
        self, statement: tree.Statement, done: PersistentQuery | Insertion | None, settings: Mapping[str, str]
    ) -> None:
        assert self._admin is not None
        if isinstance(statement, tree.CreateSource):
            trial = self.engine.session.copy()
            trial.settings, trial.checks_schemas = {**self.engine.of_system, **settings}, False
            trial.execute(statement)
            source = trial.catalog.sources[statement.name]
            count = await self.partitions(source.topic)
            wanted = statement.properties.get("PARTITIONS")
            if count is not None and wanted is not None and int(str(wanted)) != count:
                raise SqlError(
                    f"A Kafka topic with the name '{source.topic}' already exists, with different partition configuration.",
                    why=f"It has {count} partitions, and PARTITIONS says {wanted}",
                    position=statement.position,
                )
            if count is None:
                if "PARTITIONS" not in statement.properties:
                    raise SqlError(
                        f"Kafka topic does not exist: {source.topic}",
                        hint="Create it, or name PARTITIONS in the WITH clause, and it is made.",
                        position=statement.position,
                    )
                configs = topic_configs(statement.properties, {})
                await create_topic(self._admin, source.topic, source.partitions, source.replicas, configs)
            await self.run_in_thread(inference.register, source)
        if isinstance(done, PersistentQuery):
            topics = frozenset(name for each in done.together for name in each)
            push.check_together(done.together, {name: await self.partitions(name) or 0 for name in topics})
        if isinstance(done, PersistentQuery) and isinstance(statement, tree.CreateAs):
            count = done.sink.partitions
            if "PARTITIONS" not in statement.properties:
                counts = [await self.partitions(self.engine.session.catalog.find(name).topic) for name in done.sources]
                count = max((each for each in counts if each), default=count)
            configs = (
                {"cleanup.policy": "compact"} if done.sink.kind is SourceKind.TABLE and not done.sink.window else {}
            )
            await create_topic(
                self._admin, done.sink.topic, count, done.sink.replicas, topic_configs(statement.properties, configs)
            )
            await self.run_in_thread(inference.register, done.sink)

    async def partitions(self, topic: str) -> int | None:
        for each in await self.admin.list_topics(internal=True):
            if each.name == topic and each.partitions:
                return len(each.partitions)
        return None

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _refuse_rows_of_file(self, statement: tree.Statement) -> None:
        runs_file = self._takes_statements and self.config.text("ksql.queries.file")
        if runs_file and isinstance(statement, tree.InsertValues):
            raise SqlError(
                "INSERT VALUES cannot be in ksql.queries.file.",
                why="Each start of each server would write the rows again",
                hint="Write them once, with headwater sql or a producer.",
                position=statement.position,
            )

    async def _insert(self, statement: tree.InsertValues, settings: Mapping[str, str], caller: Caller) -> None:
        self._refuse_rows_of_file(statement)
        done = await self.run_in_thread(self.engine.check, statement, settings)
        assert isinstance(done, Insertion)
        await rights.require_source(caller, Operation.WRITE, done.target)  # by now it may be another than before
        await self.send(done.target, done.key, done.value, done.timestamp)

    async def send(
        self, target: SourceInfo, key: list[Any] | None, value: list[Any] | None, timestamp: int | None
    ) -> None:
        """A record of a stream or table; returns when the brokers have it."""
        await (await self.begin_send(target, key, value, timestamp))

    async def begin_send(
        self, target: SourceInfo, key: list[Any] | None, value: list[Any] | None, timestamp: int | None
    ) -> Awaitable[object]:
        """A record of a stream or table, on its way: what to wait for until the brokers have it."""
        assert self._producer is not None

        def encoded() -> tuple[bytes | None, bytes | None]:
            null = value is None or (reading.writes_null_alone(target) and value[:1] == [None])
            return (
                None if key is None else reading.key_serde(target).serialize(key),
                None if value is None or null else reading.value_serde(target).serialize(value),
            )

        raw_key, raw_value = await self.run_in_thread(encoded) if reading.asks_registry(target) else encoded()
        return await self._producer.send(target.topic, raw_value, key=raw_key, timestamp_ms=timestamp)
