"""Consumers of librdkafka 2.10 and later that have locked themselves up.

A broker leaves while an answer to OffsetForLeaderEpoch is handled: the main thread holds the lock of the partition
and waits for the client's, the broker's thread has the client's and waits for the partition's
(confluentinc/librdkafka, issue 5476). Whatever brokers do, such a consumer answers nobody any more, not even `close`.
A test leaves it alone and warns of it. One that waits for a broker is told apart: its main thread wakes at least once
a second.
"""

import time
import warnings
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer

LOCKED_UP_S = 60  # without waking once: on a busy machine a thread may wait for a processor for seconds
MAIN_THREAD = "rdk:main"
NAMED_S = 30  # by then a thread that a main thread has started has a name of its own
TASKS = Path("/proc/self/task")


class LockedUp(UserWarning):
    pass


class Pulse:
    """Of a thread of this process: how often it has gone to sleep."""

    def __init__(self, thread: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._status, self._clock = TASKS / str(thread) / "status", clock
        self._count, self._since_s = -1, clock()

    def stands_still_s(self) -> float:
        """Since it was first seen at its present count. 0 if it has ended."""
        try:
            status = self._status.read_text()
        except (FileNotFoundError, ProcessLookupError):
            return 0
        count = int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
        if count != self._count:
            self._count, self._since_s = count, self._clock()
        return self._clock() - self._since_s


class Watched:
    """A new consumer of librdkafka, and whether it has locked itself up. They are made one after the other."""

    def __init__(self, make: Callable[[], Consumer]) -> None:
        before = _main_threads()
        self.consumer = make()
        self._pulse = Pulse(_the_new_one(before))
        self._is_locked_up = False

    def is_locked_up(self, name: str) -> bool:
        if not self._is_locked_up and self._pulse.stands_still_s() > LOCKED_UP_S:
            self._is_locked_up = True
            warnings.warn(f"librdkafka has locked itself up: {name} is left alone (its issue 5476)", LockedUp, 2)
        return self._is_locked_up


def _the_new_one(before: set[int]) -> int:
    """Threads that main threads start are called like them at first."""
    deadline = time.monotonic() + NAMED_S
    while len(new := _main_threads() - before) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    (thread,) = new
    return thread


def _main_threads() -> set[int]:
    found = set()
    for task in TASKS.iterdir():
        try:
            if (task / "comm").read_text().strip() == MAIN_THREAD:
                found.add(int(task.name))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
    return found
