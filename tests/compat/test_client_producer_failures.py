"""Brokers that die under our producer, and its transactions:
nothing lost, nothing twice, order kept, zombies fenced.
"""

import asyncio
import multiprocessing
import operator
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compat.support.broker import BrokerProcess
from compat.support.everything import read_all
from compat.support.members import until
from compat.support.quick import lasting, quick
from compat.support.topics import make_topic
from compat.support.transactional import committed_offset, read
from headwater.client import (
    AsyncProducer,
    DeliveryTimedOut,
    KafkaError,
    OpenTransaction,
    Producer,
    ProducerFenced,
    TopicPartition,
    TransactionEnder,
    TransactionFailed,
    UserError,
)

TIMEOUT_S = 60
PARTITIONS = 3
Kill = Callable[[BrokerProcess], None]


@pytest.mark.parametrize("ending", ["kill", "stop"])
def test_a_broker_that_dies_under_load_loses_and_doubles_nothing(
    broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str, ending: str
) -> None:
    broker = broker_factory(tmp_path / "broker")
    make_topic(broker.bootstrap, topic, PARTITIONS)
    ended = threading.Event()
    counts = [0] * PARTITIONS
    failed: list[BaseException] = []
    with Producer(bootstrap_servers=broker.bootstrap, batch_size=2000, linger_ms=1) as producer:

        def work(partition: int) -> None:
            try:
                while not ended.is_set():
                    delivery = producer.send(topic, b"%d" % counts[partition], partition=partition)
                    counts[partition] += 1
                    if counts[partition] % 200 == 0:
                        delivery.result(TIMEOUT_S)  # not faster than the broker
            except BaseException as error:  # noqa: BLE001 (the test tells it)
                failed.append(error)

        workers = [threading.Thread(target=work, args=(partition,)) for partition in range(PARTITIONS)]
        for worker in workers:
            worker.start()

        def all_are_at_work() -> None:
            """Each has had answers, and goes on."""
            goals = [count + 400 for count in counts]
            until(lambda: failed or all(map(operator.ge, counts, goals)), lambda: counts)

        for _ in range(lasting(2, 20)):
            all_are_at_work()
            getattr(broker, ending)()
            time.sleep(0.2)
            broker.start()
        all_are_at_work()
        ended.set()
        for worker in workers:
            worker.join()
        producer.flush(TIMEOUT_S)
        metrics = producer.metrics()
    assert not failed
    assert ending == "stop" or metrics["record-retry-total"] > 0  # a clean stop may find nothing on its way
    assert metrics["record-error-total"] == 0
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    for message in read_all(broker.bootstrap, topic, sum(counts)):
        found[message.partition()].append(int(message.value()))
    assert found == {partition: list(range(counts[partition])) for partition in range(PARTITIONS)}


def test_a_broker_that_stays_away_is_told_in_time(
    broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str
) -> None:
    broker = broker_factory(tmp_path / "broker")
    make_topic(broker.bootstrap, topic)
    settings = {"delivery.timeout.ms": 6000, "request.timeout.ms": 1000, "max.block.ms": 5000, "buffer.memory": 5000}
    with (
        Producer(bootstrap_servers=broker.bootstrap) as patient,
        Producer({"bootstrap.servers": broker.bootstrap, **settings}) as producer,
    ):
        assert patient.send(topic, b"first").result(TIMEOUT_S).offset == 0
        producer.partitions_for(topic)
        broker.kill()
        began = time.monotonic()
        with pytest.raises(KafkaError, match=r"buffer\.memory"):
            _ = [producer.send(topic, b"v" * 100) for _ in range(100)]
        assert time.monotonic() - began < 60  # the default
        assert isinstance(
            producer.send(topic, b"v").exception(TIMEOUT_S), DeliveryTimedOut
        )  # by default after two minutes
        broker.start()
        assert patient.send(topic, b"again").result(TIMEOUT_S).offset == 1


