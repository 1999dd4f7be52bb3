"""Trying again, on a clock that the test owns."""

import pytest

from headwater.spark.sinks.retries import RetryUntilDeadline


class World:
    def __init__(self, well_at_s: float) -> None:
        self.now_s = 0.0
        self.well_at_s = well_at_s
        self.tries = 0

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now_s += seconds

    def action(self) -> str:
        self.tries += 1
        if self.now_s < self.well_at_s:
            raise ConnectionError("away")
        return "done"

    def retries(self, limit_s: float) -> RetryUntilDeadline:
        return RetryUntilDeadline(
            limit_s, lambda: self.now_s, self.sleep, lambda error: isinstance(error, ConnectionError)
        )


def test_it_waits_until_it_works() -> None:
    world = World(well_at_s=45)
    assert world.retries(60).call(world.action) == "done"
    assert world.now_s <= 48
    assert world.tries < 35, "the waits grow"


def test_it_gives_up_in_time() -> None:
    world = World(well_at_s=61)
    with pytest.raises(ConnectionError):
        world.retries(60).call(world.action)
    assert world.now_s == pytest.approx(60)


def test_with_a_limit_of_zero_there_is_one_try() -> None:
    world = World(well_at_s=1)
    with pytest.raises(ConnectionError):
        world.retries(0).call(world.action)
    assert world.tries == 1


def test_an_error_that_stays_is_raised_at_once() -> None:
    world = World(well_at_s=0)

    def refused() -> None:
        world.tries += 1
        raise ValueError("no such user")

    with pytest.raises(ValueError, match="no such user"):
        world.retries(60).call(refused)
    assert world.tries == 1
