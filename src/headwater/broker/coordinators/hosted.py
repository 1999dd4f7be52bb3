"""One shard on its partition: loaded from the log, run on requests and timers, its records appended.

The order of things for one decision: the shard changes its state, its records are appended as one batch, its timers are
set, and its answers wait until the high watermark has passed what the shard has written so far (`Answers`). When an
append fails, or the shard itself with an exception that nobody meant, nothing that was decided since may be believed:
everybody who waits gets an error, and the shard is made anew from the log.

While there are fewer in-sync replicas than `min.insync.replicas` asks for, nothing could be appended, so nothing is
decided: requests that may write are told to come again, timers begin anew, and what others report is kept for later.
Who only asks, and the heartbeats of classic members, are served.

A shard that cannot be loaded is made anew and tried again, with growing pauses: half a state is never asked.

Owned by the broker's loop.
"""

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, Generic

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.coordinators.answers import Answers
from headwater.broker.coordinators.batches import build_decision
from headwater.broker.coordinators.host import CoordinatorHost
from headwater.broker.coordinators.loading import Loading, replay_log
from headwater.broker.coordinators.shard_protocol import ErrorResponse, MayWrite, S, coordinator_error
from headwater.broker.coordinators.timers import Timers
from headwater.coordinator.effects import CoordinatorRecord, Effects, Producer, Ticket, TimerKey
from headwater.replication.partition import Partition

logger = logging.getLogger("headwater.broker")

_RELOAD_AFTER_MS: Final = 1000
_RELOAD_AFTER_MS_MAX: Final = 32_000
_TIMERS_PER_STEP: Final = 50
_LOOK_AGAIN_MS: Final = 500  # for replicas that are back in sync

