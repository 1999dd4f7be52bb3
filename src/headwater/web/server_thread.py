"""An event loop that serves in a thread of its own, beside whatever else the process does.

    thread = ServerThread("name", serve).start()
    thread.stop()

`serve` gets a `Serving`: it says when it listens, and waits until it is asked to end.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable


class Serving:
    """For the coroutine that serves; made in its loop."""

    def __init__(self, ready: threading.Event) -> None:
        self._ready = ready
        self._loop = asyncio.get_running_loop()
        self._asked = asyncio.Event()

    async def until_asked_to_end(self) -> None:
        """It listens: whoever has started the thread goes on."""
        self._ready.set()
        await self._asked.wait()

    def ask_to_end(self) -> None:
        """By any thread."""
        self._loop.call_soon_threadsafe(self._asked.set)


class ServerThread:
    def __init__(self, name: str, serve: Callable[[Serving], Awaitable[None]]) -> None:
        self._serve = serve
        self._serving: Serving | None = None
        self._error: BaseException | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    def start(self) -> "ServerThread":
        """Returns when it listens. Raises what kept it from that."""
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error
        return self

    def stop(self) -> None:
        if self._serving is not None and self._thread.is_alive():
            self._serving.ask_to_end()
        self._thread.join()

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:  # noqa: BLE001 - whoever started it is told
            self._error = error
        finally:
            self._ready.set()

    async def _run(self) -> None:
        self._serving = Serving(self._ready)
        await self._serve(self._serving)
