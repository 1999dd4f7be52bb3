"""The loop: timers that are cancelled leave, callbacks that break cost nobody else their turn."""

import gc
import logging
import os
import select
import time
import weakref

import pytest

from headwater.server.loop import Loop

PATIENCE_MS = 60_000  # for what takes a moment, on a machine that is busy with others


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


class Parked:
    def wake(self) -> None:
        raise AssertionError("cancelled")


def test_cancelled_timers_do_not_pile_up_until_their_time_comes(loop: Loop) -> None:
    """A client chooses how long its fetches may wait: each answered one used to stay in memory for that long."""
    parked = [Parked() for _ in range(10_000)]
    alive = [weakref.ref(each) for each in parked]
    kept = loop.call_later(2**31 - 1, lambda: None)
    for each in parked:
        loop.call_later(2**31 - 1, each.wake).cancel()
    del parked, each
    gc.collect()
    assert not any(each() for each in alive)
    assert len(loop._timers) < 1000
    assert kept in loop._timers


def test_timers_run_in_their_order_also_when_many_were_cancelled(loop: Loop) -> None:
    ran: list[int] = []
    timers = [loop.call_later(n % 7, lambda n=n: ran.append(n)) for n in range(1000)]
    due_ns = [timer.due_ns for timer in timers]
    for n, timer in enumerate(timers):
        if n % 3:
            timer.cancel()
            timer.cancel()
    loop.run_until(lambda: len(ran) == 334, PATIENCE_MS)
    assert len(ran) == 334
    assert sorted(ran, key=lambda n: due_ns[n]) == ran


def test_what_came_while_the_loop_was_held_up_goes_before_what_became_due(loop: Loop) -> None:
    """A disk that held the loop up made heartbeats late that had come in time: their sessions were ended first."""
    ran: list[str] = []
    produces, heartbeats = os.pipe(), os.pipe()

    def heartbeat(_events: int) -> None:
        os.read(heartbeats[0], 1)
        ran.append("heartbeat")

    def produce(_events: int) -> None:
        os.read(produces[0], 1)
        os.write(heartbeats[1], b"x")
        session = loop.call_later(1, lambda: ran.append("session over"))  # due in this turn, and not when it began
        while time.monotonic_ns() <= session.due_ns:
            time.sleep(0.001)

    loop.register(heartbeats[0], select.EPOLLIN, heartbeat)
    loop.register(produces[0], select.EPOLLIN, produce)
    os.write(produces[1], b"x")
    loop.call_later(0, lambda: ran.append("tick"))  # something is due in this turn already
    loop.run_until(lambda: len(ran) == 3, PATIENCE_MS)
    for descriptor in (produces[0], heartbeats[0]):
        loop.unregister(descriptor)
    for descriptor in (*produces, *heartbeats):
        os.close(descriptor)
    assert ran == ["tick", "heartbeat", "session over"]


def test_a_callback_that_breaks_does_not_cost_the_next_its_turn(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    ran: list[str] = []

    def broken() -> None:
        raise AssertionError

    with caplog.at_level(logging.CRITICAL):
        for way in (loop.post, loop.call_soon, lambda function: loop.call_later(0, function)):
            way(broken)
            way(lambda: ran.append("ran"))
        loop.run_until(lambda: len(ran) == 3, PATIENCE_MS)
    assert len(ran) == 3


class Poller:
    """In place of the epoll: says how long each wait took, and counts how it was asked."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.wait_ns = 10_000
        self.slept = self.asked = 0
        self.asks_until_ready = 1

    def monotonic_ns(self) -> int:
        return self.now_ns

    def poll(self, wait_s: float, _events: int) -> list[tuple[int, int]]:
        if wait_s > 0:
            self.slept += 1
            self.now_ns += self.wait_ns
            return [(-1, 1)]
        self.asked += 1
        self.now_ns += 1_000
        return [(-1, 1)] if self.asks_until_ready and self.asked % self.asks_until_ready == 0 else []


@pytest.fixture
def poller(loop: Loop, monkeypatch: pytest.MonkeyPatch):
    poller = Poller()
    real = loop._poller
    loop._short_waits_min = 16
    monkeypatch.setattr("headwater.server.loop.time", poller)
    loop._poller, loop._ended_ns = poller, 0
    yield poller
    loop._poller = real


def turn(loop: Loop, times: int) -> None:
    for _ in range(times):
        loop.turn(60.0)


def test_after_many_short_waits_the_loop_asks_before_it_sleeps(loop: Loop, poller: Poller) -> None:
    turn(loop, 16)
    assert (poller.slept, poller.asked) == (16, 0)
    poller.asks_until_ready = 10
    turn(loop, 20)
    assert (poller.slept, poller.asked) == (16, 200)


def test_to_ask_in_vain_ends_the_asking(loop: Loop, poller: Poller) -> None:
    poller.asks_until_ready = 0
    turn(loop, 17)
    assert (poller.slept, poller.asked) == (17, 40)
    turn(loop, 15)
    assert (poller.slept, poller.asked) == (32, 40)


def test_long_waits_are_slept_through(loop: Loop, poller: Poller) -> None:
    poller.wait_ns = 100_000
    turn(loop, 100)
    poller.wait_ns = 10_000
    turn(loop, 16)
    assert (poller.slept, poller.asked) == (116, 0)


def test_with_one_processor_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0})
    loop = Loop()
    try:
        assert loop._short_waits_min > 1 << 60
    finally:
        loop.close()
