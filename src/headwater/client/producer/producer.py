"""The synchronous producer, for any number of threads.

    with Producer({"bootstrap.servers": "localhost:9092"}) as producer:
        producer.send("orders", b"a value", key=b"a key")              # at once, on its way
        print(producer.send("orders", b"another").result())            # where it went

`send` puts the record into a batch; when one is full, the calling thread itself sends it and looks for answers, because
a thread of the producer's own would have to fight it for the interpreter. That thread exists all the same, for batches
that linger, retries, and answers that nobody waits for. Callbacks are run by whichever thread finds the answer.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from time import time_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode, UserError
from headwater.base.ids import TopicPartition
from headwater.client.producer.batch import Awaited, Callback, Delivery
from headwater.client.producer.core import ProducerCore
from headwater.client.producer.face import Intake, record_fields
from headwater.client.producer.queues import TopicQueues
from headwater.client.producer.transaction_manager import OpenTransaction, TransactionManager
from headwater.client.producer.types import BufferFull, ProducerClosed, ProducerRecord, TransactionFailed
from headwater.client.reactor.kernel import Closed, TimedOut
from headwater.client.reactor.thread_engine import Engine
from headwater.client.session import Session
from headwater.client.settings.common import network, session_settings
from headwater.client.settings.producer import read_producer_settings
from headwater.client.types import Partition
from headwater.records.columns import Section

if TYPE_CHECKING:
    import pyarrow as pa

    from headwater.client.producer.arrow import TableDelivery
    from headwater.client.producer.encoding import Encodings

_PATIENCE: Final = 0.02  # for the thread that has the kernel; longer only if a callback of the user's takes long


class Producer:
    """Settings by Kafka's names in a mapping, or as keyword arguments: `Producer(bootstrap_servers=...,
    linger_ms=5)`.
    """

    def __init__(self, settings: Mapping[str, object] | None = None, **keywords: object) -> None:
        given, chosen = read_producer_settings(settings, keywords)
        self._settings = chosen
        sockets = network(given)
        self._engine = Engine(sockets, name="headwater-producer")
        session = Session(self._engine.kernel, sockets, session_settings(given, int(chosen.max_block * 1000)))
        self._core = ProducerCore(session, chosen, self)
        self._topics = self._core.accumulator.topics
        self._closed_batches = self._core.accumulator.closed
        self._sender = self._core.sender
        self._answers = self._core.sender.answers
        self._append = self._core.accumulator.append
        self._put = Intake(self._core, chosen).put
        self._posted = False

    # Records

    def send(
        self,
        topic: str | ProducerRecord | Any,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Any = (),
        timestamp_ms: int | None = None,
        on_delivery: Callback | None = None,
    ) -> Delivery:
        """Sends a record: given in parts, or as one `ProducerRecord`. Returns at once; the `Delivery` tells its end.

        It waits, up to max.block.ms, only for the metadata of a new topic and while `buffer.memory` is used up. What is
        wrong with the record itself is raised here. `on_delivery(error, metadata)` is called when it is done.
        """
        if type(topic) is not str:
            topic, value, rest = record_fields(topic)
            return self.send(topic, value, on_delivery=on_delivery, **rest)
        queues = self._topics.get(topic) or self._find(topic)
        if partition is None and self._core.plain:  # the short way; `put` is the same with all there can be to it
            now_ms = time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
            try:
                delivery = self._append(queues, None, now_ms, key, value, headers, on_delivery)
            except (TypeError, AttributeError, ValueError):  # text, a dict of headers
                delivery = self._put(queues, value, key, partition, headers, timestamp_ms, on_delivery)
        else:
            delivery = self._put(queues, value, key, partition, headers, timestamp_ms, on_delivery)
        while delivery is None:
            self._wait_for_room()
            delivery = self._put(queues, value, key, partition, headers, timestamp_ms, on_delivery)
        if (self._closed_batches or self._sender.lingering_until is None) and not self._posted:
            self._advance()
        return delivery

    def send_arrow(
        self,
        table: "pa.Table | pa.RecordBatch",
        topic: str,
        *,
        value: Any = "value",
        key: Any = None,
        headers: str | None = None,
        timestamp: str | None = None,
        partition: str | int | None = None,
        encode: "Encodings | None" = None,
    ) -> "TableDelivery":
        """Sends a table, a record per row. Key and value are columns by name, several as a struct (a list of names), or
        an expression of pyarrow's; `encode` turns them to bytes on the way: {"value": "json"}. See `encoding`.

        It returns when the last slice of the table is in the buffer; the `TableDelivery` tells the end.
        """
        from headwater.client.producer.arrow import TableDelivery, TableSource

        source = TableSource(
            table,
            self._settings,
            key=key,
            value=value,
            headers=headers,
            timestamp=timestamp,
            partition=partition,
            encode=encode,
        )
        queues = self._topics.get(topic) or self._find(topic)
        delivery = TableDelivery(topic, self)
        for sections in source.sections(queues):
            self._add_sections(queues, delivery, sections, source.slice_bytes)
        return delivery

    def send_many(
        self,
        topic: str,
        values: Sequence[bytes],
        *,
        keys: Sequence[bytes] | None = None,
        partition: int | None = None,
        timestamps_ms: int | Sequence[int] | None = None,
    ) -> "TableDelivery":
        """Sends a record per value, in their order: far cheaper than as many calls of `send`, and they linger for
        nothing. Keys and values are bytes, none of them null; what needs more goes by `send`. A record that is too
        large is refused before any of them is sent.
        """
        from headwater.client.producer.arrow import TableDelivery
        from headwater.client.producer.lists import ListSource

        if not self._core.takes_plain:
            raise UserError(
                "send_many takes bytes as they are",
                "this producer has a serializer, a partitioner of its own, or ignores keys",
                "Use send, or a producer without them",
            )
        if keys is not None and len(keys) != len(values):
            raise UserError("send_many takes a key for each value", f"{len(keys)} keys, {len(values)} values")
        source = ListSource(self._settings, values, keys, timestamps_ms, partition)
        queues = self._topics.get(topic) or self._find(topic)
        delivery = TableDelivery(topic, self)
        for sections in source.sections(queues):
            self._add_sections(queues, delivery, sections, source.slice_bytes)
        return delivery

    @property
    def takes_many(self) -> bool:
        """Whether `send_many` does what as many calls of `send` would."""
        return self._core.takes_plain

    def _add_sections(
        self, queues: TopicQueues, delivery: "TableDelivery", sections: list[Section], slice_bytes: int
    ) -> None:
        self._core.check_send()
        if self._core.accumulator.used_bytes + slice_bytes > self._settings.buffer_bytes:
            self._run(self._core.room_for(slice_bytes), None)
        delivery.add(self._core.add_sections(queues, sections))
        self._advance()

    # Transactions

    def init_transactions(self) -> None:
        """Once, before the first transaction: earlier producers with the same transactional.id are fenced."""
        self._run_transaction(self._transactions.init())

    def resume_transactions(self, producer_id: int, producer_epoch: int) -> None:
        """In place of `init_transactions`, with the id and epoch that a coordinating process has taken for this
        transactional.id. Nobody is fenced; if a newer id has been taken since, the first transaction is refused."""
        self._run_transaction(self._transactions.resume(producer_id, producer_epoch))

    def begin_transaction(self) -> None:
        self._engine.submit(self._transactions.begin)

    def send_offsets_to_transaction(self, offsets: Mapping[TopicPartition, Any], group_metadata: Any) -> None:
        """Commits a group's offsets with the transaction: the next offset to read of each partition, as a number or as
        an object with `offset`. The group is a consumer's `group_metadata()`, or a name. If it runs out of time
        (max.block.ms), the transaction can only be aborted."""
        self._run_transaction(self._transactions.send_offsets(offsets, group_metadata))

    def commit_transaction(self) -> None:
        """Flushes and commits. If it runs out of time (max.block.ms), call it again."""
        self._run_transaction(self._transactions.commit())

    def abort_transaction(self) -> None:
        """Drops what was not sent and aborts the rest. If it runs out of time, call it again."""
        self._run_transaction(self._transactions.abort())

    def prepare_transaction(self) -> OpenTransaction:
        """Flushes, and leaves the transaction open for `TransactionEnder.end`, in this or another process."""
        prepared: OpenTransaction = self._run_transaction(self._transactions.prepare())
        return prepared

    def producer_identity(self) -> tuple[int, int]:
        """The producer id and epoch of the transaction that is open: what tells it from all others of the same name."""
        return self._engine.submit(self._transactions.identity)

    @contextmanager
    def transaction(self) -> Iterator["Producer"]:
        """`with producer.transaction(): ...` commits at the end, and aborts if an exception leaves the block."""
        self.begin_transaction()
        try:
            yield self
        except BaseException:
            if self._core.fatal is None:
                self.abort_transaction()
            raise
        try:
            self.commit_transaction()
        except TransactionFailed:
            self.abort_transaction()
            raise

    # The rest

    def flush(self, timeout: float | None = None) -> None:
        """Sends what lingers and waits until all that was sent before is done. TimeoutError after `timeout` seconds.

        Records that failed do not make it fail: their `Delivery` and callback say so.
        """
        self._core.check()
        self._run(self._core.flush(), timeout)

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[Partition]:
        """The topic's partitions, their leaders and replicas. TimeoutError after `timeout` seconds; without, it is
        max.block.ms that counts.
        """
        self._find(topic, timeout)
        return self._engine.submit(lambda: list(self._core.session.view.topics[topic].partitions))

    def is_missing(self, topic: str) -> bool:
        """Whether brokers, when they were last asked, said that there is no such topic."""
        found = self._engine.submit(lambda: self._core.session.view.topics.get(topic))
        return found is not None and found.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def metrics(self) -> dict[str, float]:
        """Counts, rates, sizes and times, by the names of Kafka's own producer; times are in milliseconds."""
        return self._engine.submit(self._core.metrics)

    def close(self, timeout: float | None = None) -> None:
        """Sends what is left, for as long as `timeout` seconds, and ends. What was not sent then has failed. Of several
        threads that close it, none returns before it is closed; the shortest `timeout` counts.
        """
        self._refuse_in_callback("close")
        try:
            with suppress(Closed):  # it was closed before, or another thread was faster
                self._engine.run(self._core.close(timeout))
        finally:
            self._engine.close()

    def __enter__(self) -> "Producer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # What deliveries need

    def wait_for(self, awaited: Awaited, timeout: float | None) -> None:
        try:
            self._run(self._core.delivered(awaited), timeout)
        except ProducerClosed:
            if awaited.pending() is not None:
                raise

    def hurry(self, awaited: Awaited) -> None:
        self._engine.network.post(lambda: self._sender.hurry(awaited))

    def call_back(self, delivery: Delivery, callback: Callable[[Delivery], object]) -> None:
        if not self._core.accumulator.call_back(delivery, callback):
            callback(delivery)

    # Inside

    def _find(self, topic: str, timeout: float | None = None) -> TopicQueues:
        self._core.check()
        found: TopicQueues = self._run(self._core.topic(topic), timeout)
        return found

    def _run(self, coroutine: Any, timeout: float | None) -> Any:
        self._refuse_in_callback("wait", coroutine)
        try:
            return self._engine.run(coroutine, timeout)
        except TimedOut:
            raise TimeoutError(f"not done within {timeout} s") from None
        except Closed:
            raise ProducerClosed("the producer is closed") from None

    @property
    def _transactions(self) -> TransactionManager:
        if self._core.closed:
            self._core.check()
        found = self._core.transactions
        if found is None:
            raise UserError(
                "This producer makes no transactions", "it has no transactional.id", "Set one, the same after a restart"
            )
        return found

    def _run_transaction(self, coroutine: Any) -> Any:
        return self._run(coroutine, self._settings.max_block)

    def _wait_for_room(self) -> None:
        if self._answers.in_callback and self._engine.owned:
            raise BufferFull(self._settings.buffer_bytes, 0)
        self._run(self._core.room(), None)

    def _advance(self) -> None:
        """Sends what is full, takes answers; if another thread is at it, that thread is told to."""
        if self._answers.in_callback or not self._engine.advance(self._sender.wake, _PATIENCE):
            self._post_wake()

    def _post_wake(self) -> None:
        if not self._posted:
            self._posted = True
            self._engine.network.post(self._wake)

    def _wake(self) -> None:
        self._posted = False
        self._sender.wake()

    def _refuse_in_callback(self, what: str, coroutine: Any = None) -> None:
        if self._answers.in_callback and self._engine.owned:
            if coroutine is not None:
                coroutine.close()
            raise UserError(
                f"A delivery callback cannot {what}",
                "it runs in the thread that takes the answers which it would wait for",
                "Hand the work to another thread; `send` is fine",
            )
