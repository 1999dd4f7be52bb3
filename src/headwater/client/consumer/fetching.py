"""Fetching: who is asked for what, and what becomes of the answers.

One request is under way per broker. It goes out as soon as the one before is answered, while the application still works
on the records of that: behind the stretch that is read, one more is buffered per partition, and `fetch.max.bytes` of all
partitions together. A broker one of whose partitions is full waits for it to be read: a request without that partition
could be held by the broker for `fetch.max.wait.ms`, and the reader with it.

Errors of a partition lead to fresh metadata, a pause or a reset; those behind buffered records are looked at again when
the records are read. The fetcher owns the sessions and the buffers' order; positions belong to the partitions' states.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, Protocol

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.errors import LogTruncationError, OffsetOutOfRange
from headwater.client.consumer.fetch_errors import SESSION_ERRORS, Remedy, remedy_for
from headwater.client.consumer.fetch_requests import READ_COMMITTED, FetchSettings, fetch_request
from headwater.client.consumer.fetch_session import FetchSession, Plan, Wanted
from headwater.client.consumer.lookups import EndOfEpoch, ends_of_epochs
from headwater.client.consumer.positions import PartitionState, Phase
from headwater.client.consumer.stretch import Stretch
from headwater.client.consumer.subscription import Subscription
from headwater.client.errors import ConnectionFailed, RequestTimedOut, error_for
from headwater.client.reactor.kernel import Future, Task, Timer
from headwater.client.reactor.link import Link
from headwater.client.session import Session
from headwater.client.types import Partition
from headwater.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData

_CHANNEL: Final = "fetch"  # a fetch that the broker holds back stops nothing else
_NO_TOPIC_ID: Final = bytes(16)
_TOPIC_IDS_SINCE: Final = 13
_DIVERGING_SINCE: Final = 12


class Resets(Protocol):
    """What the resolver does for a position that is of no use."""

    @property
    def has_policy(self) -> bool: ...
    def restart(self, state: PartitionState) -> None: ...


class Fetcher:
    """`news` is called when there is something for poll: records, or an error."""

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
        self.settings = settings
        self.errors: deque[Exception] = deque()
        self.ready: deque[PartitionState] = deque()  # with buffers, in the order in which they are read
        self.dirty = True  # something changed that may make a fetch possible
        self.counters = dict.fromkeys(("fetches", "bytes", "fetch_errors", "records"), 0)
        self._session = session
        self._subscription = subscription
        self._resets = resets
        self._auto_create = auto_create
        self._news = news
        self._sessions: dict[int, FetchSession] = {}
        self._under_way: dict[int, Task[None]] = {}
        self._refreshing: Task[None] | None = None
        self._retry: Timer | None = None
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
        """Asks for metadata, once at a time, and then looks again."""
        if self._refreshing is None or self._refreshing.done:
            self._refreshing = self._session.kernel.spawn(self._refresh(set(topics)), "metadata for fetching")

    async def _refresh(self, topics: set[str]) -> None:
        try:
            await self._session.refresh(topics, auto_create=self._auto_create)
        except KafkaError:
            self.counters["fetch_errors"] += 1
        known = all(self._session.view.topics[each].partitions for each in topics if each in self._session.view.topics)
        if not known:
            await self._session.pause(0, float("inf"))
        self._again()

    def _again(self) -> None:
        self.dirty = True
        self.send()

    def _broker_of(self, state: PartitionState, now: float) -> int | None:
        if state.preferred_replica >= 0:
            if now < state.preferred_until and state.preferred_replica in self._session.view.brokers:
                return state.preferred_replica
            state.preferred_replica = -1
        found = self._metadata_of(state.partition)
        if found is None or found.leader not in self._session.view.brokers:
            return None
        return found.leader

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
            self.errors.append(error)
            self._news()
            await self._session.pause(0, float("inf"))
        else:
            if response is not None:
                self._answered(broker, response, session, wanted)

    def _fetched(self, broker: int, task: Future[None]) -> None:
        del self._under_way[broker]
        if isinstance(task.error, Exception):  # an assertion of ours: whoever polls is to hear of it
            self.errors.append(task.error)
            self._news()
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
            offset, epoch = state.fetch_position()
            topic_id = self._session.view.topics[partition.topic].topic_id
            wanted[partition] = (
                state,
                state.version,
                Wanted(topic_id, offset, found.leader_epoch, epoch, self.settings.partition_max_bytes),
            )
        return wanted

    async def _ask(
        self, link: Link, session: FetchSession, wanted: dict[TopicPartition, tuple[PartitionState, int, Wanted]]
    ) -> FetchResponse:
        plan = session.plan({partition: each for partition, (_, _, each) in wanted.items()})
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

    # Answers

    def _answered(
        self,
        broker: int,
        response: FetchResponse,
        session: FetchSession,
        wanted: dict[TopicPartition, tuple[PartitionState, int, Wanted]],
    ) -> None:
        session.answered(response.error_code, response.session_id)
        if response.error_code:
            self._refused(response.error_code, wanted)
            return
        came = False
        stale: set[str] = set()
        for topic in response.responses:
            for data in topic.partitions:
                partition = TopicPartition(topic.topic, data.partition_index)
                asked = wanted.get(partition)
                if asked is None:
                    continue
                state, version, what = asked
                if state.version != version or state.fetch_position()[0] != what.offset:
                    continue  # somebody sought, or the partition is not ours any more
                if data.error_code or data.diverging_epoch is not None:
                    self._failed(broker, state, data, stale)
                else:
                    came = self._take(state, data, what) or came
        if stale:
            self.refresh(stale)
        if came:
            self._news()

    def _refused(self, code: int, wanted: dict[TopicPartition, Any]) -> None:
        """The whole request. A session that the broker does not know is begun again at once."""
        self.counters["fetch_errors"] += 1
        if code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR or code not in SESSION_ERRORS:
            self.refresh({partition.topic for partition in wanted})
        if code not in SESSION_ERRORS:
            for state, _, _ in wanted.values():
                self._back_off(state)
            if remedy_for(code) is Remedy.TELL:
                self.errors.append(error_for(code, "the broker refused a fetch"))
                self._news()

    def _take(self, state: PartitionState, data: PartitionData, wanted: Wanted) -> bool:
        """Whether records came."""
        state.failures = 0
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        state.checked_epoch = wanted.leader_epoch
        if data.preferred_read_replica >= 0:
            state.preferred_replica = data.preferred_read_replica
            state.preferred_until = self._session.kernel.clock() + self._session.settings.metadata_max_age_ms / 1000
        records = data.records
        if not records:
            return False
        aborted = None
        if self.settings.isolation_level == READ_COMMITTED:
            aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
        self.counters["bytes"] += len(records)
        if not state.buffered:
            self.ready.append(state)
        state.add(Stretch(state.partition, records, wanted.offset, aborted, state.stop))
        partition = state.partition
        states = self._subscription.states
        if states.get(partition) is state:  # to the end, so that none starves behind a full response
            states[partition] = states.pop(partition)
        return True

    def _failed(self, broker: int, state: PartitionState, data: PartitionData, stale: set[str]) -> None:
        self.counters["fetch_errors"] += 1
        remedy = remedy_for(data.error_code) if data.error_code else Remedy.RESET
        if remedy is Remedy.RESET and state.buffered:
            state.prefetch = False  # asked again once the records before it are read
            return
        followed = state.preferred_replica >= 0 and state.preferred_replica == broker
        state.preferred_replica = -1
        if remedy is Remedy.RESET and followed:
            return  # a follower may be behind, or cut already: the leader knows
        if remedy is Remedy.RESET:
            self._reset(state, data)
            return
        self._back_off(state)
        if remedy is Remedy.REFRESH:
            stale.add(state.partition.topic)
        elif remedy is Remedy.TELL:
            self.errors.append(error_for(data.error_code, str(state.partition)))
            self._news()

    def _reset(self, state: PartitionState, data: PartitionData) -> None:
        diverging = data.diverging_epoch
        if diverging is not None:
            self._truncated(state, EndOfEpoch(diverging.epoch, diverging.end_offset))
        elif self._resets.has_policy:
            self._resets.restart(state)
        else:
            self._break(state, OffsetOutOfRange(state.partition, state.position))

    def _truncated(self, state: PartitionState, end: EndOfEpoch) -> None:
        """The leader's log and what was read part at `end`."""
        known = end.end_offset >= 0 and end.epoch >= 0
        if not self._resets.has_policy:
            self._break(state, LogTruncationError(state.partition, state.position, end.end_offset if known else None))
        elif known:
            state.seek(min(end.end_offset, state.position), end.epoch)
        else:
            self._resets.restart(state)

    def _break(self, state: PartitionState, error: KafkaError) -> None:
        state.broke(error)
        self._subscription.may_be_broken = True
        self._news()

    def _back_off(self, state: PartitionState) -> None:
        delay = self._session.settings.backoff.delay_ms(state.failures, 0.5) / 1000
        state.failures += 1
        state.retry_at = self._session.kernel.clock() + delay
        if self._retry is None or self._retry.action is None or self._retry.at > state.retry_at:
            if self._retry is not None:
                self._retry.cancel()
            self._retry = self._session.kernel.at(state.retry_at, self._retry_due)

    def _retry_due(self) -> None:
        self._retry = None
        now = self._session.kernel.clock()
        later = [state.retry_at for state in self._subscription.states.values() if state.retry_at > now]
        if later:
            self._retry = self._session.kernel.at(min(later), self._retry_due)
        self._again()

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
