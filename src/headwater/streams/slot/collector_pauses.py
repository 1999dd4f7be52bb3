"""Keeps Python's garbage collector from stopping a slot.

A full collection goes over every object that is alive: those of PyArrow's modules and of ours are some 60,000 that stay
for ever, which is 30 to 80 ms in which no punctuator is called and no query answered, every second or two under load.
What is frozen is not looked at. It is freed as before when nothing refers to it; only rings among frozen objects wait
until the last slot of this process has ended and they are given back, for a process may do other things as well.

The state is this process's: how many slots run in it, and how many modules were loaded when it was frozen last. Modules
are loaded at the first poll and the first commit, so a slot looks again behind each commit.
"""

import gc
import sys
import threading


class CollectorPauses:
    """Used by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots = 0
        self._modules = 0
        self._is_ours = False

    def begin(self) -> None:
        """A slot runs from now on."""
        with self._lock:
            if not self._slots:
                self._is_ours = not gc.get_freeze_count()  # else somebody else has frozen, and decides
                self._modules = 0
            self._slots += 1

    def end(self) -> None:
        with self._lock:
            self._slots -= 1
            if not self._slots:
                gc.unfreeze()
                if not self._is_ours:
                    gc.collect()  # what slots have left in rings goes, and what others want frozen is that again
                    gc.freeze()

    def freeze(self) -> bool:
        """What is alive, if modules were loaded since the last time. Whether it did."""
        if len(sys.modules) <= self._modules:
            return False
        with self._lock:
            self._modules = len(sys.modules)
            gc.collect(1)  # the young: what is garbage now would wait with the rest; a full one would be such a pause
            gc.freeze()
        return True


OF_SLOTS = CollectorPauses()
