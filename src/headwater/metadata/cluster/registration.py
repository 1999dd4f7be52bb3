"""Registering this broker: its node under /brokers/ids, which lives as long as the session.

A node that another session made is waited for until it is gone: most likely it is of this broker's last life, whose
session has not run out yet. If it stays, another process has the same id. That is said only after one more look when
the time is over: a process that stood still meanwhile has its timer before the news.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

from headwater.base.coordination import (
    Coordination,
    CoordinationError,
    Create,
    Node,
    NodeExists,
    NodeMissing,
    SetData,
    Written,
)
from headwater.base.ports import Scheduler
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.lifetime import Lifetime
from headwater.metadata.image import BrokerState

logger = logging.getLogger("headwater.metadata")


class Registration:
    """Used once. `registered` gets this broker as it is registered; `occupied` is told when the node of somebody else
    has stayed for too long.
    """

    def __init__(
        self,
        coordination: Coordination,
        scheduler: Scheduler,
        life: Lifetime,
        me: BrokerState,
        patience_ms: int,
        registered: Callable[[BrokerState], None],
        occupied: Callable[[], None],
    ) -> None:
        self._coordination = coordination
        self._scheduler = scheduler
        self._life = life
        self._me = me
        self._patience_ms = patience_ms
        self._registered = registered
        self._occupied = occupied
        self._path = layout.broker_path(me.broker_id)
        self._round = life.part()
        self._is_waiting = False
        self._is_time_over = False

    def start(self) -> None:
        """Looks at the node, and again from the beginning whenever it changes."""
        self._round.end()
        self._round = self._life.part()
        self._coordination.get(self._path, self._round.bind(self._read), watch=self._round.bind(self.start))

    def _read(self, node: Node | None, error: CoordinationError | None) -> None:
        if error is not None:
            self._life.fail(error)
        elif node is None:
            data = layout.encode_broker(self._me, self._coordination.session_id)
            self._coordination.write([Create(self._path, data, ephemeral=True)], self._round.bind(self._written))
        else:
            self._found(node)

    def _written(self, _written: list[Written] | None, error: CoordinationError | None) -> None:
        if error is None or isinstance(error, NodeExists | NodeMissing):
            self.start()
        else:
            self._life.fail(error)

    def _found(self, node: Node) -> None:
        known, session_id = _decode(self._me, node)
        if known is None or session_id != self._coordination.session_id:
            self._wait()
        elif self._me.is_stopping and not known.is_stopping:
            data = layout.encode_broker(replace(known, is_stopping=True), session_id)
            self._coordination.write([SetData(self._path, data)], self._round.bind(self._written))
        else:
            self._round.end()
            self._registered(known)

    def _wait(self) -> None:
        if self._is_time_over:
            self._occupied()
        elif not self._is_waiting:
            self._is_waiting = True
            logger.info("event=registration-waits broker=%d: its last session has not run out yet", self._me.broker_id)
            self._scheduler.call_later(self._patience_ms, self._life.bind(self._give_up))

    def _give_up(self) -> None:
        if not self._round.is_over:
            self._is_time_over = True
            self.start()


def _decode(me: BrokerState, node: Node) -> tuple[BrokerState | None, int]:
    try:
        return layout.decode_broker(me.broker_id, node.data, node.created)
    except layout.UNREADABLE:
        return None, 0
