"""Which of several servers runs the queries: the one that the group of servers gives the only partition of the log of
statements to.

The group tells when that changes. A server that was killed stays its member for long; so each server probes the
others (`peers`), sends away who is no more, and asks the group at once who has the partition now, instead of with its
next heartbeat. A server that was stopped and does not know yet cannot write: the run of a query by its successor has
fenced it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.client import AsyncAdmin, AsyncConsumer, Departure, RebalanceListener
from headwater.sql.server.closing import LAST_WORDS_S
from headwater.sql.server.peers import Member, ProbeResult, ServerName, Watch, members_of, probe, probe_own, send_away

logger = logging.getLogger("headwater.sql")
Changed = Callable[[bool], Awaitable[None]]
_SOON_S: Final = 0.1  # after a server was sent away: the group has given its place to another


class Leading(RebalanceListener):
    """Owned by the loop of its server."""

    def __init__(self, client: Mapping[str, str], group: str, topic: str, changed: Changed) -> None:
        self._settings = {
            **client,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "group.protocol": "consumer",  # the classic one lets the first member of a group wait for others
        }
        self._client = client
        self._group = group
        self._partition = TopicPartition(topic, 0)
        self._changed = changed
        self._consumer: AsyncConsumer | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.watch: Watch | None = None

    def start(self, own: ServerName, interval_s: float, missed_max: int, silent_max_ms: int) -> None:
        """`own`: where this server listens. It probes the others every `interval_s`."""
        self.watch = Watch(own, missed_max, silent_max_ms, int(interval_s * 1000))
        self._tasks = [
            asyncio.create_task(self._follow(own)),
            asyncio.create_task(self._look(self.watch, interval_s)),
        ]

    async def stop(self) -> None:
        for task in reversed(self._tasks):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):  # `ended` tells what was met
                await task

    async def ended(self) -> None:
        """Returns, or raises what was met, only when this server can be no member any more."""
        await self._tasks[0]

    async def _follow(self, own: ServerName) -> None:
        consumer = AsyncConsumer({**self._settings, "group.instance.id": str(own), "client.id": own.address})
        self._consumer = consumer
        try:
            consumer.subscribe([self._partition.topic], listener=self)
            while True:
                await consumer.poll(1.0)
        finally:
            await consumer.close(LAST_WORDS_S, departure=Departure.LEAVE)

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            await self._changed(True)

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            await self._changed(False)

    async def _look(self, watch: Watch, interval_s: float) -> None:
        """Never ends: what fails is tried again, and the group's own time-outs hold meanwhile."""
        async with AsyncAdmin(self._client) as admin:
            while True:
                try:
                    gone = await self._look_once(admin, watch)
                except (KafkaError, OSError) as problem:
                    logger.debug("event=peers_unknown reason=%r", str(problem))
                    gone = []
                except Exception:  # of a member with a name that nobody thought of: the others are looked at on
                    logger.exception("event=peers_unknown")
                    gone = []
                await asyncio.sleep(min(_SOON_S, interval_s) if gone else interval_s)

    async def members(self, admin: AsyncAdmin) -> list[Member]:
        """The servers, and which of them leads, as the group says now. Raises KafkaError."""
        return await members_of(admin, self._group, self._partition)

    async def _look_once(self, admin: AsyncAdmin, watch: Watch) -> list[ServerName]:
        members = await self.members(admin)
        probes = await self._probe(watch.own, [each.name for each in members])
        gone = watch.on_look(members, probes, time.time_ns() // 1_000_000)
        if gone:
            logger.warning("event=servers_gone servers=%s", ",".join(map(str, gone)))
            await send_away(admin, self._group, gone)
            if self._consumer is not None:  # to subscribe again is to ask the group at once
                self._consumer.subscribe([self._partition.topic], listener=self)
        return gone

    async def _probe(self, own: ServerName, names: Iterable[ServerName]) -> dict[ServerName, ProbeResult]:
        """At the others; for those that listened at the own address, once at that one."""
        others = [each for each in names if each != own and own.may_reach(each)]
        before = [each for each in others if own.succeeds(each)]
        elsewhere = [each for each in others if not own.succeeds(each)]
        found = await asyncio.gather(*(probe(each) for each in elsewhere))
        probes = dict(zip(elsewhere, found, strict=True))
        return probes | dict.fromkeys(before, await probe_own(own)) if before else probes
