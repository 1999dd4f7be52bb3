"""One server: the engine that follows the log of statements, what runs the queries, and what answers them. The doors
call it; what statements do is in `statement_requests`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from headwater.base.errors import KafkaError, UserError
from headwater.client import AsyncAdmin, AsyncProducer
from headwater.client.types import ConfigResource, Partition, ResourceType
from headwater.sql.functions.python_functions import Policy
from headwater.sql.language.errors import SqlError
from headwater.sql.plan import reading
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.server.closing import LAST_WORDS_S
from headwater.sql.server.command_log import CommandLog
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.engine import Engine
from headwater.sql.server.inserting import record_of
from headwater.sql.server.leading import Leading
from headwater.sql.server.peers import ServerName, Watch
from headwater.sql.server.processing_log import LogSettings, ProcessingLog
from headwater.sql.server.query_host import StoreProgress
from headwater.sql.server.query_states import (
    Ended,
    QueryState,
    Record,
    Report,
    Reporter,
    ReportKey,
    Reports,
    outdated,
    state_elsewhere,
)
from headwater.sql.server.row_queries import RowQueries
from headwater.sql.server.runner import QueryRunner
from headwater.sql.server.schemas import RegistrySchemas, schemas_of
from headwater.sql.server.settable import defaults_of
from headwater.sql.server.source_topics import Retention
from headwater.sql.server.statement_requests import StatementRequests
from headwater.streams.engine.failures import ClusterFailure

logger = logging.getLogger("headwater.sql")
T = TypeVar("T")
_ANSWER_WITHIN: Final = "ksql.server.command.response.timeout.ms"
_ASK_AGAIN_S: Final = 0.05


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
        requests = StatementRequests(self)
        self.execute, self.drop_as_seen = requests.execute, requests.drop_as_seen
        self._admin: AsyncAdmin | None = None
        self._producer: AsyncProducer | None = None
        self._following: asyncio.Task[None] | None = None
        self._moved = asyncio.Condition()
        self._executed = 0  # how far in the log all queries have ended that statements have ended
        self._ended = 0  # behind the last of those statements that ended one
        self._withheld: frozenset[str] = frozenset()  # functions that the log of this process has told of
        self.cluster_id = ""
        self.takes_statements = not config.text("ksql.queries.file")

    # -- its life ------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Serves when this returns: every statement of the log has been applied."""
        self._admin = AsyncAdmin(self.config.client)
        self._producer = AsyncProducer({**self.config.client, "acks": "all", "linger.ms": 0})
        self._processing_log.open()
        await self._log.open()
        self.cluster_id = (await self._admin.describe_cluster()).cluster_id or ""
        self._following = asyncio.create_task(self._follow())
        await self.catch_up()
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
        """Statements of a file, once: those that the log has already are not written again, nor those that another
        server with the same file writes meanwhile.
        """
        try:
            text = await asyncio.to_thread(path.read_text, encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"ksql.queries.file cannot be read: {path}", str(error)) from None
        self.takes_statements = True
        try:
            await self.execute(text, {}, {}, of_file=True)
        finally:
            self.takes_statements = False

    async def close(self) -> None:
        self.row_queries.end_answers()
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
            async with self._moved:
                self._moved.notify_all()
            self._tell_withheld()
            await self._run_what_is_wanted()
            await self.row_queries.keep(self.engine.session.catalog.sources)

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
        session, applied, ends = self.engine.session, self.engine.applied, self.engine.ends

        async def stopped() -> None:
            async with self._moved:
                self._executed, self._ended = applied, ends
                self._moved.notify_all()
            self._reporter.notice()

        await self.runner.follow(dict(session.queries), set(session.paused), session.ended, stopped)

    async def _reach(self, is_reached: Callable[[], bool]) -> None:
        """Raises what has ended the following of the log, if something did."""
        async with self._moved:
            while not is_reached():
                if self._following is not None and self._following.done():
                    self._following.result()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._moved.wait(), 1.0)

    async def _wait(self, what: Awaitable[None]) -> None:
        """For as long as a request may take."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.number(_ANSWER_WITHIN) / 1000):
                await what

    async def applied(self, end: int) -> None:
        await self._reach(lambda: self.engine.applied >= end)

    async def has_applied(self, number: int) -> bool:
        """Whether a statement of the log, and all before it, are carried out here within a while."""
        await self._wait(self.applied(number + 1))
        return self.engine.applied > number

    @property
    def executed(self) -> int:
        """How far in the log statements are not only known here: what they have ended runs no more on this server."""
        return self.engine.applied if self._following is None else self._executed

    def is_executed(self, number: int) -> bool:
        """Whether the queries that a statement of the log ends or replaces have ended: here, and on the server that
        leads, if that has said so by now (`ask_states`). A server that has not joined the others yet knows of none.
        """
        outcome = self.engine.outcomes.get(number)
        if self.executed <= number or self.runner.leads or self.watch is None or outcome is None or not outcome.ends:
            return self.executed > number
        leader = self.watch.leader()
        return leader is not None and self._reports.ended(leader[0]) > number

    async def has_executed(self, number: int) -> bool:
        """The same, within a while: where a query is still being started, on Spark perhaps, that takes longer."""
        await self._wait(self._execute(number))
        return self.is_executed(number)

    async def _execute(self, number: int) -> None:
        await self._reach(lambda: self.executed > number)
        while not self.is_executed(number):
            await self._reports.read()
            if not self.is_executed(number):
                await asyncio.sleep(_ASK_AGAIN_S)

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
        """Before `state` or `is_executed` is asked on a server that does not lead: learns what the one that does has
        reported.
        """
        if not self.runner.leads and (self.engine.session.queries or self.engine.ends):
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

    def _reports_now(self) -> list[tuple[str, Record]]:
        if not self.runner.leads or self.watch is None:
            return []
        server, session = str(self.watch.own), self.engine.session
        found: list[tuple[str, Record]] = [("", Ended(server, self._ended))] if self._ended else []
        return found + [
            (name, Report(server, *self.runner.state_of(name, False), tuple(self.runner.restoring(name))))
            for name in session.queries
            if name not in session.paused
        ]

    async def _outdated_reports(self) -> list[ReportKey] | None:
        assert self.watch is not None
        await self._reports.read()
        known = list(self._reports.known)
        return outdated(known, await self._leading.members(self.admin), self.watch.own)

    @property
    def log(self) -> CommandLog:
        return self._log

    async def catch_up(self) -> None:
        """Waits until all statements that the log has now are carried out here."""
        await self.applied(await self._log.end())

    async def run_in_thread(self, ask: Callable[..., T], *arguments: Any) -> T:
        """In a thread, for it may ask the schema registry. One that does not answer is told to whoever asked."""
        try:
            return await asyncio.to_thread(ask, *arguments)
        except ClusterFailure as failure:
            raise SqlError("The schema registry does not answer.", why=str(failure.cause)) from None

    async def partitions(self, topic: str) -> int | None:
        return len(await self._partitions(topic)) or None

    async def replicas(self, topic: str) -> int | None:
        found = await self._partitions(topic)
        return len(found[0].replicas) if found else None

    async def retention(self, topic: str) -> Retention | None:
        """None: the brokers do not tell it."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        found = (await self.admin.describe_configs([resource], keys=["retention.ms"]))[resource]
        if isinstance(found, KafkaError) or not found or found[0].value is None:
            return None
        return Retention(int(found[0].value), found[0].source == "topic")

    async def _partitions(self, topic: str) -> Sequence[Partition]:
        topics = await self.admin.list_topics(internal=True)
        return next((each.partitions for each in topics if each.name == topic), ())

    # -- rows ----------------------------------------------------------------------------------------------------------

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
        if reading.asks_registry(target):
            raw_key, raw_value = await self.run_in_thread(record_of, target, key, value)
        else:
            raw_key, raw_value = record_of(target, key, value)
        return await self._producer.send(target.topic, raw_value, key=raw_key, timestamp_ms=timestamp)
