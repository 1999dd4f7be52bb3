"""Fetches from one leader what this broker follows, for as long as there is anything to follow.

One request at a time: the next one goes out as soon as the answer to the last is in the logs, so an offset that is
asked for is one that this replica has. A partition whose turn went wrong rests for a while, longer each time, and the
others go on. What an answer says about a partition counts only if the partition is still the one, in the term and at
the offset, for which was asked. A partition that has to keep to a rate (`throttle.py`) rests likewise while its budget
is used up.

The session (`fetch_session.py`) keeps requests small. Owned by the broker's loop; pure over the ports Peers, Scheduler
and Clock.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId, PartitionKey, TopicId
from headwater.base.peers import Lane, Peers, Unreachable
from headwater.base.ports import Clock, Scheduler, Timer
from headwater.replication import follower
from headwater.replication.fetch_requests import FetcherSettings, fetch_request, start_of, start_request
from headwater.replication.fetch_session import FollowerSession, Position
from headwater.replication.partition import Partition
from headwater.replication.throttle import Throttle
from headwater.wire.messages.fetch import FetchRequest, FetchResponse, FetchTopic, ForgottenTopic, PartitionData

logger = logging.getLogger("headwater.replication")

FETCH_VERSION: Final = 17
LIST_OFFSETS_VERSION: Final = 7
_FIRST_REST_MS: Final = 20
_NUDGE_AGAIN_MS: Final = 10
_NO_SESSION: Final = -1

# They pass by themselves while news of a new leader spreads; anybody who reads the log wants to hear of the others.
_EXPECTED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.STALE_BROKER_EPOCH,
    }
)


class Fetcher:
    def __init__(
        self,
        leader: BrokerId,
        peers: Peers,
        scheduler: Scheduler,
        clock: Clock,
        settings: FetcherSettings,
        replica: Callable[[], tuple[BrokerId, int]],
        throttle: Throttle | None = None,
    ) -> None:
        """`replica`: who we are, and the epoch under which we are registered."""
        self.leader = leader
        self.partitions: dict[PartitionKey, Partition] = {}
        self._peers = peers
        self._scheduler = scheduler
        self._clock = clock
        self._settings = settings
        self._replica = replica
        self._throttle = throttle
        self.on_full: Callable[[Partition], None] = (
            _ignore  # told when the disk has no room for what the leader has sent
        )
        self._session = FollowerSession(settings.partition_bytes_max)
        self._ready: dict[
            PartitionKey, Position
        ] = {}  # what the next request asks for; while one is out, what that asks for
        self._changed: dict[PartitionKey, None] = {}  # whose position must be looked at before
        self._resting: dict[PartitionKey, Timer] = {}
        self._failures: dict[PartitionKey, int] = {}
        self._leader_failures = 0
        self._pause: Timer | None = None  # while the leader as a whole is left alone
        self._is_asking = False
        self._is_closed = False
        self._is_planned = False
        self._is_nudging = False

    # What is followed

    def add(self, partition: Partition) -> None:
        key = PartitionKey(partition.topic_id, partition.index)
        self.remove(key)
        self.partitions[key] = partition
        partition.on_flushed = self._flushed
        self._changed[key] = None
        self._ask_soon()

    def remove(self, key: PartitionKey) -> None:
        if self.partitions.pop(key, None) is not None:
            self._changed[key] = None
            self._failures.pop(key, None)
            rest = self._resting.pop(key, None)
            if rest is not None:
                rest.cancel()

    def leader_is_back(self) -> None:
        """It has registered: no reason to wait any longer."""
        self._leader_failures = 0
        if self._pause is not None:
            self._pause.cancel()
            self._resume()

    def close(self) -> None:
        self._is_closed = True
        for key in tuple(self.partitions):
            self.remove(key)
        if self._pause is not None:
            self._pause.cancel()

    def _flushed(self, partition: Partition) -> None:
        key = PartitionKey(partition.topic_id, partition.index)
        if self.partitions.get(key) is partition:
            self._changed[key] = None
            self._ask_soon()

    # Asking

    def _ask_soon(self) -> None:
        """Many partitions come at a time."""
        if not self._is_planned and not self._is_closed:
            self._is_planned = True
            self._scheduler.call_soon(self._ask)

    def _ask(self) -> None:
        self._is_planned = False
        if self._is_closed or self._pause is not None:
            return
        if self._is_asking:
            self._nudge()
            return
        self._look_at_changed()
        if not self._ready:
            return
        topics, forgotten = self._session.next(self._ready)
        request = self._request(self._session.session_id, self._session.epoch, topics, forgotten)
        self._is_asking = True
        timeout_ms = self._settings.timeout_ms
        self._peers.ask(self.leader, Lane.FETCH, request, FETCH_VERSION, self._answered, timeout_ms=timeout_ms)

    def _request(
        self, session_id: int, session_epoch: int, topics: list[FetchTopic], forgotten: list[ForgottenTopic]
    ) -> FetchRequest:
        return fetch_request(self._replica(), self._settings, session_id, session_epoch, topics, forgotten)

    def _nudge(self) -> None:
        """Something is to be asked for, and the leader may hold our request until something else comes. It answers that
        one when it hears from us beside it, with a fetch of nothing. Of two connections either may be the faster, so we
        may have to repeat it.
        """
        if not self._changed or self._is_nudging:
            return
        self._is_nudging = True

        def done(_response: Any | None, _problem: Unreachable | None) -> None:
            self._scheduler.call_later(_NUDGE_AGAIN_MS, again)

        def again() -> None:
            self._is_nudging = False
            if self._is_asking and not self._is_closed:
                self._nudge()

        request = self._request(0, _NO_SESSION, [], [])
        self._peers.ask(self.leader, Lane.CONTROL, request, FETCH_VERSION, done, timeout_ms=self._settings.timeout_ms)

    def _look_at_changed(self) -> None:
        for key in self._changed:
            self._ready.pop(key, None)
            self._session.changed(key)
            partition = self.partitions.get(key)
            if partition is None or key in self._resting or (self._throttle is not None and self._is_held_back(key)):
                continue
            log = partition.log
            # Asking from an offset on says that all before it is here: on the device, where that is what counts.
            if log.failed is None and log.committable_offset == log.log_end_offset:
                offset, epoch = follower.next_fetch(partition)
                self._ready[key] = Position(partition, offset, epoch, log.log_start_offset)
        self._changed.clear()

    def _is_held_back(self, key: PartitionKey) -> bool:
        assert self._throttle is not None
        rest_ms = self._throttle.rest_ms(key)
        if rest_ms:
            self._resting[key] = self._scheduler.call_later(rest_ms, lambda: self._rested(key))
        return rest_ms > 0

    # Answers

    def _answered(self, response: Any | None, problem: Unreachable | None) -> None:
        self._is_asking = False
        if self._is_closed:
            return
        if response is None:
            self._leader_failed(str(problem))
            return
        assert isinstance(response, FetchResponse)
        if response.error_code:
            was_new = self._session.is_new
            self._session.begin_again()
            if was_new:
                self._leader_failed(f"error {response.error_code}")
                return
        else:
            self._leader_failures = 0
            self._session.answered(response.session_id)
            for topic in response.responses:
                topic_id = TopicId(topic.topic_id)
                for data in topic.partitions:
                    key = PartitionKey(topic_id, data.partition_index)
                    position = self._ready.get(key)
                    if position is not None:
                        self._take(key, position, data)
        self._ask()

    def _leader_failed(self, why: str) -> None:
        if self._leader_failures == 0:
            logger.warning(
                "event=leader-not-reached leader=%d partitions=%d why=%r", self.leader, len(self.partitions), why
            )
        self._session.begin_again()
        self._pause = self._scheduler.call_later(self._rest_ms(self._leader_failures), self._resume)
        self._leader_failures += 1

    def _resume(self) -> None:
        self._pause = None
        self._ask()

    def _rest_ms(self, failures: int) -> int:
        return min(self._settings.rest_max_ms, _FIRST_REST_MS << min(failures, 16))

    def _take(self, key: PartitionKey, position: Position, data: PartitionData) -> None:
        partition = position.partition
        if self.partitions.get(key) is not partition or partition.log.log_end_offset != position.offset:
            return  # of an earlier term, or something else has changed the log since
        self._changed[key] = None
        if self._went_well(key, partition, self._apply, key, partition, data) and not data.error_code:
            self._failures.pop(key, None)

    def _went_well(self, key: PartitionKey, partition: Partition, act: Callable[..., None], *arguments: Any) -> bool:
        """Whatever goes wrong with one partition, the others go on."""
        try:
            act(*arguments)
        except KafkaError as problem:
            self._rest(key, problem.code, problem.message)
        except OSError as problem:
            partition.log.fail(problem)
        except Exception as problem:
            logger.exception("event=follower-failed partition=%s", partition.log.partition)
            self._rest(key, ErrorCode.UNKNOWN_SERVER_ERROR, str(problem))
        else:
            return True
        return False

    def _apply(self, key: PartitionKey, partition: Partition, data: PartitionData) -> None:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._find_start(partition)
        elif data.error_code:
            raise KafkaError(ErrorCode(data.error_code))
        elif data.diverging_epoch is not None:
            follower.truncate_to_agree(partition, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
        else:
            if data.records:
                self._append(partition, memoryview(data.records), data.log_start_offset)
                if self._throttle is not None:
                    self._throttle.took(key, len(data.records))
            follower.follow_offsets(partition, data.high_watermark, data.log_start_offset)

    def _append(self, partition: Partition, records: memoryview, leader_start_offset: int) -> None:
        try:
            follower.append_fetched(partition, records, leader_start_offset, self._clock.now_ms())
        except KafkaError:
            if partition.log.is_full:
                self.on_full(partition)
            raise

    def _rest(self, key: PartitionKey, code: ErrorCode, why: str | None) -> None:
        """Leaves the partition out of the session, where it would be answered at once each time."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if code not in _EXPECTED or failures == 8:
            logger.warning(
                "event=not-fetched partition=%s leader=%d error=%s why=%r",
                self.partitions[key].log.partition, self.leader, code.name, why,
            )  # fmt: skip
        self._resting[key] = self._scheduler.call_later(self._rest_ms(failures), lambda: self._rested(key))

    def _rested(self, key: PartitionKey) -> None:
        del self._resting[key]
        self._changed[key] = None
        self._ask_soon()

    # Where the leader's log begins, when what we ask for is not in it

    def _find_start(self, partition: Partition) -> None:
        key = PartitionKey(partition.topic_id, partition.index)
        request = start_request(self._replica()[0], partition)
        end_offset = partition.log.log_end_offset
        timeout_ms = self._settings.timeout_ms
        self._resting[key] = self._scheduler.call_later(2 * timeout_ms, lambda: self._rested(key))

        def done(response: Any | None, _problem: Unreachable | None) -> None:
            if self.partitions.get(key) is not partition or partition.log.log_end_offset != end_offset:
                return
            self._resting.pop(key).cancel()
            self._changed[key] = None
            self._went_well(key, partition, self._begin_again, partition, response)
            self._ask_soon()

        self._peers.ask(self.leader, Lane.FETCH, request, LIST_OFFSETS_VERSION, done, timeout_ms=timeout_ms)

    def _begin_again(self, partition: Partition, response: Any | None) -> None:
        offset = start_of(response)
        log = partition.log
        if offset > log.log_end_offset or log.log_start_offset == log.log_end_offset != offset:
            follower.begin_again(partition, offset)
        else:  # it is there now, or there was never a difference that epochs could tell
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the leader's log begins at {offset}")


def _ignore(_partition: Partition) -> None:
    """Nobody wants to know."""
