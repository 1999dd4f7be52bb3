"""What all worlds have: one heap of events, one seed, clients, and a trace of what happened. The same seed gives the
same events in the same order.

`step` runs the next event, `check` looks at what must hold at any time. `run` does so many steps, then `finish`;
whatever goes wrong is told with the command that shows it again. `world.py` has one broker, `cluster.py` several.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from headwater.sim.catalog import Catalog
from headwater.sim.clients.client import SimClient
from headwater.sim.clock import SimClock
from headwater.sim.faults import Faults
from headwater.sim.less import NOTHING, Less
from headwater.sim.network import SimConnection
from headwater.sim.scheduler import SimScheduler
from headwater.sim.story import Story
from headwater.sim.trace import Trace, Violation

_END_WITHIN_MS: Final = 120_000
_END_STEPS_MAX: Final = 50_000


class SimulationFailed(AssertionError):
    """Says what went wrong, how to see it again, and what happened before. `what` is the first of it."""

    what = ""


class Stage:
    command = "make sim"

    def __init__(self, seed: int, faults: Faults, less: Less = NOTHING) -> None:
        self.seed = seed
        self.faults = replace(faults, cuts_per_mille=0) if less.cuts else faults
        self.less = less
        self.clock = SimClock()
        self.heap = SimScheduler(self.clock)
        self.catalog = Catalog()
        self.clients: list[SimClient] = []
        self.is_finishing = False
        self.story: Story | None = None
        self.running: int | None = None  # the node whose process runs
        self.skews_ms: dict[int, int] = {}  # node -> how far its clock is off, if it is
        self.clock_jumps = 0
        self._trace = Trace()
        self._producer_ids: set[int] = set()

    # What each world has otherwise

    def properties(self) -> dict[str, str]:
        """Settings of the broker beyond those of every simulated one."""
        return {}

    def step(self) -> None:
        raise NotImplementedError

    def check(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """No more faults: clients come to their end, and everything is read back."""
        raise NotImplementedError

    def connect(
        self, client: str, deliver: Callable[[bytes], None], gone: Callable[[str], None]
    ) -> SimConnection | None:
        """To a broker that any client may ask; None if it is not there."""
        raise NotImplementedError

    def lives(self) -> int:
        """How often brokers were started, or other ones took their place."""
        raise NotImplementedError

    # Running

    def run(self, steps: int) -> None:
        """Raises SimulationFailed."""
        try:
            for _ in range(steps):
                self.step()
                self.check()
            self.finish()
        except Exception as problem:
            what = str(problem) if isinstance(problem, Violation) else f"{type(problem).__name__}: {problem}"
            less = f" LESS={self.less}" if self.less != NOTHING else ""
            failure = SimulationFailed(
                f"{what}\n\n  {self.command} SEED={self.seed} STEPS={steps}{less}\n\n{self._trace.tail()}"
            )
            failure.what = what
            raise failure from problem

    def run_event(self) -> None:
        if not self.heap.run_next():
            raise Violation("nothing is left to happen, and a world never comes to rest")

    def until_done(self, what: str) -> None:
        until_ms = self.clock.monotonic_ms() + _END_WITHIN_MS
        for _ in range(_END_STEPS_MAX):
            if all(client.is_done for client in self.clients):
                return
            self.step()
            self.check()
            if self.clock.monotonic_ms() > until_ms:
                break
        names = ", ".join(client.name for client in self.clients if not client.is_done)
        raise Violation(f"I16: with all faults gone, these clients do not {what}: {names}")

    # What its parts tell it

    def note(self, text: str) -> None:
        self._trace.add(self.clock.monotonic_ms(), text)
        if self.story is not None:
            self.story.note(text)

    def take_down(self, story: Story) -> None:
        """From the beginning on: before the first step."""
        self.story = story
        self.catalog.tell = self.tell
        story.begins(self)

    def tell(self, subject: str, text: str) -> None:
        """For a story only: what a partition, a group or a transactional id has to do with."""
        if self.story is not None:
            self.story.note(text, subject)

    @property
    def faults_struck(self) -> list[int]:
        """The numbers of the faults that came."""
        raise NotImplementedError

    @property
    def trace_hash(self) -> str:
        return self._trace.digest()

    def stream(self, name: str) -> random.Random:
        """Chance for one purpose: what draws from another stream does not change it."""
        return random.Random(f"{self.seed} {name}")

    def set_clock(self, node_id: int, clock: SimClock, skew_ms: int) -> None:
        clock.jump(skew_ms - self.skews_ms.pop(node_id, 0))
        self.clock_jumps += 1
        if skew_ms:
            self.skews_ms[node_id] = skew_ms

    def present(self, clients: Sequence[SimClient]) -> list[SimClient]:
        return [client for client in clients if client.name not in self.less.clients]

    def new_producer_id(self, producer_id: int) -> None:
        if producer_id in self._producer_ids:
            raise Violation(f"I3: the producer id {producer_id} was given twice")
        self._producer_ids.add(producer_id)
