"""Writing records to one topic, for tools: partitions chosen, batches built and sent to their leaders, answers awaited.

`plan` is pure: records in, batches per partition out. `RecordWriter` sends them, one batch per partition at a time so
that order holds, and with acks=all as an idempotent producer, so that a retry never writes twice. It owns its producer
id and sequence numbers, stands on the connections of an `Admin`, and starts with less than a `Producer` does. For one
thread.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin.calls import BlockingFace
from headwater.client.errors import error_for
from headwater.client.outcomes import all_or_raise
from headwater.client.partitioner import Partitioner, partition_for_key
from headwater.client.reactor.link import Link
from headwater.client.session import Session
from headwater.client.types import NO_OFFSET, OutgoingRecord, ProducedRecord, Topic
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.wire.messages.metadata import MetadataRequest, MetadataResponse
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1
BATCH_BYTES_MAX: Final = 900_000  # uncompressed: below the 1 MB that brokers take by default
_STICKY_BYTES: Final = 16_384  # Java's batch.size: how long a record without a key stays with one partition
_RECORD_OVERHEAD_BYTES: Final = 24
_SEQUENCES: Final = 1 << 31


@dataclass(slots=True)
class Batch:
    """Records on their way to one partition; `indexes` says which of the caller's they are."""

    partition: int
    records: list[Record] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    size_bytes: int = 0


def plan(
    records: Sequence[OutgoingRecord], topic: Topic, partitioner: Partitioner, now_ms: int
) -> dict[int, list[Batch]]:
    """Each record in a batch of its partition, in order, no batch over the limit unless a single record is."""
    count = len(topic.partitions)
    available = [each.partition for each in topic.partitions if each.leader >= 0] or list(range(count))
    queues: dict[int, list[Batch]] = {}
    sticky_bytes = 0
    for index, record in enumerate(records):
        size = _size_bytes(record)
        if record.partition is not None:
            partition = record.partition
            if not 0 <= partition < count:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {topic.name!r} has {count} partitions, none with number {partition}",
                )
        elif record.key is not None:
            partition = partition_for_key(record.key, count)
        else:
            partition = partitioner.choose(available)
            sticky_bytes += size
            if sticky_bytes >= _STICKY_BYTES:
                partitioner.batch_done()
                sticky_bytes = 0
        queue = queues.setdefault(partition, [Batch(partition)])
        if queue[-1].records and queue[-1].size_bytes + size > BATCH_BYTES_MAX:
            queue.append(Batch(partition))
        batch = queue[-1]
        timestamp = now_ms if record.timestamp_ms is None else record.timestamp_ms
        batch.records.append(Record(len(batch.records), timestamp, record.key, record.value, record.headers))
        batch.indexes.append(index)
        batch.size_bytes += size
    if sticky_bytes:
        partitioner.batch_done()
    return queues


def _size_bytes(record: OutgoingRecord) -> int:
    headers = sum(len(key) + len(value or b"") + 8 for key, value in record.headers)
    return _RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"") + headers


