"""A task that runs in a slot, as its worker's herder sees it: the herder says what it should be, the slots say what it
is.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from headwater.connect.metrics.exposition import PluginTexts
from headwater.connect.metrics.task_metrics import Values
from headwater.connect.metrics.worker_metrics import Startup
from headwater.connect.runtime.task import State, TaskId


class Keeper(Protocol):
    """For any thread; what is asked for happens later, in the order in which it was."""

    def want(self, task: "SlotTask") -> None: ...

    def unwant(self, task: "SlotTask") -> None: ...

    def pause(self, task: "SlotTask") -> None: ...

    def give_up(self, task: "SlotTask") -> None: ...


class SlotTask:
    """`key`: no other has the same, also not an earlier or later one of this id. `state`, `trace`, `restarts`,
    `runs_on` and the run are the keeper's.
    """

    def __init__(
        self,
        keeper: Keeper,
        key: int,
        task_id: TaskId,
        config: Mapping[str, str],
        generation: int,
        version: str,
        *,
        isolated: bool,
        paused: bool,
        on_topic: Callable[[str], None],
    ) -> None:
        self._keeper = keeper
        self.key, self.id, self.config, self.generation = key, task_id, dict(config), generation
        self.version: str | None = version
        self.isolated, self.paused, self.on_topic = isolated, paused, on_topic
        self.on_state: Callable[[Any], None] | None = None
        self.state = State.UNASSIGNED
        self.trace: str | None = None
        self.restarts = 0
        self.runs_on: str | None = None
        self.startup: Startup | None = None
        self.plugins = PluginTexts()
        self.told_values: Values = {}  # by the slot, now and then
        self.stopping = threading.Event()
        self.cancelled = False
        self._run = 0  # the one that may write what the worker keeps; 0: none
        self._committing = threading.Lock()  # held while that is written: it is before the end of the run, or never
        self._over = threading.Event()

    # For the herder

    def start(self) -> None:
        self._keeper.want(self)

    def set_paused(self, paused: bool) -> None:
        self.paused = paused
        self._keeper.pause(self)

    def begin_stop(self) -> None:
        self.stopping.set()
        self._keeper.unwant(self)

    def cancel(self) -> None:
        with self._committing:
            self.cancelled = True
        self._keeper.give_up(self)

    def join(self, timeout_s: float) -> bool:
        return self._over.wait(timeout_s)

    def measured(self) -> Values:
        return self.told_values

    # For the keeper

    def now(self, state: State, trace: str | None, runs_on: str | None) -> None:
        changed = (state, trace, runs_on) != (self.state, self.trace, self.runs_on)
        self.state, self.trace, self.runs_on = state, trace, runs_on
        if self.startup is not None:
            self.startup.state(state)
        told = self.on_state
        if changed and told is not None:
            told(self)

    def now_run(self, run: int) -> None:
        with self._committing:
            self._run = run

    def commit(self, run: int, write: Callable[[], None]) -> None:
        """For any thread. What a run asked for that is over is not written any more."""
        with self._committing:
            if run == self._run and not self.cancelled:
                write()

    def finish(self) -> None:
        self._over.set()
