"""What becomes of batches: written, tried again, split, or failed, by what the brokers answer and by the clock.

Owned by the sender, and with it by the owner of the kernel. It takes batches off the wire, and those that are tried
again back to the front of their queue; sending them is the sender's.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.backoff import Backoff
from headwater.client.errors import error_for
from headwater.client.producer.accumulator import Accumulator
from headwater.client.producer.batch import NO_OFFSET, NO_TIME, Delivery, ProducerBatch
from headwater.client.producer.metrics import Meter
from headwater.client.producer.queues import NO_LEADER, PartitionQueue
from headwater.client.producer.sequences import Sequences, Verdict
from headwater.client.producer.splitting import split_batch
from headwater.client.producer.types import DeliveryTimedOut
from headwater.client.session import Session
from headwater.client.settings.producer import ProducerSettings
from headwater.client.types import Broker
from headwater.wire.messages.produce import PartitionProduceResponse, ProduceResponse

_log = logging.getLogger(__name__)
_OTHER_LEADER: Final = frozenset((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH))
_STALE_METADATA: Final = _OTHER_LEADER | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
}


class Gate(Protocol):
    """What holds batches back besides their order, and hears of those that fail: see `core` and `transactions`."""

    def may_write(self, queue: PartitionQueue) -> bool:
        """Whether batches of this partition may go now; if not, `Sender.route_all` is called when they may."""

    def give_up(self) -> KafkaError | None:
        """Why nothing is tried again: the transaction is over, or the producer."""

    def want_producer_id(self) -> None: ...
    def want_metadata(self) -> None: ...
    def batch_failed(self, error: KafkaError) -> None: ...
    def memory_freed(self) -> None: ...

    @property
    def transactional_id(self) -> str | None: ...
    @property
    def uses_new_transactions(self) -> bool: ...


class Routes(Protocol):
    """The sender's side of a retry."""

    def leader_changed(self, queue: PartitionQueue) -> None: ...
    def end_pause(self, queue: PartitionQueue) -> None: ...