class RecordWriter:
    def __init__(
        self,
        admin: BlockingFace,
        topic: Topic,
        partitioner: Partitioner,
        *,
        acks: int = ACKS_ALL,
        codec: int = 0,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._admin = admin
        self._session = admin.session
        self._topic = topic
        self._partitioner = partitioner
        self._acks = acks
        self._codec = codec
        self._now_ms = now_ms
        self._producer_id = -1
        self._producer_epoch = -1
        self._sequences: dict[int, int] = {}
        self._unanswered: set[int] = set()
        if acks == ACKS_ALL:
            admin.run(self._init_producer_id)

    def write(self, records: Sequence[OutgoingRecord]) -> list[ProducedRecord]:
        """Sends all of them and waits; where each went, in the order given. Raises if any could not be written."""
        return self._admin.run(lambda _: self._write(records))

    def flush(self) -> None:
        """With acks=0: waits until the leaders have read what was sent, by asking them something after it."""
        self._admin.run(self._flush)

    async def _write(self, records: Sequence[OutgoingRecord]) -> list[ProducedRecord]:
        now_ms = self._now_ms()
        queues = plan(records, self._topic, self._partitioner, now_ms)
        produced: list[ProducedRecord | None] = [None] * len(records)
        while queues:
            heads = {partition: queue.pop(0) for partition, queue in queues.items()}
            queues = {partition: queue for partition, queue in queues.items() if queue}
            for batch, base_offset, append_time_ms in await self._send(heads):
                for at, (index, record) in enumerate(zip(batch.indexes, batch.records, strict=True)):
                    offset = NO_OFFSET if base_offset < 0 else base_offset + at
                    timestamp = record.timestamp if append_time_ms < 0 else append_time_ms
                    produced[index] = ProducedRecord(self._topic.name, batch.partition, offset, timestamp)
        return [each for each in produced if each is not None]

    async def _flush(self, session: Session) -> None:
        for leader in self._unanswered:
            await session.call(leader, MetadataRequest(topics=[]), MetadataResponse)
        self._unanswered.clear()

    async def _send(self, heads: dict[int, Batch]) -> list[tuple[Batch, int, int]]:
        """(batch, base offset, log-append time or -1) for each."""
        name = self._topic.name
        encoded = {TopicPartition(name, batch.partition): self._encode(batch) for batch in heads.values()}

        async def ask(
            link: Link, partitions: list[TopicPartition]
        ) -> dict[TopicPartition, tuple[int, int] | KafkaError]:
            return await self._produce(link, {each: encoded[each] for each in partitions})

        answers = await self._session.per_leader(encoded, ask)
        for partition, answer in answers.items():
            if self._producer_id >= 0 and not isinstance(answer, KafkaError):
                self._move_on(heads[partition.partition])
        return [(heads[partition.partition], *answer) for partition, answer in all_or_raise(answers).items()]

    def _move_on(self, batch: Batch) -> None:
        sequence = self._sequences.get(batch.partition, 0)
        self._sequences[batch.partition] = (sequence + len(batch.records)) % _SEQUENCES

    def _encode(self, batch: Batch) -> bytearray:
        if self._producer_id < 0:
            return build_batch(batch.records, codec=self._codec)
        return build_batch(
            batch.records,
            codec=self._codec,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._sequences.get(batch.partition, 0),
        )

    async def _produce(
        self, link: Link, encoded: dict[TopicPartition, bytearray]
    ) -> dict[TopicPartition, tuple[int, int] | KafkaError]:
        data = [PartitionProduceData(index=each.partition, records=batch) for each, batch in encoded.items()]
        topic = TopicProduceData(name=self._topic.name, topic_id=self._topic.topic_id, partition_data=data)
        request = ProduceRequest(
            acks=self._acks, timeout_ms=self._session.settings.request_timeout_ms, topic_data=[topic]
        )
        if self._acks == ACKS_NONE:
            link.send_unanswered(request)
            for each in encoded:
                leader = self._session.view.leader_of(each)
                if isinstance(leader, int):
                    self._unanswered.add(leader)
            return dict.fromkeys(encoded, (NO_OFFSET, -1))
        response = await link.call(request, ProduceResponse)
        answers: dict[TopicPartition, tuple[int, int] | KafkaError] = {}
        for answer in (one for topic_response in response.responses for one in topic_response.partition_responses):
            partition = TopicPartition(self._topic.name, answer.index)
            if answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                answers[partition] = (
                    NO_OFFSET,
                    -1,
                )  # an earlier attempt wrote it, so long ago that its offset is forgotten
            elif answer.error_code:
                reasons = [problem.batch_index_error_message or "" for problem in answer.record_errors]
                answers[partition] = error_for(answer.error_code, answer.error_message or "; ".join(reasons) or None)
            else:
                answers[partition] = (answer.base_offset, answer.log_append_time_ms)
        return answers

    async def _init_producer_id(self, session: Session) -> None:
        """A broker without idempotence (or that will not give us an id) gets plain batches."""
        deadline = session.deadline()
        attempt = 0
        while True:
            try:
                request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
                response = await session.call_any(request, InitProducerIdResponse)
            except KafkaError as error:
                if error.code == ErrorCode.UNSUPPORTED_VERSION:
                    return
                raise
            if not response.error_code:
                self._producer_id, self._producer_epoch = response.producer_id, response.producer_epoch
                return
            if response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                return
            refusal = error_for(response.error_code)
            if not refusal.code.retriable or not await session.pause(attempt, deadline):
                raise refusal
            attempt += 1
