"""Standing for election: who makes /controller is the controller, and counts /controller_epoch up in the same step.

The version of /controller_epoch then guards all that this controller writes: as soon as there is another one, nothing
of the older one is taken any more. The node names the session and the epoch that it was made under, so that its maker
knows it again.
"""

from collections.abc import Callable

from headwater.base.coordination import (
    Coordination,
    CoordinationError,
    Create,
    Node,
    NodeExists,
    NodeMissing,
    SetData,
    Write,
    Written,
    WrongVersion,
)
from headwater.base.ids import NO_BROKER, BrokerId
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.layout import ControllerNode
from headwater.metadata.cluster.lifetime import Lifetime


class Election:
    """`known`: who is the controller, and the epoch. `won`: it is this broker, with the guard. `lost`: perhaps it is no
    more.
    """

    def __init__(
        self,
        coordination: Coordination,
        life: Lifetime,
        broker_id: int,
        known: Callable[[BrokerId, int], None],
        won: Callable[[int], None],
        lost: Callable[[], None],
    ) -> None:
        self._coordination = coordination
        self._life = life
        self._broker_id = BrokerId(broker_id)
        self._known = known
        self._won = won
        self._lost = lost
        self._round = life.part()
        self._controller: ControllerNode | None = None

    def stand(self) -> None:
        """Looks who is it, and if it is nobody, tries to be it. Again from the beginning whenever /controller
        changes.
        """
        self._round.end()
        self._round = self._life.part()
        self._coordination.get(
            layout.CONTROLLER, self._round.bind(self._controller_read), watch=self._round.bind(self._changed)
        )
        self._coordination.get(layout.CONTROLLER_EPOCH, self._round.bind(self._epoch_read))

    def _changed(self) -> None:
        self._lost()
        self.stand()

    def _controller_read(self, node: Node | None, error: CoordinationError | None) -> None:
        if error is not None:
            self._life.fail(error)
            return
        try:
            self._controller = None if node is None else layout.decode_controller(node.data)
        except layout.UNREADABLE:
            self._controller = ControllerNode(NO_BROKER)  # somebody's, and not ours

    def _epoch_read(self, node: Node | None, error: CoordinationError | None) -> None:
        """Answered behind /controller; had that changed in between, its watch would have been told before."""
        if error is not None or node is None:
            self._life.fail(error or NodeMissing(layout.CONTROLLER_EPOCH))
            return
        epoch, controller = layout.decode_epoch(node.data), self._controller
        self._known(NO_BROKER if controller is None else controller.broker_id, epoch)
        if self._life.is_over:
            return
        if controller is None:
            self._try(epoch + 1, node.version)
        elif controller == self._candidate(epoch):
            self._won(node.version)

    def _candidate(self, epoch: int) -> ControllerNode:
        return ControllerNode(self._broker_id, self._coordination.session_id, epoch)

    def _try(self, epoch: int, version: int) -> None:
        writes: list[Write] = [
            Create(layout.CONTROLLER, layout.encode_controller(self._candidate(epoch)), ephemeral=True),
            SetData(layout.CONTROLLER_EPOCH, layout.encode_epoch(epoch), version),
        ]
        self._coordination.write(writes, self._round.bind(self._tried))

    def _tried(self, _written: list[Written] | None, error: CoordinationError | None) -> None:
        if error is None or isinstance(error, NodeExists | WrongVersion):
            self.stand()
        else:
            self._life.fail(error)