class Answers:
    def __init__(
        self,
        session: Session,
        accumulator: Accumulator,
        sequences: Sequences,
        settings: ProducerSettings,
        gate: Gate,
        meter: Meter,
        routes: Routes,
        chance: Callable[[], float],
    ) -> None:
        self._session = session
        self._kernel = session.kernel
        self._accumulator = accumulator
        self._sequences = sequences
        self._settings = settings
        self._gate = gate
        self._meter = meter
        self._routes = routes
        self._backoff: Backoff = session.settings.backoff
        self._chance = chance
        self.in_callback = False  # a callback of the user's runs now

    def answered(self, batches: list[ProducerBatch], response: ProduceResponse, sent_ids: Mapping[str, bytes]) -> None:
        """`sent_ids`: by which ids the request named its topics, as the answer does. Metadata may have told another id
        meanwhile, of a topic that was deleted and made again.
        """
        answers: dict[tuple[object, int], PartitionProduceResponse] = {}
        for topic in response.responses:
            for each in topic.partition_responses:
                answers[topic.name or topic.topic_id, each.index] = each
        for batch in batches:
            queue = batch.queue
            name = queue.topic.name
            found = answers.get((name, queue.partition)) or answers.get((sent_ids[name], queue.partition))
            self._leave_wire(batch)
            if batch.done:
                continue  # given up meanwhile
            if found is None:
                self._judge(batch, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker left it out"), -1)
            elif found.error_code and found.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                self._refused(batch, found, response)
            else:
                offset = found.base_offset if not found.error_code else NO_OFFSET
                self._sequences.written(queue, batch, offset)
                self._finish(batch, offset, found.log_append_time_ms, None)

    def unanswered(self, batches: list[ProducerBatch], failure: KafkaError | None) -> None:
        """The request failed as a whole; or it was one that is not answered, and is gone (None)."""
        for batch in batches:
            self._leave_wire(batch)
        for batch in batches:
            if batch.done:
                continue
            if failure is None:
                self._finish(batch, NO_OFFSET, NO_TIME, None)
            else:
                self._judge(batch, failure, -1)

    def fail_waiting(self, error: KafkaError) -> None:
        """All batches that are not on the wire fail: the producer is closed, or the transaction aborted."""
        self._accumulator.close_all()
        self._accumulator.closed.clear()
        for topic in list(self._accumulator.topics.values()):
            for queue in topic.queues:
                while queue.waiting:
                    self._finish(queue.waiting.popleft(), NO_OFFSET, NO_TIME, error)
        self._gate.memory_freed()

    def expire(self) -> None:
        """Gives up what is older than delivery.timeout.ms."""
        limit = self._kernel.clock() - self._settings.delivery_timeout
        for batch in self._accumulator.incomplete():
            if batch.created_at > limit:
                break
            if batch.done:
                continue  # it failed with its transaction, when one before it was given up
            self._accumulator.close_queue(batch.queue)
            if not batch.on_wire and batch in batch.queue.waiting:
                batch.queue.waiting.remove(batch)
            self._give_up(batch, batch.last_error)
        self._gate.memory_freed()

    # One batch

    def _refused(self, batch: ProducerBatch, found: PartitionProduceResponse, response: ProduceResponse) -> None:
        reasons = [problem.batch_index_error_message or "" for problem in found.record_errors]
        error = error_for(found.error_code, found.error_message or "; ".join(filter(None, reasons)) or None)
        led = found.current_leader
        followed = False
        if error.code in _OTHER_LEADER and led is not None and led.leader_id != NO_LEADER:
            followed = self._follow_leader(batch.queue, led.leader_id, led.leader_epoch, response)
        self._judge(batch, error, found.log_start_offset, pause=not followed)

    def _follow_leader(self, queue: PartitionQueue, leader: int, epoch: int, response: ProduceResponse) -> bool:
        """The broker said who leads now (KIP-951): the retry need not wait for metadata."""
        if epoch <= queue.leader_epoch:
            return False
        for endpoint in response.node_endpoints:
            self._session.learn_broker(Broker(endpoint.node_id, endpoint.host, endpoint.port, endpoint.rack))
        queue.leader, queue.leader_epoch = leader, epoch
        self._routes.leader_changed(queue)
        return True

    def _judge(self, batch: ProducerBatch, error: KafkaError, log_start_offset: int, *, pause: bool = True) -> None:
        """An attempt failed: again, in pieces, or never."""
        queue = batch.queue
        verdict = self._sequences.judge(queue, batch, error.code, log_start_offset)
        if error.code in _STALE_METADATA:
            self._gate.want_metadata()
        if verdict is Verdict.RETRY:
            self._try_again(batch, error, pause=pause)
        elif verdict is Verdict.SPLIT and (over := self._gate.give_up()) is not None:
            # Its parts would wait for a transaction that writes nothing more.
            self._sequences.given_up(queue, batch)
            self._finish(batch, NO_OFFSET, NO_TIME, over)
        elif verdict is Verdict.SPLIT:
            parts = split_batch(batch, self._settings)
            self._accumulator.split(batch, parts)
            for part in parts:
                self._sequences.put_back(queue, part)
            if batch.future is not None:
                batch.future.resolve(None)
            self._meter.splits += 1
        else:
            assert verdict is Verdict.FAIL
            if error.code.retriable:  # its retries are over: it may have been written, and so may those behind it
                self._sequences.given_up(queue, batch)
            else:
                self._sequences.failed(queue, batch, error.code)
            self._finish(batch, NO_OFFSET, NO_TIME, error)

    def _try_again(self, batch: ProducerBatch, error: KafkaError, *, pause: bool) -> None:
        queue = batch.queue
        now = self._kernel.clock()
        if now >= batch.created_at + self._settings.delivery_timeout:
            self._give_up(batch, error)
            return
        over = self._gate.give_up()
        if over is not None:
            self._sequences.given_up(queue, batch)
            self._finish(batch, NO_OFFSET, NO_TIME, over)
            return
        self._meter.retries += batch.count
        batch.last_error = error
        self._sequences.put_back(queue, batch)
        if not pause or (error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and queue.waiting[0] is not batch):
            return  # there is another leader, or it waits for the batch before it, not for the clock
        delay = self._backoff.delay_ms(batch.attempts - 1, self._chance()) / 1000
        if now + delay > queue.not_before:
            queue.not_before = now + delay
            self._kernel.at(queue.not_before, lambda: self._routes.end_pause(queue))

    def _give_up(self, batch: ProducerBatch, last: KafkaError | None) -> None:
        queue = batch.queue
        error = DeliveryTimedOut(queue.topic.name, queue.partition, self._settings.delivery_timeout, last)
        if not batch.on_wire:
            self._sequences.given_up(queue, batch)
        self._finish(batch, NO_OFFSET, NO_TIME, error)

    def _leave_wire(self, batch: ProducerBatch) -> None:
        batch.queue.wire.remove(batch)
        batch.on_wire = False
        if batch.done:
            self._accumulator.release(batch)
            self._sequences.given_up(batch.queue, batch)

    def _finish(
        self, batch: ProducerBatch, base_offset: int, log_append_time_ms: int, error: KafkaError | None
    ) -> None:
        callbacks = self._accumulator.finish(batch, base_offset, log_append_time_ms, error)
        if batch.future is not None:
            batch.future.resolve(None)
        self._meter.finished(batch, self._kernel.clock())
        if error is not None:
            self._gate.batch_failed(error)
        if callbacks:
            self._call_back(callbacks)

    def _call_back(self, callbacks: list[tuple[Delivery, Callable[[Delivery], object]]]) -> None:
        outer, self.in_callback = self.in_callback, True
        for delivery, callback in callbacks:
            try:
                callback(delivery)
            except Exception:  # noqa: BLE001 (a callback of the user's must not stop the producer)
                _log.exception("A delivery callback failed")
        self.in_callback = outer
