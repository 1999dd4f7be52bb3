"""Which way a plain fetch takes: the compiled one (`native/fetch/`, built at install), or the general one.

`handle_frame` answers fetches that need not wait: without a session or with one that goes on, of consumers and of
followers in sync. The general way (`dispatch.py`, `broker/handlers/fetch.py`) is its twin: whatever it gives None for
goes there, before anything was changed. `send_chunks` sends bytes and file slices as far as that goes without a closer
look; its twin is `Outbox.flush`, which sends the rest.

Where they are not compiled, were built for other classes, or with HEADWATER_PURE=1 in the environment, everything goes
through Python; `COMPILED` says which it is. No state.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.base.compiled import is_pure_wanted
from headwater.base.ports import FileSlice
from headwater.broker.fetch_sessions import FetchSession, FetchSessions, FetchSpec
from headwater.broker.rights.connection_rights import ConnectionRights
from headwater.log.log import Log
from headwater.log.offset_index import OffsetIndex
from headwater.log.producer_state import ProducerStates
from headwater.log.segment import Segment
from headwater.log.transaction_index import TransactionIndex
from headwater.replication.partition import Partition
from headwater.server.disk import OsFile

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

HandleFrame = Callable[["Broker | ConnectionRights", memoryview, int, int, int, int], list[Any] | None]
SendChunks = Callable[
    [int, list[Any]], tuple[int, int] | None
]  # None: all is out; else whole chunks, bytes of the next


def classes(file: type = OsFile) -> tuple[type, ...]:
    """Those whose slots the compiled way reads and writes, in its order."""
    return (
        Partition,
        Log,
        Segment,
        OffsetIndex,
        TransactionIndex,
        ProducerStates,
        file,
        FileSlice,
        FetchSessions,
        FetchSession,
        FetchSpec,
        ConnectionRights,
    )


def _compiled() -> tuple[HandleFrame, SendChunks] | None:
    if is_pure_wanted():
        return None
    try:
        from headwater.server import _fetch
    except ImportError:
        return None
    try:
        _fetch.configure(*classes())
    except (AttributeError, TypeError):
        return None  # built for other classes than these: an old build beside newer Python
    return _fetch.handle_frame, _fetch.send_chunks


def _general_way(
    _asked: "Broker | ConnectionRights", _frame: memoryview, _at: int, _end: int, _version: int, _id: int
) -> None:
    return None


def _send_nothing(_descriptor: int, _chunks: list[Any]) -> tuple[int, int]:
    return 0, 0


_found: Final = _compiled()
COMPILED: Final = _found is not None
handle_frame: Final[HandleFrame] = _general_way if _found is None else _found[0]
send_chunks: Final[SendChunks] = _send_nothing if _found is None else _found[1]
