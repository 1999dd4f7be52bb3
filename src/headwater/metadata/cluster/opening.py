"""The first look at ZooKeeper: the nodes under which everything stands are made, and the cluster gets its id."""

from collections.abc import Callable

from headwater.base.coordination import (
    Coordination,
    CoordinationError,
    Create,
    Node,
    NodeExists,
    NodeMissing,
    NotAuthenticated,
    NotAuthorized,
    Written,
)
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.lifetime import Lifetime


class Opening:
    """Used once. `opened` gets the id of the cluster: the one that it has, or `new_cluster_id`."""

    def __init__(
        self, coordination: Coordination, life: Lifetime, new_cluster_id: str, opened: Callable[[str], None]
    ) -> None:
        self._coordination = coordination
        self._life = life
        self._new_cluster_id = new_cluster_id
        self._opened = opened
        self._refusal: CoordinationError | None = None

    def start(self) -> None:
        for path, data in layout.BASE_NODES:
            self._coordination.write([Create(path, data)], self._life.bind(self._made))
        cluster_id = Create(layout.CLUSTER_ID, layout.encode_cluster_id(self._new_cluster_id))
        self._coordination.write([cluster_id], self._life.bind(self._made))
        self._coordination.get(layout.CLUSTER_ID, self._life.bind(self._read))

    def _made(self, _written: list[Written] | None, error: CoordinationError | None) -> None:
        if isinstance(error, NotAuthorized) and not isinstance(error, NotAuthenticated):
            self._refusal = self._refusal or error
            self._look_for(error)
        elif isinstance(error, NodeMissing) and self._refusal is not None:
            self._life.fail(self._refusal)  # that is why there is no parent
        elif error is not None and not isinstance(error, NodeExists):
            self._life.fail(error)

    def _look_for(self, refusal: CoordinationError) -> None:
        """Who may not make a node is told that before he is told that it is there; and then he need not."""

        def looked(node: Node | None, error: CoordinationError | None) -> None:
            if node is None:
                self._life.fail(error or refusal)

        self._coordination.get(refusal.path, self._life.bind(looked))

    def _read(self, node: Node | None, error: CoordinationError | None) -> None:
        cluster_id = "" if node is None else layout.decode_cluster_id(node.data)
        if error is not None or not cluster_id:
            self._life.fail(error or CoordinationError(layout.CLUSTER_ID))
        else:
            self._opened(cluster_id)
