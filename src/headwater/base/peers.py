"""The port to other brokers: a request goes out, its answer comes back, or the reason why none does.

Everything is called from the owner's loop; `done` comes back there, never inside `ask`. Requests of one lane to one
broker are answered in the order in which they were asked, over one connection, so a fetch that is parked over there
delays only its lane. When that connection breaks, everything that waits on it is told `Unreachable`; the next request
makes a new one.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from headwater.base.ids import BrokerId


class Lane(Enum):
    FETCH = "fetch"  # of replicas
    CONTROL = "control"  # what is asked of the controller in a client's name
    TRANSACTIONS = "transactions"  # partitions added to transactions: producers wait for it
    MARKERS = "markers"  # of transactions: answered when they are on all in-sync replicas
    WATCH = "watch"  # of the controller: whether the broker is there


class Unreachable(Exception):
    """No answer: the broker is not known, not connected, too slow, or it closed the connection. What was asked may have
    been done.

    `is_refused`: a connection was tried, and at each of its addresses the broker's host said that nobody listens there.
    """

    def __init__(self, why: str, *, is_refused: bool = False) -> None:
        super().__init__(why)
        self.is_refused = is_refused


class Peers(Protocol):
    on_lost: Callable[[BrokerId], None]
    """A connection to the broker was open and has ended, and not by us."""

    def ask(
        self,
        broker: BrokerId,
        lane: Lane,
        request: Any,
        version: int,
        done: Callable[[Any | None, Unreachable | None], None],
        *,
        timeout_ms: int,
        origin: str = "",
    ) -> None:
        """`request` is a message of `wire.messages`; `done` gets the decoded response. Records in it are valid until
        `done` returns. `origin`: in whose name it is asked, as the end of the request's client id.
        """
        ...

    def forget(self, broker: BrokerId) -> None:
        """It is gone, or is another process now: its connections are closed, and what waits on them is told so."""
        ...

    def close(self) -> None: ...
