"""A member of a classic group: the shell around `ClassicState`.

One task goes round and round: wait for a poll, give up what must be given up, join, sync, take what was assigned, stay
until a rejoin is wanted. Beside it run heartbeats, the watch over the application's polls, and, at the leader, the
watch over the group's topics. They only take notes in the state and notify; the first task acts.
"""

import logging
from typing import Final, TypeVar

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.assignors.formats import decode_assignment
from headwater.client.consumer.assignors.named import is_cooperative
from headwater.client.consumer.assignors.spec import NO_GENERATION
from headwater.client.consumer.membership.classic_requests import (
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from headwater.client.consumer.membership.classic_state import ClassicState
from headwater.client.consumer.membership.common import MembershipBase, told_as
from headwater.client.consumer.membership.leading import Leading
from headwater.client.consumer.membership.port import Departure, MembershipHost, RebalanceEvent, RebalanceKind
from headwater.client.consumer.membership.settings import MembershipSettings
from headwater.client.consumer.membership.verdicts import Api, Verdict
from headwater.client.errors import error_for
from headwater.client.reactor.kernel import TimedOut
from headwater.client.session import KeyType
from headwater.wire.messages.heartbeat import HeartbeatResponse
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headwater.wire.messages.leave_group import LeaveGroupResponse
from headwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

logger = logging.getLogger("headwater.client")

A = TypeVar("A", JoinGroupResponse, SyncGroupResponse)

_JOIN_GRACE_MS: Final = 5_000  # the broker answers a join when the rebalance timeout is over, and needs a moment


class ClassicMembership(MembershipBase):
    def __init__(self, host: MembershipHost, settings: MembershipSettings) -> None:
        assert settings.assignors, "a classic group needs an assignor"
        super().__init__(host, settings)
        self._state = ClassicState(is_cooperative(settings.assignors))
        self._leading = Leading(host.session)
        self._attempt = 0

    # The port

    @property
    def member_id(self) -> str:
        return self._state.member_id

    @property
    def generation(self) -> int:
        return self._state.generation

    @property
    def rebalancing(self) -> bool:
        return self._state.joining

    @property
    def error(self) -> KafkaError | None:
        return self._state.error

    def start(self) -> None:
        self._state.want_rejoin("the consumer subscribed")
        self._begin([self._run, self._heartbeats, self._watch_polls, self._watch_topics])

    def subscription_changed(self) -> None:
        joined = self._state.joined_topics
        if joined is not None and frozenset(self._host.subscribed_topics()) != joined:
            self._state.want_rejoin("the subscription changed")
            self._changed.notify()

    def failed(self, code: ErrorCode, generation: int | None = None) -> None:
        if self._state.stable and generation in (None, self._state.generation):
            self._refused(Api.COMMIT, code)

    def stop(self) -> RebalanceEvent | None:
        self._end_rebalancing()
        return self._state.at_the_end()

    async def leave(self, reason: str, departure: Departure = Departure.DEFAULT, timeout_ms: int | None = None) -> None:
        self._end_rebalancing()
        member_id = self._state.member_id
        was_joining = self._state.joining
        self._state = ClassicState(self._state.cooperative)
        self._end_tasks()
        if self._says_goodbye(departure) and member_id:
            if was_joining:
                await self._abandon_requests()
            await self._say_goodbye(member_id, reason, timeout_ms)

    # What the base asks

    def _acknowledged(self, event: RebalanceEvent) -> None:
        self._state.acknowledged(event)

    def _error_told(self) -> None:
        self._state.error_told()

    def _broken(self, error: Exception) -> None:
        self._state.lose("a task ended", forget_member=False)
        self._state.error = told_as(error)
        self._state.error_is_final = True

    def _is_member(self) -> bool:
        return self._state.generation != NO_GENERATION or self._state.joining

    def _poll_expired(self) -> None:
        """A static member does not leave: its session ends, unless it is back before."""
        member_id, joining = self._state.member_id, self._state.joining
        self._state.lose("the application did not poll", forget_member=True)
        self._leading.resign()
        self._restart(self._run)
        if member_id and self.group_instance_id is None:
            self._spawn(self._leave_quietly(member_id, joining, "the application did not poll in time"), "leave")

    # The round

    async def _run(self) -> None:
        while True:
            await self._until(lambda: self._polled and self.error is None and self._state.rejoin_reason is not None)
            await self._pause_before_retry()
            await self._desk.free()
            topics = self._host.subscribed_topics()
            if not await self._desk.offer(self._state.to_give_up(topics)):
                continue  # lost meanwhile
            reason = self._state.rejoin_reason or ""
            logger.info("group=%s joining: %s", self.group_id, reason)
            topics = self._host.subscribed_topics()
            if self._state.to_give_up(topics) is not None:
                continue
            self._state.join_begins(topics)
            joined = await self._join(topics, reason)
            if joined is not None:
                await self._take(*joined)

    async def _pause_before_retry(self) -> None:
        """A first failure is tried again at once: most of them only say that the member must start over."""
        if self._attempt > 1:
            await self._session.pause(self._attempt - 2, float("inf"))
        self._attempt += 1

    async def _join(self, topics: list[str], reason: str) -> tuple[int, tuple[TopicPartition, ...]] | None:
        """The generation and what was assigned; None: start over."""
        state = self._state
        settings = self._settings
        request = join_request(settings, state, topics, reason)
        answer = await self._ask(Api.JOIN, request, JoinGroupResponse, settings.max_poll_interval_ms + _JOIN_GRACE_MS)
        if answer is None:
            return None
        state.member_id = answer.member_id
        assignments: list[SyncGroupRequestAssignment] = []
        self._leading.resign()
        if answer.leader == answer.member_id:
            try:
                assignments = await self._lead(answer)
            except KafkaError as error:
                self._refused(Api.SYNC, error.code, error.message)
                return None
        return await self._sync(answer, assignments)

    async def _lead(self, answer: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        subscriptions = await self._leading.watch_topics(answer.members)
        if answer.skip_assignment:  # a static leader is back, and the assignment stands
            return []
        assignor = next((each for each in self._settings.assignors if each.name == answer.protocol_name), None)
        if assignor is None:
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            raise KafkaError(code, f"the group chose the assignor {answer.protocol_name!r}, which nobody named here")
        try:
            return self._leading.assign(assignor, subscriptions)
        except KafkaError:
            raise
        except Exception as error:  # it may be anybody's code
            logger.exception("group=%s the assignor %r failed", self.group_id, assignor.name)
            text = f"the assignor {assignor.name!r} failed: {type(error).__name__}: {error}"
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text) from error

    async def _sync(
        self, joined: JoinGroupResponse, assignments: list[SyncGroupRequestAssignment]
    ) -> tuple[int, tuple[TopicPartition, ...]] | None:
        request = sync_request(self._settings, joined, assignments)
        timeout_ms = max(self._settings.session_timeout_ms, self._session.settings.request_timeout_ms)
        answer = await self._ask(Api.SYNC, request, SyncGroupResponse, timeout_ms)
        if answer is None:
            return None
        try:
            return joined.generation_id, decode_assignment(bytes(answer.assignment))
        except KafkaError as error:
            self._refused(Api.SYNC, error.code, error.message)
            return None

    async def _ask(
        self, api: Api, request: JoinGroupRequest | SyncGroupRequest, response_type: type[A], timeout_ms: int
    ) -> A | None:
        """The answer, if it is one without error."""
        try:
            answer = await self._session.call_coordinator(
                self.group_id,
                KeyType.GROUP,
                request,
                response_type,
                lambda response: response.error_code,
                timeout_ms=timeout_ms,
            )
        except KafkaError as error:
            self._session.forget_coordinator(self.group_id)
            self._refused(api, error.code, error.message)
            return None
        if not answer.error_code:
            return answer
        verdict = self._refused(api, error_for(answer.error_code).code)
        if verdict is Verdict.TAKE_ID and isinstance(answer, JoinGroupResponse):
            self._state.member_id = answer.member_id
            self._attempt -= 1  # that was no failure
        return None

    async def _take(self, generation: int, partitions: tuple[TopicPartition, ...]) -> None:
        self._attempt = 0
        changes = self._state.assigned(generation, partitions, self._host.subscribed_topics())
        self._changed.notify()
        logger.info(
            "group=%s generation=%d member=%s revoked=%d added=%d",
            self.group_id,
            generation,
            self.member_id,
            len(changes.revoked),
            len(changes.added),
        )
        if changes.revoked and not await self._desk.offer(RebalanceEvent(RebalanceKind.REVOKED, changes.revoked)):
            return
        if not self._state.lost:
            await self._desk.offer(RebalanceEvent(RebalanceKind.ASSIGNED, changes.added))

    def _refused(self, api: Api, code: ErrorCode, message: str | None = None) -> Verdict:
        verdict = self._state.refused(api, code, message or f"group {self.group_id!r}")
        if verdict is not Verdict.GO_ON:
            logger.info("group=%s %s answered %s: %s", self.group_id, api.name.lower(), code.name, verdict.name)
        if self._state.lost:
            self._leading.resign()
            self._desk.withdraw()
        if self.error is not None:
            self._host.wake()
        self._changed.notify()
        return verdict

    # Beside the round

    async def _heartbeats(self) -> None:
        while True:
            await self._until(lambda: self._state.stable)
            await self._session.kernel.sleep(self._settings.heartbeat_interval_ms / 1000)
            if not self._state.stable:
                continue
            generation = self._state.generation
            request = heartbeat_request(self._settings, self._state)
            try:
                answer = await self._session.call_coordinator(
                    self.group_id,
                    KeyType.GROUP,
                    request,
                    HeartbeatResponse,
                    lambda response: response.error_code,
                    timeout_ms=min(self._settings.session_timeout_ms, self._session.settings.request_timeout_ms),
                )
            except KafkaError as error:
                logger.warning("group=%s heartbeat failed: %s", self.group_id, error)
                self._session.forget_coordinator(self.group_id)
                continue
            if self._state.stable and self._state.generation == generation:
                self._refused(Api.HEARTBEAT, error_for(answer.error_code).code)

    async def _watch_topics(self) -> None:
        """The leader's: others learn of new partitions when it joins again."""
        while True:
            await self._until(lambda: self._state.stable and self._leading.counts is not None)
            if self._leading.topics_changed():
                self._state.want_rejoin("the partitions of the group's topics changed")
                self._changed.notify()
            timed_out = False
            try:
                await self._session.kernel.within(self._leading.interval(), self._session.changed.next())
            except TimedOut:
                timed_out = True
            topics = self._leading.topics_to_refresh(missing_too=timed_out)
            if topics:
                await self._session.refresh_quietly(topics)

    # Leaving

    async def _leave_quietly(self, member_id: str, joining: bool, reason: str) -> None:
        if joining:
            await self._abandon_requests()
        await self._say_goodbye(member_id, reason, None)

    async def _say_goodbye(self, member_id: str, reason: str, timeout_ms: int | None) -> None:
        request = leave_request(self._settings, member_id, reason)
        await self._last_request(request, LeaveGroupResponse, timeout_ms)
