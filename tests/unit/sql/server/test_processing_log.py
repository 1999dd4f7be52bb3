"""The processing log: it waits for a topic that cannot be made yet, counts what is lost, and never holds up a query."""

import asyncio
import json
from typing import Any

from headwater.sql.plan.processing_errors import ProcessingError
from headwater.sql.server import processing_log
from headwater.sql.server.processing_log import LogSettings, ProcessingLog

_SETTINGS = LogSettings((("bootstrap.servers", "x:1"),), "log", 1, True, False)


class Writer:
    """Fails to open `failures` times; refuses the first `refused` entries."""

    def __init__(self, failures: int = 0, refused: int = 0) -> None:
        self.failures, self.refused = failures, refused
        self.opened = self.closed = 0
        self.entries: list[dict[str, Any]] = []
        self.wrote = asyncio.Event()

    async def open(self) -> None:
        self.opened += 1
        if self.opened <= self.failures:
            raise ConnectionError("no broker")

    async def write(self, entries: list[bytes]) -> int:
        lost = min(self.refused, len(entries))
        self.refused -= lost
        self.entries += [json.loads(each) for each in entries[lost:]]
        self.wrote.set()
        return lost

    async def close(self) -> None:
        self.closed += 1


def _trouble(number: int) -> ProcessingError:
    return ProcessingError("CSAS_T_1", "processing", "t", f"trouble {number}")


async def _written(writer: Writer, log: ProcessingLog, count: int) -> list[str]:
    async with asyncio.timeout(60):
        while len(writer.entries) < count:
            writer.wrote.clear()
            await writer.wrote.wait()
    await log.close()
    return [each["message"]["recordProcessingError"]["errorMessage"] for each in writer.entries]


def test_a_topic_that_cannot_be_made_is_tried_again_and_nothing_is_lost() -> None:
    async def run() -> None:
        writer = Writer(failures=3)
        log = ProcessingLog(_SETTINGS, writer, retry_s=0.0)
        log.open()
        log.put(_trouble(1))
        log.put(_trouble(2))
        assert await _written(writer, log, 2) == ["trouble 1", "trouble 2"]
        assert (writer.opened, writer.closed) == (4, 1)

    asyncio.run(run())


def test_what_does_not_fit_and_what_the_brokers_refuse_is_counted(monkeypatch: Any) -> None:
    monkeypatch.setattr(processing_log, "PENDING_MAX", 3)

    async def run() -> None:
        writer = Writer(refused=3)
        log = ProcessingLog(_SETTINGS, writer)
        log.open()
        for number in range(5):
            log.put(_trouble(number))  # two too many; and the rest is refused
        await writer.wrote.wait()
        log.put(_trouble(5))
        log.put(_trouble(6))
        assert await _written(writer, log, 2) == ["trouble 5", "trouble 6"]
        assert [each.get("leftOut") for each in writer.entries] == [5, None]

    asyncio.run(run())


def test_a_log_that_is_turned_off_takes_nothing() -> None:
    async def run() -> None:
        writer = Writer()
        log = ProcessingLog(LogSettings((), "log", 1, False, False), writer)
        log.open()
        log.put(_trouble(1))
        await asyncio.sleep(0)
        await log.close()
        assert writer.opened == 0

    asyncio.run(run())


def test_values_of_records_are_kept_only_where_the_log_shows_them() -> None:
    """Ten thousand entries that wait for the brokers held ten thousand records, which nobody read."""
    shown = LogSettings((), "log", 1, True, True)
    trouble = ProcessingError("Q", "deserialization", "t", "no JSON", "t", 0, 7, b"value")

    async def kept(settings: LogSettings) -> bytes | None:
        writer = Writer(failures=1)
        log = ProcessingLog(settings, writer)
        log.open()
        log.put(trouble)
        (waiting,) = log._pending
        await log.close()
        return waiting.data

    assert [asyncio.run(kept(each)) for each in (_SETTINGS, shown)] == [None, b"value"]
