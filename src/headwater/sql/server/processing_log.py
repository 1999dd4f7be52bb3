"""The processing log: what became of rows that could not be decoded or computed, in a topic, as ksqlDB's.

Queries run in threads and tell their troubles by `put`, which never waits; a task of the loop writes them. Between the
two are at most `PENDING_MAX` entries: what comes faster, and what the brokers refuse, is counted, and the next entry
says how many were left out. The topic is made when the first entry comes; while it cannot be, it is tried again, less
and less often.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Protocol

from headwater.client import AsyncAdmin, AsyncProducer
from headwater.sql.plan.processing_errors import ProcessingError
from headwater.sql.server.closing import LAST_WORDS_S
from headwater.sql.server.command_log import create_topic
from headwater.sql.server.config import SqlServerConfig

logger = logging.getLogger("headwater.sql")
PENDING_MAX: Final = 10_000
_AT_ONCE_MAX: Final = 500  # entries that are on their way together
_RETRY_MAX_S: Final = 60.0


def entry(trouble: ProcessingError, now_ms: int, left_out: int, *, rows: bool) -> bytes:
    """A record of the log, in ksqlDB's form. `rows`: with the row itself."""
    details: dict[str, Any] = dict.fromkeys(
        ("deserializationError", "recordProcessingError", "productionError", "serializationError", "kafkaStreamsThreadError")
    )  # fmt: skip
    if trouble.kind == "deserialization":
        kind = 0
        raw = base64.b64encode(trouble.data).decode() if rows and trouble.data is not None else None
        details["deserializationError"] = {
            "target": "value",
            "errorMessage": trouble.message,
            "recordB64": raw,
            "cause": [],
            "topic": trouble.topic,
        }
    else:
        kind = 1
        details["recordProcessingError"] = {"errorMessage": trouble.message, "record": None, "cause": []}
    shown = {
        "level": "ERROR",
        "logger": f"processing.{trouble.query_id}.{trouble.where}",
        "time": now_ms,
        "message": {"type": kind, **details},
    }
    if left_out:
        shown["leftOut"] = left_out
    if trouble.kind == "deserialization":
        shown["partition"], shown["offset"] = trouble.partition, trouble.offset
    return json.dumps(shown, ensure_ascii=False).encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class LogSettings:
    client: tuple[tuple[str, Any], ...] = field(repr=False)  # settings of the Kafka clients; some are secrets
    topic: str
    replicas: int
    is_enabled: bool
    rows: bool  # with the rows themselves

    @classmethod
    def of(cls, config: SqlServerConfig) -> LogSettings:
        return cls(
            tuple(config.client.items()),
            config.text("ksql.logging.processing.topic.name") or f"{config.service_id}ksql_processing_log",
            config.number("ksql.internal.topic.replicas"),
            bool(config.values["ksql.logging.processing.topic.auto.create"]),
            bool(config.values["ksql.logging.processing.rows.include"]),
        )


class Writer(Protocol):
    async def open(self) -> None:
        """Makes the topic; raises where it cannot."""

    async def write(self, entries: list[bytes]) -> int:
        """How many of them the brokers did not take."""

    async def close(self) -> None:
        """Also after an open that failed."""


class TopicWriter:
    def __init__(self, settings: LogSettings) -> None:
        self._settings = settings
        self._producer: AsyncProducer | None = None

    async def open(self) -> None:
        client = dict(self._settings.client)
        async with AsyncAdmin(client) as admin:
            await create_topic(admin, self._settings.topic, 1, self._settings.replicas)
        self._producer = AsyncProducer(client)

    async def write(self, entries: list[bytes]) -> int:
        assert self._producer is not None
        sent, why = [], None
        for each in entries:
            try:
                sent.append(await self._producer.send(self._settings.topic, each, partition=0))
            except Exception as error:  # noqa: BLE001  a log that cannot be written must not end the server
                why = error
        taken = 0
        for delivery in sent:
            try:
                await delivery
                taken += 1
            except Exception as error:  # noqa: BLE001  as above
                why = error
        if why is not None:
            logger.warning("event=processing_log_not_written entries=%d error=%r", len(entries) - taken, str(why))
        return len(entries) - taken

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.close(LAST_WORDS_S)


class ProcessingLog:
    """Made inside the loop that owns it; `put` may be called from any thread."""

    def __init__(self, settings: LogSettings, writer: Writer | None = None, *, retry_s: float = 1.0) -> None:
        self._settings = settings
        self._writer = writer or TopicWriter(settings)
        self._retry_s = retry_s  # until the topic is tried again; doubled each time
        self._pending: deque[ProcessingError] = deque()
        self._left_out = 0
        self._came: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._loop, self._came = asyncio.get_running_loop(), asyncio.Event()
        self._task = asyncio.create_task(self._write())

    async def written(self) -> None:
        """Does not return: raises what keeps the log from being written."""
        assert self._task is not None
        await self._task

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._task

    def __reduce__(self) -> tuple[Any, ...]:
        """Queries that run in another process, an executor of Spark, write to the same topic from there."""
        return of_this_process, (self._settings,)

    def put(self, trouble: ProcessingError) -> None:
        if not self._settings.is_enabled or self._loop is None or self._came is None:
            return
        if len(self._pending) >= PENDING_MAX:
            self._left_out += 1
            return
        self._pending.append(trouble if self._settings.rows else replace(trouble, data=None))
        with contextlib.suppress(RuntimeError):  # the loop is closed: the server has ended
            self._loop.call_soon_threadsafe(self._came.set)

    async def _write(self) -> None:
        assert self._came is not None
        await self._came.wait()
        try:
            await self._open()
            while True:
                self._came.clear()
                while self._pending:
                    told, self._left_out = self._left_out, 0
                    entries = self._take(told)
                    lost = await self._writer.write(entries)
                    self._left_out += lost + (told if lost == len(entries) else 0)
                await self._came.wait()
        finally:
            await self._writer.close()

    async def _open(self) -> None:
        wait_s = self._retry_s
        while True:
            try:
                await self._writer.open()
                return
            except Exception as error:  # noqa: BLE001  brokers that are away, a right that is missing: it may be there later
                logger.warning("event=processing_log_not_made retry_in_s=%g error=%r", wait_s, str(error))
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * 2, _RETRY_MAX_S)

    def _take(self, left_out: int) -> list[bytes]:
        """The next entries; the first says how many were left out before it."""
        now_ms = int(time.time() * 1000)
        entries: list[bytes] = []
        while self._pending and len(entries) < _AT_ONCE_MAX:
            entries.append(entry(self._pending.popleft(), now_ms, left_out, rows=self._settings.rows))
            left_out = 0
        return entries


_logs: dict[LogSettings, ProcessingLog] = {}  # of a process that is not the server's
_logs_lock: Final = threading.Lock()


def of_this_process(settings: LogSettings) -> ProcessingLog:
    """The log for queries in an executor: one for all of them, with a thread that ends with the process."""
    with _logs_lock:
        if settings not in _logs:
            _logs[settings] = log = ProcessingLog(settings)
            is_open = threading.Event()
            serve = partial(asyncio.run, _serve(log, is_open))
            threading.Thread(target=serve, name="headwater-processing-log", daemon=True).start()
            is_open.wait()
        return _logs[settings]


async def _serve(log: ProcessingLog, is_open: threading.Event) -> None:
    log.open()
    is_open.set()
    await log.written()
