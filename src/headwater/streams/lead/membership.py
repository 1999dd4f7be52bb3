"""The lead of a run: the only member of the application's group, and the only one who takes producer ids.

The member is static and of the classic protocol: a successor that joins under the same instance id fences it at once.
It is subscribed to everything that tasks read, so that offsets do not expire, and fetches nothing. Owns its consumer
and its admin client; it is driven by the thread of the run, which calls `tick` at least every few seconds.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.client.consumer.consumer import Consumer
from headwater.client.consumer.membership.port import Departure
from headwater.client.consumer.positions import OffsetAndMetadata
from headwater.client.producer.transaction_calls import init_producer_id
from headwater.client.session import KeyType, Session
from headwater.streams.protocol import task_ownership as protocol
from headwater.streams.protocol.transactional_ids import lead_id, slot_id
from headwater.streams.slot.open_task import Stopped
from headwater.streams.slot.program import Program
from headwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

INSTANCE: Final = "headwater-lead"
_JOIN_PATIENCE_S: Final = 180.0
_TICK_S: Final = 1.0
_LOST: Final = frozenset((ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION))  # until it has joined again


def _never() -> bool:
    return False


class Lead:
    given_up: Callable[[], bool] = staticmethod(_never)
    """Whether the run is to end: it may be so before the group has taken the member."""

    def __init__(
        self,
        application_id: str,
        for_admins: Mapping[str, object],
        for_consumers: Mapping[str, object],
        topics: list[str],
        transaction_timeout_ms: int,
    ) -> None:
        self.application_id = application_id
        self.admin = Admin(dict(for_admins))
        self._topics = topics
        self._timeout_ms = transaction_timeout_ms
        self._consumer = Consumer(
            {
                **for_consumers,
                "group.id": application_id,
                "group.instance.id": INSTANCE,
                "group.protocol": "classic",
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
                "max.poll.interval.ms": 2**31 - 1,
            }
        )
        self._ticked_at = 0.0

    def do(self, step: protocol.Step) -> Any:
        """What the steps of the lead ask for."""
        match step:
            case protocol.Join():
                return self._join()
            case protocol.TakeRunNumber():
                taken = self._take(lead_id(self.application_id))
                return taken.producer_id << 16 | taken.epoch
            case protocol.StillMember(member):
                return self._check(member)
            case protocol.FindSlotIds():
                prefix = slot_id(self.application_id, 0)[:-1]
                listed = [each.transactional_id for each in self.admin.list_transactions()]
                return tuple(name for name in listed if name.startswith(prefix) and name[len(prefix) :].isdecimal())
            case protocol.TakeProducerId(name):
                return self._take(name)
        raise AssertionError(f"no step of a lead: {step}")

    def drive(self, steps: protocol.Steps) -> Any:
        """What steps that are all the lead's come to."""
        try:
            step = next(steps)
            while True:
                step = steps.send(self.do(step))
        except StopIteration as stop:
            return stop.value

    def member(self) -> protocol.Member:
        found = self._consumer.group_metadata()
        return protocol.Member(self.application_id, found.generation_id, found.member_id, INSTANCE)

    def tick(self) -> None:
        """Keeps the membership; raises Replaced when another run has joined."""
        now = time.monotonic()
        if now - self._ticked_at < _TICK_S:
            return
        self._ticked_at = now
        self._poll(0.0)

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Offsets outside a transaction."""
        self._consumer.commit(dict(offsets))

    def leave(self) -> None:
        """At a clean stop: the group is empty at once, so that it can be reset."""
        self._close(Departure.LEAVE)

    def close(self) -> None:
        """Stays a member, for the next run to replace."""
        self._close(Departure.REMAIN)

    def _close(self, departure: Departure) -> None:
        try:
            self._consumer.close(departure=departure)
        finally:
            self.admin.close()

    def _join(self) -> protocol.Member:
        self._consumer.subscribe(self._topics)
        give_up_at = time.monotonic() + _JOIN_PATIENCE_S
        while not self._consumer.assignment():
            if self.given_up():
                raise Stopped
            if time.monotonic() > give_up_at:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"the group {self.application_id} gives no assignment")
            self._poll(0.1)
        return self.member()

    def _poll(self, timeout: float) -> None:
        try:
            self._consumer.poll(timeout, max_records=1)
            self._consumer.pause(*self._consumer.assignment())
        except KafkaError as error:
            if error.code == ErrorCode.FENCED_INSTANCE_ID:
                raise protocol.Replaced(self.application_id) from error
            raise

    def _check(self, member: protocol.Member) -> None:
        request = HeartbeatRequest(
            group_id=member.group_id,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
        )

        async def ask(session: Session) -> HeartbeatResponse:
            return await session.call_coordinator(
                member.group_id, KeyType.GROUP, request, HeartbeatResponse, lambda answer: answer.error_code
            )

        code = self.admin.run(ask).error_code
        if code == ErrorCode.FENCED_INSTANCE_ID:
            self._poll(0.0)  # where the member was lost and joins again, the other of its name is itself
            if self._consumer.assignment() and self.member() == member:
                raise protocol.Replaced(self.application_id)
            code = ErrorCode.UNKNOWN_MEMBER_ID
        if code in _LOST:
            raise KafkaError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the member of group {member.group_id} is joining again"
            )
        if code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            raise KafkaError(ErrorCode(code), f"the member of group {member.group_id}")

    def _take(self, name: str) -> protocol.SlotProducer:
        async def ask(session: Session) -> tuple[int, int]:
            response, _ = await init_producer_id(session, name, self._timeout_ms)
            return response.producer_id, response.producer_epoch

        return protocol.SlotProducer(name, *self.admin.run(ask))


def lead_of(program: Program) -> Lead:
    """The member of the application's group: it still has to join."""
    settings = program.settings
    sources = sorted(program.topics.sources)
    return Lead(program.name, settings.for_admins, settings.for_consumers, sources, settings.transaction_timeout_ms)
