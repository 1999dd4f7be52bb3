"""Whoever of several brokers can be talked to first.

They are dialled one after the other. One that takes its time (a machine that does not answer, a process that is
stopped) is not given up, but after `NEXT_AFTER_MS` the next is dialled beside it. Owned by one call of a `Session`.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from headwater.base.errors import KafkaError
from headwater.client.addresses import Address
from headwater.client.errors import ConnectionFailed, RequestTimedOut
from headwater.client.reactor.kernel import Future, Kernel
from headwater.client.reactor.link import Link

NEXT_AFTER_MS: Final = 1000  # a broker that is well takes milliseconds


class LinkFinder:
    """`failures` are those who could not be reached, and whatever else the caller adds."""

    def __init__(self, kernel: Kernel, candidates: Iterable[Address], dial: Callable[[Address], Future[Link]]) -> None:
        self.failures: list[KafkaError] = []
        self._kernel = kernel
        self._candidates = deque(candidates)
        self._dial = dial
        self._dialled: list[Future[Link]] = []

    async def next(self) -> Link | None:
        """A link that is open; None when there is nobody left to try."""
        while self._candidates or self._dialled:
            if self._candidates:
                self._dialled.append(self._dial(self._candidates.popleft()))
            await self._kernel.first_done(self._dialled, NEXT_AFTER_MS / 1000 if self._candidates else None)
            for each in [each for each in self._dialled if each.done]:
                self._dialled.remove(each)
                try:
                    return each.result()
                except (ConnectionFailed, RequestTimedOut) as error:
                    self.failures.append(error)
        return None
