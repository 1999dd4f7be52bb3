"""What both faces of the consumer share: everything but the waiting and the calling of the user's functions.

A face asks `turn` what there is: something to do for it (a rebalance, a callback), records, or nothing; then it waits
in `wait_for_news`. The kernel's owner calls; nothing here blocks or locks. The core is the host of the group
membership.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.cluster_queries import ClusterQueries
from headwater.client.consumer.commits import CommitCallback, Commits, Finished, Offsets
from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.consumer.draining import Drain
from headwater.client.consumer.errors import WakeupError
from headwater.client.consumer.fetching import Fetcher
from headwater.client.consumer.iteration_buffer import IterationBuffer
from headwater.client.consumer.membership.port import Departure, Membership, RebalanceEvent, RebalanceKind
from headwater.client.consumer.positions import OffsetAndMetadata, PartitionState, Phase
from headwater.client.consumer.record import ConsumerRecord
from headwater.client.consumer.resolving import Resolver
from headwater.client.consumer.subscription import Kind, Subscription, SubscriptionPattern
from headwater.client.consumer.topics import TopicWatch
from headwater.client.reactor.kernel import Signal, TimedOut
from headwater.client.session import Session


class GroupMetadata(NamedTuple):
    """Who the consumer is in its group: a transactional producer sends offsets with it."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


class Turn(NamedTuple):
    """One of the first two is for the face to do; `taken` is what poll wants; `seen` goes to `wait_for_news`."""

    event: RebalanceEvent | None
    finished: Finished | None
    taken: Any
    seen: int


