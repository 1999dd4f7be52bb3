"""The states of persistent queries, as every server of a service id knows them.

The server that leads runs all queries, so it alone knows their states. It writes them into a compacted topic of one
partition, `_confluent-ksql-<service id>_query_states`, keyed by query: whenever one changes, and each second how far the
stores of queries are that restore. The other servers read the topic to its end when they are asked. What goes through
the brokers needs no second way between servers, with its own addresses, certificates and logins.

A report counts only while the server that wrote it leads (`peers`): what a former one said is over. The decisions are
pure (`state_elsewhere`, `changes`); `Reporter` writes and `Reports` reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.base.errors import KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client import AsyncAdmin, AsyncConsumer, AsyncProducer
from headwater.sql.server.command_log import create_topic
from headwater.sql.server.query_host import StoreProgress

if TYPE_CHECKING:
    from headwater.sql.server.config import SqlServerConfig
    from headwater.sql.server.peers import HostStatus, ServerName

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


def changes(told: Mapping[str, Report], now: Mapping[str, Report]) -> dict[str, Report | None]:
    """What to write: reports that are new, and None for queries that are no more."""
    found: dict[str, Report | None] = {name: each for name, each in now.items() if told.get(name) != each}
    return found | {name: None for name in told if name not in now}


class Reporter:
    """Writes what changes, for as long as this server leads. Owned by the loop of the server."""

    def __init__(self, config: SqlServerConfig, now: Callable[[], Mapping[str, Report]]) -> None:
        """`now`: the reports of all queries; empty while this server does not lead."""
        self._config = config
        self._now = now
        self._told: dict[str, Report] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._write())

    def notice(self) -> None:
        self._changed.set()

    def begin_anew(self) -> None:
        """This server leads from now on, or no longer does: nothing is known of what the topic has."""
        self._told = {}
        self._changed.set()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._task

    async def _write(self) -> None:
        """Never ends: what fails is tried again, and others show STARTING meanwhile."""
        async with contextlib.AsyncExitStack() as stack:
            producer: AsyncProducer | None = None
            while True:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), _AGAIN_S if self._is_moving() else None)
                self._changed.clear()
                news = changes(self._told, now := dict(self._now()))
                if not news:
                    continue
                try:
                    if producer is None:
                        await self._make_topic()
                        producer = AsyncProducer({**self._config.client, "acks": "all", "linger.ms": 0})
                        await stack.enter_async_context(contextlib.aclosing(_Closing(producer)))
                    await self._send(producer, news)
                    self._told = now
                except (KafkaError, UserError, OSError) as problem:
                    logger.warning("event=query_states_not_written reason=%r", str(problem))
                    self._changed.set()
                    await asyncio.sleep(_AGAIN_S)

    def _is_moving(self) -> bool:
        return any(each.state in (STARTING, RESTORING) for each in self._told.values())

    async def _make_topic(self) -> None:
        async with AsyncAdmin(self._config.client) as admin:
            replicas = self._config.number("ksql.internal.topic.replicas")
            await create_topic(admin, self._config.states_topic, 1, replicas, _COMPACTED)

    async def _send(self, producer: AsyncProducer, news: Mapping[str, Report | None]) -> None:
        topic = self._config.states_topic
        sent = [
            await producer.send(topic, None if each is None else each.encode(), key=name.encode(), partition=0)
            for name, each in news.items()
        ]
        for delivery in sent:
            await delivery


class _Closing:
    """A producer for `aclosing`."""

    def __init__(self, producer: AsyncProducer) -> None:
        self._producer = producer

    async def aclose(self) -> None:
        await self._producer.close()


class Reports:
    """Reads what the server that leads has written. Owned by the loop of the server."""

    def __init__(self, config: SqlServerConfig) -> None:
        self._config = config
        self._place = TopicPartition(config.states_topic, 0)
        self._consumer: AsyncConsumer | None = None
        self._reading = asyncio.Lock()
        self.known: dict[str, Report] = {}

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

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        name = (key or b"").decode("utf-8", "replace")
        report = Report.decode(value) if value is not None else None
        if report is None:
            self.known.pop(name, None)
        else:
            self.known[name] = report

    async def close(self) -> None:
        if self._consumer is not None:
            await self._consumer.close()
