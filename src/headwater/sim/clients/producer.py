"""Producers: idempotent ones that send up to five batches at once and again until each is acknowledged, and plain ones.

What a broker's answer means for a batch is decided in `_settle`. A batch whose fate cannot be known any more is given
up: its values may stand in the log once or not at all, and are never sent again.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.sim.catalog import Topic
from headwater.sim.clients.client import Ask, Script, SimClient, Steps
from headwater.sim.history import key_of
from headwater.sim.trace import Violation
from headwater.wire.messages.init_producer_id import InitProducerIdRequest
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

if TYPE_CHECKING:
    from headwater.sim.stage import Stage

_FIRST_TOPIC_ID: Final = 13
_RETRIABLE: Final = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.INVALID_TIMESTAMP,  # the clocks are apart; every attempt has a new timestamp
)
_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class Batch:
    def __init__(self, topic: Topic, index: int, values: list[bytes], codec: int, sequence: int = -1) -> None:
        self.topic = topic
        self.index = index
        self.values = values
        self.codec = codec
        self.sequence = sequence
        self.is_settled = False

    @property
    def key(self) -> tuple[bytes, int]:
        return self.topic.topic_id, self.index


class Producer(SimClient):
    """What both kinds do."""

    _producer_id = -1
    _made = 0

    def _values(self, topic: Topic, index: int) -> list[bytes]:
        values = []
        for _ in range(self.random.randint(1, 4)):
            self._made += 1
            value = b"%s:%d:" % (self.name.encode(), self._made) + b"x" * self.random.choice((0, 5, 60, 200))
            topic.partitions[index].sent(value)
            values.append(value)
        return values

    def _codec(self) -> int:
        return self.random.choice((0, 0, 0, 1, 4))

    def _ask(self, batches: Sequence[Batch], acks: int, timeout_ms: int) -> Ask:
        """One request with batches of different partitions."""
        by_name = all(batch.topic.may_be_named for batch in batches)
        version = self.version(ProduceRequest.KEY, 3 if by_name else _FIRST_TOPIC_ID)
        topics: dict[bytes, TopicProduceData] = {}
        for batch in batches:
            topic = batch.topic
            data = topics.setdefault(
                topic.topic_id, TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=[])
            )
            data.partition_data.append(PartitionProduceData(index=batch.index, records=self._encoded(batch)))
        request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=list(topics.values()))
        return Ask(request, version, wants_answer=acks != 0)

    def _encoded(self, batch: Batch) -> bytearray:
        now_ms = self.world.clock.now_ms()
        has_keys = batch.topic.partitions[batch.index].has_gaps
        records = [
            Record(at, now_ms, key_of(value) if has_keys else None, value) for at, value in enumerate(batch.values)
        ]
        if batch.sequence < 0:
            return build_batch(records, codec=batch.codec)
        return build_batch(
            records,
            codec=batch.codec,
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=batch.sequence,
        )


class PlainProducer(Producer):
    """No retries, any acks: values that are lost, or stand in the log once."""

    def script(self) -> Script:
        while not self.is_stopping:
            batches = [
                Batch(topic, index, self._values(topic, index), self._codec())
                for topic, index in self.some_partitions(2)
            ]
            acks = self.random.choice((0, 1, -1))
            if not batches:
                yield from self.metadata()
            else:
                (answer,) = yield [self._ask(batches, acks, 1500)]
                if acks == -1 and isinstance(answer, ProduceResponse):
                    self._note(batches, answer)
            yield self.random.randint(20, 600)

    def _note(self, batches: Sequence[Batch], answer: ProduceResponse) -> None:
        answers = [part for topic in answer.responses for part in topic.partition_responses]
        for batch, part in zip(_in_order(batches), answers, strict=True):
            if part.error_code == 0:
                batch.topic.partitions[batch.index].acknowledged(part.base_offset, batch.values)


class IdempotentProducer(Producer):
    def __init__(self, world: "Stage", name: str) -> None:
        super().__init__(world, name)
        self._sequences: dict[tuple[bytes, int], int] = {}
        self._losses: dict[tuple[bytes, int], int] = {}  # of a partition when this producer id first wrote to it

    def script(self) -> Script:
        while not self.is_stopping:
            if self._producer_id < 0:
                yield from self._init()
            partitions = self.some_partitions(2)
            if not partitions:
                yield from self.metadata()
            elif self._producer_id >= 0:
                yield from self._deliver([self._batch(partitions) for _ in range(self.random.randint(1, 5))])
            yield self.random.randint(10, 400)

    def _init(self) -> Steps:
        (answer,) = yield [Ask(InitProducerIdRequest(transaction_timeout_ms=1000), self.version(22))]
        if answer is not None and answer.error_code == 0:
            self.world.new_producer_id(answer.producer_id)
            self._producer_id = answer.producer_id
            self._sequences = {}
            self._losses = {}

    def _batch(self, partitions: Sequence[tuple[Topic, int]]) -> Batch:
        topic, index = self.random.choice(partitions)
        sequence = self._sequences.get((topic.topic_id, index), 0)
        batch = Batch(topic, index, self._values(topic, index), self._codec(), sequence)
        self._sequences[batch.key] = sequence + len(batch.values)
        self._losses.setdefault(batch.key, topic.partitions[index].losses)
        return batch

    def _deliver(self, batches: list[Batch]) -> Steps:
        """Sends them all, and those that are left again, in order, until none is."""
        lives = self.world.lives()
        keys = [batch.key for batch in batches]
        new = {batch.key for batch in batches if batch.sequence == 0}
        together = self.random.random() < 0.3 and len({batch.key for batch in batches}) == len(batches)
        while batches and self._producer_id >= 0:
            timeout_ms = self.random.choice((100, 1000, 5000))
            groups = [list(batches)] if together else [[batch] for batch in batches]
            answers = yield [self._ask(group, -1, timeout_ms) for group in groups]
            for group, answer in zip(groups, answers, strict=True):
                if isinstance(answer, ProduceResponse):
                    parts = [part for topic in answer.responses for part in topic.partition_responses]
                    for batch, part in zip(_in_order(group), parts, strict=True):
                        several = keys.count(batch.key) > 1 and (self.world.lives() > lives or batch.key in new)
                        self._settle(batches, batch, part.error_code, part.base_offset, several)
            batches = [batch for batch in batches if not batch.is_settled]
            if batches:
                yield self.random.randint(1, 200)

    def _settle(
        self, batches: Sequence[Batch], batch: Batch, code: int, base_offset: int, may_be_forgotten: bool
    ) -> None:
        history = batch.topic.partitions[batch.index]
        if code == 0:
            batch.is_settled = True
            history.acknowledged(base_offset, batch.values)
        elif batch.is_settled:
            return  # given up with another one
        elif code in _UNKNOWN and batch.topic.delete_asked:
            batch.is_settled = True
        elif code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            before = [b for b in batches if b.key == batch.key and b.sequence < batch.sequence and not b.is_settled]
            if before:
                return
            # As in Apache Kafka: a snapshot holds a producer's last batch only, so after a restart an older one is not
            # known again; and a producer that is not known may begin anywhere, so of its first batches the second may
            # be taken where the first was refused. And a power loss may have taken what this batch follows on.
            may_be_lost = history.may_lose or (history.losses > self._losses[batch.key] and not history.is_durable)
            if not may_be_forgotten and not may_be_lost:
                raise Violation(f"{self.name} was refused a batch for {history.name} that follows on")
            self._give_up(batches)
        elif not self.may_retry(code):
            raise Violation(f"{self.name} got {ErrorCode(code).name} from {history.name}")

    def may_retry(self, code: int) -> bool:
        return code in _RETRIABLE

    def _give_up(self, batches: Sequence[Batch]) -> None:
        """A new producer id, and what has no answer yet is never sent again."""
        self._producer_id = -1
        for batch in batches:
            batch.is_settled = True


def _in_order(batches: Sequence[Batch]) -> list[Batch]:
    """As the request had them: by topic, in the order in which the topics came."""
    by_topic: dict[bytes, list[Batch]] = {}
    for batch in batches:
        by_topic.setdefault(batch.topic.topic_id, []).append(batch)
    return [batch for group in by_topic.values() for batch in group]
