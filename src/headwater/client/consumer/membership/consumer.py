"""A member of a group of the consumer protocol (KIP-848): the shell around `ConsumerState`.

Two tasks. One heartbeats, from the first poll on: at once when there is something to tell, else at the interval that
the coordinator says. The other brings what is owned to what the coordinator wants, with the application's help. Beside
them, the watch over the application's polls.
"""

import logging
import uuid
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.consumer.membership.common import MembershipBase, told_as
from headwater.client.consumer.membership.consumer_state import LEAVE_EPOCH, LEAVE_STATIC_EPOCH, ConsumerState
from headwater.client.consumer.membership.port import Departure, MembershipHost, RebalanceEvent, RebalanceKind
from headwater.client.consumer.membership.settings import MembershipSettings
from headwater.client.consumer.membership.topic_names import names_of
from headwater.client.consumer.membership.verdicts import Verdict, commit_asks_for_heartbeat
from headwater.client.errors import error_for
from headwater.client.reactor.kernel import TimedOut
from headwater.client.session import GROUP_CHANNEL
from headwater.client.types import topic_id_text
from headwater.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

logger = logging.getLogger("headwater.client")

_NAMES_INTERVAL: Final = 1.0  # how soon to ask again for the names of topics that nobody knew yet


class ConsumerMembership(MembershipBase):
    """`member_id` is made here, once, and kept through all that happens to the membership."""

    def __init__(self, host: MembershipHost, settings: MembershipSettings, member_id: str | None = None) -> None:
        super().__init__(host, settings)
        self._state = ConsumerState(member_id or topic_id_text(uuid.uuid4().bytes))
        self._attempt = 0
        self._next_beat_at = 0.0

    # The port

    @property
    def member_id(self) -> str:
        return self._state.member_id

    @property
    def generation(self) -> int:
        return self._state.epoch if self._state.is_member else -1

    @property
    def rebalancing(self) -> bool:
        return self._polled and not self._state.is_member and not self._state.lost

    @property
    def error(self) -> KafkaError | None:
        return self._state.error

    def start(self) -> None:
        self._begin([self._run, self._heartbeats, self._watch_polls])

    def subscription_changed(self) -> None:
        self._state.urgent = True
        self._changed.notify()

    def failed(self, code: ErrorCode, generation: int | None = None) -> None:
        if commit_asks_for_heartbeat(code) and generation in (None, self.generation):
            self._state.urgent = True
            self._changed.notify()

    def stop(self) -> RebalanceEvent | None:
        self._end_rebalancing()
        return self._state.at_the_end()

    async def leave(self, reason: str, departure: Departure = Departure.DEFAULT, timeout_ms: int | None = None) -> None:
        del reason  # the protocol has no place for it
        self._end_rebalancing()
        self._end_tasks()
        state, self._state = self._state, ConsumerState(self._state.member_id)
        self._state.incarnation = state.incarnation + 1
        if departure is Departure.REMAIN and self.group_instance_id is None:
            return
        if state.is_member or (self._polled and not state.lost):  # a join may be under way
            await self._say_goodbye(departure, timeout_ms)

    # What the base asks

    def _acknowledged(self, event: RebalanceEvent) -> None:
        self._state.acknowledged(event)
        self._changed.notify()

    def _error_told(self) -> None:
        self._state.error_told()

    def _broken(self, error: Exception) -> None:
        self._state.lose()
        self._state.error = told_as(error)
        self._state.error_is_final = True

    def _is_member(self) -> bool:
        return self._state.is_member

    def _poll_expired(self) -> None:
        self._state.lose()
        self._restart(self._run)
        self._spawn(self._say_goodbye(Departure.DEFAULT, None), "leave")

    # Reconciliation

    async def _run(self) -> None:
        while True:
            await self._until(
                lambda: self._polled and self.error is None and (self._state.lost or not self._state.reconciled)
            )
            await self._desk.free()
            if self._state.lost:
                await self._desk.offer(self._state.lost_event())
                if not self._state.owned:  # an event that was left over may have brought more
                    self._state.rejoin()
                    self._changed.notify()
            else:
                await self._reconcile()

    async def _reconcile(self) -> None:
        state = self._state
        target, incarnation = state.target, state.incarnation
        names = await names_of(self._session, {topic_id for topic_id, _ in target or ()})
        if state.incarnation != incarnation or state.target != target:
            return
        state.reconciled = True
        changes = state.changes(names)
        logger.info(
            "group=%s epoch=%d revoked=%d added=%d",
            self.group_id,
            state.epoch,
            len(changes.revoked),
            len(changes.added),
        )
        if changes.revoked or changes.added or not state.told_assigned:
            revoked = RebalanceEvent(RebalanceKind.REVOKED, changes.revoked) if changes.revoked else None
            if not await self._desk.offer(revoked) or state.incarnation != incarnation:
                return
            if not await self._desk.offer(RebalanceEvent(RebalanceKind.ASSIGNED, changes.added)):
                return
        if state.incarnation == incarnation and any(topic_id not in names for topic_id, _ in target or ()):
            await self._session.kernel.sleep(_NAMES_INTERVAL)
            if state.incarnation == incarnation:
                state.reconciled = False

    # Heartbeats

    async def _heartbeats(self) -> None:
        while True:
            await self._until(lambda: self._polled and self.error is None and not self._state.lost)
            if self._state.urgent or self._session.kernel.clock() >= self._next_beat_at:
                await self._beat()
                self._next_beat_at = self._session.kernel.clock() + self._state.heartbeat_interval_ms / 1000
            else:
                await self._something_to_tell()

    async def _something_to_tell(self) -> None:
        kernel = self._session.kernel
        try:
            await kernel.within(max(0.0, self._next_beat_at - kernel.clock()), self._changed.next())
        except TimedOut:
            return

    async def _beat(self) -> None:
        state = self._state
        incarnation = state.incarnation
        request = state.heartbeat(self._settings, self._topics(), self._host.subscription_pattern())
        try:
            answer = await self._call(request)
            code, message = error_for(answer.error_code).code, answer.error_message
        except KafkaError as error:
            answer, code, message = None, error.code, error.message
            if state.incarnation == incarnation:
                state.unanswered()
        if state.incarnation != incarnation:
            return
        if answer is not None and not code:
            state.answered(answer)
            self._attempt = 0
            self._changed.notify()
            return
        await self._refused(code, message)

    async def _refused(self, code: ErrorCode, message: str | None) -> None:
        verdict = self._state.refused(code, message or f"group {self.group_id!r}")
        logger.info("group=%s heartbeat answered %s: %s", self.group_id, code.name, verdict.name)
        if verdict is Verdict.AGAIN:
            if code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                self._session.forget_coordinator(self.group_id)
            await self._session.pause(self._attempt, float("inf"))
            self._attempt += 1
            return
        self._desk.withdraw()
        if self.error is not None:
            self._host.wake()
        self._changed.notify()

    async def _call(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        """Once: a heartbeat that may have arrived is not repeated, because what follows it has to tell more."""
        coordinator = await self._session.coordinator(self.group_id)
        link = await self._session.link(coordinator, GROUP_CHANNEL)
        if request.subscribed_topic_regex and link.version_for(request) < 1:
            text = "the broker does not know subscriptions by its own patterns (Kafka 4.0 does)"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        return await link.call(request, ConsumerGroupHeartbeatResponse)

    def _topics(self) -> list[str]:
        return [] if self._host.subscription_pattern() is not None else self._host.subscribed_topics()

    async def _say_goodbye(self, departure: Departure, timeout_ms: int | None) -> None:
        for_a_while = self.group_instance_id is not None and departure is not Departure.LEAVE
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_STATIC_EPOCH if for_a_while else LEAVE_EPOCH,
            instance_id=self.group_instance_id,
        )
        await self._last_request(request, ConsumerGroupHeartbeatResponse, timeout_ms)
