"""Keeps persistent queries running on the server that leads, in this process or on Spark (`query_host`): each is
watched, and started again when it dies.

Which queries there are is told by the log of statements; `follow` brings what runs in line with it. The state that a
query shows is what is known: STARTING, and RESTORING while its stores are read, before it runs; RUNNING while its run
lives; ERROR with the reason after it died and until it lives again; PAUSED when it was told to. Whenever one changes,
`on_change` is called. A query that is to end while it restores its state does not restore the rest, and one whose
start waits for a thread is not started. A query that needs a function whose code is not here is in ERROR and is not
tried: its group, its state and its topics stay as they are.

What a query that has ended left behind is deleted by the server that led then; what that did not come to, by the next.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import threading
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client import AsyncAdmin
from headwater.sql.plan.session import PersistentQuery
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.query_host import QueryHost, QueryRun, StoreProgress
from headwater.sql.server.spark_host import host_for

logger = logging.getLogger("headwater.sql")
_STARTS_MAX = 64  # at a time
_NOT_THERE = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_HEALTHY_S = 60.0  # a run that lived so long was well: its successor waits as if it were the first


@dataclass(slots=True)
class RunningQuery:
    query: PersistentQuery
    state: str = "STARTING"
    error: str = ""
    restarts: int = 0
    task: asyncio.Task[None] | None = None
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: threading.Event = field(default_factory=threading.Event)  # the same, for the thread that restores
    starting: Future[QueryRun | None] | None = None


class QueryRunner:
    """Owned by the loop of the server."""

    def __init__(
        self, config: SqlServerConfig, host: QueryHost | None = None, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._config = config
        self._on_change = on_change
        self._host = host or host_for(config)
        self._running: dict[str, RunningQuery] = {}
        self._known: dict[str, PersistentQuery] = {}
        self._not_cleaned: set[str] = set()  # applications of terminated queries that have left something
        self._sweeping: asyncio.Task[None] | None = None  # since it leads
        self._lock = asyncio.Lock()
        # for starts only: they wait, for the group of the query and until state is restored
        self._threads = ThreadPoolExecutor(_STARTS_MAX, "sql-queries")
        self._stops = ThreadPoolExecutor(8, "sql-stops")  # of their own: no stop waits behind starts
        self.leads = False

    def state_of(self, query_id: str, paused: bool) -> tuple[str, str]:
        """The state of a query and, if it died, why."""
        if paused:
            return "PAUSED", ""
        running = self._running.get(query_id)
        if running is None:
            return "STARTING", ""
        if running.state == "STARTING" and self.restoring(query_id):
            return "RESTORING", ""
        return running.state, running.error

    def restoring(self, query_id: str) -> list[StoreProgress]:
        """The stores of a query that starts, as far as they are restored."""
        running = self._running.get(query_id)
        return self._host.restoring(running.query) if running is not None and running.state == "STARTING" else []

    async def follow(
        self,
        wanted: Mapping[str, PersistentQuery],
        paused: set[str],
        ended: Collection[str] = (),
        on_stopped: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Starts what is wanted and does not run, and stops what runs and is not wanted; for a server that does not
        lead: everything. `ended`: applications of queries that are no more. `on_stopped` is called when nothing runs
        any more that is not wanted, before anything is cleaned up or started.
        """
        async with self._lock:
            keep = {name: each for name, each in wanted.items() if name not in paused} if self.leads else {}
            gone = [
                name for name, each in self._running.items() if keep.get(name) is not each.query or each.stop.is_set()
            ]
            await self._end(gone)
            if on_stopped is not None:
                await on_stopped()
            if self.leads:
                for query in [each for name, each in self._known.items() if name not in wanted]:
                    await self._clean(query.app.name)
            self._known = dict(wanted)
            if not self.leads:
                await self._stop_sweeping()
            elif self._sweeping is None:
                self._sweeping = asyncio.create_task(self._sweep(frozenset(ended)))
            for name, query in keep.items():
                if name not in self._running:
                    self._running[name] = running = RunningQuery(query)
                    if query.withheld:
                        running.state, running.error = "ERROR", query.withheld
                    else:
                        running.task = asyncio.create_task(self._keep_running(running))
        self._on_change()

    async def _end(self, names: Collection[str]) -> None:
        """Who is cancelled meanwhile ends none of them halfway: they are still there, and the next call waits on."""
        for name in names:
            _tell_end(self._running[name])
        tasks = [task for name in names if (task := self._running[name].task) is not None]
        if tasks:
            await asyncio.wait(tasks)
        for name in names:
            del self._running[name]

    async def close(self) -> None:
        self.leads = False
        await self.follow({}, set())
        await asyncio.get_running_loop().run_in_executor(self._stops, self._host.close)
        self._threads.shutdown(wait=False)
        self._stops.shutdown(wait=False)

    async def _keep_running(self, running: RunningQuery) -> None:
        first_ms = wait_ms = self._config.number("ksql.query.retry.backoff.initial.ms")
        most, deaths = self._config.number("ksql.query.retry.max"), 0
        loop = asyncio.get_running_loop()
        while not running.stop.is_set():
            began = loop.time()
            try:
                await self._run_once(running)
            except Exception as error:  # noqa: BLE001  whatever ended the query is told in its state, and it is tried again
                if loop.time() - began > _HEALTHY_S:
                    wait_ms, deaths = first_ms, 0
                deaths += 1
                running.state, running.error = "ERROR", f"{type(error).__name__}: {error}"
                running.restarts += 1
                self._on_change()
                if 0 <= most < deaths:
                    logger.warning("event=query_died query=%s error=%r retry=none", running.query.id, str(error))
                    await running.stop.wait()
                    return
                logger.warning(
                    "event=query_died query=%s error=%r retry_in_ms=%d", running.query.id, str(error), wait_ms
                )
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(running.stop.wait(), wait_ms / 1000)
                wait_ms = min(wait_ms * 2, self._config.number("ksql.query.retry.backoff.max.ms"))

    async def _run_once(self, running: RunningQuery) -> None:
        """Until the query is told to stop, or dies. No thread waits for it meanwhile: there may be many queries."""
        if running.query.app.name in self._not_cleaned:  # its QUERY_ID was another's: it must not go on where that was
            await self._clean(running.query.app.name)
            if running.query.app.name in self._not_cleaned:
                raise RuntimeError(
                    "a terminated query of the same id has left topics or offsets that cannot be deleted"
                )
        if running.stop.is_set():
            return  # it was to end before what was left had been deleted
        loop = asyncio.get_running_loop()
        running.stopping = stopping = threading.Event()  # of this run: it sets it itself when it ends
        running.starting = self._threads.submit(self._host.start, running.query, stopping)
        try:
            run = await asyncio.wrap_future(running.starting)
        except asyncio.CancelledError:
            if not running.stop.is_set():
                raise
            return  # it was to end before a thread was free for its start
        if run is None:
            return  # or before there was anything to run it
        ended = asyncio.Event()
        run.on_end(lambda: _tell(loop, ended))
        if not running.stop.is_set():
            running.state, running.error = "RUNNING", ""
            self._on_change()
        waits = [asyncio.create_task(running.stop.wait()), asyncio.create_task(ended.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await loop.run_in_executor(self._stops, run.stop)
        if not running.stop.is_set():
            raise RuntimeError("the run ended by itself")

    async def _stop_sweeping(self) -> None:
        sweeping, self._sweeping = self._sweeping, None
        if sweeping is not None:
            sweeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sweeping

    async def _sweep(self, ended: frozenset[str]) -> None:
        """Deletes what earlier leaders did not come to: those that were killed between a DROP and its end."""
        if not ended:
            return
        try:
            async with AsyncAdmin(self._config.client) as admin:
                groups = {each.group_id for each in await admin.list_groups()}
                topics = [each.name for each in await admin.list_topics()]
        except Exception as error:  # noqa: BLE001  what stays behind is a nuisance
            logger.warning("event=queries_not_cleaned error=%r", str(error))
            self._sweeping = None  # with the next statement
            return
        for name in sorted(ended):
            is_left = name in groups or self._folder(name).is_dir()
            if not is_left and not any(each.startswith(f"{name}-") for each in topics):
                continue
            if all(each.app.name != name for each in self._known.values()):  # a log of an earlier version: it goes on
                await self._clean(name)

    def _folder(self, name: str) -> Path:
        return Path(self._config.text("ksql.streams.state.dir")) / name

    async def _clean(self, name: str) -> None:
        """What the application of a terminated query leaves behind: internal topics, its group, its state."""
        try:
            async with AsyncAdmin(self._config.client) as admin:
                topics = [each.name for each in await admin.list_topics() if each.name.startswith(f"{name}-")]
                answers = dict(await admin.delete_topics(topics)) if topics else {}
                with contextlib.suppress(KafkaError):  # there is no such group
                    await admin.remove_members(name)
                answers |= await admin.delete_groups([name])
            for problem in answers.values():
                if problem is not None and problem.code not in _NOT_THERE:
                    raise problem
            self._not_cleaned.discard(name)
        except Exception as error:  # noqa: BLE001  what stays behind is a nuisance; the log of statements must go on
            self._not_cleaned.add(name)
            logger.warning("event=query_not_cleaned query=%s error=%r", name, str(error))
        folder = self._folder(name)
        await asyncio.get_running_loop().run_in_executor(self._stops, lambda: shutil.rmtree(folder, ignore_errors=True))


def _tell(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(ended.set)


def _tell_end(running: RunningQuery) -> None:
    running.stop.set()
    running.stopping.set()
    if running.starting is not None:
        running.starting.cancel()  # has an effect only where it has not begun
