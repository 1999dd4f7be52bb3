"""Sends closed batches to the leaders of their partitions; `answers` decides what becomes of them then.

One request takes a batch each of several partitions of one broker; a broker has at most `in_flight_max` requests
unanswered. A queue stands in its leader's `ready` as long as it has a batch that may go; whatever lifts an obstacle (an
answer, the end of a pause, new metadata, a producer id) puts it there again.

All of it belongs to the owner of the kernel. It runs in callbacks, not in tasks: this is the hot path of a producer.
"""

from collections.abc import Callable, Mapping
from typing import Final

from headwater.base.errors import KafkaError
from headwater.client.producer.accumulator import Accumulator
from headwater.client.producer.answers import Answers, Gate
from headwater.client.producer.batch import Awaited, ProducerBatch
from headwater.client.producer.metrics import Meter
from headwater.client.producer.queues import NO_LEADER, PartitionQueue
from headwater.client.producer.requests import produce_request, version_limit
from headwater.client.producer.sequences import Sequences
from headwater.client.reactor.kernel import Future, Timer
from headwater.client.reactor.link import Link
from headwater.client.session import Session
from headwater.client.settings.producer import IN_FLIGHT_MAX, ProducerSettings
from headwater.wire.messages.produce import ProduceRequest, ProduceResponse

_UNSENT_BYTES_MAX: Final = 4 << 20  # with acks=0 only the socket holds us back
_UNSENT_LOOK: Final = 0.001


class Node:
    """A broker that leads partitions."""

    __slots__ = ("connecting", "id", "in_flight", "looks_again_at", "muted_until", "ready")

    def __init__(self, broker_id: int) -> None:
        self.id = broker_id
        self.in_flight = 0
        self.ready: dict[PartitionQueue, None] = {}
        self.connecting = False
        self.muted_until = 0.0  # throttled
        self.looks_again_at = -1.0


