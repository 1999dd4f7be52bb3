"""What the thread that answers queries asks of the kernel."""

import os
import platform
import sys
import threading

import pytest

from headwater.streams.query import short_slice
from headwater.streams.query.server import QueryServer
from headwater.streams.query.short_slice import slice_ns, take_short_slice


def _kernel_has_slices() -> bool:
    major, minor = os.uname().release.split(".")[:2]
    is_new = sys.platform == "linux" and (int(major), int(minor.partition("-")[0])) >= (6, 12)
    return is_new and platform.machine() in ("x86_64", "aarch64")


def test_a_thread_has_a_short_slice_and_others_keep_theirs() -> None:
    before = slice_ns()
    found: list[tuple[bool, int]] = []
    thread = threading.Thread(target=lambda: found.append((take_short_slice(), slice_ns())))
    thread.start()
    thread.join()
    assert found == ([(True, 100_000)] if _kernel_has_slices() else [(False, before)])
    assert slice_ns() == before


def test_the_thread_that_answers_queries_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited for several milliseconds where processors were busy."""
    threads: list[str] = []
    monkeypatch.setattr(
        "headwater.streams.query.server.take_short_slice", lambda: threads.append(threading.current_thread().name)
    )
    with QueryServer("orders", lambda: ()).start():
        assert threads == ["headwater-queries-orders"]


def test_where_there_is_no_such_call_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_slice.platform, "machine", lambda: "abacus")
    assert not take_short_slice()
    assert slice_ns() == 0
