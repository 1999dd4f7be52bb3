"""When punctuators are due in the next life of a task: as they were, unless the clock or the application says
otherwise.
"""

from typing import Any

import pytest

from headwater.streams import App, Processor, Record
from headwater.streams.engine.task import Task
from headwater.streams.model.record import InputRecord
from headwater.streams.stores.memory import MemoryState


def plan(kind: str, interval_ms: int, called: list[int]) -> Any:
    class Punctual(Processor):
        def init(self, context: Any) -> None:
            context.schedule(interval_ms, kind, called.append)

        def process(self, record: Record) -> None:
            """Only time counts."""

    app = App("app", key="text", value="text")
    app.stream("in").process(Punctual, name="punctual")
    return app, app.topology().sub_topologies()[0]


def life(state: MemoryState, kind: str, interval_ms: int, now_ms: int, times: list[int]) -> list[int]:
    """A task that begins at that time, by its own kind of clock, and what is called while these times come."""
    called: list[int] = []
    app, sub = plan(kind, interval_ms, called)
    task = Task(sub, 0, app.settings(), state, now_ms=now_ms)
    if kind == "stream":
        task.stream_time_ms = now_ms
        task.pass_over_schedules()
    for time in times:
        if kind == "wall":
            task.punctuate(time)
        else:
            task.add("in", [InputRecord("in", 0, time, time, b"k", b"v")])
            task.process_next()
    task.collect()
    state.commit({})
    task.close()
    return called


@pytest.mark.parametrize("kind", ["wall", "stream"])
def test_another_life_keeps_the_due_times(kind: str) -> None:
    state = MemoryState()
    first = life(state, kind, 100, 1_000, [1_100, 1_150])
    assert first == [1_100]
    assert life(state, kind, 100, 1_150, [1_199, 1_200, 1_260]) == [1_200]


@pytest.mark.parametrize("kind", ["wall", "stream"])
def test_a_shorter_interval_counts_from_the_next_start_on(kind: str) -> None:
    """A punctuator of a day that became one of a second was first called when the day was over."""
    state = MemoryState()
    life(state, kind, 86_400_000, 1_000, [1_100])
    assert life(state, kind, 1_000, 1_100, [2_000, 2_101, 3_200])[0] in (2_000, 2_101)


def test_a_clock_that_was_set_back_does_not_silence_punctuators() -> None:
    state = MemoryState()
    assert life(state, "wall", 100, 9_000_000, [9_000_100]) == [9_000_100]
    assert life(state, "wall", 100, 1_000, [1_050, 1_100, 1_200]) == [1_100, 1_200]
