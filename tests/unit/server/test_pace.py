"""How fast a worker may go, on a clock of the test's own."""

import os
import pickle
import time

import pytest

from headwater.server.pace import WorkerPace


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The sleeps; time passes by nothing else."""
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(naps))
    monkeypatch.setattr(os, "nice", lambda step: 0 if step else 5)
    return naps


def test_bytes_take_their_time(slept: list[float]) -> None:
    pace = WorkerPace(1000)
    pace(500)
    assert slept == [0.5]
    pace(2000)
    assert sum(slept) == 2.5
    assert max(slept) <= 1


def test_each_job_counts_from_its_own_beginning(slept: list[float]) -> None:
    pace = WorkerPace(1000)
    pace(1000)
    copy = pickle.loads(pickle.dumps(pace))
    copy(100)
    assert slept == [1, pytest.approx(0.1)]


def test_without_a_limit_nobody_sleeps(slept: list[float]) -> None:
    WorkerPace(1.7976931348623157e308)(1 << 30)
    assert sum(slept) < 1e-9
