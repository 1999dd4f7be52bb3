"""The port to ZooKeeper: what the broker wing asks of a session with it. `server/zookeeper/` has the real one, `sim/` a
simulated one.

Everything is called from the owner's loop, and every `done` and every watch comes back there, never inside the call.
Operations of one session are carried out in the order in which they were asked for. `ConnectionLost` means that nobody
knows whether a write happened. A watch is told once, about the first change after its read, and is void when its
session is lost.

Reads may be stale: another session may see a later state. So whatever is written is guarded, by a version or by a
`Check`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

ANY_VERSION: int = -1


@dataclass(frozen=True, slots=True)
class Node:
    """A node as it was read. `created` is the transaction that made it: it only grows, and a node made again has
    another.
    """

    data: bytes
    version: int
    created: int


@dataclass(frozen=True, slots=True)
class Create:
    """Fails if the node is there or its parent is not. `sequential` appends ten digits that only grow under this
    parent.
    """

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Fails if the node has children."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int


Write = Create | SetData | Delete | Check
Written = str | int | None
"""What came of a write: the path of a `Create` (with its digits), the new version of a `SetData`, None otherwise."""


class CoordinationError(Exception):
    """A request to ZooKeeper was not done; `path` is of the write that was refused, where one is to blame."""

    def __init__(self, path: str = "") -> None:
        super().__init__(f"{type(self).__name__} {path}".rstrip())
        self.path = path


class NodeMissing(CoordinationError):
    """The node, or the parent of one to be made, is not there."""


class NodeExists(CoordinationError):
    pass


class WrongVersion(CoordinationError):
    pass


class NodeHasChildren(CoordinationError):
    pass


class NotAuthorized(CoordinationError):
    """The ACL of the node, or of its parent, does not let us."""


class NotAuthenticated(NotAuthorized):
    """A node was to be ours alone, and the service does not know who we are."""


class ConnectionLost(CoordinationError):
    """The connection ended before the answer came: a write may have happened or not."""


class SessionLost(CoordinationError):
    """The session is over: its ephemeral nodes are gone, and what was asked was not done."""


class SessionState(Enum):
    CONNECTED = "connected"  # also again, with the same session
    SUSPENDED = "suspended"  # not connected: the session may come back, or may be over already without our knowing
    LOST = "lost"  # over. A new session follows by itself, and is told with CONNECTED


class Coordination(Protocol):
    """A client that always has, or is about to get, a session."""

    on_state: Callable[[SessionState], None]
    """Set by its user before `start`."""

    def start(self) -> None: ...

    def close(self) -> None:
        """Ends the session: its ephemeral nodes go at once. Nothing is called back any more."""
        ...

    @property
    def session_id(self) -> int:
        """Of the session now; 0 while there is none."""
        ...

    def get(
        self,
        path: str,
        done: Callable[[Node | None, CoordinationError | None], None],
        watch: Callable[[], None] | None = None,
    ) -> None:
        """(node, None); (None, None) if there is no such node; (None, error). `watch`: it was changed, deleted or
        made.
        """
        ...

    def children(
        self,
        path: str,
        done: Callable[[list[str] | None, CoordinationError | None], None],
        watch: Callable[[], None] | None = None,
    ) -> None:
        """Names, sorted; (None, None) if there is no such node, and then the watch waits for nothing. `watch`: one came
        or went.
        """
        ...

    def write(
        self, writes: Sequence[Write], done: Callable[[list[Written] | None, CoordinationError | None], None]
    ) -> None:
        """All of them or none, in one step. At most 1 MB together."""
        ...
