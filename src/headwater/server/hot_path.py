"""Which way a small produce takes: the compiled one (`native/produce.c`, built at install), or the one in Python.

`handle_frame` of `broker/handlers/produce.py` says what is to be done. The compiled one does the same for requests that are plainly
fine, in a quarter of the time, and hands all others on. Without it, with one that was built for other classes, or with
HEADWATER_PURE=1 in the environment, everything goes through Python; `COMPILED` says which it is. No state.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headwater.broker.handlers import produce
from headwater.log.log import Log
from headwater.log.producer_state import Producer, ProducerStates
from headwater.log.segment import Segment
from headwater.replication.partition import Partition
from headwater.server.disk import OsFile

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

HandleFrame = Callable[["Broker", memoryview, int, int, int, int], bytes | None]


def _compiled() -> HandleFrame | None:
    if os.environ.get("HEADWATER_PURE", "") not in ("", "0"):
        return None
    try:
        from headwater.server import _produce
    except ImportError:
        return None
    try:
        _produce.configure(Partition, Log, Segment, ProducerStates, Producer, OsFile, produce.handle_frame)
    except (AttributeError, TypeError):
        return None  # built for other classes than these: an old build beside newer Python
    return _produce.handle_frame


_found: Final = _compiled()
COMPILED: Final = _found is not None
handle_frame: Final[HandleFrame] = produce.handle_frame if _found is None else _found
