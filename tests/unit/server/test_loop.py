"""The loop: timers that are cancelled leave, callbacks that break cost nobody else their turn."""

import gc
import logging
import weakref

import pytest

from headwater.server.loop import Loop


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
    loop.run_until(lambda: len(ran) == 334, 2000)
    assert len(ran) == 334
    assert sorted(ran, key=lambda n: due_ns[n]) == ran


def test_a_callback_that_breaks_does_not_cost_the_next_its_turn(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    ran: list[str] = []

    def broken() -> None:
        raise AssertionError

    with caplog.at_level(logging.CRITICAL):
        for way in (loop.post, loop.call_soon, lambda function: loop.call_later(0, function)):
            way(broken)
            way(lambda: ran.append("ran"))
        loop.run_until(lambda: len(ran) == 3, 1000)
    assert len(ran) == 3
