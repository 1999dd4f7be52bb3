"""Deliveries that several threads look at, and records that come while something else is under way."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, UserError
from headwater.client.producer.aio import AsyncProducer
from headwater.client.producer.arrow import TableDelivery
from headwater.client.producer.batch import Delivery
from headwater.client.producer.producer import Producer
from headwater.client.producer.types import ProducerClosed
from headwater.client.reactor.kernel import Future
from headwater.records.columns import Section
from headwater.records.pure.appending import BatchAppender
from unit.client.producer.producer_fakes import HOLD, Face, Rig
from unit.client.producer.transaction_fakes import Coordinated


def _section(value: bytes) -> Section:
    appender = BatchAppender(1000)
    appender.append(1, None, value)
    return appender.section(0)


class Interrupted(list[Any]):
    """Parts of a batch; another thread comes in between when they are looked through."""

    def __init__(self, parts: list[Any], other: Callable[[], object]) -> None:
        super().__init__(parts)
        self._other: Callable[[], object] | None = other

    def __reversed__(self) -> Iterator[Any]:
        for part in super().__reversed__():
            other, self._other = self._other, None
            if other is not None:
                other()
            yield part


def test_two_threads_that_follow_a_record_into_the_parts_of_its_batch_find_the_same() -> None:
    rig = Rig()
    rig.logs.next_answers = [ErrorCode.MESSAGE_TOO_LARGE]
    deliveries = [rig.put(b"%d" % number) for number in range(10)]
    batch = deliveries[0].current()
    rig.flush()
    assert batch.parts is not None
    for each, delivery in enumerate(deliveries):
        batch.parts = Interrupted(batch.parts, delivery.current)
        assert delivery.metadata().offset == each


class Looked:
    """A batch of a table. Another thread comes in between when it is looked at."""

    parts = None
    count = 1
    error = None

    def __init__(self, *, done: bool) -> None:
        self._done = done
        self.other: Callable[[], object] | None = None

    @property
    def done(self) -> bool:
        other, self.other = self.other, None
        if other is not None:
            other()
        return self._done


def test_a_table_is_not_done_because_two_threads_looked_at_once() -> None:
    table = TableDelivery("t", Face())
    batches: list[Any] = [Looked(done=True), Looked(done=False)]
    table.add(batches)
    batches[0].other = table.pending
    assert table.pending() is batches[1]
    assert not table.done()


def test_a_table_waits_for_what_was_given_up_and_is_on_the_wire_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is not free before it is answered. The wait for that was none: it went round for ever."""
    rig = Rig(**{"delivery.timeout.ms": 31_000, "buffer.memory": 100})
    rig.send(b"first")
    rig.flush()
    rig.world.pass_time(1)
    rig.logs.next_answers = [HOLD]
    rig.send(b"late")
    rig.core.sender.wake()
    rig.world.pass_time(10)
    rig.core.accumulator.oldest_incomplete().created_at -= 30  # type: ignore[union-attr]
    rig.core.sender.answers.expire()
    assert rig.core.accumulator.used_bytes
    looks = 0
    oldest = rig.core.accumulator.oldest_incomplete

    def look() -> Any:
        nonlocal looks
        looks += 1
        assert looks < 100, "it goes round and round"
        return oldest()

    monkeypatch.setattr(rig.core.accumulator, "oldest_incomplete", look)
    rig.world.run(rig.core.room_for(80))
    assert rig.core.accumulator.used_bytes == 0


@pytest.mark.parametrize("new", [True, False])
def test_a_record_whose_serializer_takes_longer_than_the_commit_is_not_in_the_next_transaction(*, new: bool) -> None:
    """The serializer asked a registry, say, while another thread committed."""
    during: list[Callable[[], None]] = []

    def serialize(value: bytes) -> bytes:
        if during:
            during.pop()()
        return value

    rig = Coordinated(new=new, **{"value.serializer": serialize})
    rig.init()
    rig.transactions.begin()
    rig.send(b"first")
    during.append(rig.commit)
    with pytest.raises(UserError, match="No transaction is open"):
        rig.put(b"late")
    rig.transactions.begin()
    rig.send(b"next")
    rig.commit()
    assert rig.logs.values[0] == [b"first", b"next"]


def test_a_record_that_comes_after_all_when_the_producer_is_closed_is_refused() -> None:
    """Nobody would ever have told its callback."""
    during: list[Callable[[], Any]] = []

    def serialize(value: bytes) -> bytes:
        if during:
            during.pop()()
        return value

    rig = Rig(**{"value.serializer": serialize})
    during.append(lambda: rig.world.run(rig.core.close(1)))
    with pytest.raises(ProducerClosed):
        rig.put(b"late")
    assert rig.core.accumulator.used_bytes == 0


def test_a_table_whose_slice_waited_for_room_over_the_end_of_its_transaction_is_refused() -> None:
    rig = Coordinated(new=True)
    rig.init()
    rig.transactions.begin()
    rig.commit()
    with pytest.raises(UserError, match="No transaction is open"):
        rig.core.add_sections(rig.topic, [_section(b"late")])
    rig.transactions.begin()
    (batch,) = rig.core.add_sections(rig.topic, [_section(b"next")])
    rig.commit()
    assert batch.done
    assert rig.logs.values[0] == [b"next"]


def _producer() -> Producer:
    return Producer({"bootstrap.servers": "localhost:1"})


def test_a_producer_whose_callback_tried_to_close_it_can_be_closed() -> None:
    """The refused call counted as the one that closes, and the next one did nothing."""
    producer = _producer()
    refused: list[str] = []

    def callback(_: object) -> None:
        with pytest.raises(UserError, match="cannot close") as raised:
            producer.close()
        refused.append(raised.value.what)

    producer._engine.submit(lambda: producer._answers._call_back([(None, callback)]))  # type: ignore[list-item]
    assert refused
    producer.close()
    assert producer._core.closed


def test_a_thread_that_closes_a_producer_while_another_does_waits_as_well() -> None:
    """It went on, and ended the process, say, with records under way."""
    producer = _producer()
    entered, sent = threading.Event(), Future[None]()

    async def close(_: float | None) -> None:
        entered.set()
        await sent

    producer._core.close = close  # type: ignore[method-assign]
    threads = [threading.Thread(target=producer.close) for _ in range(2)]
    threads[0].start()
    assert entered.wait(60)
    threads[1].start()
    threads[1].join(0.05)
    assert threads[1].is_alive()
    producer._engine.submit(lambda: sent.resolve(None))
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_a_task_that_closes_a_producer_while_another_does_waits_as_well() -> None:
    async def play() -> None:
        producer = AsyncProducer({"bootstrap.servers": "localhost:1"})
        async with producer:
            sent = Future[None]()

            async def close(_: float | None) -> None:
                await sent

            producer._core.close = close  # type: ignore[method-assign]
            closing = [asyncio.ensure_future(producer.close()) for _ in range(2)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not any(each.done() for each in closing)
            producer._begin().submit(lambda: sent.resolve(None))
            await asyncio.wait_for(asyncio.gather(*closing), 60)

    asyncio.run(play())


def test_a_delivery_that_is_done_when_the_producer_closes_tells_how() -> None:
    """Between the look at it and the wait for it another thread had closed the producer."""
    producer, rig = _producer(), Rig()
    delivery = rig.send(b"v")
    rig.flush()
    producer.close()
    producer.wait_for(delivery, None)
    assert isinstance(delivery, Delivery)
