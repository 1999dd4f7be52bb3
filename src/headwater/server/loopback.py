"""Listeners that only this machine can reach: what is sent over them is not paced. No state.

Where the system's congestion control is BBR, a connection is held by timers to the rate that was measured on it. Over a
network that keeps queues short; within a machine there is no queue, and a large answer takes up to twice as long. Reno
does not pace, every Linux has it, and where nothing is lost nothing slows it down.

A connection inherits the choice from its listener. To change it afterwards would not do: the kernel paces on once it
has begun. So a listener that others can reach too stays as the system has it, for all of its clients.
"""

import contextlib
import socket
from typing import Final

_UNPACED: Final = b"reno"


def send_unpaced(listener: socket.socket) -> None:
    """Nothing is changed for a listener that other machines can reach."""
    host: str = listener.getsockname()[0]
    if host.startswith("127.") or host == "::1":
        with contextlib.suppress(OSError):  # not allowed here: slower, not wrong
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _UNPACED)
