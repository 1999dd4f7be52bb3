"""Processes that leave nothing behind, and ports that stay theirs."""

import ctypes
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from chaos.support.network import HOST

WAIT_S = 180  # three JVMs at once, on a machine with thirty that wait for a processor, have taken a minute to start
SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
LIBRARY = ctypes.CDLL(None)


def hold_a_port() -> socket.socket:
    """Bound, and never listening: a broker may listen there, and nobody else is given the port."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((HOST, 0))
    return held


def start_group(command: list[str], *, stdout: Any, stderr: Any) -> "subprocess.Popen[bytes]":
    """A process in a group of its own, which dies with this one."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        process_group=0,
        preexec_fn=_follow_parent(),
    )


def end_group(process: "subprocess.Popen[bytes]") -> None:
    """What is left of it: itself, and worker processes of its own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _follow_parent() -> Callable[[], None]:
    """To run in the child: the kernel kills it when the thread that started it ends."""
    parent = os.getpid()

    def follow() -> None:
        LIBRARY.prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return follow
