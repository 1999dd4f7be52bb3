"""Leases of the query that supplies slots, without Spark: when it is told to end, and when it is stopped."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.spark.slots import slot_supply
from headwater.spark.slots.slot_supply import SlotSupply


class Clock:
    """Goes on by what is waited for."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Query:
    """Ends so long after its slots were told to."""

    def __init__(self, clock: Clock, takes_s: float) -> None:
        self._clock, self._takes_s = clock, takes_s
        self.told_at: list[float] = []
        self.stopped_at: float | None = None

    def awaitTermination(self, timeout: float) -> bool:
        self._clock.now += timeout
        return bool(self.told_at) and self._clock.now >= self.told_at[0] + self._takes_s

    def stop(self) -> None:
        self.stopped_at = self._clock.now


class Keeper:
    slots = present = 2
    losses = 0
    running = True

    def __init__(self, query: Query, clock: Clock) -> None:
        self._query, self._clock = query, clock

    def end_lease(self, *, late_ones: bool = False) -> None:
        assert late_ones
        self._query.told_at.append(self._clock.now)


def followed(takes_s: float, monkeypatch: pytest.MonkeyPatch) -> Query:
    """A query whose lease is 10 s, when it has ended."""
    clock = Clock()
    monkeypatch.setattr(slot_supply, "time", SimpleNamespace(monotonic=clock.monotonic))
    query = Query(clock, takes_s)
    supply = object.__new__(SlotSupply)
    keeper: Any = Keeper(query, clock)
    supply._slots, supply._wanted, supply._lease_s = keeper, 2, 10.0
    supply._local, supply._attempts = True, 1
    supply.stopping, supply.until_idle = threading.Event(), False
    given: Any = query
    assert supply._follow(given) is None
    return query


def test_slots_that_end_with_their_lease_are_told_once_and_not_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    query = followed(3.0, monkeypatch)
    assert (query.told_at, query.stopped_at) == ([10.0], None)


def test_a_slot_that_hangs_at_the_end_of_its_lease_does_not_keep_all_others_waiting_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A function of one application that never returned: the applications beside it had no slots any more."""
    query = followed(1e9, monkeypatch)
    assert query.told_at == [10.0]
    assert query.stopped_at is not None
    assert 40.0 <= query.stopped_at < 42.0
