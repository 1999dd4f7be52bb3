"""Calls of a connector's methods: each in a thread of its own and for a limited time, because a plugin may hang.

A call that takes too long is given up: the caller gets an error, the thread is left to itself. If it comes to an end
after all, `late` is called there, so that what was started does not run on without anybody who knows of it.
"""

import asyncio
import concurrent.futures
import contextlib
import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

from headwater.connect.errors import ConnectError

logger = logging.getLogger("headwater.connect")


def plain_call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Of a method that may be a coroutine function."""
    result = function(*arguments)
    if not inspect.isawaitable(result):
        return result

    async def awaited() -> Any:
        return await result

    return asyncio.run(awaited())


class PluginCalls:
    """`limit_s` is what a call may take where it says nothing else."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._lock = threading.Lock()
        self._pending: dict[concurrent.futures.Future[Any], str] = {}
        self._abandoned = False

    def run(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        limit_s: float | None = None,
        late: Callable[[], Any] | None = None,
        ends: bool = False,
    ) -> Any:
        """`ends`: it is a call that the end of the worker needs."""
        limit = self.limit_s if limit_s is None else limit_s
        name = getattr(function, "__qualname__", type(function).__name__)
        outcome: concurrent.futures.Future[Any] = concurrent.futures.Future()
        with self._lock:
            if self._abandoned and not ends:
                raise ConnectError(f"{name} is not called any more: the worker ends")
            self._pending[outcome] = name
        threading.Thread(
            target=_run, args=(outcome, function, arguments, late), name=f"connect-call-{name}", daemon=True
        ).start()
        concurrent.futures.wait([outcome], limit)
        _give_up(outcome, f"{name} did not return within {limit:g} seconds, and is left to itself")
        with self._lock:
            del self._pending[outcome]
        return outcome.result()

    def abandon(self) -> None:
        """All that wait give up, and nothing is begun any more but what ends something."""
        with self._lock:
            self._abandoned = True
            pending = list(self._pending.items())
        for outcome, name in pending:
            _give_up(outcome, f"{name} did not return before the worker ended")


def _give_up(outcome: concurrent.futures.Future[Any], message: str) -> None:
    with contextlib.suppress(concurrent.futures.InvalidStateError):  # it is done
        outcome.set_exception(ConnectError(message))


def _run(
    outcome: concurrent.futures.Future[Any],
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    late: Callable[[], Any] | None,
) -> None:
    try:
        result = plain_call(function, *arguments)
    except BaseException as error:  # noqa: BLE001 - a plugin's, whatever it is, is told to who called
        told = error if isinstance(error, Exception) else ConnectError(f"{type(error).__name__}: {error}")
        with contextlib.suppress(concurrent.futures.InvalidStateError):
            outcome.set_exception(told)
        return
    try:
        outcome.set_result(result)
    except concurrent.futures.InvalidStateError:
        if late is not None:
            try:
                plain_call(late)
            except Exception:  # noqa: BLE001
                logger.warning("event=late-stop-failed call=%r", getattr(function, "__qualname__", ""))