def test_transactions_over_a_restart(broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str) -> None:
    broker = broker_factory(tmp_path / "broker", **quick())
    make_topic(broker.bootstrap, topic, 2)
    with Producer(bootstrap_servers=broker.bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            for partition in range(2):
                producer.send(topic, f"{number}", partition=partition)
            if number in (1, 3):
                producer.flush()
                broker.kill()
                broker.start()
            producer.send_offsets_to_transaction({TopicPartition(topic, 0): number}, topic)
            if number % 3 == 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    for partition in range(2):
        assert read(broker.bootstrap, topic, partition) == ["0", "1", "3", "4"]
    assert committed_offset(broker.bootstrap, topic, (topic, 0)) == 4


def _send_and_fail(producer: Producer, topic: str) -> None:
    producer.send(topic, b"bad")
    producer.flush()
    raise ZeroDivisionError


def test_the_transaction_block(group_broker: BrokerProcess, group_topic: Callable[..., str]) -> None:
    topic = group_topic(1)
    with Producer(bootstrap_servers=group_broker.bootstrap, transactional_id=topic) as producer:
        with pytest.raises(UserError, match="init_transactions"):
            producer.send(topic, b"too early")
        producer.init_transactions()
        with pytest.raises(UserError, match="begin_transaction"):
            producer.send(topic, b"too early")
        with producer.transaction():
            producer.send(topic, b"good")
        with pytest.raises(ZeroDivisionError), producer.transaction():
            _send_and_fail(producer, topic)
        with producer.transaction():
            pass  # nothing in it: nothing to end
        with producer.transaction():
            producer.send(topic, b"good again")
    assert read(group_broker.bootstrap, topic) == ["good", "good again"]


def test_an_error_within_a_transaction_leaves_only_the_abort(
    group_broker: BrokerProcess, group_topic: Callable[..., str]
) -> None:
    topic = group_topic(1)
    settings = {"bootstrap.servers": group_broker.bootstrap, "transactional.id": topic, "max.request.size": 3_000_000}
    with Producer(settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"before")
        assert producer.send(topic, b"v" * 2_000_000).exception(TIMEOUT_S) is not None  # larger than the topic takes
        with pytest.raises(TransactionFailed):
            producer.send(topic, b"after")
        with pytest.raises(TransactionFailed):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(topic, b"good")
    assert read(group_broker.bootstrap, topic) == ["good"]


def test_a_fenced_producer_says_so_and_ends(group_broker: BrokerProcess, group_topic: Callable[..., str]) -> None:
    topic = group_topic(1)
    settings = {"bootstrap.servers": group_broker.bootstrap, "transactional.id": topic}
    with Producer(settings) as zombie, Producer(settings) as heir:
        zombie.init_transactions()
        zombie.begin_transaction()
        zombie.send(topic, b"of the zombie").result(TIMEOUT_S)
        heir.init_transactions()
        with pytest.raises(ProducerFenced):
            zombie.commit_transaction()
        for call in (zombie.begin_transaction, zombie.abort_transaction, lambda: zombie.send(topic, b"v")):
            with pytest.raises(ProducerFenced, match="taken over"):
                call()
        with heir.transaction():
            heir.send(topic, b"of the heir")
    assert read(group_broker.bootstrap, topic) == ["of the heir"]


def _write(bootstrap: str, topic: str, number: int, give: "multiprocessing.Queue[tuple[object, ...]]") -> None:
    """A task of a two-phase write, in a process of its own."""
    with Producer(bootstrap_servers=bootstrap, transactional_id=f"{topic}-{number}") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for record in range(5):
            producer.send(topic, f"{number}/{record}", partition=0)
        producer.send_offsets_to_transaction({TopicPartition(topic, 0): number + 1}, f"{topic}-{number}")
        give.put(tuple(producer.prepare_transaction()))


def test_transactions_are_ended_by_another_process(
    group_broker: BrokerProcess, group_topic: Callable[..., str]
) -> None:
    topic = group_topic(1)
    context = multiprocessing.get_context("spawn")
    give = context.Queue()
    writers = [context.Process(target=_write, args=(group_broker.bootstrap, topic, n, give)) for n in range(2)]
    for writer in writers:
        writer.start()
    prepared = sorted(OpenTransaction(*give.get(timeout=TIMEOUT_S)) for _ in writers)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    give.close()
    give.join_thread()
    assert read(group_broker.bootstrap, topic) == []
    with TransactionEnder(bootstrap_servers=group_broker.bootstrap) as ender:
        ender.end(prepared[0], commit=True)
        ender.end(prepared[0], commit=True)  # again, as after a crash
        with pytest.raises(KafkaError):
            ender.end(prepared[0], commit=False)
        ender.end(prepared[1], commit=False)
    assert read(group_broker.bootstrap, topic) == [f"0/{record}" for record in range(5)]
    assert committed_offset(group_broker.bootstrap, f"{topic}-0", (topic, 0)) == 1
    assert committed_offset(group_broker.bootstrap, f"{topic}-1", (topic, 0)) is None
    with Producer(bootstrap_servers=group_broker.bootstrap, transactional_id=f"{topic}-0") as heir:
        heir.init_transactions()
        with heir.transaction():
            heir.send(topic, b"of the heir", partition=0)
        with TransactionEnder(bootstrap_servers=group_broker.bootstrap) as ender, pytest.raises(KafkaError):
            ender.end(prepared[0], commit=True)


def test_an_empty_prepared_transaction_has_no_end(group_broker: BrokerProcess, group_topic: Callable[..., str]) -> None:
    topic = group_topic(1)
    with Producer(bootstrap_servers=group_broker.bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        prepared = producer.prepare_transaction()
        assert prepared.empty
        with TransactionEnder(bootstrap_servers=group_broker.bootstrap) as ender:
            ender.end(prepared, commit=True)
        producer.commit_transaction()


def test_asyncio_transactions(group_broker: BrokerProcess, group_topic: Callable[..., str]) -> None:
    topic = group_topic(1)

    async def work() -> None:
        async with AsyncProducer(bootstrap_servers=group_broker.bootstrap, transactional_id=topic) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send(topic, b"good")
                await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 3}, topic)
            with pytest.raises(ZeroDivisionError):
                await fail(producer)

    async def fail(producer: AsyncProducer) -> None:
        async with producer.transaction():
            await producer.send(topic, b"bad")
            raise ZeroDivisionError

    asyncio.run(work())
    assert read(group_broker.bootstrap, topic) == ["good"]
    assert committed_offset(group_broker.bootstrap, topic, (topic, 0)) == 3
