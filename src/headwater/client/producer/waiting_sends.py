"""The order of sends that have to wait, in asyncio: of one topic, records are appended in the order of the calls.

A call that finds its topic unknown, a schema to be asked for, or no memory left takes a place in the line of its topic,
and appends when it is the first there. Whoever calls later stands behind it, though nothing holds him up. Topics do not
wait for each other. Used within one event loop; owns the lines.
"""

import asyncio
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager

from headwater.client.serialization.lookups import Answers, Outcome


class Place:
    """Of one call. `answers`: what it has asked for. `failure`: of a wait that was its own as well."""

    __slots__ = ("answers", "failure", "turn")

    def __init__(self) -> None:
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answers: Answers = {}
        self.failure: Exception | None = None

    async def first(self) -> None:
        """Waits until the calls before it are done; raises what they failed by, if this call waited for it, too."""
        await self.turn
        if self.failure is not None:
            raise self.failure


class WaitingSends:
    def __init__(self) -> None:
        self.lines: dict[str, deque[Place]] = {}  # none is empty

    @contextmanager
    def place(self, topic: str) -> Iterator[Place]:
        """A place at the end of the line, until the block ends."""
        line = self.lines.setdefault(topic, deque())
        mine = Place()
        line.append(mine)
        if line[0] is mine:
            mine.turn.set_result(None)
        try:
            yield mine
        finally:
            line.remove(mine)
            if not line:
                del self.lines[topic]
            elif not line[0].turn.done():
                line[0].turn.set_result(None)

    def behind(self, topic: str) -> Sequence[Place]:
        """Who waits for the first now."""
        return list(self.lines[topic])[1:]

    def tell(self, topic: str, key: Hashable, outcome: Outcome) -> None:
        """Nobody answered: those behind asked for it at the same time, as it were, and need not do so one by one. An
        answer is not passed on; who keeps such answers knows for how long they are true.
        """
        if outcome.error is not None:
            for each in self.behind(topic):
                each.answers[key] = outcome
