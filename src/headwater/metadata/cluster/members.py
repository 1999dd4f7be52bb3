"""Who lives: the registrations under /brokers/ids, read again, all of them, whenever one came, went or changed.

All of them, since a broker that dies and returns quickly has the same name, and only its node tells that it is another
life.
"""

import logging
from collections.abc import Callable
from functools import partial

from headwater.base.coordination import Coordination, CoordinationError, Node
from headwater.base.ids import BrokerId
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.lifetime import Lifetime
from headwater.metadata.image import BrokerState

logger = logging.getLogger("headwater.metadata")

Members = dict[BrokerId, BrokerState]


class Membership:
    def __init__(self, coordination: Coordination, life: Lifetime, told: Callable[[Members], None]) -> None:
        self._coordination = coordination
        self._life = life
        self._told = told
        self._waiting: list[Callable[[], None]] = []
        self._round = 0
        self._outstanding = 0
        self._found: Members = {}
        self._is_directory_watched = False
        self._watched: set[int] = set()

    def refresh(self, done: Callable[[], None] = lambda: None) -> None:
        """Reads all; `done` after it was told. A reading under way is begun anew."""
        self._waiting.append(done)
        self._round += 1
        watch = None if self._is_directory_watched else self._life.bind(self._directory_changed)
        self._is_directory_watched = True
        self._coordination.children(layout.BROKERS, self._life.bind(partial(self._listed, self._round)), watch=watch)

    def _directory_changed(self) -> None:
        self._is_directory_watched = False
        self.refresh()

    def _broker_changed(self, broker_id: int) -> None:
        self._watched.discard(broker_id)
        self.refresh()

    def _listed(self, number: int, names: list[str] | None, error: CoordinationError | None) -> None:
        if error is not None:
            self._life.fail(error)
            return
        if number != self._round:
            return
        self._found = {}
        broker_ids = [int(name) for name in names or () if name.isdecimal()]
        self._outstanding = len(broker_ids)
        for broker_id in broker_ids:
            watch = None if broker_id in self._watched else self._life.bind(partial(self._broker_changed, broker_id))
            self._watched.add(broker_id)
            read = self._life.bind(partial(self._read, number, broker_id))
            self._coordination.get(layout.broker_path(broker_id), read, watch=watch)
        if not broker_ids:
            self._finish()

    def _read(self, number: int, broker_id: int, node: Node | None, error: CoordinationError | None) -> None:
        if error is not None:
            self._life.fail(error)
            return
        if number != self._round:
            return
        if node is not None:
            self._take(broker_id, node)
        self._outstanding -= 1
        if self._outstanding == 0:
            self._finish()

    def _take(self, broker_id: int, node: Node) -> None:
        try:
            self._found[BrokerId(broker_id)], _ = layout.decode_broker(broker_id, node.data, node.created)
        except layout.UNREADABLE:
            logger.warning("event=broker-unreadable broker=%d registration=%r", broker_id, node.data[:200])

    def _finish(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._told(self._found)
        for done in waiting:
            if not self._life.is_over:
                done()
