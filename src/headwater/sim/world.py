"""A world: one broker and its clients, one heap of events, one seed. The same seed gives the same events in the same
order.

`step` runs the next event, `check` looks at what must hold at any time; what must hold between answers is checked by
the clients as they get them (`history.py`, `catalog.py`). `run` does so many steps, then ends all faults, lets the
clients come to an end, reads everything back and stops the broker.
"""

from collections.abc import Callable

from headwater.base.ids import PartitionKey, TopicId
from headwater.broker.broker import Broker
from headwater.sim.clients.admin import Admin
from headwater.sim.clients.client import SimClient
from headwater.sim.clients.consumer import Auditor, Consumer
from headwater.sim.clients.producer import IdempotentProducer, PlainProducer
from headwater.sim.faults import Faults
from headwater.sim.followers import Followers
from headwater.sim.history import PartitionHistory
from headwater.sim.injector import Injector
from headwater.sim.less import NOTHING, Less
from headwater.sim.network import SimConnection
from headwater.sim.node import SimNode
from headwater.sim.stage import SimulationFailed, Stage
from headwater.sim.trace import Violation

__all__ = ["SimulationFailed", "World"]


class World(Stage):
    def __init__(self, seed: int, faults: Faults | None = None, less: Less = NOTHING) -> None:
        super().__init__(seed, faults or Faults(), less)
        self._to_look_at: dict[PartitionKey, PartitionHistory] = {}  # not seen since the broker last ended
        self.node = SimNode(self, 1)
        self.running = 1
        self._checked_ms = -1
        self.followers = Followers(self)
        self._injector = Injector(self)
        self.clients = self.present(self.cast())
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

    # Running

    def step(self) -> None:
        self.run_event()
        self.node.after_event()
        if self._to_look_at and self.node.broker is not None:
            self._look_at_survivors(self.node.broker)

    def check(self) -> None:
        self.node.check()
        now_ms = self.clock.monotonic_ms()
        if now_ms != self._checked_ms:  # nobody waits too long in no time
            self._checked_ms = now_ms
            for client in self.clients:
                client.check()

    def connect(
        self, client: str, deliver: Callable[[bytes], None], gone: Callable[[str], None]
    ) -> SimConnection | None:
        return self.node.connect(client, deliver, gone)

    def lives(self) -> int:
        return self.node.lives

    def finish(self) -> None:
        self.note("no more faults")
        self._injector.end()
        for client in self.clients:
            client.is_stopping = True
        self.until_done("come to an end")
        self.is_finishing = True
        auditor = self.auditor()
        self.clients = [auditor]
        auditor.start()
        self.until_done("read everything")
        assert self.node.broker is not None
        self.node.stop()

    @property
    def faults_struck(self) -> list[int]:
        return self._injector.strikes.struck

    # What its parts tell it

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
            # A recovery saves the producers' state as of the log's end, even of an empty one; only a log that has begun
            # anew has no such snapshot.
            was_emptied = log.log_start_offset == log.log_end_offset and not log.snapshot_offsets
            self._to_look_at.pop(key).survived(log.log_end_offset, log.log_start_offset, was_emptied=was_emptied)
