"""Writes that wait at the same time share one transaction. Whoever leads a registry owns one of these.

A transaction costs far more than a decision, and only one runs at a time. So what is asked for while one runs is
decided one after the other when it has ended, and written together: each decision sees a state in which those before it
are done already, though nobody else sees that before it is committed. Then all are committed, or none is. What was
decided upon others of the same transaction is told only when that is committed, an error too: it may be about a schema
that nobody has written in the end.

A decision that takes long does not keep those before it waiting: they are committed first. A record that the broker
finds too large is told to who sent it: the others are decided again, each by itself.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from headwater.base.errors import ErrorCode, KafkaError
from headwater.registry import errors
from headwater.registry.decisions.registering import Registry
from headwater.registry.decisions.steps import Decision, Steps
from headwater.registry.records import Record
from headwater.registry.schema_log import NotLeading, WriteFailed
from headwater.registry.state import State

_DECISIONS_MAX: Final = 100  # of one transaction
_CHARACTERS_MAX: Final = 1024 * 1024  # of the schemas in one transaction, but for those of one decision
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)

Decide: TypeAlias = Callable[[Registry], Steps[Decision]]


class TakesLong(Exception):
    """The decision has work for a thread, and was to be made without one. Nothing has happened."""


class Log(Protocol):
    """What `SchemaLog` is to a leader."""

    state: State
    applied_offset: int

    async def write(self, records: list[Record]) -> int: ...


class Host(Protocol):
    """The node whose writes these are."""

    is_leading: bool

    def registry_with(self, state: State) -> Registry: ...

    async def run(self, steps: Steps[Decision], *, in_place_only: bool = False) -> Decision: ...

    async def lose(self) -> None:
        """A write found out that another leads, or may lead. Called within the turn of that write."""


@dataclass(slots=True)
class _Waiting:
    decide: Decide
    answer: "asyncio.Future[tuple[Any, int]]"
    outcome: Decision | Exception | None = None
    is_alone: bool = False  # has no company in its transaction

    def settle(self, offset: int) -> None:
        assert self.outcome is not None
        if isinstance(self.outcome, Exception):
            self.fail(self.outcome)
        elif not self.answer.done():
            self.answer.set_result((self.outcome.answer, offset))

    def fail(self, problem: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(problem)

    @property
    def records(self) -> list[Record]:
        return self.outcome.records if isinstance(self.outcome, Decision) else []


class GroupCommit:
    def __init__(self, host: Host, log: Log) -> None:
        self.turn = asyncio.Lock()  # held while something is written, and while the node begins or ends to lead
        self._host = host
        self._log = log
        self._queue: deque[_Waiting] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def write(self, decide: Decide) -> tuple[Any, int]:
        """What was decided, once it is committed and in the state, and the offset at which all of it is known. Raises
        what the decision raises, NotLeading if nothing was written because another leads, WriteFailed if nobody knows.
        """
        waiting = _Waiting(decide, asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all())
        return await waiting.answer

    async def close(self) -> None:
        """What is under way ends where it is, as in a node that dies."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait({self._writing})
        for each in self._queue:
            each.answer.cancel()

    async def _write_all(self) -> None:
        while self._queue:
            group: list[_Waiting] = []
            problem: Exception | None = None
            offset: int | None = None
            try:
                async with self.turn:
                    try:
                        await self._decide(group)
                        offset = await self._commit(group)
                    except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
                        problem = error
                    if isinstance(problem, NotLeading | WriteFailed):
                        await self._host.lose()
            except asyncio.CancelledError:
                for each in group:
                    each.answer.cancel()
                raise
            finally:  # whatever becomes of the election, those who wait must hear of their writes
                for each in group:
                    if problem is not None:
                        each.fail(problem)
                    elif offset is not None:
                        each.settle(offset)

    async def _decide(self, group: list[_Waiting]) -> None:
        """Takes from the queue what can be written together. What depends on nothing that is still to be written has
        its answer at once.
        """
        state, characters = self._log.state, 0
        while self._queue and len(group) < _DECISIONS_MAX and characters < _CHARACTERS_MAX:
            waiting = self._queue[0]
            if group and (waiting.is_alone or group[0].is_alone):
                return
            if not self._host.is_leading:
                self._queue.popleft().fail(NotLeading())
                continue
            try:
                waiting.outcome = await self._host.run(
                    waiting.decide(self._host.registry_with(state)), in_place_only=bool(group)
                )
            except TakesLong:
                return
            except Exception as problem:  # noqa: BLE001 - for who asked
                waiting.outcome = problem
            self._queue.popleft()
            if not group and not waiting.records:
                waiting.settle(self._log.applied_offset)
            else:
                group.append(waiting)
                if waiting.records and state is self._log.state:
                    state = state.ahead()
                for record in waiting.records:
                    state.apply_record(record.key, record.value)
                    characters += len((record.value or {}).get("schema") or "")
            await asyncio.sleep(0)  # others are served between two decisions

    async def _commit(self, group: list[_Waiting]) -> int | None:
        """The offset of the last record; None if there is nothing to tell: those who wait are in the queue again."""
        records = [record for each in group for record in each.records]
        if not records:
            return None
        try:
            return await self._log.write(records)
        except KafkaError as problem:
            if problem.code not in _TOO_LARGE:
                raise
        if len(group) == 1:
            raise errors.too_large("Register operation failed because schema is too large")
        for each in group:
            each.is_alone = True
        self._queue.extendleft(reversed(group))
        return None
