"""A producer's core on a cluster that is not there, and a broker that keeps logs as an idempotent one must."""

from collections.abc import Callable
from typing import Any

from headwater.base.errors import ErrorCode
from headwater.client.producer.batch import Awaited, Delivery
from headwater.client.producer.core import ProducerCore
from headwater.client.producer.face import Intake
from headwater.client.settings.producer import read_producer_settings
from headwater.records.batch import HEADER_BYTES, BatchHeader, read_header
from headwater.records.codec import read_records
from headwater.records.compression import decompress
from headwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from unit.client.reactor.fakes import CLOSE, HOLD, FakeBroker, FakeWorld, topic_id  # noqa: F401


class Face:
    """Deliveries of these tests are waited for by the world's clock."""

    def wait_for(self, awaited: Awaited, timeout: float | None) -> None:
        raise AssertionError("nothing waits here")

    def hurry(self, awaited: Awaited) -> None: ...

    def call_back(self, delivery: Delivery, callback: Callable[[Delivery], object]) -> None:
        raise AssertionError("not used here")


class Logs:
    """What the leaders wrote: values by partition. Sequences are checked as a broker does, five batches remembered."""

    def __init__(self, broker: FakeBroker) -> None:
        self.values: dict[int, list[bytes]] = {}
        self.headers: list[BatchHeader] = []
        self.next_answers: list[Any] = []  # an error code (or CLOSE, HOLD) per request to come, before it is looked at
        self.after_answers: list[Any] = []  # the same, after the batches were written
        self._known: dict[tuple[int, int], dict[tuple[int, int], int]] = {}
        self._last: dict[tuple[int, int], tuple[int, int]] = {}
        self.broker = broker
        broker.on(ProduceRequest, self.produce)
        broker.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=0))

    def produce(self, request: ProduceRequest) -> Any:
        before = self.next_answers.pop(0) if self.next_answers else 0
        if before in (CLOSE, HOLD):
            return before
        topics = []
        for topic in request.topic_data:
            answers = []
            for data in topic.partition_data:
                code, offset = (before, -1) if before else self.append(data.index, bytes(data.records or b""))
                answers.append(PartitionProduceResponse(index=data.index, error_code=code, base_offset=offset))
            topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
        after = self.after_answers.pop(0) if self.after_answers else 0
        if request.acks == 0:
            return None
        return after or ProduceResponse(responses=topics)

    def append(self, partition: int, data: bytes) -> tuple[int, int]:
        header = read_header(data)
        key = (header.producer_id, partition)
        log = self.values.setdefault(partition, [])
        if header.producer_id >= 0:
            known = self._known.setdefault(key, {})
            place = (header.producer_epoch, header.base_sequence)
            if place in known:
                return 0, known[place]
            epoch, expected = self._last.get(key, (header.producer_epoch, header.base_sequence))  # unknown: any number
            if header.producer_epoch > epoch:
                epoch, expected = header.producer_epoch, 0
            if header.base_sequence != expected:
                return int(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1
            self._last[key] = (epoch, expected + header.record_count)
            known[place] = len(log)
            while len(known) > 5:
                del known[next(iter(known))]
        self.headers.append(header)
        offset = len(log)
        payload = decompress(header.codec, memoryview(data)[HEADER_BYTES:], 1 << 30)
        log += [bytes(record.value or b"") for record in read_records(payload, header)]
        return 0, offset


class Rig:
    """A core, one broker with logs, and `put` in place of a face's send."""

    def __init__(self, partitions: int = 1, **settings: Any) -> None:
        self.world = FakeWorld()
        self.broker = self.world.broker(0)
        self.logs = Logs(self.broker)
        self.world.topic("t", partitions)
        _, chosen = read_producer_settings({"linger.ms": 0, **settings}, {})
        self.session = self.world.session(api_timeout_ms=int(chosen.max_block * 1000))
        self.core = ProducerCore(self.session, chosen, Face(), lambda: 0.5)
        self.intake = Intake(self.core, chosen)
        self.topic = self.world.run(self.core.topic("t"))

    def put(self, value: bytes, **more: Any) -> Delivery:
        given = {"key": None, "partition": 0, "headers": (), "timestamp_ms": 1, "on_delivery": None, **more}
        delivery = self.intake.put(self.topic, value, **given)
        assert delivery is not None, "there is no room"
        return delivery

    def send(self, value: bytes, **more: Any) -> Delivery:
        """A record in a batch of its own, sent at once."""
        delivery = self.put(value, **more)
        self.core.sender.flush()
        return delivery

    def flush(self) -> None:
        self.world.run(self.core.flush())

    @property
    def requests(self) -> list[ProduceRequest]:
        return self.broker.received(ProduceRequest)
