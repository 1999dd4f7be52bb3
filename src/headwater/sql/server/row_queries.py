"""What is asked of a server and gives rows: push queries, pull queries, PRINT. Nothing here changes anything.

A push query (EMIT CHANGES) runs until it is closed. A pull query over one table is answered out of its view, one over a
stream by reading the log to its present end, both with ksqlDB's functions; everything else that SQL can ask goes to
DuckDB (`analytics`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from headwater.base.acls import Operation
from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client import AsyncConsumer
from headwater.sql.functions import scope
from headwater.sql.language import tree
from headwater.sql.language.errors import SqlError, SqlSyntaxError
from headwater.sql.language.parser import Piece, pieces_of, substitute
from headwater.sql.language.tree import SourceKind
from headwater.sql.plan import grouping, reading
from headwater.sql.plan.catalog import SourceInfo
from headwater.sql.plan.session import Session
from headwater.sql.server import duckdb_queries, pull, push, rights
from headwater.sql.server.analytics import Analytics
from headwater.sql.server.config import LAG_MAX, RANGE_SCANS, SqlServerConfig
from headwater.sql.server.duckdb_errors import UnknownNameError
from headwater.sql.server.printing import Printer, registered
from headwater.sql.server.pull_settings import check_enabled, check_pulled
from headwater.sql.server.refusals import TooManyPushesError, UnknownTopicError
from headwater.sql.server.row_answers import Answer
from headwater.sql.server.row_threads import while_asked
from headwater.sql.server.settable import check_request
from headwater.sql.server.views import ALL, READING, Views
from headwater.sql.server.window_tasks import tasks_of
from headwater.web.callers import EVERYBODY, Caller
from headwater.web.callers import cluster as cluster_need
from headwater.web.rights import require

_log: Final = logging.getLogger("headwater.sql")
READ_AHEAD: Final = "ksql.query.pull.read.ahead.rows.max"
_AHEAD_AGAIN_S: Final = 10.0


class RowQueries:
    """Owned by the loop of its server. `session` gives what exists now, `system` what ALTER SYSTEM has set."""

    def __init__(
        self, config: SqlServerConfig, session: Callable[[], Session], system: Callable[[], Mapping[str, str]]
    ) -> None:
        self._config = config
        self._session = session
        self._system = system
        rows_max = config.number("ksql.query.pull.rows.max")
        self._views = Views(config.client, rows_max, tasks_of=lambda source: tasks_of(source, session()))
        self._analytics = Analytics(config, session, self._views)
        self._threads = ThreadPoolExecutor(thread_name_prefix="headwater-sql-pull")  # statements are parsed in others
        self._reading: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._is_closing = False
        self.pushes: dict[str, push.PushQuery] = {}

    def end_answers(self) -> None:
        """Those that have no end: push queries, and PRINT. The server is about to stop."""
        self._is_closing = True
        for each in self.pushes.values():
            each.close()

    def give_up(self, answer: Answer) -> None:
        """Its rows will not be read."""
        self.pushes.pop(answer.query_id or "", None)

    def has_push(self, name: str) -> bool:
        return self.push_named(name) is not None

    def push_named(self, query_id: str) -> push.PushQuery | None:
        """A push query that runs, by its id in any letters: TERMINATE names it without quotes."""
        return next((each for name, each in self.pushes.items() if name.upper() == query_id.upper()), None)

    def pushes_of(self, caller: Caller) -> list[push.PushQuery]:
        """Those that the caller may see: his own."""
        return [each for each in self.pushes.values() if caller.may_everything or each.owner == caller.name]

    async def end_push(self, found: push.PushQuery, caller: Caller) -> None:
        """Whoever did not ask it needs a right to end it. Raises HttpError."""
        if found.owner != caller.name:
            await require(caller, cluster_need(Operation.ALTER))
        found.close()

    def open(self) -> None:
        """Reads tables from now on, before anybody asks for them."""
        if self._config.number(READ_AHEAD):
            self._reading = asyncio.create_task(self._read_ahead())

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self._analytics.close()
        await self._views.close()

    async def keep(self, sources: Mapping[str, SourceInfo]) -> None:
        await self._views.keep(sources)
        self._changed.set()

    async def _read_ahead(self) -> None:
        """Never ends: what fails is tried again. Of tables that ksqlDB can pull from, too: those that a query writes,
        and CREATE SOURCE TABLE.
        """
        while True:
            self._changed.clear()
            tables = [
                each
                for each in self._session().catalog
                if each.kind is SourceKind.TABLE and (each.made_by_query is not None or each.read_only)
            ]
            try:
                await self._views.read_ahead(tables, self._config.number(READ_AHEAD))
            except (KafkaError, UserError, OSError, TimeoutError) as problem:
                _log.debug("event=not_read_ahead reason=%r", str(problem))
            except Exception:  # noqa: BLE001  of a table that nobody thought of: queries read theirs themselves
                _log.exception("event=not_read_ahead")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), _AHEAD_AGAIN_S)

    async def query(
        self,
        text: str,
        properties: Mapping[str, str],
        variables: Mapping[str, str],
        caller: Caller = EVERYBODY,
        *,
        tombstones: bool = False,
    ) -> Answer:
        """`tombstones`: a push query on a table tells of keys that are gone. Raises SqlError."""
        check_request(properties)
        properties = {**self._system(), **properties}
        session = self._session()
        given = pieces_of(text)
        pieces = [Piece(substitute(each.text, variables, begins_at=each.begins_at), each.begins_at) for each in given]
        try:
            statements = [statement for piece in pieces for statement in session.parse(*piece)]
        except SqlSyntaxError as wrong:
            if len(pieces) != 1 or not duckdb_queries.is_query(pieces[0].text):
                raise
            try:
                return await self._analytics.answer(pieces[0], properties, caller, parsed=False)
            except SqlSyntaxError as also:  # it is no statement of either language: the place is told in our own
                raise SqlSyntaxError(wrong.message, str(also), position=wrong.position) from None
            except SqlError as also:  # DuckDB's grammar took it, its names are ours perhaps: STRUCT(...) AS by
                if not isinstance(also, UnknownNameError):
                    raise
                raise SqlError(also.message, f"Read as ksqlDB's SQL: {wrong}", also.hint, also.position) from None
        if len(statements) != 1:
            raise SqlError(f"Expected exactly one KSQL statement; found {len(statements)} instead")
        if not isinstance(statements[0], tree.Select):
            raise SqlError("Neither a query nor a print statement", hint="POST it to /ksql.")
        await rights.require_now(caller, statements[0], self._session)
        session = self._session()
        query = statements[0].query
        if query.emit is not None:
            return await self._push(query, properties, pieces[0].text, caller, tombstones=tombstones)
        check_pulled(query, properties)
        if self._is_for_analytics(query):
            return await self._beyond(query, pieces[0], properties, caller)
        assert isinstance(query.source, tree.Source)
        source = session.catalog.find(query.source.name, query.source.position)
        check_enabled(source, properties, scans=False)
        with scope.using(session.catalog.functions, properties, session.catalog.withheld):
            if source.kind is SourceKind.STREAM:
                planned = push.plan(query, session.catalog.copy(), self._config.brokers, properties)
                made = push.PushQuery(planned, self._config.client, properties, to_end=True)
                return Answer(None, made.columns, made.rows(), goes_by=True, limit=query.limit)
            answer = pull.plan(query, source, query.source.alias)
        by_range = answer.lookup.keys is None and not reading.is_set(properties, RANGE_SCANS, default=True)
        check_enabled(source, properties, scans=by_range or answer.lookup == ALL)
        return Answer(None, answer.columns, self._pulled(answer, source, self._lag_max(properties)))

    def _lag_max(self, properties: Mapping[str, str]) -> int:
        """How many offsets behind an answer may be. Raises SqlError."""
        given = properties.get(LAG_MAX)
        if given is None:
            return self._config.number(LAG_MAX)
        if not (given.isascii() and given.isdigit()):
            raise SqlError(f"Invalid value {given} for property {LAG_MAX}: it is a number of offsets, 0 or more.")
        return int(given)

    def _is_for_analytics(self, query: tree.Query) -> bool:
        """Whether it is beyond what one table, or a stream read through, can answer."""
        if isinstance(query.source, tree.Join):
            return True
        catalog = self._session().catalog
        source = catalog.sources.get(query.source.name)
        if source is None:
            return True  # perhaps a topic
        if source.kind is SourceKind.TABLE:
            return False
        with scope.using(catalog.functions, {}, catalog.withheld):
            gathers = any(
                isinstance(each, tree.SelectItem) and grouping.has_aggregates(each.expression) for each in query.select
            )
        return bool(query.order_by or query.group_by is not None or gathers) and query.window is None

    async def _beyond(self, query: tree.Query, piece: Piece, properties: Mapping[str, str], caller: Caller) -> Answer:
        """A query over one stream that gathers or sorts is answered with ksqlDB's functions and rules, as one over a
        table; any other, and one that names what ksqlDB has not, by DuckDB.
        """
        catalog = self._session().catalog
        source = catalog.sources.get(query.source.name) if isinstance(query.source, tree.Source) else None
        if source is None:
            return await self._analytics.answer(piece, properties, caller)
        assert isinstance(query.source, tree.Source)
        check_enabled(source, properties, scans=False)
        try:
            with scope.using(catalog.functions, properties, catalog.withheld):
                planned = pull.plan(query, source, query.source.alias)
        except SqlError as own:
            try:
                return await self._analytics.answer(piece, properties, caller)
            except SqlError as also:
                raise own if isinstance(also, UnknownNameError | SqlSyntaxError) else also from None
        return Answer(None, planned.columns, self._gathered(planned, source, properties))

    async def _gathered(
        self, planned: pull.PullPlan, source: SourceInfo, properties: Mapping[str, str]
    ) -> AsyncIterator[list[Any]]:
        names = [f"`{each.name.replace('`', '``')}`" for each in reading.row_columns(source, source.name)]
        _, rows = await self._analytics.read_stream(source, names, properties)
        for row in await while_asked(self._threads, planned.answer, rows):
            yield row

    async def _push(
        self, query: tree.Query, properties: Mapping[str, str], text: str, caller: Caller, *, tombstones: bool
    ) -> Answer:
        if len(self.pushes) >= self._config.number("ksql.query.push.max"):
            raise TooManyPushesError(
                "Not executing statement(s) as it would cause the number of active push queries to exceed the limit.",
                hint="Close some, or raise ksql.query.push.max.",
            )
        catalog = self._session().catalog
        with scope.using(catalog.functions, properties, catalog.withheld):
            planned = push.plan(query, catalog.copy(), self._config.brokers, properties)
        made = push.PushQuery(planned, self._config.client, properties, tombstones=tombstones)
        made.owner, made.statement = caller.name, text
        self._register(made)
        try:
            await made.locate()
        except BaseException:
            self.pushes.pop(made.id, None)
            raise
        return Answer(made.id, made.columns, self._pushed(made), goes_by=True, limit=query.limit)

    def _register(self, made: push.PushQuery) -> None:
        """It counts from now on; one whose rows nobody begins to read is forgotten."""
        self.pushes[made.id] = made
        if self._is_closing:
            made.close()

        def forget() -> None:
            if not made.has_begun:
                self.pushes.pop(made.id, None)

        asyncio.get_running_loop().call_later(60.0, forget)

    async def _pushed(self, made: push.PushQuery) -> AsyncIterator[list[Any]]:
        try:
            async for row in made.rows():
                yield row
        finally:
            self.pushes.pop(made.id, None)

    async def _pulled(self, planned: pull.PullPlan, source: SourceInfo, lag_max: int) -> AsyncIterator[list[Any]]:
        rows = await self._views.rows(source, planned.lookup, lag_max)
        for row in await while_asked(self._threads, planned.answer, rows):
            yield row

    # -- PRINT ---------------------------------------------------------------------------------------------------------

    async def check_printable(self, statement: tree.Print, caller: Caller = EVERYBODY) -> None:
        await require(caller, *rights.needs(statement, self._session()))
        async with AsyncConsumer(READING | self._config.client) as consumer:
            known = await consumer.list_topics()
        if statement.topic not in known:
            raise UnknownTopicError(
                f"Could not find topic '{statement.topic}', or the KSQL user does not have permissions to list the topic.",
                why="Topic names are case-sensitive",
                hint="SHOW TOPICS; lists them.",
            )

    async def printed(self, statement: tree.Print) -> AsyncIterator[str]:
        """The lines of PRINT."""
        settings = {
            **self._config.client,
            "auto.offset.reset": "earliest" if statement.from_beginning else "latest",
            "allow.auto.create.topics": False,
        }
        seen = shown = 0
        with registered(self._config.registry) as read:
            printer = Printer(read)
            async with AsyncConsumer(settings) as consumer:
                found = await consumer.partitions_for(statement.topic)
                consumer.assign([TopicPartition(statement.topic, each.partition) for each in found])
                while (statement.limit is None or shown < statement.limit) and not self._is_closing:
                    chosen = []
                    for record in await consumer.poll(0.2):
                        seen += 1
                        if statement.interval and (seen - 1) % statement.interval:
                            continue
                        chosen.append(record)
                    if statement.limit is not None:
                        chosen = chosen[: statement.limit - shown]
                    shown += len(chosen)
                    for line in await asyncio.to_thread(printer.lines, chosen):
                        yield line
