"""A service in a process of its own: start it, print its `ready` line, and wait until it is told to stop or cannot go
on.

SIGTERM and SIGINT stop it cleanly (exit code 0). With `stop_on_eof` it also stops when its stdin is closed, which is
how a supervisor that dies takes its children with it. A UserError, at the start or later, is explained on stderr (exit
code 1).
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from headwater.base.errors import UserError
from headwater.web.listeners import HttpListener
from headwater.web.server import HttpServer

if TYPE_CHECKING:
    from headwater.base.security.tls import ContextSource

logger = logging.getLogger("headwater.web")


class Service(Protocol):
    async def start(self) -> str:
        """Serves when this returns; gives the line to print, which begins with `ready`. Raises UserError where it
        cannot.
        """

    async def broken(self) -> UserError:
        """Returns only if the service cannot go on, and says why."""

    async def stop(self) -> None:
        """Also called after a start that failed or was given up halfway."""


MakeService: TypeAlias = Callable[[], Service]


def run_service(make: MakeService, *, stop_on_eof: bool = False) -> int:
    """The exit code. `make` is called inside the running loop."""
    try:
        return asyncio.run(_run(make, stop_on_eof))
    except UserError as problem:
        explain(problem)
        return 1


async def _run(make: MakeService, stop_on_eof: bool) -> int:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if stop_on_eof:
        loop.add_reader(0, _on_stdin, loop, stop)
    service = make()
    stopped = asyncio.create_task(stop.wait())
    try:
        starting = asyncio.create_task(service.start())
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await starting
            return 0
        ready_line = starting.result()
        with contextlib.suppress(BrokenPipeError):  # nobody reads it: no reason not to serve
            sys.stdout.write(ready_line + "\n")
            sys.stdout.flush()
        broken = asyncio.create_task(service.broken())
        await asyncio.wait({broken, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if broken.done():
            raise broken.result()
        broken.cancel()
        return 0
    finally:
        stopped.cancel()
        if stop_on_eof:
            loop.remove_reader(0)
        logger.info("event=stopping pid=%d", os.getpid())
        await service.stop()


def _on_stdin(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    if not os.read(0, 4096):
        loop.remove_reader(0)
        stop.set()


def explain(problem: UserError) -> None:
    lines = [f"error: {problem.what}"]
    if problem.why:
        lines.append(f"  why: {problem.why}")
    if problem.hint:
        lines.append(f"  try: {problem.hint}")
    sys.stderr.write("\n".join(lines) + "\n")


async def listen(server: HttpServer, listener: HttpListener, tls: "ContextSource | None", what: str, hint: str) -> int:
    """Listens, or says in a sentence why it cannot. `what`: 'The schema registry'."""
    host, port = listener.host, listener.port
    try:
        return await server.start(host, port, tls if listener.is_secured else None)
    except OSError as problem:
        why = problem.strerror or str(problem)
        raise UserError(f"{what} cannot listen on {host or '*'}:{port}", why, hint) from None
