"""Fetching: who is asked for what, and what becomes of the answers.

One request is under way per broker. It goes out as soon as the one before is answered, while the application still
works on the records of that: behind the fetch that is read, one more is buffered per partition, and `fetch.max.bytes`
of all partitions together that are read (what a paused one holds leaves the others their room). A broker one of whose
partitions is full waits for it to be read: a request without that partition could be held by the broker for
`fetch.max.wait.ms`, and the reader with it.

The fetcher owns the sessions and what is under way; positions and buffers belong to the partitions' states.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.fetch_answers import FetchAnswers, Resets
from headwater.client.consumer.fetch_requests import FetchSettings, fetch_request
from headwater.client.consumer.fetch_session import FetchSession, Plan, Wanted
from headwater.client.consumer.lookups import ends_of_epochs
from headwater.client.consumer.positions import PartitionState, Phase
from headwater.client.consumer.subscription import Subscription
from headwater.client.errors import ConnectionFailed, RequestTimedOut, passes
from headwater.client.reactor.kernel import Future, Task
from headwater.client.reactor.link import Link
from headwater.client.session import Session
from headwater.client.types import Partition
from headwater.wire.messages.fetch import FetchRequest, FetchResponse

_CHANNEL: Final = "fetch"  # a fetch that the broker holds back stops nothing else
_NO_TOPIC_ID: Final = bytes(16)
_TOPIC_IDS_SINCE: Final = 13
_DIVERGING_SINCE: Final = 12


class Fetcher(FetchAnswers):
    """Asks; its other half, `FetchAnswers`, takes the answers."""

    def __init__(
        self,
        session: Session,
        subscription: Subscription,
        settings: FetchSettings,
        resets: Resets,
        *,
        auto_create: bool,
        news: Callable[[], None],
    ) -> None:
        super().__init__(session, subscription, settings, resets, news)
        self._auto_create = auto_create
        self._sessions: dict[int, FetchSession] = {}
        self._under_way: dict[int, Task[None]] = {}
        self._refreshing: Task[None] | None = None
        self._stale: set[str] = set()  # topics whose metadata is to be asked for
        self._fruitless = 0  # refreshes in a row that left a partition without a leader
        self._closed = False

    # Sending

    def send(self) -> None:
        """Asks every broker that has something for us and is not being asked."""
        if not self.dirty or self._closed:
            return
        self.dirty = False
        now = self._session.kernel.clock()
        brokers: set[int] = set()
        full: set[int] = set()
        unknown: set[str] = set()
        buffered_bytes = 0
        for state in self._subscription.states.values():
            if not (state.paused or state.held):
                buffered_bytes += state.buffered_bytes
            if not state.may_fetch(now):
                continue
            broker = self._broker_of(state, now)
            if broker is None:
                unknown.add(state.partition.topic)
            elif state.is_full():
                full.add(broker)
            else:
                brokers.add(broker)
        if unknown:
            self.refresh(unknown)
        if buffered_bytes < self.settings.max_bytes:
            for broker in brokers - full:
                if broker not in self._under_way:
                    task = self._session.kernel.spawn(self._fetch(broker), f"fetch from {broker}")
                    self._under_way[broker] = task
                    task.when_done(partial(self._fetched, broker))

    def close(self) -> None:
        self._closed = True
        for task in [*list(self._under_way.values()), self._refreshing]:
            if task is not None:
                task.cancel()
        if self._retry is not None:
            self._retry.cancel()

    def refresh(self, topics: Iterable[str]) -> None:
        """Asks for metadata, once at a time, and then looks again. What is wanted meanwhile is asked for next."""
        self._stale.update(topics)
        if self._refreshing is None or self._refreshing.done:
            self._refreshing = self._session.kernel.spawn(self._refresh(), "metadata for fetching")

    async def _refresh(self) -> None:
        topics, self._stale = self._stale, set()
        try:
            await self._session.refresh(topics, auto_create=self._auto_create and self._subscription.by_name)
        except KafkaError:
            self.counters["fetch_errors"] += 1
        now = self._session.kernel.clock()
        wanting = [state for state in self._subscription.states.values() if state.partition.topic in topics]
        if any(self._broker_of(state, now) is None for state in wanting):
            self._again()  # the others need not wait
            await self._session.pause(self._fruitless, float("inf"))
            self._fruitless += 1
        else:
            self._fruitless = 0
        self._refreshing = None
        if self._stale:
            self.refresh(())
        self._again()

    def _again(self) -> None:
        self.dirty = True
        self.send()

    def _broker_of(self, state: PartitionState, now: float) -> int | None:
        found = self._metadata_of(state.partition)
        if found is None:  # also of a follower: a request needs the topic's id and the leader's epoch
            return None
        if state.preferred_replica >= 0:
            if now < state.preferred_until and state.preferred_replica in self._session.view.brokers:
                return state.preferred_replica
            state.preferred_replica = -1
        return found.leader if found.leader in self._session.view.brokers else None

    def _metadata_of(self, partition: TopicPartition) -> Partition | None:
        topic = self._session.view.topics.get(partition.topic)
        if topic is None:
            return None
        entries = topic.partitions
        at = partition.partition
        if at < len(entries) and entries[at].partition == at:
            return entries[at]
        return next((each for each in entries if each.partition == at), None)

    # One request

    async def _fetch(self, broker: int) -> None:
        session = self._sessions.setdefault(broker, FetchSession())
        try:
            link = await self._session.link(broker, _CHANNEL)
            if link.version_for(FetchRequest()) < _DIVERGING_SINCE:
                await self._validate(broker, link)
            wanted = self._wanted(broker)
            response = await self._ask(link, session, wanted) if wanted else None
        except (ConnectionFailed, RequestTimedOut) as error:
            session.reset()
            self._disconnected(broker, error)
        except KafkaError as error:
            session.reset()
            if passes(error):
                self._disconnected(broker, error)
            else:
                self.tell(error)
            await self._session.pause(0, float("inf"))
        else:
            if response is not None:
                self._answered(broker, response, session, wanted)
                if response.throttle_time_ms > 0:  # a quota: the broker wants to be left alone for so long
                    await self._session.kernel.sleep(response.throttle_time_ms / 1000)

    def _fetched(self, broker: int, task: Future[None]) -> None:
        del self._under_way[broker]
        if isinstance(task.error, Exception):  # an assertion of ours: whoever polls is to hear of it
            self.tell(task.error)
        elif not self._closed:
            self._again()

    def _wanted(self, broker: int) -> dict[TopicPartition, tuple[PartitionState, int, Wanted]]:
        """By partition: its state, the version of that, and what to ask for."""
        now = self._session.kernel.clock()
        wanted = {}
        for partition, state in self._subscription.states.items():
            if not state.may_fetch(now) or state.is_full() or self._broker_of(state, now) != broker:
                continue
            found = self._metadata_of(partition)
            assert found is not None
            topic_id = self._session.view.topics[partition.topic].topic_id
            state.of_topic(topic_id)
            offset, epoch = state.fetch_position()
            wanted[partition] = (
                state,
                state.version,
                Wanted(topic_id, offset, found.leader_epoch, epoch, self.settings.partition_max_bytes),
            )
        return wanted

    async def _ask(
        self, link: Link, session: FetchSession, wanted: dict[TopicPartition, tuple[PartitionState, int, Wanted]]
    ) -> FetchResponse:
        if any(not state.introduced and session.has(partition) for partition, (state, _, _) in wanted.items()):
            session.reset()  # it does not know what its broker has told before
        plan = session.plan({partition: each for partition, (_, _, each) in wanted.items()})
        for partition in plan.send:
            wanted[partition][0].introduced = True
        request = fetch_request(plan, self.settings)
        by_name = any(each.topic_id == _NO_TOPIC_ID for _, _, each in wanted.values())
        self.counters["fetches"] += 1
        response = await link.call(
            request,
            FetchResponse,
            timeout_ms=self.settings.max_wait_ms + self._session.settings.request_timeout_ms,
            at_most=_TOPIC_IDS_SINCE - 1 if by_name else None,
        )
        self._name(response, plan)
        return response

    @staticmethod
    def _name(response: FetchResponse, plan: Plan) -> None:
        for topic in response.responses:
            if not topic.topic:
                topic.topic = plan.names.get(topic.topic_id, "")

    def _disconnected(self, broker: int, error: KafkaError) -> None:
        self.counters["fetch_errors"] += 1
        now = self._session.kernel.clock()
        topics = set()
        for state in self._subscription.states.values():
            if self._broker_of(state, now) == broker:
                topics.add(state.partition.topic)
                state.preferred_replica = -1
        del error
        if topics:
            self.refresh(topics)

    # Brokers that do not tell about diverging logs by themselves (before Kafka 2.7)

    async def _validate(self, broker: int, link: Link) -> None:
        """A leader of a new epoch is asked whether its log holds what was read."""
        todo: dict[TopicPartition, tuple[PartitionState, int, int]] = {}
        now = self._session.kernel.clock()
        for partition, state in self._subscription.states.items():
            found = self._metadata_of(partition)
            if found is None or not state.may_fetch(now) or self._broker_of(state, now) != broker:
                continue
            if state.epoch < 0 or found.leader_epoch < 0 or state.buffered or state.checked_epoch == found.leader_epoch:
                continue
            state.phase = Phase.VALIDATING
            todo[partition] = (state, state.version, found.leader_epoch)
        if not todo:
            return
        try:
            ends = await ends_of_epochs(link, {each: (epoch, state.epoch) for each, (state, _, epoch) in todo.items()})
        finally:
            for state, version, _ in todo.values():
                if state.version == version:
                    state.phase = Phase.FETCHING
        for partition, (state, version, epoch) in todo.items():
            end = ends.get(partition)
            if state.version != version or end is None:
                continue
            if isinstance(end, KafkaError):
                self._back_off(state)
                self.refresh({partition.topic})
            elif end.end_offset < state.position or end.epoch < state.epoch:
                self._truncated(state, end)
            else:
                state.checked_epoch = epoch
