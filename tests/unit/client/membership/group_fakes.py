"""A consumer that is only a host for a membership, and a coordinator of a classic group that answers from a script.

group = Group(world, ClassicMembership, assignors=(RangeAssignor(),))
group.poll()                                  # what the consumer's poll does: the error, the heartbeat, the events
assert group.owned == ["orders-0", "orders-1"]
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.client.consumer.assignors.formats import decode_assignment, encode_assignment, encode_subscription
from headwater.client.consumer.assignors.spec import MemberSubscription
from headwater.client.consumer.membership.port import Membership, RebalanceEvent, RebalanceKind
from headwater.client.consumer.membership.settings import MembershipSettings
from headwater.client.session import Session
from headwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from headwater.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from unit.client.reactor.fakes import FakeBroker, FakeWorld


class Group:
    """One member, seen from its application. `log` is what its listener was told."""

    def __init__(
        self,
        world: FakeWorld,
        kind: Callable[[Any, MembershipSettings], Membership],
        topics: tuple[str, ...] = ("orders",),
        pattern: str | None = None,
        **settings: Any,
    ) -> None:
        self.world = world
        self.session: Session = world.session()
        self.topics = list(topics)
        self.pattern = pattern
        self.woken = 0
        self.log: list[str] = []
        self.held: set[TopicPartition] = set()
        self.membership = kind(self, MembershipSettings(group_id="billing", **settings))
        self.membership.start()

    # The host

    def subscribed_topics(self) -> list[str]:
        return list(self.topics)

    def subscription_pattern(self) -> str | None:
        return self.pattern

    def wake(self) -> None:
        self.woken += 1

    # The application

    @property
    def owned(self) -> list[str]:
        return sorted(str(each) for each in self.held)

    def poll(self, seconds: float = 0.1) -> None:
        """What a poll of the consumer does, and this much time for what comes of it."""
        self.membership.raise_error()
        self.membership.poll_heartbeat(self.world.now)
        end = self.world.now + seconds
        while True:
            event = self.membership.next_event()
            if event is not None:
                self.handle(event)
                self.membership.acknowledge(event)
            if self.world.now >= end:
                break
            self.world.pass_time(min(0.01, end - self.world.now))

    def handle(self, event: RebalanceEvent) -> None:
        self.log.append(f"{event.kind.name.lower()} {' '.join(str(each) for each in event.partitions)}".strip())
        if event.kind is RebalanceKind.ASSIGNED:
            assert not self.held & set(event.partitions), "only new partitions are assigned"
            self.held.update(event.partitions)
        else:
            assert self.held >= set(event.partitions), "only what is held can be taken away"
            self.held.difference_update(event.partitions)

    def resubscribe(self, *topics: str) -> None:
        self.topics = list(topics)
        self.membership.subscription_changed()

    def leave(self, reason: str = "closed") -> None:
        event = self.membership.stop()
        if event is not None:
            self.handle(event)
        self.world.run(self.membership.leave(reason))


@dataclass
class Coordinator:
    """Answers a classic group's requests. `codes` are answered first, one for each request of that kind."""

    broker: FakeBroker
    leader: bool = True
    others: dict[str, MemberSubscription] = field(default_factory=dict)
    assignment: list[TopicPartition] | None = None  # for followers; the leader's own decision counts otherwise
    codes: dict[type, list[ErrorCode]] = field(default_factory=dict)
    generation: int = 0
    members_made: int = 0
    skip_assignment: bool = False
    protocol: str | None = None
    given: dict[str, list[TopicPartition]] = field(default_factory=dict)  # what the leader handed in

    def __post_init__(self) -> None:
        self.broker.coordinates()
        self.broker.on(JoinGroupRequest, self._join)
        self.broker.on(SyncGroupRequest, self._sync)
        self.broker.on(HeartbeatRequest, lambda _: HeartbeatResponse(error_code=self._code(HeartbeatRequest)))
        self.broker.on(LeaveGroupRequest, lambda _: LeaveGroupResponse(error_code=self._code(LeaveGroupRequest)))

    def refuse(self, request: type, *codes: ErrorCode) -> None:
        self.codes.setdefault(request, []).extend(codes)

    def joins(self) -> list[JoinGroupRequest]:
        return self.broker.received(JoinGroupRequest)

    def _code(self, request: type) -> int:
        waiting = self.codes.get(request)
        return int(waiting.pop(0)) if waiting else 0

    def _join(self, request: JoinGroupRequest) -> JoinGroupResponse:
        code = self._code(JoinGroupRequest)
        if not request.member_id and not code and request.group_instance_id is None:
            self.members_made += 1
            return JoinGroupResponse(
                error_code=int(ErrorCode.MEMBER_ID_REQUIRED), member_id=f"m-{self.members_made}", protocol_name=""
            )
        if code:
            return JoinGroupResponse(error_code=code, member_id=request.member_id, protocol_name="")
        if not request.member_id:
            self.members_made += 1
        member_id = request.member_id or f"m-{self.members_made}"
        self.generation += 1
        chosen = self.protocol or request.protocols[0].name
        metadata = next((each.metadata for each in request.protocols if each.name == chosen), b"")
        members = [JoinGroupResponseMember(member_id=member_id, metadata=metadata)] + [
            JoinGroupResponseMember(member_id=other, metadata=encode_subscription(subscription))
            for other, subscription in self.others.items()
        ]
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=chosen,
            leader=member_id if self.leader else "somebody",
            member_id=member_id,
            members=members if self.leader else [],
            skip_assignment=self.skip_assignment,
        )

    def _sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        code = self._code(SyncGroupRequest)
        if code:
            return SyncGroupResponse(error_code=code)
        self.given = {each.member_id: list(decode_assignment(bytes(each.assignment))) for each in request.assignments}
        mine = self.given.get(request.member_id, []) if self.assignment is None else self.assignment
        return SyncGroupResponse(assignment=encode_assignment(mine))
