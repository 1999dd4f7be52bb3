"""The states of persistent queries, as every server of a service id knows them.

The server that leads runs all queries, so it alone knows their states. It writes them into a compacted topic of one
partition, `_confluent-ksql-<service id>_query_states`: whenever one changes, and each second how far the stores of
queries are that restore. The other servers read the topic to its end when they are asked. What goes through the brokers
needs no second way between servers, with its own addresses, certificates and logins.

A report counts only while the server that wrote it leads (`peers`): what a former one said is over. A server that stood
still does not know at once that another leads, and still writes. So records are keyed by query and server: each server
writes and deletes its own, and a late one says nothing of those of its successor. A server that learns that it no
longer leads deletes its records; those of one that has left the group are deleted by the next that leads.

The server that leads also tells there how far in the log the queries that statements end have ended, so that whoever
asks another server hears of no success before.

The decisions are pure (`state_elsewhere`, `changes`, `outdated`); `Reporter` writes and `Reports` reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client import AsyncAdmin, AsyncConsumer, AsyncProducer
from headwater.sql.server.closing import LAST_WORDS_S
from headwater.sql.server.command_log import create_topic
from headwater.sql.server.query_host import StoreProgress

if TYPE_CHECKING:
    from headwater.sql.server.config import SqlServerConfig
    from headwater.sql.server.peers import HostStatus, Member, ServerName

logger = logging.getLogger("headwater.sql")
STARTING: Final = "STARTING"
RESTORING: Final = "RESTORING"
UNRESPONSIVE: Final = "UNRESPONSIVE"
_ERROR_CHARACTERS_MAX: Final = 4_000
_AGAIN_S: Final = 1.0
_PATIENCE_S: Final = 5.0
_EARLIEST: Final = {"auto.offset.reset": "earliest"}
_COMPACTED: Final = {"cleanup.policy": "compact"}


class QueryState(NamedTuple):
    """`host`: the address of the server that runs it, if one does; `error`: why it died, if it did."""

    state: str
    error: str = ""
    host: str = ""

    @property
    def word(self) -> str:
        """One of the four words that ksqlDB's clients know: what is not dead, paused or unheard of is running."""
        return "RUNNING" if self.state in (STARTING, RESTORING) else self.state


class ReportKey(NamedTuple):
    """The key of a record. `query`: empty for `Ended`. `server`: the name of who wrote it, with its life."""

    query: str
    server: str

    def encode(self) -> bytes:
        return json.dumps(self).encode()

    @classmethod
    def decode(cls, data: bytes | None) -> ReportKey | None:
        """None for what is no key of ours."""
        try:
            found: Any = json.loads(data or b"")
        except ValueError:
            return None
        is_ours = isinstance(found, list) and len(found) == 2 and all(isinstance(each, str) for each in found)
        return cls(*found) if is_ours else None


