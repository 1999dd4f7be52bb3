"""Our consumer against a real broker: seeking, pausing, waking, timestamps, transactions, columns, ranges, both
faces.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

import headwater
from compat.support.broker import BrokerProcess
from compat.support.topics import fill, make_topic
from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.client import (
    AsyncConsumer,
    Consumer,
    ConsumerRecord,
    NoOffsetForPartition,
    OffsetOutOfRange,
    RangeReader,
    RecordDeserializationError,
    TopicPartition,
    WakeupError,
)

TIMEOUT_S = 90


@pytest.fixture
def consume(broker_address: str) -> Iterator[Callable[..., Consumer]]:
    made: list[Consumer] = []

    def make(**settings: object) -> Consumer:
        settings.setdefault("auto_offset_reset", "earliest")
        made.append(Consumer(bootstrap_servers=broker_address, **settings))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close(5)


def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    records: list[ConsumerRecord] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(records) < count and time.monotonic() < deadline:
        records += consumer.poll(0.5)
    assert len(records) == count, f"{len(records)} of {count} came"
    return records


def transaction(bootstrap: str, topic: str, values: list[bytes], *, commit: bool, id_: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": id_})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(TIMEOUT_S)
    if commit:
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)


def test_many_partitions_each_in_order(broker_address: str, topic: str, consume: Callable[..., Consumer]) -> None:
    make_topic(broker_address, topic, 5)
    sent = fill(broker_address, topic, 5, 400)
    consumer = consume(max_partition_fetch_bytes=4000, max_poll_records=77)
    consumer.assign([TopicPartition(topic, number) for number in range(5)])
    records = read(consumer, 2000)
    assert sorted(record.value for record in records) == sorted(sent)
    for number in range(5):
        own = [record for record in records if record.partition == number]
        assert [record.offset for record in own] == list(range(400))
        assert [record.value for record in own] == [b"%d/%d" % (number, at) for at in range(400)]


def test_seek_position_and_the_ends(broker_address: str, topic: str, consume: Callable[..., Consumer]) -> None:
    make_topic(broker_address, topic)
    fill(broker_address, topic, 1, 50)
    place = TopicPartition(topic, 0)
    consumer = consume()
    consumer.assign([place])
    assert consumer.beginning_offsets([place]) == {place: 0}
    assert consumer.end_offsets([place]) == {place: 50}
    consumer.seek(place, 40)
    assert [record.offset for record in read(consumer, 10)] == list(range(40, 50))
    assert (consumer.position(place), consumer.current_lag(place)) == (50, 0)
    consumer.seek_to_beginning(place)
    assert consumer.position(place) == 0
    consumer.seek_to_end()
    assert (consumer.position(place), consumer.poll(0.3)) == (50, [])
    fill(broker_address, topic, 1, 1, 50)
    assert read(consumer, 1)[0].value == b"0/50"


def test_a_partition_that_is_taken_again_at_its_end_knows_its_lag(
    broker_address: str, topic: str, consume: Callable[..., Consumer]
) -> None:
    """Between two requests of a fetch session: the broker has told the end before, and does not tell it again. A
    standby copy of Streams waited for its lag until the next record came.
    """
    make_topic(broker_address, topic, 2)
    fill(broker_address, topic, 2, 50)
    stays, goes = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = consume()
    consumer.assign([stays, goes])
    consumer.seek_to_beginning()
    read(consumer, 100)
    for _ in range(3):
        consumer.assign([stays])
        consumer.assign([stays, goes])
        consumer.seek(goes, 50)
        assert consumer.current_lag(goes) is None
        deadline = time.monotonic() + TIMEOUT_S
        while consumer.current_lag(goes) is None:
            assert time.monotonic() < deadline, "the lag is not known"
            assert consumer.poll(0.05) == []
        assert consumer.current_lag(goes) == 0


def test_paused_partitions_rest(broker_address: str, topic: str, consume: Callable[..., Consumer]) -> None:
    make_topic(broker_address, topic, 2)
    fill(broker_address, topic, 2, 20)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = consume()
    consumer.assign([first, second])
    consumer.pause(first)
    assert consumer.paused() == [first]
    assert {record.partition for record in read(consumer, 20)} == {1}
    assert consumer.poll(0.3) == []
    consumer.resume(first)
    assert {record.partition for record in read(consumer, 20)} == {0}


def test_wakeup_from_another_thread(broker_address: str, topic: str, consume: Callable[..., Consumer]) -> None:
    make_topic(broker_address, topic)
    consumer = consume()
    consumer.assign([TopicPartition(topic, 0)])
    timer = threading.Timer(0.3, consumer.wakeup)
    timer.start()
    began = time.monotonic()
    with pytest.raises(WakeupError):
        consumer.poll(600)
    assert time.monotonic() - began < 240
    timer.join()
    fill(broker_address, topic, 1, 1)
    assert len(read(consumer, 1)) == 1


def test_one_thread_at_a_time(broker_address: str, topic: str, consume: Callable[..., Consumer]) -> None:
    make_topic(broker_address, topic)
    fill(broker_address, topic, 1, 1)
    is_polling, may_go_on = threading.Event(), threading.Event()

    def held(data: bytes) -> bytes:
        is_polling.set()
        assert may_go_on.wait(TIMEOUT_S)
        return data

    consumer = consume(value_deserializer=held)
    consumer.assign([TopicPartition(topic, 0)])
    refused: list[Exception] = []

    def disturb() -> None:
        assert is_polling.wait(TIMEOUT_S)
        try:
            consumer.poll(0)
        except UserError as error:
            refused.append(error)
        may_go_on.set()

    other = threading.Thread(target=disturb)
    other.start()
    assert len(consumer.poll(TIMEOUT_S)) == 1
    other.join()
    assert "one thread at a time" in str(refused[0])
    consumer.close()
    consumer.close()
    consumer.wakeup()
    with pytest.raises(UserError, match="closed"):
        consumer.poll(0)


def test_offsets_of_times(broker_address: str, topic: str, consume: Callable[..., Consumer]) -> None:
    make_topic(broker_address, topic)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker_address})
    for at in range(10):
        producer.produce(topic, b"x", partition=0, timestamp=1_700_000_000_000 + at * 1000)
    assert producer.flush(TIMEOUT_S) == 0
    place = TopicPartition(topic, 0)
    consumer = consume()
    found = consumer.offsets_for_times({place: 1_700_000_004_500})[place]
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (5, 1_700_000_005_000)
    assert consumer.offsets_for_times({place: 1_800_000_000_000}) == {place: None}


def test_where_to_begin(broker_address: str, topic: str, consume: Callable[..., Consumer]) -> None:
    make_topic(broker_address, topic)
    fill(broker_address, topic, 1, 5)
    place = TopicPartition(topic, 0)
    for policy, offset in (("earliest", 0), ("latest", 5), ("by_duration:PT1H", 0)):
        consumer = consume(auto_offset_reset=policy)
        consumer.assign([place])
        assert consumer.position(place) == offset
    consumer = consume(auto_offset_reset="none")
    consumer.assign([place])
    with pytest.raises(NoOffsetForPartition):
        consumer.poll(TIMEOUT_S)
    consumer.seek(place, 99)
    with pytest.raises(OffsetOutOfRange):
        consumer.poll(TIMEOUT_S)
    consumer.seek(place, 4)
    assert len(read(consumer, 1)) == 1


def test_read_committed(broker_address: str, topic: str, consume: Callable[..., Consumer]) -> None:
    make_topic(broker_address, topic)
    transaction(broker_address, topic, [b"aborted 1", b"aborted 2"], commit=False, id_=f"{topic}.1")
    transaction(broker_address, topic, [b"kept 1"], commit=True, id_=f"{topic}.2")
    transaction(broker_address, topic, [b"aborted 3"], commit=False, id_=f"{topic}.3")
    transaction(broker_address, topic, [b"kept 2"], commit=True, id_=f"{topic}.4")
    place = TopicPartition(topic, 0)
    committed, all_of_it = consume(isolation_level="read_committed"), consume()
    for consumer in (committed, all_of_it):
        consumer.assign([place])
    assert [record.value for record in read(committed, 2)] == [b"kept 1", b"kept 2"]
    assert len(read(all_of_it, 5)) == 5
    committed.seek_to_beginning()
    rows = 0
    while rows < 2:
        rows += committed.poll_arrow(TIMEOUT_S).num_rows
    assert rows == 2


def test_a_record_that_cannot_be_read_and_the_way_past_it(
    broker_address: str, topic: str, consume: Callable[..., Consumer]
) -> None:
    make_topic(broker_address, topic)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker_address})
    for value in (b"1", b"not json", b"3"):
        producer.produce(topic, value, partition=0)
    assert producer.flush(TIMEOUT_S) == 0
    consumer = consume(value_deserializer="json")
    consumer.assign([TopicPartition(topic, 0)])
    assert [record.value for record in read(consumer, 1)] == [1]
    with pytest.raises(RecordDeserializationError) as raised:
        consumer.poll(TIMEOUT_S)
    assert (raised.value.topic, raised.value.partition, raised.value.offset) == (topic, 0, 1)
    consumer.seek(raised.value.topic_partition, raised.value.offset + 1)
    assert [record.value for record in read(consumer, 1)] == [3]


def test_columns_are_what_records_are(broker_address: str, topic: str, consume: Callable[..., Consumer]) -> None:
    make_topic(broker_address, topic, 2)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker_address, "compression.type": "zstd"})
    for at in range(500):
        producer.produce(
            topic,
            None if at % 50 == 0 else b'{"number":%d}' % at,
            None if at % 7 == 0 else b"key %d" % at,
            at % 2,
            headers=[("a", b"1"), ("b", None)] if at % 3 == 0 else None,
        )
    assert producer.flush(TIMEOUT_S) == 0
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    plain, columns = consume(), consume()
    for consumer in (plain, columns):
        consumer.assign(places)
    records = sorted(read(plain, 500), key=lambda record: (record.partition, record.offset))
    rows: list[dict[str, object]] = []
    while len(rows) < 500:
        batch = columns.poll_arrow(TIMEOUT_S, max_records=120)
        assert 0 < batch.num_rows <= 120
        rows += batch.to_pylist()
    rows.sort(key=lambda row: (row["partition"], row["offset"]))
    for record, row in zip(records, rows, strict=True):
        assert (row["topic"], row["partition"], row["offset"]) == (topic, record.partition, record.offset)
        assert (row["key"], row["value"]) == (record.key, record.value)
        assert round(row["timestamp"].timestamp() * 1000) == record.timestamp_ms  # type: ignore[attr-defined]
        headers = tuple((each["key"], each["value"]) for each in row["headers"] or ())  # type: ignore[attr-defined]
        assert headers == record.headers
    columns.seek_to_beginning()
    decoded = columns.poll_arrow(TIMEOUT_S, decode={"value": "json", "key": "string"})
    first = decoded.to_pylist()[1]
    assert first["value"]["number"] == first["offset"] * 2 + first["partition"]
    assert first["key"] is None or first["key"].startswith("key ")


def test_a_range_is_exact_about_what_holds_no_records(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic)
    transaction(broker_address, topic, [b"aborted"] * 3, commit=False, id_=f"{topic}.1")  # 0-2, marker at 3
    transaction(broker_address, topic, [b"kept"] * 3, commit=True, id_=f"{topic}.2")  # 4-6, marker at 7
    place = TopicPartition(topic, 0)
    with RangeReader(bootstrap_servers=broker_address) as reader:
        end = reader.ends([place], earliest=False)[place]
        assert end == 8

        def offsets(start: int, stop: int) -> list[int]:
            return [offset for batch in reader.read_range(place, start, stop) for offset in batch["offset"].to_pylist()]

        assert offsets(0, end) == [4, 5, 6]
        assert offsets(0, 3) == []
        assert offsets(5, 6) == [5]
        assert offsets(5, 5) == []
        assert offsets(7, 8) == []
        assert [record.offset for record in reader.records(place, 0, 5)] == [4]
        with pytest.raises(KafkaError) as raised:
            offsets(90, 95)
        assert raised.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        with pytest.raises(KafkaError) as raised:
            list(reader.read_range(TopicPartition(f"{topic}.none", 0), 0, 5))
        assert raised.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert offsets(0, end) == [4, 5, 6]  # the reader can be used further


def test_what_retention_has_taken_is_an_error_or_skipped(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic)
    fill(broker_address, topic, 1, 10)
    admin = AdminClient({"bootstrap.servers": broker_address})
    for future in admin.delete_records([confluent_kafka.TopicPartition(topic, 0, 5)]).values():
        future.result(TIMEOUT_S)
    place = TopicPartition(topic, 0)
    with RangeReader(bootstrap_servers=broker_address) as reader:
        with pytest.raises(OffsetOutOfRange):
            list(reader.read_range(place, 0, 10))
        assert [record.offset for record in reader.records(place, 0, 8, lost="skip")] == [5, 6, 7]
        assert list(reader.records(place, 0, 3, lost="skip")) == []


def test_a_topic_that_is_deleted_and_made_again_is_read_from_its_beginning(
    broker_address: str, topic: str, consume: Callable[..., Consumer]
) -> None:
    make_topic(broker_address, topic)
    fill(broker_address, topic, 1, 10)
    consumer = consume(allow_auto_create_topics=False)
    consumer.assign([TopicPartition(topic, 0)])
    read(consumer, 10)
    admin = AdminClient({"bootstrap.servers": broker_address})
    admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    assert consumer.poll(0.5) == []
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            make_topic(broker_address, topic)
            break
        except confluent_kafka.KafkaException:  # the deletion is not over yet
            assert time.monotonic() < deadline
            time.sleep(0.1)
    fill(broker_address, topic, 1, 3)
    assert [record.offset for record in read(consumer, 3)] == [0, 1, 2]


def test_a_topic_as_a_frame_in_one_line(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic, 3)
    fill(broker_address, topic, 3, 100)
    frame = headwater.read(topic, last="1h", bootstrap_servers=broker_address, columns=["partition", "offset", "value"])
    assert len(frame) == 300
    assert set(frame.to_pandas()["partition"]) == {0, 1, 2}
    assert set(frame.to_polars()["partition"]) == {0, 1, 2}
    assert "300 records" in frame._repr_html_()
    assert len(headwater.read(topic, last=10, partitions=[1], bootstrap_servers=broker_address)) == 10
    assert len(headwater.read(topic, start={0: 95, 1: 100, 2: 99}, bootstrap_servers=broker_address)) == 6
    assert len(headwater.read(topic, end=1, bootstrap_servers=broker_address)) == 3
    assert len(headwater.read(topic, from_="2001-01-01", until="2002-01-01", bootstrap_servers=broker_address)) == 0
    with headwater.read(topic, bootstrap_servers=broker_address) as whole:
        assert sum(batch.num_rows for batch in whole) == 300


def test_the_asyncio_consumer(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic)
    fill(broker_address, topic, 1, 30)
    place = TopicPartition(topic, 0)

    async def main() -> list[int]:
        offsets: list[int] = []
        async with AsyncConsumer(bootstrap_servers=broker_address, auto_offset_reset="earliest") as consumer:
            consumer.assign([place])
            ticks = asyncio.create_task(asyncio.sleep(0.01))
            async for record in consumer:
                offsets.append(record.offset)
                if len(offsets) == 20:
                    break
            await ticks
            assert await consumer.position(place) == 20
            offsets += [record.offset for record in await consumer.poll(TIMEOUT_S)]
            assert (await consumer.poll_arrow(0.1)).num_rows == 0
            loop = asyncio.get_running_loop()
            loop.call_later(0.2, consumer.wakeup)
            with pytest.raises(WakeupError):
                await consumer.poll(TIMEOUT_S)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(consumer.poll(TIMEOUT_S), 0.2)
            assert await consumer.end_offsets([place]) == {place: 30}
        return offsets

    assert asyncio.run(main()) == list(range(30))


def test_what_there_is(broker_address: str, topic: str, consume: Callable[..., Consumer]) -> None:
    make_topic(broker_address, topic, 4)
    consumer = consume(allow_auto_create_topics=False)
    assert topic in consumer.list_topics()
    assert [each.partition for each in consumer.partitions_for(topic)] == [0, 1, 2, 3]
    assert consumer.partitions_for(f"{topic}.none") == []


def test_reading_goes_on_after_a_crash_of_the_broker(
    broker_factory: Callable[..., BrokerProcess], tmp_path: object, topic: str
) -> None:
    broker = broker_factory(tmp_path)
    make_topic(broker.bootstrap, topic, 2)
    sent = fill(broker.bootstrap, topic, 2, 3000)
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    with Consumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", max_partition_fetch_bytes=5000
    ) as consumer:
        consumer.assign(places)
        records: list[ConsumerRecord] = []
        while len(records) < 1000:
            records += consumer.poll(5)
        broker.kill()
        for _ in range(3):
            records += consumer.poll(0.1)
        broker.start()
        deadline = time.monotonic() + 60
        while len(records) < len(sent) and time.monotonic() < deadline:
            records += consumer.poll(0.5)
        more = fill(broker.bootstrap, topic, 2, 10, 3000)
        while len(records) < len(sent) + len(more) and time.monotonic() < deadline:
            records += consumer.poll(0.5)
    assert [record.offset for record in records if record.partition == 0] == list(range(3010))
    assert sorted(record.value for record in records) == sorted(sent + more)


@pytest.mark.parametrize("columns", [False, True])
def test_ctrl_c_within_a_poll_loses_nothing(group_broker: BrokerProcess, topic: str, columns: bool) -> None:
    """What the poll had taken and not given is neither committed by close nor left out by the next poll."""
    make_topic(group_broker.bootstrap, topic)
    fill(group_broker.bootstrap, topic, 1, 20)
    place = TopicPartition(topic, 0)
    armed = [True]

    def interrupt(data: object) -> object:
        if armed and (columns or data == b"0/13"):
            armed.clear()
            raise KeyboardInterrupt
        return data

    def poll(consumer: Consumer) -> int:
        if columns:
            return int(consumer.poll_arrow(TIMEOUT_S, decode={"value": interrupt}).num_rows)  # type: ignore[dict-item]
        return len(consumer.poll(TIMEOUT_S, max_records=10))

    with Consumer(
        bootstrap_servers=group_broker.bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        value_deserializer=None if columns else interrupt,
    ) as consumer:
        consumer.subscribe([topic])
        given = 0 if columns else poll(consumer)
        with pytest.raises(KeyboardInterrupt):
            poll(consumer)
        assert given < 13
        assert consumer.position(place) == given
        consumer.commit()
        assert consumer.committed(place)[place].offset == given  # type: ignore[union-attr]
        assert [record.offset for record in read(consumer, 20 - given)] == list(range(given, 20))


def test_cancelling_a_poll_does_not_cut_a_listener_short(group_broker: BrokerProcess, topic: str) -> None:
    """`asyncio.wait_for(consumer.poll(), ...)`: positions that a listener looks up elsewhere would not count
    otherwise.
    """
    make_topic(group_broker.bootstrap, topic)
    fill(group_broker.bootstrap, topic, 1, 20)

    async def run() -> list[int]:
        async with AsyncConsumer(
            bootstrap_servers=group_broker.bootstrap, group_id=topic, auto_offset_reset="earliest"
        ) as consumer:
            began, may_go_on = asyncio.Event(), asyncio.Event()

            async def assigned(partitions: list[TopicPartition]) -> None:
                began.set()
                await may_go_on.wait()
                consumer.seek(partitions[0], 15)

            consumer.subscribe([topic], on_assigned=assigned)
            polling = asyncio.ensure_future(consumer.poll(TIMEOUT_S))
            await asyncio.wait_for(began.wait(), TIMEOUT_S)
            polling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await polling
            asyncio.get_running_loop().call_later(0.1, may_go_on.set)
            return [record.offset for record in await consumer.poll(TIMEOUT_S)]

    assert asyncio.run(run()) == list(range(15, 20))
