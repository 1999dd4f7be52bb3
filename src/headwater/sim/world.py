"""A world: one broker and its clients, one heap of events, one seed. The same seed gives the same events in the same order.

`step` runs the next event, `check` looks at what must hold at any time; what must hold between answers is checked by the
clients as they get them (`history.py`, `catalog.py`). `run` does so many steps, then ends all faults, lets the clients
come to an end, reads everything back and stops the broker.
"""

import random
from typing import Final

from headwater.base.ids import PartitionKey, TopicId
from headwater.broker.broker import Broker
from headwater.sim.catalog import Catalog
from headwater.sim.clients.admin import Admin
from headwater.sim.clients.client import SimClient
from headwater.sim.clients.consumer import Auditor, Consumer
from headwater.sim.clients.producer import IdempotentProducer, PlainProducer
from headwater.sim.clock import SimClock
from headwater.sim.faults import Faults
from headwater.sim.followers import Followers
from headwater.sim.history import PartitionHistory
from headwater.sim.injector import Injector
from headwater.sim.node import SimNode
from headwater.sim.scheduler import SimScheduler
from headwater.sim.trace import Trace, Violation

_END_WITHIN_MS: Final = 120_000
_END_STEPS_MAX: Final = 50_000


class SimulationFailed(AssertionError):
    """Says what went wrong, how to see it again, and what happened before."""


class World:
    command = "make sim"

    def __init__(self, seed: int, faults: Faults | None = None) -> None:
        self.seed = seed
        self.faults = faults or Faults()
        self.random = random.Random(seed)
        self.clock = SimClock()
        self.heap = SimScheduler(self.clock)
        self.catalog = Catalog()
        self.is_finishing = False
        self._trace = Trace()
        self._producer_ids: set[int] = set()
        self._to_look_at: dict[PartitionKey, PartitionHistory] = {}  # not seen since the broker last ended
        self.node = SimNode(self, 1)
        self.followers = Followers(self)
        self._injector = Injector(self)
        self.clients = self.cast()
        if not self.node.start():
            raise Violation("the broker does not start on an empty disk")
        self.followers.start()
        self._injector.start()
        for client in self.clients:
            client.start()

    # What other worlds have otherwise

    def cast(self) -> list[SimClient]:
        return [
            Admin(self, "admin"),
            IdempotentProducer(self, "first"),
            IdempotentProducer(self, "second"),
            PlainProducer(self, "plain"),
            Consumer(self, "reader"),
            Consumer(self, "other"),
        ]

    def auditor(self) -> SimClient:
        return Auditor(self, "auditor")

    def properties(self) -> dict[str, str]:
        """Settings of the broker beyond those of every simulated one."""
        return {}

    # Running

    def step(self) -> None:
        due_in_ms = self.heap.due_in_ms()
        assert due_in_ms is not None, "a world never comes to rest"
        self.clock.advance(due_in_ms)
        self.heap.run_one()
        self.node.after_event(self.random)
        if self._to_look_at and self.node.broker is not None:
            self._look_at_survivors(self.node.broker)

    def check(self) -> None:
        self.node.check()
        for client in self.clients:
            client.check()

    def run(self, steps: int) -> None:
        """Raises SimulationFailed."""
        try:
            for _ in range(steps):
                self.step()
                self.check()
            self._finish()
        except Exception as problem:
            what = str(problem) if isinstance(problem, Violation) else f"{type(problem).__name__}: {problem}"
            raise SimulationFailed(
                f"{what}\n\n  {self.command} SEED={self.seed} STEPS={steps}\n\n{self._trace.tail()}"
            ) from problem

    def _finish(self) -> None:
        self.note("no more faults")
        self._injector.end()
        for client in self.clients:
            client.is_stopping = True
        self._until_done("come to an end")
        self.is_finishing = True
        auditor = self.auditor()
        self.clients = [auditor]
        auditor.start()
        self._until_done("read everything")
        assert self.node.broker is not None
        self.node.stop()

    def _until_done(self, what: str) -> None:
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

    @property
    def trace_hash(self) -> str:
        return self._trace.digest()

    def chance(self, per_mille: int) -> bool:
        return not self.is_finishing and self.random.randrange(1000) < per_mille

    def new_producer_id(self, producer_id: int) -> None:
        if producer_id in self._producer_ids:
            raise Violation(f"I3: the producer id {producer_id} was given twice")
        self._producer_ids.add(producer_id)

    def broker_ended(self, *, cleanly: bool, power_was_lost: bool) -> None:
        self.followers.leader_died()
        for topic in self.catalog.topics.values():
            for index, history in enumerate(topic.partitions):
                history.broker_ended(cleanly=cleanly, power_was_lost=power_was_lost)
                self._to_look_at[PartitionKey(TopicId(topic.topic_id), index)] = history

    def _look_at_survivors(self, broker: Broker) -> None:
        """What was opened again, at the start or (after a disk error) later: is all there that clients were told of?"""
        for key in [key for key in self._to_look_at if key in broker.partitions]:
            log = broker.partitions[key].log
            self._to_look_at.pop(key).survived(log.log_end_offset, log.log_start_offset)
