"""Tasks, futures and timers of the client's kernel, on a clock that jumps."""

import pytest

from headwater.client.reactor.kernel import Cancelled, Future, Signal, TimedOut
from unit.client.reactor.fakes import FakeWorld


def test_a_task_runs_to_its_value() -> None:
    world = FakeWorld()

    async def double(number: int) -> int:
        await world.kernel.sleep(2)
        return number * 2

    began = world.now
    assert world.run(double(21)) == 42
    assert world.now == began + 2


def test_an_error_is_the_tasks_value() -> None:
    world = FakeWorld()

    async def fails() -> None:
        raise LookupError("no")

    with pytest.raises(LookupError):
        world.run(fails())


def test_timers_run_in_the_order_of_their_time_and_can_be_cancelled() -> None:
    world = FakeWorld()
    seen: list[str] = []
    world.kernel.after(3, lambda: seen.append("three"))
    world.kernel.after(1, lambda: seen.append("one"))
    world.kernel.after(2, lambda: seen.append("never")).cancel()
    world.pass_time(5)
    assert seen == ["one", "three"]


def test_several_tasks_await_one_future() -> None:
    world = FakeWorld()
    future: Future[str] = Future()

    async def wait() -> str:
        return await future

    tasks = [world.kernel.spawn(wait()) for _ in range(3)]
    world.kernel.after(1, lambda: future.resolve("here"))
    assert [world.finish(task) for task in tasks] == ["here"] * 3


def test_the_first_outcome_of_a_future_stays() -> None:
    future: Future[int] = Future()
    future.resolve(1)
    future.resolve(2)
    future.fail(ValueError())
    assert future.result() == 1


def test_within_gives_up_and_leaves_the_future_alone() -> None:
    world = FakeWorld()
    future: Future[int] = Future()
    with pytest.raises(TimedOut):
        world.run(world.kernel.within(1, future))
    assert not future.done
    world.kernel.after(1, lambda: future.resolve(7))
    assert world.run(world.kernel.within(5, future)) == 7


def test_a_cancelled_task_cleans_up_and_is_done() -> None:
    world = FakeWorld()
    seen: list[str] = []

    async def work() -> None:
        try:
            await world.kernel.sleep(100)
        finally:
            seen.append("cleaned up")

    task = world.kernel.spawn(work())
    world.kernel.run_ready()
    task.cancel()
    world.kernel.run_ready()
    assert seen == ["cleaned up"]
    assert isinstance(task.error, Cancelled)
    assert world.kernel.timeout() is None, "the timer of the sleep is gone as well"


def test_a_task_that_is_cancelled_before_it_began_never_runs() -> None:
    world = FakeWorld()
    seen: list[str] = []

    async def work() -> None:
        seen.append("ran")

    task = world.kernel.spawn(work())
    task.cancel()
    world.kernel.run_ready()
    assert task.done
    assert seen == []


def test_all_of_runs_side_by_side_and_keeps_the_order() -> None:
    world = FakeWorld()

    async def work(seconds: float) -> float:
        await world.kernel.sleep(seconds)
        if seconds == 2:
            raise LookupError
        return seconds

    began = world.now
    outcome = world.run(world.kernel.all_of([work(3), work(2), work(1)]))
    assert outcome[0] == 3
    assert isinstance(outcome[1], LookupError)
    assert outcome[2] == 1
    assert world.now == began + 3


def test_a_signal_wakes_those_who_wait_now() -> None:
    world = FakeWorld()
    signal = Signal()

    async def wait() -> float:
        await signal.wait()
        return world.now

    first = world.kernel.spawn(wait())
    world.kernel.after(1, signal.notify)
    began = world.now
    assert world.finish(first) == began + 1
    second = world.kernel.spawn(wait())
    world.kernel.run_ready()
    assert not second.done, "an earlier signal does not count"
    signal.notify()
    world.finish(second)


def test_cancelled_timers_do_not_pile_up() -> None:
    world = FakeWorld()
    fired: list[int] = []
    world.kernel.after(1.0, lambda: fired.append(1))
    for _ in range(10_000):
        world.kernel.after(60.0, lambda: fired.append(2)).cancel()
    assert len(world.kernel._timers) < 1000
    world.pass_time(61)
    assert fired == [1]


def test_the_first_of_several_or_the_end_of_the_time() -> None:
    world = FakeWorld()
    futures: list[Future[int]] = [Future(), Future()]
    waiting = world.kernel.spawn(world.kernel.first_done(futures, 5))
    world.pass_time(1)
    assert not waiting.done
    futures[1].resolve(1)
    world.finish(waiting)
    assert not futures[0].done
    began = world.now
    world.run(world.kernel.first_done(futures[:1], 5))
    assert world.now - began == 5
    world.run(world.kernel.first_done(futures, None))
    assert world.now - began == 5, "one is done already"


def test_a_step_may_run_what_is_ready_itself() -> None:
    """A delivery callback that sends a record does: `Producer.close` failed with an IndexError then."""
    world = FakeWorld()
    done: list[str] = []

    async def outer() -> None:
        world.kernel.run_ready()
        done.append("outer")

    async def inner() -> None:
        done.append("inner")

    world.kernel.spawn(outer())
    world.kernel.spawn(inner())
    world.kernel.run_ready()
    assert done == ["inner", "outer"]
