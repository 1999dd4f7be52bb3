"""A stretch of a partition from one offset to another, without a group: for jobs that know what they want to read.

Exact: gives every visible record with start <= offset < end, once, in order, and ends when the log holds no more of
them, however many offsets in between hold none (control records, aborted transactions, compaction). What is gone
already (`start` is below the log's beginning) is an error, not a gap that goes unnoticed; `lost` says what to do.

A reader belongs to one thread of one process. It has its own connections, so that tasks in many processes can read side
by side; between ranges they are kept.
"""

from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.arrow import ArrowTaker, Decode, decoded
from headwater.client.consumer.consumer_settings import consumer_settings
from headwater.client.consumer.core import ConsumerCore
from headwater.client.consumer.errors import OffsetOutOfRange
from headwater.client.consumer.record import ConsumerRecord
from headwater.client.reactor.thread_engine import Engine
from headwater.client.session import Session
from headwater.client.settings.common import network, session_settings
from headwater.client.types import READ_UNCOMMITTED, OffsetAt, Topic
from headwater.records.columns import Columns

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

_PARTITION_BYTES: Final = 8 * 1024 * 1024  # few, large answers: a range is read to its end
_WAIT: Final = 1.0
_GONE: Final = 3.0  # a topic that is not there: it may be so young that not every broker knows it
_STALLED: Final = 120.0  # nothing of what must be there has come for so long


class RangeReader:
    """Settings as for `Consumer`, but read_committed by default, and no group."""

    def __init__(self, settings: Mapping[str, object] | None = None, /, **keywords: object) -> None:
        defaults: dict[str, object] = {
            "isolation.level": "read_committed",
            "max.partition.fetch.bytes": _PARTITION_BYTES,
            "allow.auto.create.topics": False,
        }
        given = {**defaults, **(settings or {})}
        for name in ("group.id", "enable.auto.commit", "auto.offset.reset"):
            given.pop(name, None)
        given["auto.offset.reset"] = "none"
        known = consumer_settings(given, keywords)
        self._network = network(known.raw)
        self._engine = Engine(self._network, patient=True, name="headwater-range")
        session = Session(self._engine.kernel, self._network, session_settings(known.raw, known.api_timeout_ms))
        self._core = ConsumerCore(session, known)
        self._closed = False

    # What there is

    def offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAt | None]:
        """The first offset of a time (ms); None: nothing is so young."""
        return self._run(self._core.cluster_queries.offsets_for_times(times, None))

    def ends(self, partitions: list[TopicPartition], *, earliest: bool) -> dict[TopicPartition, int]:
        """Where the partitions begin, or end; read_committed, before the first open transaction."""
        return self._run(self._core.cluster_queries.ends(partitions, None, earliest=earliest))

    def log_end(self, partition: TopicPartition) -> int:
        """Where the log ends, whatever transactions are open in it."""
        queries = self._core.cluster_queries
        ends = queries.ends([partition], None, earliest=False, isolation_level=READ_UNCOMMITTED)
        return self._run(ends)[partition]

    def topic(self, name: str) -> Topic:
        return self._run(self._core.session.topic(name))

    # Reading

    def read_range(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        max_records: int = 1_000_000,
        max_bytes: int = 64 * 1024 * 1024,
        decode: "Mapping[str, Decode] | None" = None,
        lost: str = "raise",
    ) -> "Iterator[pa.RecordBatch]":
        """Record batches (Arrow) of the records with start <= offset < end. `lost="skip"` goes on behind what is
        gone.
        """

        def taker() -> tuple[Callable[[], int], Callable[[], Any]]:
            arrow = ArrowTaker(self._core, self._engine.submit, max_records, max_bytes, None)
            return arrow.take, arrow.batch

        for batch in self._range(TopicPartition(*partition), start, end, taker, lost):
            yield decoded(batch, decode) if decode else batch

    def records(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        lost: str = "raise",
        given_up: Callable[[], bool] | None = None,
    ) -> Iterator[ConsumerRecord]:
        """The same, record by record. It ends early when `given_up` says so, also while it waits for a broker."""
        taken: list[list[ConsumerRecord]] = []

        def taker() -> tuple[Callable[[], int], Callable[[], Any]]:
            def take() -> int:
                taken.append(self._core.take(10_000))
                return len(taken[-1])

            return take, lambda: taken.pop()

        for records in self._range(TopicPartition(*partition), start, end, taker, lost, given_up):
            yield from records

    def columns(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        max_records: int = 20_000,
        max_bytes: int = 16 * 1024 * 1024,
        lost: str = "raise",
        given_up: Callable[[], bool] | None = None,
    ) -> Generator[Columns]:
        """The same by column, for those who do not need Arrow, which takes a while to be imported."""

        def taker() -> tuple[Callable[[], int], Callable[[], Any]]:
            rows = ArrowTaker(self._core, self._engine.submit, max_records, max_bytes, None)
            return rows.take, rows.columns

        yield from self._range(TopicPartition(*partition), start, end, taker, lost, given_up)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._engine.submit(self._stop)
            self._engine.close()

    def __enter__(self) -> "RangeReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Inside

    def _range(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        taker: Callable[[], tuple[Callable[[], int], Callable[[], Any]]],
        lost: str,
        given_up: Callable[[], bool] | None = None,
    ) -> Iterator[Any]:
        if lost not in ("raise", "skip"):
            raise UserError(f"lost cannot be {lost!r}", "", 'It is "raise" or "skip"')
        if start >= end:
            return
        core, engine = self._core, self._engine
        engine.submit(lambda: core.assign_range(partition, start, end))
        clock = engine.kernel.clock
        heard_at, reached = clock(), start
        try:
            while given_up is None or not given_up():
                take, made = taker()
                try:
                    position, came, seen = engine.submit(lambda take=take: self._turn(partition, take))  # type: ignore[misc]
                except OffsetOutOfRange:
                    self._go_on(partition, end, lost)
                    continue
                if came:
                    yield made()
                if came or position != reached:  # it moves over aborted batches, too
                    heard_at, reached = clock(), position
                if position >= end:
                    return
                if not came:
                    self._check(partition, position, end, clock() - heard_at)
                    engine.run(core.wait_for_news(seen, _WAIT))
        finally:
            if not self._closed:
                engine.submit(lambda: core.assign([]))

    def _turn(self, partition: TopicPartition, take: Callable[[], int]) -> tuple[int, int, int]:
        core = self._core
        turn = core.turn(take)
        return core.subscription.state(partition).position, turn.taken or 0, turn.seen

    def _check(self, partition: TopicPartition, position: int, end: int, silent_s: float) -> None:
        """Nothing came for a while: is there a reason why nothing will?"""
        if silent_s > _GONE:
            leader = self._core.session.view.leader_of(partition)
            if isinstance(leader, KafkaError) and leader.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise leader
        if silent_s > _STALLED:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{partition} was to be read up to offset {end}; nothing came from {position} on",
            )

    def _go_on(self, partition: TopicPartition, end: int, lost: str) -> None:
        """The log does not hold the position: what is asked for is gone, or was never there."""
        position = self._core.subscription.state(partition).position
        first = self.ends([partition], earliest=True)[partition]
        last = self.ends([partition], earliest=False)[partition]
        if lost == "raise" or position >= last:
            raise OffsetOutOfRange(partition, position)
        self._engine.submit(lambda: self._core.assign_range(partition, min(first, end), end))

    def _stop(self) -> None:
        self._core.fetcher.close()
        self._core.resolver.stop()
        self._core.topics.stop()
        self._core.session.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._engine.run(coroutine)
