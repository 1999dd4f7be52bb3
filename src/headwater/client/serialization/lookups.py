"""Serializers that have to ask somebody, a schema registry say, within an event loop that must not wait.

A serializer is a plain function, which waits where it asks. Under `without_waiting`, it does not: what it would ask for
is raised as `LookupDeferred`. Who called it lets a thread ask (`answer`), and calls it again: the answer is there then.
The flag belongs to one thread, and is set only while a serializer runs.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class LookupDeferred(Exception):
    """`answer` may wait, raises nothing, and keeps what it got for the next call."""

    def __init__(self, answer: Callable[[], None]) -> None:
        super().__init__("an answer is needed that nobody may wait for here")
        self.answer = answer


class _Local(threading.local):
    is_deferring = False


_local = _Local()


def without_waiting(call: Callable[[], T]) -> T:
    """Its result; raises LookupDeferred where it would have had to wait."""
    before, _local.is_deferring = _local.is_deferring, True
    try:
        return call()
    finally:
        _local.is_deferring = before


def lookups_are_deferred() -> bool:
    return _local.is_deferring


async def answered(call: Callable[[], T]) -> T:
    """Its result, within an event loop: what has to be asked for is asked for by a thread, and the call made again."""
    while True:
        try:
            return without_waiting(call)
        except LookupDeferred as needed:
            await asyncio.to_thread(needed.answer)