class Sender:
    def __init__(
        self,
        session: Session,
        accumulator: Accumulator,
        sequences: Sequences,
        settings: ProducerSettings,
        gate: Gate,
        meter: Meter,
        chance: Callable[[], float],
    ) -> None:
        self._session = session
        self._kernel = session.kernel
        self._accumulator = accumulator
        self._sequences = sequences
        self._settings = settings
        self._gate = gate
        self._meter = meter
        self._chance = chance
        self.answers = Answers(session, accumulator, sequences, settings, gate, meter, self, chance)
        self._nodes: dict[int, Node] = {}
        self._homeless: dict[PartitionQueue, None] = {}  # ready, but without a leader
        self._lingering: Timer | None = None
        self._expiry: Timer | None = None
        self._batch_per_partition_max = IN_FLIGHT_MAX if settings.idempotent else settings.in_flight_max
        self.lingering_until: float | None = None  # when `wake` comes by itself; None: not at all
        self.in_flight = 0
        self._stopped = False

    # Entry points

    def wake(self) -> None:
        """Sends what can go: closed batches, and open ones that have lingered enough. Plans the next look."""
        accumulator = self._accumulator
        accumulator.close_due(self._kernel.clock())
        if accumulator.closed:
            self._take_closed()
        self._plan()

    def flush(self) -> None:
        self._accumulator.close_all()
        self._take_closed()

    def hurry(self, awaited: Awaited) -> None:
        """Somebody waits for this: it does not linger."""
        batch = awaited.pending()
        if batch is not None and batch.queue.open is batch:
            self._accumulator.close_queue(batch.queue)
            self._take_closed()

    def route_all(self) -> None:
        """Something that held queues back has changed."""
        for topic in list(self._accumulator.topics.values()):
            for queue in topic.queues:
                if queue.waiting:
                    self._route(queue)
        self._drain_all()

    def leader_changed(self, queue: PartitionQueue) -> None:
        self._homeless.pop(queue, None)
        for node in self._nodes.values():
            node.ready.pop(queue, None)
        if queue.waiting:
            self._route(queue)

    def end_pause(self, queue: PartitionQueue) -> None:
        node = self._route(queue)
        if node is not None:
            self._drain(node)

    def fail_waiting(self, error: KafkaError) -> None:
        """All batches that are not on the wire fail."""
        self.answers.fail_waiting(error)
        for node in self._nodes.values():
            node.ready.clear()
        self._homeless.clear()

    def unsent_bytes(self) -> int:
        links = [self._session.open_link(node.id) for node in self._nodes.values()]
        return sum(link.unsent_bytes for link in links if link is not None)

    def stop(self) -> None:
        """Nothing is sent any more."""
        self._stopped = True
        for timer in (self._lingering, self._expiry):
            if timer is not None:
                timer.cancel()

    # Who may go

    def _take_closed(self) -> None:
        closed = self._accumulator.closed
        nodes: dict[Node, None] = {}
        while closed:
            node = self._route(closed.popleft())
            if node is not None:
                nodes[node] = None
        for node in nodes:
            self._drain(node)

    def _route(self, queue: PartitionQueue) -> Node | None:
        if not queue.waiting:
            return None
        if queue.leader == NO_LEADER:
            self._homeless[queue] = None
            self._gate.want_metadata()
            return None
        node = self._nodes.get(queue.leader)
        if node is None:
            node = self._nodes[queue.leader] = Node(queue.leader)
        node.ready[queue] = None
        return node

    def _drain_all(self) -> None:
        for node in list(self._nodes.values()):
            self._drain(node)

    def _drain(self, node: Node) -> None:
        """Sends requests to one broker while it may have more of them."""
        while node.ready and node.in_flight < self._settings.in_flight_max and not self._stopped:
            now = self._kernel.clock()
            if now < node.muted_until:
                self._look_again(node, node.muted_until)
                return
            if not self._sequences.ready:
                self._gate.want_producer_id()
                return
            link = self._session.open_link(node.id)
            if link is None:
                self._connect(node)
                return
            if self._settings.acks == 0 and link.unsent_bytes > _UNSENT_BYTES_MAX:
                self._look_again(node, now + _UNSENT_LOOK)
                return
            batches = self._collect(node, now)
            if not batches:
                return
            self._send(node, link, batches, now)

    def _look_again(self, node: Node, time: float) -> None:
        if node.looks_again_at < self._kernel.clock():
            node.looks_again_at = time
            self._kernel.at(time, lambda: self._drain(node))

    def _collect(self, node: Node, now: float) -> list[ProducerBatch]:
        """One batch of each queue that may send one, up to the size of a request. They are on the wire then."""
        batches: list[ProducerBatch] = []
        size_bytes = 0
        for queue in list(node.ready):
            if not self._may_go(queue, now):
                del node.ready[queue]
                continue
            batch = queue.waiting[0]
            if batches and size_bytes + batch.size_bytes > self._settings.request_bytes_max:
                break
            size_bytes += batch.size_bytes
            queue.waiting.popleft()
            self._sequences.stamp(queue, batch)
            batch.on_wire = True
            batch.attempts += 1
            queue.wire.append(batch)
            batches.append(batch)
            del node.ready[queue]
            if queue.waiting:
                node.ready[queue] = None  # behind the others: everyone has a turn
        if not self._sequences.ready:  # one of them came to the end of the epochs
            self._gate.want_producer_id()
        return batches

    def _may_go(self, queue: PartitionQueue, now: float) -> bool:
        """False: something else puts the queue into `ready` again."""
        if not queue.waiting or now < queue.not_before:
            return False
        if len(queue.wire) >= self._batch_per_partition_max:
            return False
        return self._gate.may_write(queue) and self._sequences.may_go(queue)

    def _connect(self, node: Node) -> None:
        if node.connecting:
            return
        node.connecting = True

        async def connect() -> None:
            try:
                await self._session.link(node.id)
            except KafkaError:
                self._gate.want_metadata()
                await self._kernel.sleep(self._session.settings.backoff.delay_ms(0, self._chance()) / 1000)
            finally:
                node.connecting = False
            self._drain(node)

        self._kernel.spawn(connect(), f"connect to broker {node.id}")

    # Requests and answers

    def _send(self, node: Node, link: Link, batches: list[ProducerBatch], now: float) -> None:
        settings = self._settings
        transactional_id = self._gate.transactional_id
        for batch in batches:
            batch.sent_at = now
            data = batch.encode(settings.codec, settings.level, transactional_id is not None)
            self._meter.sent(batch, len(data), now)
        self._meter.requests += 1
        request = produce_request(batches, settings.acks, self._session.settings.request_timeout_ms, transactional_id)
        at_most = version_limit(batches, transactional_id is None or self._gate.uses_new_transactions)
        if settings.acks == 0:
            self._send_unanswered(link, request, batches, at_most)
            return
        node.in_flight += 1
        self.in_flight += 1
        answer = link.call(request, ProduceResponse, at_most=at_most)
        sent_ids = {each.name: each.topic_id for each in request.topic_data}
        answer.when_done(lambda future: self._answered(node, batches, sent_ids, future))

    def _send_unanswered(
        self, link: Link, request: ProduceRequest, batches: list[ProducerBatch], at_most: int | None
    ) -> None:
        failure: KafkaError | None = None
        try:
            link.send_unanswered(request, at_most=at_most)
        except KafkaError as error:
            failure = error
        self.answers.unanswered(batches, failure)
        for batch in batches:
            self._route(batch.queue)
        self._gate.memory_freed()

    def _answered(
        self, node: Node, batches: list[ProducerBatch], sent_ids: Mapping[str, bytes], answer: Future[ProduceResponse]
    ) -> None:
        node.in_flight -= 1
        self.in_flight -= 1
        failure = answer.error
        if failure is None:
            response = answer.result()
            now = self._kernel.clock()
            if response.throttle_time_ms > 0:
                node.muted_until = now + response.throttle_time_ms / 1000
            self._meter.answered(batches[0].sent_at, now, response.throttle_time_ms)
            self.answers.answered(batches, response, sent_ids)
        else:
            assert isinstance(failure, KafkaError), failure
            self.answers.unanswered(batches, failure)
        nodes = {node: None}
        for batch in batches:
            other = self._route(batch.queue)
            if other is not None:
                nodes[other] = None
        for each in nodes:
            self._drain(each)
        self._gate.memory_freed()

    # Time

    def _plan(self) -> None:
        self.lingering_until = None  # first: a batch that is opened from here on has its thread call `wake`
        due_at = self._accumulator.next_due_at()
        if self._lingering is not None and self._lingering.at != due_at:
            self._lingering.cancel()
            self._lingering = None
        if due_at is not None and self._lingering is None:
            self._lingering = self._kernel.at(due_at, self._lingered)
        self.lingering_until = due_at
        if self._expiry is None:
            oldest = self._accumulator.oldest_incomplete()
            if oldest is not None:
                self._expiry = self._kernel.at(oldest.created_at + self._settings.delivery_timeout, self._expire)

    def _lingered(self) -> None:
        self._lingering = None
        self.wake()

    def _expire(self) -> None:
        self._expiry = None
        self.answers.expire()
        self._plan()