class Report(NamedTuple):
    """What a server says of a query that it runs. `server`: its name, with its life."""

    server: str
    state: str
    error: str = ""
    restoring: tuple[StoreProgress, ...] = ()

    def encode(self) -> bytes:
        return json.dumps({**self._asdict(), "error": self.error[:_ERROR_CHARACTERS_MAX]}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Report | None:
        """None for what is no report of ours."""
        try:
            found: Any = json.loads(data)
            restoring = tuple(
                StoreProgress(str(store), int(partition), int(position), int(end))
                for store, partition, position, end in found["restoring"]
            )
            return cls(str(found["server"]), str(found["state"]), str(found["error"]), restoring)
        except (ValueError, TypeError, KeyError):
            return None


class Ended(NamedTuple):
    """`offset`: behind the last statement of the log that has ended a query, which runs no more on this server."""

    server: str
    offset: int

    def encode(self) -> bytes:
        return json.dumps(self._asdict()).encode()

    @classmethod
    def decode(cls, data: bytes) -> Ended | None:
        """None for what is nothing of ours."""
        try:
            found: Any = json.loads(data)
            return cls(str(found["server"]), int(found["offset"]))
        except (ValueError, TypeError, KeyError):
            return None


def state_elsewhere(report: Report | None, leader: tuple[ServerName, HostStatus] | None) -> QueryState:
    """The state of a query that another server runs, by what that one said last and whether it is there."""
    if leader is None:
        return QueryState(STARTING)  # the group has not given the queries to anybody yet
    name, status = leader
    if not status.alive:
        return QueryState(UNRESPONSIVE, "", name.address)
    if report is None or report.server != str(name):
        return QueryState(STARTING, "", name.address)
    return QueryState(report.state, report.error, name.address)


Record = Report | Ended
Told = Mapping[ReportKey, Record | None]  # what the topic has; None: perhaps something, and nobody knows what


def changes(told: Told, now: Mapping[ReportKey, Record]) -> dict[ReportKey, Record | None]:
    """What to write: records that are new, and None for queries that are no more."""
    found: dict[ReportKey, Record | None] = {key: each for key, each in now.items() if told.get(key) != each}
    return found | {key: None for key in told if key not in now}


def outdated(known: Iterable[ReportKey], members: Iterable[Member], own: ServerName) -> list[ReportKey] | None:
    """Which of the records that were read before the group was asked are of servers that have left it. None: another
    server leads by now, and it is not for this one to delete anything.
    """
    leads = {str(each.name): each.leads for each in members}
    if not leads.get(str(own)):
        return None
    return [key for key in known if key.server not in leads]


class Reporter:
    """Writes what changes, for as long as this server leads. Owned by the loop of the server."""

    def __init__(
        self,
        config: SqlServerConfig,
        now: Callable[[], Iterable[tuple[str, Record]]],
        find_outdated: Callable[[], Awaitable[list[ReportKey] | None]],
    ) -> None:
        """`now`: the reports of all queries, by query, and `Ended`; empty while this server does not lead.
        `find_outdated`: see `outdated`.
        """
        self._config = config
        self._now = now
        self._find_outdated = find_outdated
        self._told: dict[ReportKey, Record | None] = {}
        self._generation = 0  # how often it was begun anew
        self._cleaned = 0  # the generation that has deleted outdated records
        self._changed = asyncio.Event()
        self._producer: AsyncProducer | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._write())

    def notice(self) -> None:
        self._changed.set()

    def begin_anew(self) -> None:
        """This server leads from now on, or no longer does: its records may be there or may have been deleted. What is
        being written right now was found out before.
        """
        self._generation += 1
        self._told = dict.fromkeys(self._told)
        self._changed.set()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._task

    async def _write(self) -> None:
        """Never ends: what fails is tried again, and others show STARTING meanwhile."""
        async with contextlib.AsyncExitStack() as stack:
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), _AGAIN_S if self._is_moving() else None)
                self._changed.clear()
                try:
                    await self._write_changes(stack)
                except (KafkaError, UserError, OSError) as problem:
                    logger.warning("event=query_states_not_written reason=%r", str(problem))
                except Exception:  # of a query with a state that nobody thought of: the task goes on
                    logger.exception("event=query_states_not_written")
                else:
                    continue
                self._changed.set()
                await asyncio.sleep(_AGAIN_S)

    async def _write_changes(self, stack: contextlib.AsyncExitStack) -> None:
        generation = self._generation
        now = {ReportKey(query, each.server): each for query, each in self._now()}
        if news := changes(self._told, now):
            self._told |= dict.fromkeys(news)  # until all are there
            await self._send(await self._open_producer(stack), news)
            if generation == self._generation:
                self._told = dict(now)
        if now and self._cleaned != generation:
            await self._clean(await self._open_producer(stack), generation)

    async def _clean(self, producer: AsyncProducer, generation: int) -> None:
        """Once after this server began to lead. What fails is left until the next change."""
        try:
            old = await self._find_outdated()
            if old is not None and generation == self._generation:
                await self._send(producer, dict.fromkeys(old))
                self._cleaned = generation
        except (KafkaError, UserError, OSError) as problem:
            logger.debug("event=query_states_not_cleaned reason=%r", str(problem))

    async def _open_producer(self, stack: contextlib.AsyncExitStack) -> AsyncProducer:
        if self._producer is None:
            await self._make_topic()
            self._producer = AsyncProducer({**self._config.client, "acks": "all", "linger.ms": 0})
            stack.push_async_callback(self._producer.close, LAST_WORDS_S)
        return self._producer

    def _is_moving(self) -> bool:
        return any(isinstance(each, Report) and each.state in (STARTING, RESTORING) for each in self._told.values())

    async def _make_topic(self) -> None:
        async with AsyncAdmin(self._config.client) as admin:
            replicas = self._config.number("ksql.internal.topic.replicas")
            await create_topic(admin, self._config.states_topic, 1, replicas, _COMPACTED)

    async def _send(self, producer: AsyncProducer, news: Mapping[ReportKey, Record | None]) -> None:
        topic = self._config.states_topic
        sent = [
            await producer.send(topic, None if each is None else each.encode(), key=key.encode(), partition=0)
            for key, each in news.items()
        ]
        for delivery in sent:
            await delivery


class Reports:
    """Reads what servers have written. Owned by the loop of the server."""

    def __init__(self, config: SqlServerConfig) -> None:
        self._config = config
        self._place = TopicPartition(config.states_topic, 0)
        self._consumer: AsyncConsumer | None = None
        self._reading = asyncio.Lock()
        self.known: dict[ReportKey, Record] = {}

    async def read(self) -> None:
        """All that was written before this call; where the brokers do not answer, what is known stays."""
        try:
            async with asyncio.timeout(_PATIENCE_S), self._reading:
                await self._read()
        except (KafkaError, UserError, OSError) as problem:
            logger.debug("event=query_states_not_read reason=%r", str(problem))

    async def _read(self) -> None:
        if self._consumer is None:
            consumer = AsyncConsumer({**self._config.client, "allow.auto.create.topics": False, **_EARLIEST})
            try:
                if not await consumer.partitions_for(self._place.topic):
                    raise UserError(f"There is no topic {self._place.topic} yet")
                begin = (await consumer.beginning_offsets([self._place]))[self._place]
                consumer.assign([self._place])
                consumer.seek(self._place, begin)
            except BaseException:
                await consumer.close()
                raise
            self._consumer = consumer
        end = (await self._consumer.end_offsets([self._place]))[self._place]
        while await self._consumer.position(self._place) < end:
            for record in await self._consumer.poll(0.1):
                self._take(record.key, record.value)

    def _take(self, data: bytes | None, value: bytes | None) -> None:
        key = ReportKey.decode(data)
        if key is None:
            return
        decode: Callable[[bytes], Record | None] = Report.decode if key.query else Ended.decode
        found = decode(value) if value is not None else None
        if found is None:
            self.known.pop(key, None)
        else:
            self.known[key] = found

    def of(self, query: str, leader: ServerName) -> Report | None:
        found = self.known.get(ReportKey(query, str(leader)))
        return found if isinstance(found, Report) else None

    def ended(self, leader: ServerName) -> int:
        """How far in the log what statements have ended runs no more there, as it has said."""
        found = self.known.get(ReportKey("", str(leader)))
        return found.offset if isinstance(found, Ended) else 0

    async def close(self) -> None:
        if self._consumer is not None:
            await self._consumer.close()
