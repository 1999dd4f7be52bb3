"""What becomes of fetch answers: records are buffered, errors lead to fresh metadata, a pause, a reset or the user.

An error behind buffered records is looked at again when those are read. Half of the `Fetcher`, which asks; this half
keeps the order in which buffers are read, and the pauses of partitions.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.completed_fetch import CompletedFetch
from headwater.client.consumer.errors import LogTruncationError, OffsetOutOfRange
from headwater.client.consumer.fetch_errors import SESSION_ERRORS, Remedy, remedy_for
from headwater.client.consumer.fetch_requests import READ_COMMITTED, FetchSettings
from headwater.client.consumer.fetch_session import FetchSession, Wanted
from headwater.client.consumer.lookups import EndOfEpoch
from headwater.client.consumer.positions import PartitionState
from headwater.client.consumer.subscription import Subscription
from headwater.client.errors import error_for
from headwater.client.reactor.kernel import Timer
from headwater.client.session import Session
from headwater.client.visible import aborted_in
from headwater.wire.messages.fetch import FetchResponse, PartitionData


class Resets(Protocol):
    """What the resolver does for a position that is of no use."""

    @property
    def has_policy(self) -> bool: ...
    def restart(self, state: PartitionState) -> None: ...


class FetchAnswers(ABC):
    """`news` is called when there is something for poll: records, or an error."""

    def __init__(
        self,
        session: Session,
        subscription: Subscription,
        settings: FetchSettings,
        resets: Resets,
        news: Callable[[], None],
    ) -> None:
        self.settings = settings
        self.ready: deque[PartitionState] = deque()  # with buffers, in the order in which they are read
        self.dirty = True  # something changed that may make a fetch possible
        self.counters = dict.fromkeys(("fetches", "bytes", "fetch_errors", "records"), 0)
        self._session = session
        self._subscription = subscription
        self._resets = resets
        self._news = news
        self._retry: Timer | None = None
        self._errors: dict[TopicPartition | str | None, Exception] = {}  # by partition, topic, or of neither

    def tell(self, error: Exception, about: TopicPartition | str | None = None) -> None:
        """Poll raises it, once, however often it was met by then: while nobody polls, fetching goes on."""
        self._errors[about] = error
        self._news()

    def next_error(self) -> Exception | None:
        """The oldest that poll has to raise. Those of partitions and topics that were given up are not told."""
        while self._errors:
            about = next(iter(self._errors))
            error = self._errors.pop(about)
            if isinstance(about, str):
                wanted = about in self._subscription.topic_names()
            else:
                wanted = about is None or about in self._subscription.states
            if wanted:
                return error
        return None

    def enqueue(self, state: PartitionState, *, first: bool = False) -> None:
        """The reader is to look at it, once, however often it is said."""
        if not state.queued:
            state.queued = True
            if first:
                self.ready.appendleft(state)
            else:
                self.ready.append(state)

    @abstractmethod
    def refresh(self, topics: Iterable[str]) -> None:
        """Asks for metadata, and then looks again."""

    @abstractmethod
    def _again(self) -> None:
        """A fetch may be possible now."""

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
                    state.introduced = False  # somebody sought, or it is not ours any more: the answer is not heard
                    continue
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
                self.tell(error_for(code, "the broker refused a fetch"))

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
        aborted = aborted_in(data) if self.settings.isolation_level == READ_COMMITTED else None
        self.counters["bytes"] += len(records)
        self.enqueue(state)
        state.add(CompletedFetch(state.partition, records, wanted.offset, aborted, state.stop))
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
            self.tell(error_for(data.error_code, str(state.partition)), state.partition)

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
