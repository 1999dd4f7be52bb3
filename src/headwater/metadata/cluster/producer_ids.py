"""Blocks of producer ids: a versioned write on one node, tried again when another broker was quicker."""

from collections.abc import Callable

from headwater.base.coordination import Coordination, CoordinationError, Node, SetData, Written, WrongVersion
from headwater.base.errors import KafkaError
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.lifetime import Lifetime
from headwater.metadata.cluster.refusals import is_disconnection, meaning


class BlockReservation:
    """Used once."""

    def __init__(
        self,
        coordination: Coordination,
        life: Lifetime,
        broker_id: int,
        count: int,
        done: Callable[[int, KafkaError | None], None],
    ) -> None:
        self._coordination = coordination
        self._life = life
        self._broker_id = broker_id
        self._count = count
        self._first = -1
        self._done = life.owe(lambda error: done(self._first if error is None else -1, error))

    def start(self) -> None:
        self._coordination.get(layout.PRODUCER_IDS, self._life.bind(self._read))

    def _read(self, node: Node | None, error: CoordinationError | None) -> None:
        if error is not None or node is None:
            self._refused(error or CoordinationError(layout.PRODUCER_IDS))
            return
        self._first = layout.decode_next_producer_id(node.data)
        data = layout.encode_block(self._broker_id, self._first, self._count)
        self._coordination.write([SetData(layout.PRODUCER_IDS, data, node.version)], self._life.bind(self._written))

    def _written(self, _written: list[Written] | None, error: CoordinationError | None) -> None:
        if error is None:
            self._done(None)
        elif isinstance(error, WrongVersion):
            self.start()
        else:
            self._refused(error)

    def _refused(self, error: CoordinationError) -> None:
        if is_disconnection(error):
            self._life.fail(error)
        else:
            self._done(meaning(error))
