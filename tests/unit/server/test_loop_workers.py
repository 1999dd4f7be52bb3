"""Worker processes that die, as the kernel kills them for memory:
their pool is replaced, at whatever stage it happens.
"""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from headwater.server.loop import Loop

PATIENCE_MS = 120_000


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


def process_id() -> int:
    return os.getpid()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(mark: str) -> str:
    """The first time it is run."""
    try:
        Path(mark).touch(exist_ok=False)
    except FileExistsError:
        return "done"
    die()
    return "never"


class Results:
    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.all: list[Any] = []

    def done(self, result: Any, problem: BaseException | None) -> None:
        self.all.append(result if problem is None else type(problem).__name__)

    def wait_for(self, count: int) -> list[Any]:
        assert self._loop.run_until(lambda: len(self.all) >= count, PATIENCE_MS)
        return self.all


def test_a_job_whose_worker_was_killed_is_begun_once_more(loop: Loop, tmp_path: Path) -> None:
    results = Results(loop)
    loop.compute(die_once, str(tmp_path / "mark"), done=results.done)
    assert results.wait_for(1) == ["done"]


def test_a_job_that_kills_every_worker_fails_and_those_after_it_do_not(loop: Loop) -> None:
    """The broken pool was kept: every recovery, compaction and move failed from then on, until a restart."""
    results = Results(loop)
    loop.compute(die, done=results.done)
    assert results.wait_for(1) == ["BrokenProcessPool"]
    loop.compute(process_id, done=results.done)
    assert isinstance(results.wait_for(2)[1], int)


def test_jobs_beside_one_that_lost_its_worker_are_done(loop: Loop, tmp_path: Path) -> None:
    results = Results(loop)
    loop.compute(die_once, str(tmp_path / "mark"), done=results.done)
    for _ in range(4):
        loop.compute(process_id, done=results.done)
    found = results.wait_for(5)
    assert found.count("done") == 1
    assert sum(isinstance(each, int) for each in found) == 4


def test_only_the_job_that_kills_its_workers_fails_and_not_those_beside_it(loop: Loop) -> None:
    """All were begun again together, so that the second worker that it killed took most of the others with it."""
    results = Results(loop)
    loop.compute(die, done=results.done)
    for _ in range(20):
        loop.compute(process_id, done=results.done)
    found = results.wait_for(21)
    assert found.count("BrokenProcessPool") == 1
    assert sum(isinstance(each, int) for each in found) == 20
    assert (loop._workers, loop._lone_worker, loop._computing) == (None, None, 0)


def test_two_jobs_that_kill_their_workers_are_told_apart_from_the_others(loop: Loop) -> None:
    results = Results(loop)
    for at in range(6):
        loop.compute(die if at in (1, 3) else process_id, done=results.done)
    found = results.wait_for(6)
    assert found.count("BrokenProcessPool") == 2
    assert sum(isinstance(each, int) for each in found) == 4


def test_a_pool_that_broke_while_nobody_used_it_is_replaced(loop: Loop) -> None:
    results, other = Results(loop), Results(loop)
    loop.compute(process_id, done=results.done)
    assert loop._workers is not None
    pool = loop._workers
    for process in tuple(pool._processes.values()):
        process.kill()
    while not pool._broken:  # told by a thread of its own; the loop has not heard of it yet
        for process in tuple(pool._processes.values()):
            process.join()
        os.sched_yield()
    loop.compute(process_id, done=other.done)
    assert isinstance(other.wait_for(1)[0], int)
    assert len(results.wait_for(1)) == 1


def test_the_workers_go_when_nothing_is_under_way(loop: Loop, tmp_path: Path) -> None:
    results = Results(loop)
    loop.compute(die_once, str(tmp_path / "mark"), done=results.done)
    results.wait_for(1)
    assert loop._workers is None
    assert loop._computing == 0
