"""One shard on its partition: loaded from the log, run on requests and timers, its answers held until they are committed.

The order of things for one decision: the shard changes its state, its records are appended as one batch, its timers are set,
and its answers wait until the high watermark has passed what the shard has written so far. When an append fails, nothing that
was decided since may be believed: everybody who waits gets an error, and the shard is made anew from the log.

While there are fewer in-sync replicas than `min.insync.replicas` asks for, nothing could be appended, so nothing is decided:
requests that may write are told to come again, timers begin anew, and what others report is kept for later. Who only asks,
and the heartbeats of classic members, are served.

Owned by the broker's loop.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ports import Timer
from headwater.broker.coordinators.batches import build_decision
from headwater.broker.coordinators.loading import Loading, replay_log
from headwater.coordinator.effects import CoordinatorRecord, Effects, Producer, Ticket, TimerKey
from headwater.replication.partition import Partition

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger("headwater.broker")

_RELOAD_AFTER_MS: Final = 1000
_LOOK_AGAIN_MS: Final = 500  # for replicas that are back in sync

# The partition cannot be written to, so there is no hurry; anything else was wrong with that one batch.
_LOST: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})

ErrorResponse = Callable[[ErrorCode], Any]
MayWrite = bool | Callable[[Any], bool]  # whether a request can lead to records; for some, the shard must be asked


class Shard(Protocol):
    def replay(self, record: CoordinatorRecord, producer: Producer | None) -> None: ...

    def replay_marker(self, producer: Producer, *, committed: bool) -> None: ...

    def loaded(self, now_ms: int) -> Effects: ...

    def on_timer(self, key: TimerKey, now_ms: int) -> Effects: ...


S = TypeVar("S", bound=Shard)


class Hosted(Generic[S]):
    """`call` for requests, `decide` for what nobody asked for; `run` does what was decided."""

    def __init__(
        self, broker: "Broker", partition: Partition, make_shard: Callable[[], S], loading: Loading | None = None
    ) -> None:
        """`loading`: shared with others that are loaded beside this one."""
        self._broker = broker
        self._loading = loading or Loading(broker.scheduler)
        self.partition = partition
        self._make_shard = make_shard
        self.shard = make_shard()
        self.is_loaded = False
        self.after_run: Callable[[Hosted[S], Effects, int], None] | None = None
        self._timers: dict[TimerKey, Timer] = {}
        self._waiting: deque[tuple[int, list[tuple[Ticket, Any]], list[Callable[[], None]]]] = deque()
        self._unanswered: dict[Ticket, ErrorResponse] = {}  # and how to say no to each
        self._last_written = -1
        self._is_woken = False
        self._postponed: list[Callable[[S], Effects]] = []  # decisions that may write, and cannot for now
        self._generation = 0  # of the shard: timers and loads of an earlier one are void
        self._is_closed = False

    # Loading

    def load(self) -> None:
        """Reads to the end of the log, past the high watermark: a new leader keeps all that it has, and answers wait for the rest."""
        if self._is_closed:
            return
        self._generation += 1
        self.is_loaded = False
        self.shard = self._make_shard()
        steps = self._load_steps(self._generation)
        if self.partition.log.log_start_offset < self.partition.log.log_end_offset:
            self._loading.begin(steps)
        else:
            next(steps, None)  # there is nothing to read: it can be asked at once

    def _load_steps(self, generation: int) -> Iterator[int]:
        """Another life of the shard, or the end of its partition, ends it."""
        log = self.partition.log
        replaying = replay_log(log, self.shard)
        while generation == self._generation and not self.partition.deleted:
            try:
                yield next(replaying)
            except StopIteration as over:
                self._loaded(end=over.value)
                return
            except (KafkaError, OSError) as problem:
                logger.error("event=coordinator-not-loaded partition=%s reason=%r", log.partition, str(problem))
                self._broker.scheduler.call_later(_RELOAD_AFTER_MS, lambda: self._reload(generation))
                return

    def _reload(self, generation: int) -> None:
        if generation == self._generation and not self.partition.deleted:
            self.load()

    def _loaded(self, end: int) -> None:
        self.is_loaded = True
        self._last_written = end - 1
        self.decide(lambda shard: shard.loaded(self._broker.now_ms()))

    def close(self) -> None:
        """The partition is no longer ours: nothing that was planned happens any more."""
        self._is_closed = True
        self.unload()

    def unload(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """What the shard believes is no longer true."""
        self._generation += 1
        self.is_loaded = False
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._postponed.clear()
        self.partition.waiters.pop(self, None)
        self._waiting.clear()
        unanswered, self._unanswered = self._unanswered, {}
        for ticket, error_response in unanswered.items():
            ticket.settle(error_response(code))

    def _settle(self, ticket: Ticket, response: Any) -> None:
        if self._unanswered.pop(ticket, None) is not None:
            ticket.settle(response)

    # Running

    def call(
        self,
        decide: Callable[[S, Ticket], Effects],
        settle: Callable[[Any], None],
        error: ErrorResponse,
        *,
        may_write: MayWrite = True,
    ) -> None:
        """A request: `decide` gets the shard and a ticket; `settle` gets the answer when it may leave."""
        if not self._can_write and (may_write(self.shard) if callable(may_write) else may_write):
            settle(error(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        ticket = Ticket(settle)
        self._unanswered[ticket] = error
        try:
            effects = decide(self.shard, ticket)
        except KafkaError as problem:
            self._settle(ticket, error(problem.code))
            return
        self.run(effects)

    def decide(self, decide: Callable[[S], Effects]) -> None:
        """What nobody asked for and must not be lost: now, or as soon as there are enough replicas."""
        if self._can_write:
            self.run(decide(self.shard))
            return
        self._postponed.append(decide)
        if len(self._postponed) == 1:
            self._look_again()

    @property
    def _can_write(self) -> bool:
        return self.partition.has_enough_in_sync and not self._postponed

    def _look_again(self) -> None:
        generation = self._generation
        self._broker.scheduler.call_later(_LOOK_AGAIN_MS, lambda: self._take_up(generation))

    def _take_up(self, generation: int) -> None:
        if generation != self._generation or self.partition.deleted:
            return
        if not self.partition.has_enough_in_sync:
            self._look_again()
            return
        postponed, self._postponed = self._postponed, []
        for decide in postponed:
            if generation == self._generation:
                self.decide(decide)

    def run(self, effects: Effects, then: Callable[[], None] | None = None) -> None:
        """Does what a decision asks for; `then` is called when its records are committed."""
        if effects.records:
            try:
                self._append(effects)
            except KafkaError as problem:
                self._append_failed(effects, problem)
                return
        for key, delay_ms in effects.timers.items():
            self._set_timer(key, delay_ms)
        if effects.replies or then is not None:
            self._waiting.append((self._last_written, effects.replies, [then] if then is not None else []))
        if self.after_run is not None:
            self.after_run(self, effects, self._last_written)
        self._release()

    def _append_failed(self, effects: Effects, problem: KafkaError) -> None:
        """What was decided is not in the log: the shard is made anew. Who asked for it hears why, the others to try again."""
        logger.error(
            "event=coordinator-append-failed partition=%s reason=%r", self.partition.log.partition, str(problem)
        )
        code = coordinator_error(problem.code)
        for ticket, _ in effects.replies:
            error_response = self._unanswered.pop(ticket, None)
            if error_response is not None:
                ticket.settle(error_response(code))
        is_ours = code in _LOST
        self.unload(code if is_ours else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self._broker.scheduler.call_later(_RELOAD_AFTER_MS if is_ours else 0, self.load)

    def when_committed(self, function: Callable[[], None]) -> None:
        """After everything that the shard has written so far is committed."""
        self._waiting.append((self._last_written, [], [function]))
        self._release()

    @property
    def is_at_rest(self) -> bool:
        """Whether all that was written is committed and told, and what is written next is committed with the write."""
        return self.is_loaded and not self._waiting and not self._postponed and self.partition.is_alone

    def wrote(self, offset: int) -> None:
        """Somebody else appended here what the shard is about to count: answers wait for that too."""
        self._last_written = max(self._last_written, offset)

    def _append(self, effects: Effects) -> None:
        now_ms = self._broker.now_ms()
        quick = self._broker.quick_writes
        if quick is not None and effects.producer is None:
            last_offset = quick.append_records(self.partition, effects.records, now_ms)
            if last_offset >= 0:
                self._last_written = last_offset
                return
        batch = build_decision(effects.records, now_ms, effects.producer)
        result = self.partition.append_internal(memoryview(batch), now_ms)
        self._last_written = result.last_offset

    def _release(self) -> None:
        waiting = self._waiting
        partition = self.partition
        while waiting and (waiting[0][0] < 0 or partition.is_committed(waiting[0][0])):
            _, replies, functions = waiting.popleft()
            for ticket, response in replies:
                self._settle(ticket, response)
            for function in functions:
                function()
        if waiting:
            partition.waiters[self] = None
        else:
            partition.waiters.pop(self, None)

    def on_progress(self, appended_bytes: int) -> None:  # noqa: ARG002
        if not self._is_woken:
            self._is_woken = True
            self._broker.wake(self)

    def answer(self) -> None:
        self._is_woken = False
        if self.partition.deleted:
            self.close()
        else:
            self._release()

    # Timers

    def _set_timer(self, key: TimerKey, delay_ms: int | None) -> None:
        old = self._timers.pop(key, None)
        if old is not None:
            old.cancel()
        if delay_ms is not None:
            generation = self._generation
            self._timers[key] = self._broker.scheduler.call_later(
                max(0, delay_ms), lambda: self._timer_due(key, generation, delay_ms)
            )

    def _timer_due(self, key: TimerKey, generation: int, delay_ms: int) -> None:
        if generation != self._generation or not self.is_loaded:
            return
        if not self._can_write:  # members could not write either: they get their whole time again
            self._set_timer(key, max(delay_ms, _LOOK_AGAIN_MS))
        else:
            self._timers.pop(key, None)
            self.run(self.shard.on_timer(key, self._broker.now_ms()))


def coordinator_error(code: ErrorCode) -> ErrorCode:
    """What a client is told when a coordinator could not write: something that makes it look for the coordinator again."""
    match code:
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION | ErrorCode.NOT_ENOUGH_REPLICAS | ErrorCode.REQUEST_TIMED_OUT:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return ErrorCode.NOT_COORDINATOR
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE:
            return ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        case _:
            return code
