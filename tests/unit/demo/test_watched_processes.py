"""Which process of the demo has ended, how, and where its log is: told once, whatever else breaks of it."""

import threading
from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.demo.watched_processes import Watch, Watched, first_end

LOG = Path("/data/broker.log")
PATIENCE_S = 60


class Fake:
    """Ends when it is told to."""

    def __init__(self, pid: int, exit_code: int | None = None) -> None:
        self.pid = pid
        self.exit_code = exit_code

    def poll(self) -> int | None:
        return self.exit_code


class Told:
    def __init__(self) -> None:
        self.errors: list[str] = []
        self.came = threading.Event()

    def __call__(self, error: UserError) -> None:
        self.errors.append(str(error))
        self.came.set()


def test_who_has_ended_is_told_with_its_log_and_what_to_do() -> None:
    running, killed, other = (
        Watched("The broker", Fake(1), LOG),
        Watched("The registry", Fake(2, -9), LOG),
        Watched("Spark's JVM", Fake(3, 1), LOG),
    )
    assert first_end([running]) is None
    assert str(first_end([running, killed, other])) == (
        "The registry (process 2) has ended: signal SIGKILL. Its log is /data/broker.log. "
        "Start the demo again: it goes on from there"
    )
    assert "(process 3) has ended: exit code 1." in str(first_end([other, killed]))


def _break_its_connection(process: Fake) -> None:
    process.exit_code = -9
    raise ConnectionError


def test_what_follows_from_an_end_is_raised_when_the_end_is_told() -> None:
    """A broken connection is seen before its process can be seen to have ended."""
    told, process = Told(), Fake(1)
    with Watch(told, lambda: None) as watch:
        watch.check()
        with pytest.raises(ConnectionError), watch.over("The broker", process, LOG):
            _break_its_connection(process)
        assert len(told.errors) == 1
        with pytest.raises(UserError, match=r"The broker \(process 1\)"):
            watch.check()


def test_whoever_has_been_let_go_of_may_end() -> None:
    told, ended, running = Told(), Fake(1), Fake(2)
    with Watch(told, lambda: None) as watch, watch.over("Spark's JVM", running, LOG):
        with watch.over("The broker", ended, LOG):
            pass
        ended.exit_code = 0
        running.exit_code = 1  # the next look tells of this one
        assert told.came.wait(PATIENCE_S)
    assert [error.split(" (")[0] for error in told.errors] == ["Spark's JVM"]


def test_what_cannot_end_in_order_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.demo.watched_processes._ENDS_S", 0)
    given_up = threading.Event()
    with Watch(Told(), given_up.set) as watch, watch.over("The broker", Fake(1, -9), LOG):
        assert given_up.wait(PATIENCE_S)
