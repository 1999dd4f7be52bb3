"""Queries of DuckDB beside the server's loop: a few at a time, each with an end. What one reads is read when it is its
turn, and within the same time: those that wait hold nothing.

A query that takes too long, or that nobody waits for any more, is interrupted; its place is free when its thread has
ended. Owned by the loop of its server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from headwater.sql.language.errors import SqlError
from headwater.sql.plan.catalog import Column
from headwater.sql.server.duckdb_functions import OwnFunction
from headwater.sql.server.duckdb_queries import Bounds, Interruption, Relation, answer

AT_ONCE: Final = 2
SECONDS_MAX: Final = 100.0  # below the two minutes that the door gives an answer, so that this is what is told
_AGAIN_S: Final = 0.05

Rows = tuple[tuple[Column, ...], Iterator[list[Any]]]
Made = Mapping[str, Callable[[], Relation]]  # relations, whose rows have been read


class DuckDbPool:
    def __init__(self, bounds: Bounds, seconds_max: float = SECONDS_MAX) -> None:
        self._bounds, self._seconds_max = bounds, seconds_max
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="headwater-sql-duckdb")
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._running: dict[asyncio.Future[Rows], Interruption] = {}

    async def answer(
        self, text: str, read: Callable[[], Awaitable[Made]], functions: Sequence[OwnFunction] = ()
    ) -> Rows:
        """The columns and rows of a query in DuckDB's words over the relations that `read` reads, and which are made in
        a thread. Raises SqlError.
        """
        limit = asyncio.timeout(self._seconds_max)
        try:
            async with limit:
                await self._turns.acquire()
                try:
                    relations = await read()
                except BaseException:
                    self._turns.release()
                    raise
                return await self._run(text, relations, functions)
        except TimeoutError:
            if not limit.expired():
                raise
            raise SqlError(
                f"The query had no answer within {self._seconds_max:g} seconds, and was stopped.",
                hint="Ask for less, or make a table of it with CREATE TABLE AS SELECT.",
            ) from None

    async def close(self) -> None:
        """Interrupts what runs, and waits for its threads."""
        for future in list(self._running):
            self._interrupt(future)
        if self._running:
            await asyncio.wait(list(self._running))
        self._threads.shutdown()

    async def _run(self, text: str, relations: Made, functions: Sequence[OwnFunction]) -> Rows:
        interruption = Interruption()
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(
            self._threads, _carried_out, text, relations, self._bounds, interruption, functions
        )
        self._running[future] = interruption
        future.add_done_callback(self._ended)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self._interrupt(future)
            raise

    def _interrupt(self, future: asyncio.Future[Rows]) -> None:
        """Until it has ended: DuckDB forgets an interruption that comes just before a query begins."""
        interruption = self._running.get(future)
        if interruption is not None:
            interruption.interrupt()
            asyncio.get_running_loop().call_later(_AGAIN_S, self._interrupt, future)

    def _ended(self, future: asyncio.Future[Rows]) -> None:
        del self._running[future]
        self._turns.release()
        if not future.cancelled():
            future.exception()  # whoever asked may be gone


def _carried_out(
    text: str, made: Made, bounds: Bounds, interruption: Interruption, functions: Sequence[OwnFunction]
) -> Rows:
    relations = {name: make() for name, make in made.items()}
    return answer(text, relations, bounds, interruption, functions)
