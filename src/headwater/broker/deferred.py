"""An answer that comes later: a parked fetch, a produce that waits for its replicas, a change that waits for the store.

A handler returns a `Deferred` in place of a response. The server keeps the response's place in its connection's order,
and cancels the deferred when the connection is gone, so that nobody answers into a stream that now belongs to somebody
else.

Once it is done it lets go of whoever waited: requests and connections that are over leave nothing for the garbage
collector, which comes seldom.
"""

from collections.abc import Callable
from typing import Any


class Deferred:
    __slots__ = ("_listener", "_on_cancel", "done", "holds_order", "response")

    def __init__(self, on_cancel: Callable[[], None] | None = None, *, holds_order: bool = False) -> None:
        self.response: Any = None
        self.done = False
        self.holds_order = holds_order  # later requests of the connection are not even begun before this one is done
        self._on_cancel = on_cancel
        self._listener: Callable[[Any], None] | None = None

    def complete(self, response: Any) -> None:
        """The response, or a BaseException, which ends the connection. Once only; after a cancel it is dropped."""
        if self.done:
            return
        self.done = True
        listener, self._listener, self._on_cancel = self._listener, None, None
        if listener is None:
            self.response = response
        else:
            listener(response)

    def cancel(self) -> None:
        if not self.done:
            self.done = True
            on_cancel, self._on_cancel, self._listener = self._on_cancel, None, None
            if on_cancel is not None:
                on_cancel()

    def listen(self, listener: Callable[[Any], None]) -> None:
        """Tells the one listener: now, if it is done already."""
        if self.done:
            listener(self.response)
        else:
            self._listener = listener