# The partition cannot be written to, so there is no hurry; anything else was wrong with that one batch.
_LOST: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Hosted(Generic[S]):
    """`call` for requests, `decide` for what nobody asked for; `run` does what was decided."""

    def __init__(
        self, broker: CoordinatorHost, partition: Partition, make_shard: Callable[[], S], loading: Loading | None = None
    ) -> None:
        """`loading`: shared with others that are loaded beside this one."""
        self._broker = broker
        self._loading = loading or Loading(broker.scheduler)
        self.partition = partition
        self._make_shard = make_shard
        self.shard = make_shard()
        self.is_loaded = False
        self._loaded_at_ms = 0
        self.after_run: Callable[[Hosted[S], Effects, int], None] | None = None
        self._timers = Timers(broker.scheduler, self._timer_due)
        self._answers = Answers(broker, partition, self.close)
        self._postponed: list[Callable[[S], Effects]] = []  # decisions that may write, and cannot for now
        self._when_loaded: deque[Callable[[S], Effects]] = deque()
        self._failed_loads = 0  # in a row
        self._generation = 0  # of the shard: loads of an earlier one are void
        self._is_closed = False

    # Loading

    def load(self) -> None:
        """Reads to the end of the log, past the high watermark: a new leader keeps all that it has, and answers wait
        for the rest.
        """
        if self._is_closed:
            return
        self._generation += 1
        self.is_loaded = False
        self._timers.clear()
        self.shard = self._make_shard()
        steps = self._load_steps(self._generation)
        if self.partition.log.log_start_offset < self.partition.log.log_end_offset:
            self._loading.begin(steps)
        else:
            next(steps, None)  # there is nothing to read: it can be asked at once

    def _load_steps(self, generation: int) -> Iterator[int]:
        """Another life of the shard, or the end of its partition, ends it."""
        steps = self._read_and_begin()
        while generation == self._generation and not self.partition.deleted:
            try:
                yield next(steps)
            except StopIteration:
                return
            except Exception as problem:  # noqa: BLE001 - whatever it was, nobody else would try again
                self._failed("coordinator-not-loaded", problem, self._next_pause_ms())

    def _read_and_begin(self) -> Generator[int, None, None]:
        log = self.partition.log
        end = yield from replay_log(log, self.shard, log.log_start_offset)
        for count, (key, delay_ms) in enumerate(self.shard.timers_found(), 1):
            self._timers.set(key, delay_ms)
            if count % _TIMERS_PER_STEP == 0:
                yield _TIMERS_PER_STEP
        end = yield from replay_log(log, self.shard, end)  # markers of transactions, which others wrote meanwhile
        self._answers.last_written = end - 1
        self.is_loaded = True
        self._loaded_at_ms = self._broker.clock.monotonic_ms()
        self._decide(lambda shard: shard.loaded(self._broker.now_ms()))
        while self._when_loaded and self.is_loaded:  # an append that fails ends it: the others wait for the next load
            self._decide(self._when_loaded.popleft())
        self._failed_loads = 0

    def _next_pause_ms(self) -> int:
        pause_ms = min(_RELOAD_AFTER_MS << self._failed_loads, _RELOAD_AFTER_MS_MAX)
        self._failed_loads = min(self._failed_loads + 1, _RELOAD_AFTER_MS_MAX.bit_length())
        return pause_ms

    def _failed(self, event: str, problem: Exception, pause_ms: int) -> None:
        """The shard may be half changed: it is thrown away, and read again after a pause."""
        is_expected = isinstance(problem, KafkaError | OSError)
        logger.error(
            "event=%s partition=%s reason=%r next_try_ms=%d",
            event,
            self.partition.log.partition,
            f"{type(problem).__name__}: {problem}",
            pause_ms,
            exc_info=None if is_expected else problem,
        )
        self._begin_again(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, pause_ms)

    def _begin_again(self, code: ErrorCode, pause_ms: int) -> None:
        self.unload(code)
        generation = self._generation
        self._broker.scheduler.call_later(pause_ms, lambda: self._reload(generation))

    def _reload(self, generation: int) -> None:
        if generation == self._generation and not self.partition.deleted:
            self.load()

    def close(self) -> None:
        """The partition is no longer ours: nothing that was planned happens any more."""
        self._is_closed = True
        self._when_loaded.clear()
        self.unload()

    def unload(self, code: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """What the shard believes is no longer true."""
        self._generation += 1
        self.is_loaded = False
        self._timers.clear()
        self._postponed.clear()
        self._answers.forget(code)

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
        ticket = self._answers.ticket(settle, error)
        try:
            effects = decide(self.shard, ticket)
        except KafkaError as problem:
            self._answers.refuse(ticket, problem.code)
        except Exception as problem:  # noqa: BLE001 - of the others in this shard, nobody is to hear what may be half true
            self._answers.refuse(ticket, ErrorCode.UNKNOWN_SERVER_ERROR)
            self._failed("coordinator-request-failed", problem, 0)
        else:
            self.run(effects)

    def decide(self, decide: Callable[[S], Effects]) -> None:
        """What nobody asked for and must not be lost: now, or as soon as it is loaded and there are enough replicas."""
        try:
            self._decide(decide)
        except Exception as problem:  # noqa: BLE001 - whoever reports this has other shards to tell
            self._failed("coordinator-decision-failed", problem, _RELOAD_AFTER_MS)

    def _decide(self, decide: Callable[[S], Effects]) -> None:
        if not self.is_loaded:
            self._when_loaded.append(decide)
            return
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
                self._append(effects.records, effects.producer, self._broker.now_ms())
            except KafkaError as problem:
                self._append_failed(effects, problem)
                return
        for key, delay_ms in effects.timers.items():
            self._timers.set(key, delay_ms)
        answers = self._answers
        if effects.replies or then is not None:
            answers.hold(effects.replies, then)
        if self.after_run is not None:
            self.after_run(self, effects, answers.last_written)
        answers.release()

    def _append_failed(self, effects: Effects, problem: KafkaError) -> None:
        """What was decided is not in the log: the shard is made anew. Who asked for it hears why, the others to try
        again.
        """
        logger.error(
            "event=coordinator-append-failed partition=%s reason=%r", self.partition.log.partition, str(problem)
        )
        code = coordinator_error(problem.code)
        for ticket, _ in effects.replies:
            self._answers.refuse(ticket, code)
        is_ours = code in _LOST
        has_time = is_ours or not effects.replies  # a timer that nobody asked for would be due again at once
        self._begin_again(
            code if is_ours else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, _RELOAD_AFTER_MS if has_time else 0
        )

    def when_committed(self, function: Callable[[], None]) -> None:
        """After everything that the shard has written so far is committed."""
        self._answers.hold((), function)
        self._answers.release()

    @property
    def is_at_rest(self) -> bool:
        """Whether all that was written is committed and told, and what is written next is committed with the write."""
        return self.is_loaded and not self._answers.held and not self._postponed and self.partition.is_alone

    def wrote(self, offset: int) -> None:
        """Somebody else appended here what the shard is about to count: answers wait for that too."""
        self._answers.last_written = max(self._answers.last_written, offset)

    def write(self, record: CoordinatorRecord, now_ms: int) -> bool:
        """At rest: one record, committed with its append. False: it is not in the log, and the shard is made anew."""
        try:
            self._append([record], None, now_ms)
        except KafkaError as problem:
            self._append_failed(Effects(), problem)
            return False
        return True

    def set_timer(self, key: TimerKey, delay_ms: int | None) -> None:
        self._timers.set(key, delay_ms)

    def _append(self, records: list[CoordinatorRecord], producer: Producer | None, now_ms: int) -> None:
        quick = self._broker.quick_writes
        if quick is not None and producer is None:
            last_offset = quick.append_records(self.partition, records, now_ms)
            if last_offset >= 0:
                self._answers.last_written = last_offset
                return
        batch = build_decision(records, now_ms, producer)
        result = self.partition.append_internal(memoryview(batch), now_ms)
        self._answers.last_written = result.last_offset

    def _timer_due(self, key: TimerKey, delay_ms: int) -> None:
        if not self.is_loaded or not self._can_write:  # members could not be heard either: they get their time again
            self._timers.set(key, max(delay_ms, _LOOK_AGAIN_MS))
            return
        rest_ms = delay_ms - (self._broker.clock.monotonic_ms() - self._loaded_at_ms)
        if rest_ms > 0:  # set while others were still being loaded
            self._timers.set(key, rest_ms)
            return
        try:
            effects = self.shard.on_timer(key, self._broker.now_ms())
        except Exception as problem:  # noqa: BLE001 - the timer would be lost, and with it the member that it watches
            self._failed("coordinator-timer-failed", problem, _RELOAD_AFTER_MS)
        else:
            self.run(effects)
