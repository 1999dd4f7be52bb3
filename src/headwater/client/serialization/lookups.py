"""Serializers that have to ask somebody, a schema registry say, within an event loop that must not wait.

A serializer is a plain function, which waits where it asks. Under `without_waiting`, it does not: what it would ask for
is raised as `LookupDeferred`. Who called it lets a thread ask, and calls it again, with the answer. An answer belongs
to the call that asked, and goes with it: a call that is cancelled leaves nothing behind for another one.
The answers belong to one thread, and are there only while a serializer runs.
"""

import asyncio
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a question: an answer, or an error."""

    value: Any = None
    error: Exception | None = None

    def taken(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


Answers = dict[Hashable, Outcome]  # of one call of a serializer, by what was asked


class LookupDeferred(Exception):
    """`ask` may wait. Equal keys ask for the same."""

    def __init__(self, key: Hashable, ask: Callable[[], Any]) -> None:
        super().__init__("an answer is needed that nobody may wait for here")
        self.key = key
        self._ask = ask

    def outcome(self) -> Outcome:
        """Waits; raises nothing."""
        try:
            return Outcome(self._ask())
        except Exception as error:  # noqa: BLE001 - raised where the answer is taken
            return Outcome(error=error)


class _Local(threading.local):
    answers: Answers | None = None


_local = _Local()


def without_waiting(call: Callable[[], T], answers: Answers) -> T:
    """Its result; raises LookupDeferred where it would have had to wait for something that is not in `answers`."""
    before, _local.answers = _local.answers, answers
    try:
        return call()
    finally:
        _local.answers = before


def looked_up(key: Hashable, ask: Callable[[], T]) -> T:
    """For whoever asks: what `ask` gives, or what it gave to the same call before. See the module."""
    answers = _local.answers
    if answers is None:
        return ask()
    found = answers.get(key)
    if found is None:
        raise LookupDeferred(key, ask)
    return found.taken()  # type: ignore[no-any-return]


class Lookups:
    """Questions that are under way in one event loop: whoever asks the same meanwhile gets the same answer.

    A question goes on though its caller is cancelled. So calls that are given less time than an answer takes come to
    an end some time, too: the next one takes part in the question of the one before.
    """

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Future[Outcome]] = {}

    async def outcome(self, needed: LookupDeferred) -> Outcome:
        key = needed.key
        asked = self._under_way.get(key)
        if asked is None:
            asked = asyncio.get_running_loop().run_in_executor(None, needed.outcome)
            self._under_way[key] = asked
            asked.add_done_callback(lambda _: self._under_way.pop(key, None))
        return await asyncio.shield(asked)

    async def answered(self, call: Callable[[], T]) -> T:
        """Its result: what has to be asked for is asked for by a thread, and the call made again."""
        answers: Answers = {}
        while True:
            try:
                return without_waiting(call, answers)
            except LookupDeferred as needed:
                answers[needed.key] = await self.outcome(needed)
