"""A producer whose brokers have stopped to answer: nothing that it has begun ends before it is closed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from headwater.client.producer.types import ProducerClosed


class SilentProducer:
    """`is_told_of_the_end`: closing it ends what is under way, as a real one does; otherwise even that is not heard."""

    def __init__(self, *, is_told_of_the_end: bool = True) -> None:
        self.begun = asyncio.Event()
        self.closed = asyncio.Event()
        self.aborts = 0
        self._is_told = is_told_of_the_end

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            self.aborts += 1
            await self._silence()
            raise

    async def send(self, _topic: str, _value: bytes | None, *, key: bytes, partition: int) -> Any:
        return None

    async def flush(self) -> None:
        self.begun.set()
        await self._silence()

    async def close(self, _timeout_s: float) -> None:
        self.closed.set()

    async def _silence(self) -> None:
        await (self.closed if self._is_told else asyncio.Event()).wait()
        raise ProducerClosed
