"""Short turns of Python's threads while queries are answered beside tasks.

A thread that computes gives the interpreter up only when another has waited for it for the switch interval, 5 ms: a
query of a slot waited as long before it was read. The interval is this process's; it is given back when the last
server of queries has ended.
"""

import sys
import threading
from typing import Final

_INTERVAL_S: Final = 0.001


class ShortTurns:
    """Used by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers = 0
        self._before_s = 0.0

    def begin(self) -> None:
        with self._lock:
            if not self._servers:
                self._before_s = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before_s, _INTERVAL_S))
            self._servers += 1

    def end(self) -> None:
        with self._lock:
            self._servers -= 1
            if not self._servers:
                sys.setswitchinterval(self._before_s)


OF_SERVERS: Final = ShortTurns()
