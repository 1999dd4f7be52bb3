"""Which way a small produce and a plain commit take: the compiled one (`native/`, built at install), or the one in
Python.

`handle_frame` of `broker/handlers/produce.py`, and `read_commit` and `append_commit` of
`broker/handlers/offset_commit_frames.py`, say what is to be done. The compiled ones do the same for requests that are
plainly fine, in a quarter of the time, and hand all others on. Without them, with those that were built for other
classes, or with HEADWATER_PURE=1 in the environment, everything goes through Python; `COMPILED` says which it is. No
state.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from headwater.base.compiled import is_pure_wanted
from headwater.broker.handlers import produce
from headwater.broker.rights.connection_rights import ConnectionRights
from headwater.log.log import Log
from headwater.log.producer_state import Producer, ProducerStates
from headwater.log.segment import Segment
from headwater.replication.partition import Partition
from headwater.server.disk import OsFile

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.handlers.offset_commit_frames import CommitFrames
    from headwater.broker.quick_writes import QuickWrites

HandleFrame = Callable[["Broker | ConnectionRights", memoryview, int, int, int, int], bytes | None]

TransactionFrame = Callable[["Broker", memoryview, int, int, int, int], bytes | None]


def _compiled() -> HandleFrame | None:
    if is_pure_wanted():
        return None
    try:
        from headwater.server import _produce
    except ImportError:
        return None
    try:
        _produce.configure(Partition, Log, Segment, ProducerStates, Producer, OsFile, produce.handle_frame)
        _produce.configure_rights(ConnectionRights)
    except (AttributeError, TypeError):
        return None  # built for other classes than these: an old build beside newer Python
    return _produce.handle_frame if hasattr(_produce, "commit_transaction") else None


_found: Final = _compiled()
COMPILED: Final = _found is not None
handle_frame: Final[HandleFrame] = produce.handle_frame if _found is None else _found


@cache
def commit_frames() -> "CommitFrames":
    """Not at start-up: the first commit brings the code of groups."""
    from headwater.broker.handlers.offset_commit_frames import PURE, CommitFrames

    if not COMPILED:
        return PURE
    from headwater.server import _produce

    return CommitFrames(_produce.read_commit, _produce.append_commit)


@cache
def transaction_frames() -> Mapping[int, TransactionFrame]:
    """By API key. Not at start-up: the first transaction brings their code."""
    from headwater.broker.handlers.transaction_frames import HANDLERS

    if COMPILED:
        from headwater.coordinator.transactions.transaction import Transaction
        from headwater.server import _produce

        _produce.configure_transactions(Transaction)
    return HANDLERS


def quick_writes() -> "QuickWrites | None":
    """What coordinators write; None where Python writes all of it."""
    if not COMPILED:
        return None
    from headwater.broker.quick_writes import QuickWrites
    from headwater.server import _produce

    return QuickWrites(
        _produce.append_records, _produce.append_marker, _produce.commit_transaction, _produce.append_transaction
    )
