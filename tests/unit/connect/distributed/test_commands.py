"""What the config topic says to workers that are there when it comes: restarts of connectors, levels of loggers."""

from typing import Any, NamedTuple

import pytest

from headwater.connect.distributed import config_records
from headwater.connect.distributed.config_records import ConfigRecord, ConnectorConfig, LoggerLevel, Restart
from headwater.connect.distributed.group_protocol import Assignment
from headwater.connect.distributed.herder import DistributedHerder
from headwater.connect.distributed.stores import Command, ConfigStore

NOBODY: Any = None


class Record(NamedTuple):
    offset: int
    key: bytes
    value: bytes | None


class Topic:
    """A config topic as its log reads it: `old` was there before the worker."""

    def __init__(self, *old: ConfigRecord) -> None:
        self.levels: list[tuple[str, str]] = []
        self.offset = 0
        self.commands: list[Command] = []
        self.store = ConfigStore("t", {}, {}, NOBODY, self._news, None)
        worker: Any = type("Worker", (), {"exactly_once": True})()
        tell = lambda name, level: self.levels.append((name, level))  # noqa: E731
        self.herder = DistributedHerder(worker, self.store, NOBODY, NOBODY, tell)
        self.read(*old)
        self.store._started = True

    def _news(self, commands: list[Command]) -> None:
        self.commands += commands
        self.herder.news(commands)

    def read(self, *records: ConfigRecord) -> None:
        for each in records:
            key, value = config_records.encode(each)
            record: Any = Record(self.offset, key.encode(), value)
            self.store._take(record)
            self.offset += 1
        self.store._news()


def test_levels_of_yesterday_do_not_come_back_with_a_worker_that_starts() -> None:
    """They did with the first connector that was made after its start."""
    topic = Topic(LoggerLevel("root", "TRACE"))
    topic.read(ConnectorConfig("c", {}))
    assert topic.levels == []


def test_a_level_is_set_each_time_that_somebody_says_so() -> None:
    """It may have been set otherwise on this worker alone meanwhile."""
    topic = Topic()
    topic.read(LoggerLevel("a", "DEBUG"))
    topic.read(LoggerLevel("a", "DEBUG"), LoggerLevel("b", "INFO"))
    topic.read(ConnectorConfig("c", {}))
    assert topic.levels == [("a", "DEBUG"), ("a", "DEBUG"), ("b", "INFO")]


def test_a_restart_is_for_workers_that_are_there() -> None:
    restart = Restart("c", True, False)
    topic = Topic(restart)
    assert topic.commands == []
    topic.read(restart)
    assert topic.commands == [restart]


class Work:
    """The first look fails, as nothing that is expected does; then all is well."""

    def __init__(self) -> None:
        self.fails = True
        self.restarted: list[str] = []

    def stop_what_is_not(self, *_: object) -> None: ...

    def start_what_is_not(self, *_: Any) -> None:
        if self.fails:
            self.fails = False
            raise RuntimeError("unforeseen")

    def restart(self, wish: Restart, _state: object) -> None:
        self.restarted.append(wish.connector)

    def restart_failed(self, *_: object) -> None: ...

    def publish_tasks(self, *_: object) -> bool:
        return False


def test_a_restart_that_was_promised_happens_though_the_look_before_it_fails() -> None:
    topic, work = Topic(), Work()
    herder: Any = topic.herder
    herder._work, herder._assignment = work, Assignment("leader", "url", frozenset())
    topic.read(Restart("first", False, False), Restart("second", False, False))
    with pytest.raises(RuntimeError):
        herder._step()
    herder._step()
    assert work.restarted == ["first", "second"]


@pytest.mark.parametrize("how", ["lost", "assigned anew", "closed"])
def test_a_look_that_takes_long_ends_when_nothing_of_it_is_to_be_done_any_more(how: str) -> None:
    """Each start may take a minute: a worker that had lost its group, or was to end, started all the others first."""
    topic = Topic()
    herder: Any = topic.herder
    started: list[str] = []

    class Slow(Work):
        def start_what_is_not(self, assigned: Any, _state: object, goes_on: Any) -> None:
            for each in sorted(assigned):
                if goes_on():
                    started.append(each)
                    if how == "lost":
                        herder._assignment = None
                    elif how == "assigned anew":
                        herder.generation += 1
                    else:
                        herder._closed.set()

    work = Slow()
    herder._work, herder._assignment = work, Assignment("leader", "url", frozenset({"a", "b", "c"}))  # type: ignore[arg-type]
    topic.read(Restart("r", False, False))
    herder._step()
    assert (started, work.restarted) == (["a"], [])
    assert herder._wishes == [Restart("r", False, False)]
