"""The port where slots register: how often one of them was lost."""

import errno
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.spark.slots import slot_links
from headwater.spark.slots.frames import Channel
from headwater.spark.slots.greeting import greeting
from headwater.spark.slots.message_codec import Hello, Leaving, MessageCodec
from headwater.spark.slots.slot_links import SlotLink, SlotServer

CODEC = MessageCodec()
PATIENCE_S = 60


class Nobody:
    def joined(self, link: SlotLink) -> None: ...

    def said(self, link: SlotLink, message: Any) -> None: ...

    def gone(self, link: SlotLink) -> None: ...


@pytest.fixture
def server() -> Iterator[SlotServer]:
    made = SlotServer(Nobody(), CODEC)
    yield made
    made.close()


def slot(server: SlotServer, hello: Hello) -> Channel:
    channel = Channel.connected(("127.0.0.1", server.port), server.secret, CODEC)
    channel.send(hello)
    return channel


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_losses_are_those_that_were_seen_and_those_that_slots_tell_of(server: SlotServer) -> None:
    first, second = slot(server, Hello(0, "a")), slot(server, Hello(1, "b"))
    until(lambda: len(server.links) == 2)
    assert server.losses == 0
    first.close()
    until(lambda: server.losses == 1)
    second.send(Leaving())
    until(lambda: server.links == [])
    assert server.losses == 1, "who leaves is not lost"
    second.close()
    late = slot(server, Hello(1, "c", tries_before=2))  # two others never came so far
    until(lambda: server.losses == 2)
    late.close()
    until(lambda: server.losses == 3)
    server.begin_lease()
    assert server.losses == 0


def test_an_earlier_slot_of_a_number_is_never_told_of_last() -> None:
    """A worker would have sent its tasks to a connection that is closed, for ever."""
    told: list[str] = []
    in_between, third_came = threading.Event(), threading.Event()

    class Slow(Nobody):
        def joined(self, link: SlotLink) -> None:
            told.append(f"+{link.process}")
            if link.process == "third":
                third_came.set()

        def gone(self, link: SlotLink) -> None:
            told.append(f"-{link.process}")
            if link.process == "first":
                in_between.set()
                third_came.wait(0.3)  # it must not come before the second has been told of

    server = SlotServer(Slow(), CODEC)
    kept: list[Channel] = []
    try:
        kept.append(slot(server, Hello(0, "first")))
        until(lambda: told == ["+first"])
        kept.append(slot(server, Hello(0, "second")))
        assert in_between.wait(PATIENCE_S)
        kept.append(slot(server, Hello(0, "third")))
        until(lambda: len(told) == 5)
        assert told == ["+first", "-first", "+second", "-second", "+third"]
    finally:
        server.close()
        for each in kept:
            each.close()


def test_a_slot_that_is_a_task_of_sparks_says_which_try_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    task = SimpleNamespace(attemptNumber=lambda: 3)
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(TaskContext=SimpleNamespace(get=lambda: task)))
    assert greeting(5).tries_before == 3
    monkeypatch.setitem(sys.modules, "pyspark", SimpleNamespace(TaskContext=SimpleNamespace(get=lambda: None)))
    assert greeting(5).tries_before == 0
    monkeypatch.delitem(sys.modules, "pyspark")
    assert (greeting(5).number, greeting(5).tries_before) == (5, 0)


def test_a_process_without_descriptors_does_not_spin_over_who_wants_to_connect() -> None:
    """One core of the driver was busy with it, and nothing told why no slot came."""
    pauses: list[float | None] = []

    class Full:
        def accept(self) -> Any:
            if len(pauses) == 3:
                port._closing.set()
            raise OSError(errno.EMFILE, "Too many open files")

    class Closing(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            return self.is_set()

    port: Any = object.__new__(SlotServer)
    port._closing, port._socket = Closing(), Full()
    stopper = threading.Timer(20, port._closing.set)
    stopper.start()
    port._accept()
    stopper.cancel()
    assert pauses == [slot_links._ACCEPT_PAUSE_S] * 3
