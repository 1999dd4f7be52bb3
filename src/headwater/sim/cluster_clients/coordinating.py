"""Members of groups, transactional producers and their readers in a cluster: the scripts for one broker, with the
errors that pass while leaders and coordinators change places.
"""

from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode
from headwater.sim.clients.client import Steps
from headwater.sim.clients.committed import CommittedAuditor, CommittedReader
from headwater.sim.clients.consumer_members import ConsumerMember
from headwater.sim.clients.converting_members import ConvertingMember, VisitingMember
from headwater.sim.clients.coordinated import GROUP, CoordinatedClient
from headwater.sim.clients.members import ClassicMember
from headwater.sim.clients.transactional import Replayer, TransactionalProducer
from headwater.sim.cluster_clients.routed import OUT_OF_DATE, RoutedClient

if TYPE_CHECKING:
    from headwater.sim.cluster_coordination import ClusterCoordinatorWorld

_MAY_PASS: Final = OUT_OF_DATE | {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}


class ClusterCoordinated(RoutedClient, CoordinatedClient):
    world: "ClusterCoordinatorWorld"

    def __init__(self, world: "ClusterCoordinatorWorld", name: str, *rest: Any) -> None:
        super().__init__(world, name, *rest)

    def must_pass(self, code: int) -> None:
        if code not in _MAY_PASS:
            super().must_pass(code)

    def may_read_again(self, code: int) -> bool:
        return code in _MAY_PASS

    def may_try_again(self, code: int) -> bool:
        return code in _MAY_PASS or super().may_try_again(code)  # type: ignore[misc]


class GroupMember(ClusterCoordinated):
    group: str

    def was_coordinated_by(self, term: tuple[int, int] | None) -> bool:
        """By one broker from then until now, the one that was asked, and all in sync have heard of its term."""
        now = self.world.coordinator_of(self.group)
        is_asked = now is not None and now == term and now[0] == self.coordinator(GROUP, self.group)
        return is_asked and self.world.is_heard(self.group)


class ClusterClassicMember(ClusterCoordinated, ClassicMember):
    pass


class ClusterConsumerMember(GroupMember, ConsumerMember):
    """A coordinator that was deposed and does not know it yet may tell a member that it owns what another has been
    given. So a member counts as an owner only by the word of one that truly coordinated, from the question to the
    answer, and whose word the next one cannot undo (`is_heard`).
    """

    _term: tuple[int, int] | None = None

    def heartbeat(self) -> Steps:
        self._term = self.world.coordinator_of(self.group)
        yield from super().heartbeat()

    def claim(self, sent_ms: int) -> None:
        if self.was_coordinated_by(self._term):
            super().claim(sent_ms)
        else:
            self.world.groups.release(self.group, self.name, set(self.owned))


class ClusterConvertingMember(GroupMember, ConvertingMember):
    """The same."""

    _term: tuple[int, int] | None = None

    def asks(self) -> int:
        self._term = self.world.coordinator_of(self.group)
        return super().asks()

    def claim(self, sent_ms: int) -> None:
        if self.was_coordinated_by(self._term):
            super().claim(sent_ms)
        else:
            self.world.groups.release(self.group, self.name, set(self.owned))


class ClusterVisitingMember(ClusterConsumerMember, VisitingMember):
    pass


class ClusterTransactionalProducer(ClusterCoordinated, TransactionalProducer):
    pass


class ClusterReplayer(ClusterCoordinated, Replayer):
    pass


class ClusterCommittedReader(ClusterCoordinated, CommittedReader):
    pass


class ClusterCommittedAuditor(ClusterCoordinated, CommittedAuditor):
    pass