class ConsumerCore:
    def __init__(
        self,
        session: Session,
        settings: ConsumerSettings,
        *,
        wall_clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.session = session
        self.settings = settings
        self.subscription = Subscription()
        self.membership: Membership | None = None
        self.commits = Commits(session, settings.group_id, self._member, self.wake)
        self.resolver = Resolver(
            session,
            self.subscription,
            policy=settings.reset,
            isolation_level=settings.fetch.isolation_level,
            committed=self._committed if settings.group_id else None,
            wall_clock_ms=wall_clock_ms,
            changed=self._positions_changed,
        )
        self.fetcher = Fetcher(
            session,
            self.subscription,
            settings.fetch,
            self.resolver,
            auto_create=settings.auto_create,
            news=self.wake,
        )
        self.drain = Drain(
            self.fetcher, self.subscription, key=settings.key, value=settings.value, bad_record=settings.bad_record
        )
        self.topics = TopicWatch(
            session,
            self.subscription,
            auto_create=settings.auto_create,
            exclude_internal=settings.exclude_internal,
            matched=self._pattern_matched,
            refused=lambda topic, error: self.fetcher.tell(error, topic),
            refreshed=self._metadata_came,
        )
        self.cluster_queries = ClusterQueries(session, settings.fetch.isolation_level, settings.auto_create)
        self.woken = False
        self.iteration_buffer = IterationBuffer()
        self._news = Signal()
        self._news_count = 0
        self._commit_at = 0.0
        self._polls = 0
        self._last_known_as: GroupMetadata | None = None

    # The host of the membership

    def subscribed_topics(self) -> list[str]:
        return list(self.subscription.topics)

    def subscription_pattern(self) -> str | None:
        return self.subscription.server_pattern

    def wake(self) -> None:
        self._news_count += 1
        self._news.notify()

    # Subscribing and assigning

    def subscribe(self, wanted: Any, listener: Any) -> None:
        if not self.settings.group_id:
            raise UserError("subscribe() needs a group", "group.id is not set", "Set it, or use assign()")
        if self.settings.raw.text("group.protocol") == "classic" and hasattr(wanted, "pattern"):
            _refuse_server_pattern(wanted)
        self.subscription.subscribe(wanted, listener)
        self._commit_at = self.session.kernel.clock() + self.settings.auto_commit_interval_ms / 1000
        self.topics.subscription_changed()
        if self.membership is None:
            from headwater.client.consumer.joining import new_membership  # readers without a group do not pay for it

            self.membership = new_membership(self, self.settings)
            self.membership.start()
        elif self.subscription.kind is not Kind.PATTERN:
            self.membership.subscription_changed()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        if not self._polls:
            self._commit_at = self.session.kernel.clock() + self.settings.auto_commit_interval_ms / 1000
        if self.settings.auto_commit and self.subscription.states:
            self.commits.commit_async(self.positions_to_commit(), None)
        self.subscription.assign(partitions)
        self.iteration_buffer.drop(
            [
                each.topic_partition
                for each in self.iteration_buffer
                if each.topic_partition not in self.subscription.states
            ]
        )
        self.topics.subscription_changed()
        self._look_again()

    def assign_range(self, partition: TopicPartition, start: int, stop: int) -> None:
        """One partition, from an offset up to, and without, another."""
        self.subscription.assign([partition])
        state = PartitionState(partition)
        state.stop = stop
        state.seek(start)
        self.subscription.states[partition] = state
        self.topics.subscription_changed()
        self._look_again()

    def stop_membership(self) -> RebalanceEvent | None:
        """No more rebalances. The last event, for the listener."""
        return self.membership.stop() if self.membership is not None else None

    async def unsubscribe(self) -> None:
        """After the listener has heard of the last event."""
        membership, self.membership = self.membership, None
        self._last_known_as = None
        if membership is not None:
            await membership.leave("the consumer unsubscribed", Departure.DEFAULT)
        elif self.settings.auto_commit and self.subscription.states:
            await self._commit_before_leaving(self.subscription.states.values())
        self.subscription.unsubscribe()
        self.iteration_buffer.clear()
        self.topics.subscription_changed()

    # Rebalances, in three steps: before and after the listener, with no lock in between

    async def before_listener(self, event: RebalanceEvent, left_ms: int | None = None) -> None:
        """`left_ms` is what a consumer that closes has left."""
        if event.kind is RebalanceKind.ASSIGNED:
            self.subscription.add(event.partitions)
            return
        states = [self.subscription.states[each] for each in event.partitions if each in self.subscription.states]
        for state in states:
            state.held = True
        if event.kind is RebalanceKind.REVOKED and self.settings.auto_commit:
            await self._commit_before_leaving(states, None if left_ms is None else min(left_ms, self._leaving_ms))

    def after_listener(self, event: RebalanceEvent, membership: Membership | None) -> None:
        if event.kind is RebalanceKind.ASSIGNED:
            for each in event.partitions:
                state = self.subscription.states.get(each)
                if state is not None:
                    state.held = False
        else:
            self.subscription.remove(event.partitions)
            self.iteration_buffer.drop(event.partitions)
            if membership is not None:  # of the last event, commits under way count until the member has left
                self.commits.order.give_up(event.partitions)
        if membership is not None:
            membership.acknowledge(event)
        self._look_again()

    async def _commit_before_leaving(self, states: Iterable[PartitionState], timeout_ms: int | None = None) -> None:
        """A commit that fails here is not worth more than a rebalance: others read some records again."""
        leaving = {state.partition for state in states}
        offsets = {each: offset for each, offset in self.positions_to_commit().items() if each in leaving}
        limit_ms = self._leaving_ms if timeout_ms is None else timeout_ms
        try:
            await self.commits.commit(offsets, timeout_ms=limit_ms)
        except KafkaError:
            self.commits.counters["commit_errors"] += 1

    @property
    def _leaving_ms(self) -> int:
        """For the commit before partitions leave."""
        return self.settings.raw.number("session.timeout.ms") // 3

    # Polling

    def begin_poll(self) -> None:
        self._polls += 1
        if self.subscription.kind is Kind.NOTHING:
            raise UserError(
                "There is nothing to poll", "the consumer has no subscription and no assignment", "subscribe() first"
            )
        if self.settings.auto_commit:
            now = self.session.kernel.clock()
            if now >= self._commit_at and not (self.membership is not None and self.membership.rebalancing):
                self._commit_at = now + self.settings.auto_commit_interval_ms / 1000
                offsets = self.positions_to_commit()
                if offsets:
                    self.commits.commit_async(offsets, None)

    def first_turn(self, take: Callable[[], Any]) -> Turn:
        """The one that a poll begins with."""
        self.begin_poll()
        return self.turn(take)

    def turn(self, take: Callable[[], Any]) -> Turn:
        """What there is now. `take` is asked for records if nothing else is due; raises what poll has to raise."""
        seen = self._news_count
        if self.woken:
            self.woken = False
            raise WakeupError("wakeup() was called")
        membership = self.membership
        if membership is not None:
            membership.raise_error()
            if self.topics.known:
                membership.poll_heartbeat(self.session.kernel.clock())
            self._remember(membership)
            event = membership.next_event()
            if event is not None:
                return Turn(event, None, None, seen)
        if self.commits.finished:
            return Turn(None, self.commits.finished.popleft(), None, seen)
        self._raise_errors()
        self.resolver.kick()
        taken = take()
        self.fetcher.send()
        return Turn(None, None, taken, seen)

    def _raise_errors(self) -> None:
        unresolved, self.resolver.error = self.resolver.error, None
        if unresolved is not None:
            raise unresolved
        refused = self.fetcher.next_error()
        if refused is not None:
            raise refused
        broken = self.subscription.first_broken()
        if broken is not None and broken.error is not None:
            raise broken.error

    async def wait_for_news(self, seen: int, seconds: float) -> None:
        if self._news_count != seen:
            return
        try:
            await self.session.kernel.within(seconds, self._news.next())
        except TimedOut:
            return

    # Positions

    def seek(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> None:
        if offset < 0:
            raise UserError(
                f"{offset} is not an offset",
                "offsets begin at 0",
                "seek_to_beginning() and seek_to_end() look up the ends",
            )
        self.subscription.state(partition).seek(offset, leader_epoch)
        self.iteration_buffer.drop([partition])
        self._look_again()

    def seek_to_time(self, partitions: Iterable[TopicPartition], timestamp: int) -> None:
        """To a timestamp, or to an end: looked up when it is needed."""
        states = self.subscription.states_of(partitions)
        for state in states:
            state.reset(timestamp)
        self.iteration_buffer.drop([state.partition for state in states])
        self._look_again()

    def pause(self, partitions: Iterable[TopicPartition], paused: bool) -> None:
        for each in partitions:
            self.subscription.state(each).paused = paused
        self._look_again()

    async def position(self, partition: TopicPartition, timeout_ms: int | None = None) -> int:
        state = self.subscription.state(partition)
        if not state.has_position:
            await self._find_position(state, self.session.deadline(timeout_ms))
        held = self.iteration_buffer.positions().get(partition)
        return state.position if held is None else held.offset

    async def _find_position(self, state: PartitionState, deadline: float) -> None:
        kernel = self.session.kernel
        task = kernel.spawn(self._resolve(state, deadline), "a position")
        try:
            await kernel.within(max(0.0, deadline - kernel.clock()), task)
        except TimedOut:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{state.partition}: no position in time") from None
        finally:
            task.cancel()

    async def _resolve(self, state: PartitionState, deadline: float) -> None:
        attempt = 0
        while not state.has_position:
            if state.phase is Phase.BROKEN and state.error is not None:
                raise state.error
            try:
                await self.resolver.resolve([state])
            except KafkaError as error:
                if not error.code.retriable or not await self.session.pause(attempt, deadline):
                    raise
                attempt += 1
                await self.resolver.refresh([state])

    def positions_to_commit(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """What was given out; of what an iteration holds ready, only what it has given."""
        offsets = {
            partition: offset
            for partition, state in self.subscription.states.items()
            if (offset := state.committable()) is not None
        }
        offsets.update((each, offset) for each, offset in self.iteration_buffer.positions().items() if each in offsets)
        return offsets

    def take(self, limit: int) -> list[ConsumerRecord]:
        return self.iteration_buffer.take(limit) if self.iteration_buffer else self.drain.take(limit)

    def give_back_iteration_buffer(self) -> None:
        """What an iteration holds ready is to be read again, in another form."""
        if self.iteration_buffer:
            self.rewind({each: offset.offset for each, offset in self.iteration_buffer.positions().items()})
            self.iteration_buffer.clear()

    def interrupted(self) -> None:
        """Ctrl-C, or the like, ended a poll at any point. Connections may have lost a piece of an answer: they begin
        anew.
        """
        self.drain.give_back()
        self.session.close_links()
        self._look_again()

    def rewind(self, offsets: Mapping[TopicPartition, int]) -> None:
        """What was taken from these offsets on was not given after all."""
        for partition, offset in offsets.items():
            state = self.subscription.states.get(partition)
            if state is not None:
                state.seek(offset)
        self._look_again()

    def lag(self, partition: TopicPartition) -> int | None:
        return self.subscription.state(partition).lag(bool(self.settings.fetch.isolation_level))

    # Commits

    async def commit(self, offsets: Offsets | None, timeout_ms: int | None) -> None:
        await self.commits.commit(self.positions_to_commit() if offsets is None else offsets, timeout_ms=timeout_ms)

    def commit_async(self, offsets: Offsets | None, callback: CommitCallback | None) -> None:
        self.commits.commit_async(self.positions_to_commit() if offsets is None else offsets, callback)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        wanted = list(partitions)
        found = await self.commits.committed(wanted, timeout_ms=timeout_ms)
        return {each: found.get(each) for each in wanted}

    def group_metadata(self) -> GroupMetadata:
        """A member that the group has lost is who it was: brokers take the offsets of nobody, but not those of a member
        of the past, whose partitions others may have.
        """
        group_id = self.commits.group_id
        if self.membership is not None:
            self._remember(self.membership)
            if self._last_known_as is not None:
                return self._last_known_as
        return GroupMetadata(group_id, -1, "", self.settings.raw["group.instance.id"])

    def _remember(self, membership: Membership) -> None:
        generation, known = membership.generation, self._last_known_as
        if generation >= 0 and (known is None or known[1] != generation or known[2] != membership.member_id):
            instance = membership.group_instance_id
            self._last_known_as = GroupMetadata(membership.group_id, generation, membership.member_id, instance)

    # The end

    async def close(self, timeout_ms: int, departure: Departure) -> None:
        """After the listener has heard of the last event: commits, leaves, ends all tasks."""
        deadline = self.session.deadline(timeout_ms)

        def left_ms() -> int:
            return max(0, round((deadline - self.session.kernel.clock()) * 1000))

        self.fetcher.close()
        self.resolver.stop()
        self.topics.stop()
        if self.settings.auto_commit and self.subscription.states:
            await self._commit_before_leaving(self.subscription.states.values(), left_ms())
        try:
            settled = self.session.kernel.spawn(self.commits.settle(), "last commits")
            await self.session.kernel.within(left_ms() / 1000, settled)
        except TimedOut:
            settled.cancel()
        if self.membership is not None:
            await self.membership.leave("the consumer is closed", departure, left_ms())
            self.membership = None

    def metrics(self) -> dict[str, float]:
        states = self.subscription.states.values()
        lags = [lag for state in states if (lag := state.lag(bool(self.settings.fetch.isolation_level))) is not None]
        return {
            **{f"{name}-total": count for name, count in {**self.fetcher.counters, **self.commits.counters}.items()},
            "polls-total": self._polls,
            "assigned-partitions": len(self.subscription.states),
            "buffered-bytes": sum(state.buffered_bytes for state in states),
            "records-lag-max": max(lags, default=0),
        }

    # Inside

    def _member(self) -> Membership | None:
        return self.membership

    async def _committed(self, partitions: list[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        return await self.commits.committed(partitions)

    def _look_again(self) -> None:
        self.resolver.look()
        self.resolver.kick()
        self.fetcher.dirty = True
        self.fetcher.send()

    def _positions_changed(self) -> None:
        self.resolver.look()
        self.fetcher.dirty = True
        self.fetcher.send()
        self.wake()

    def _metadata_came(self) -> None:
        self.fetcher.dirty = True
        self.fetcher.send()

    def _pattern_matched(self) -> None:
        if self.membership is not None:
            self.membership.subscription_changed()
        self.wake()


def _refuse_server_pattern(wanted: Any) -> None:

    if isinstance(wanted, SubscriptionPattern):
        raise UserError(
            "A SubscriptionPattern needs group.protocol=consumer",
            "in a classic group, patterns are matched by the members",
            "Give a compiled pattern: re.compile(...)",
        )
