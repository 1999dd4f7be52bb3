"""Which of several servers runs the queries: the one that the group of servers gives the only partition of the log of
statements to.

The group tells when that changes. A server that was stopped and does not know yet cannot write: the run of a query by
its successor has fenced it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping

from headwater.base.ids import TopicPartition
from headwater.client import AsyncConsumer, RebalanceListener

Changed = Callable[[bool], Awaitable[None]]


class Leading(RebalanceListener):
    def __init__(self, client: Mapping[str, str], group: str, topic: str, changed: Changed) -> None:
        self._settings = {
            **client,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
            "group.protocol": "consumer",  # the classic one lets the first member of a group wait for others
        }
        self._topic = topic
        self._changed = changed
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    @property
    def task(self) -> asyncio.Task[None]:
        assert self._task is not None
        return self._task

    async def _follow(self) -> None:
        async with AsyncConsumer(self._settings) as consumer:
            consumer.subscribe([self._topic], listener=self)
            while True:
                await consumer.poll(1.0)

    async def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            await self._changed(True)

    async def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            await self._changed(False)
