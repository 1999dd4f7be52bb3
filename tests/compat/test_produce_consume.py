"""The client matrix: what a client writes, it and the others read, by `assign`."""

import threading
import time
from collections.abc import Callable

import pytest

from compat.support.clients import CLIENTS, CODECS, Client, ClientError, Message, Received, Start, content

TEXT = [Message(value=f"value {number} {'x' * 100}".encode(), key=f"key {number}".encode()) for number in range(50)]
TOO_LARGE = 10  # MESSAGE_TOO_LARGE


def _contents(received: list[Received]) -> list[tuple[object, ...]]:
    return [record.content for record in received]


@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_every_codec_of_every_client(
    broker_address: str, topic: str, codec: str, client_named: Callable[[str], Client]
) -> None:
    expected = []
    for name in sorted(CLIENTS):
        messages = [Message(value=f"{name} {codec} {n} {'y' * 200}".encode(), key=name.encode()) for n in range(20)]
        offsets = client_named(name).produce(broker_address, topic, messages, codec=codec)
        assert offsets in ([], list(range(len(expected), len(expected) + 20)))
        expected += [content(message) for message in messages]
    for name in sorted(CLIENTS):
        received = client_named(name).consume(broker_address, topic, len(expected))
        assert _contents(received) == expected, name
        assert [record.offset for record in received] == list(range(len(expected)))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(client: Client, broker_address: str, topic: str, acks: str) -> None:
    offsets = client.produce(broker_address, topic, TEXT, acks=acks)
    if acks != "0" and offsets:
        assert offsets == list(range(len(TEXT)))
    assert _contents(client.consume(broker_address, topic, len(TEXT))) == [content(message) for message in TEXT]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_idempotent_producer(client: Client, broker_address: str, topic: str, codec: str) -> None:
    client.produce(broker_address, topic, TEXT, idempotent=True, codec=codec)
    client.produce(broker_address, topic, TEXT, idempotent=True, codec=codec)  # another producer id
    received = client.consume(broker_address, topic, 2 * len(TEXT), committed=True)
    assert _contents(received) == [content(message) for message in TEXT] * 2
    assert client.positions(broker_address, topic) == (0, 2 * len(TEXT))


def test_keys_headers_nulls_and_empty_values(client: Client, broker_address: str, topic: str) -> None:
    headers: tuple[tuple[str, bytes | None], ...] = (("first", b"1"), ("second", b""), ("first", b"again"))
    messages = [
        Message(value=b"plain"),
        Message(value=b"with a key", key=b"key"),
        Message(value=None, key=b"tombstone"),
        Message(value=b"", key=b"empty value"),
        Message(value=b"with headers", key=b"k", headers=headers),
        Message(value="Quellflüsse und 水源".encode(), key="schlüssel".encode()),
    ]
    if client.name != "kcat":  # it drops empty lines
        messages.append(Message(value=b"", key=None))
    if client.null_header_values:
        messages.append(Message(value=b"null in a header", headers=(("nothing", None),)))
    client.produce(broker_address, topic, messages)
    received = client.consume(broker_address, topic, len(messages))
    assert _contents(received) == [content(message) for message in messages]


def test_bytes_of_every_value(client: Client, broker_address: str, topic: str) -> None:
    if client.name == "kcat":
        messages = [Message(value=bytes(range(0x20, 0x7F)), key=b"printable")]
    else:
        messages = [Message(value=bytes(range(256)) * 10, key=bytes(range(256)))]
    client.produce(broker_address, topic, messages, codec="lz4")
    assert _contents(client.consume(broker_address, topic, 1)) == [content(messages[0])]


def test_create_time_is_the_clients(client: Client, broker_address: str, topic: str) -> None:
    before = int(time.time() * 1000) - 1000
    times = [before - 86_400_000, before, before - 5] if client.sets_timestamps else [None] * 3
    client.produce(broker_address, topic, [Message(value=b"v", timestamp=timestamp) for timestamp in times])
    received = client.consume(broker_address, topic, 3)
    assert all(record.create for record in received)
    if client.sets_timestamps:
        assert [record.timestamp for record in received] == times
    else:
        assert all(before < record.timestamp < before + 60_000 for record in received)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_log_append_time_is_the_brokers(
    client: Client, broker_address: str, topic: str, codec: str, create_topic: Callable[..., None]
) -> None:
    create_topic(topic, {"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    sent = 1_000_000_000_000 if client.sets_timestamps else None
    client.produce(broker_address, topic, [Message(value=b"v", timestamp=sent)] * 3, codec=codec)
    received = client.consume(broker_address, topic, 3)
    assert not any(record.create for record in received)
    assert all(before <= record.timestamp <= int(time.time() * 1000) for record in received)


def test_from_offset_beginning_tail_and_end(client: Client, broker_address: str, topic: str) -> None:
    client.produce(broker_address, topic, TEXT, codec="snappy")
    last = len(TEXT) - 1
    assert client.consume(broker_address, topic, 1)[0].offset == 0
    # the middle of a compressed batch: the client drops what lies before
    assert client.consume(broker_address, topic, 1, start=Start("offset", 17))[0].offset == 17
    assert [record.offset for record in client.consume(broker_address, topic, 3, start=Start("tail", 3))] == [
        last - 2,
        last - 1,
        last,
    ]
    assert client.positions(broker_address, topic) == (0, len(TEXT))


def test_from_a_timestamp(
    client: Client, broker_address: str, topic: str, client_named: Callable[[str], Client]
) -> None:
    base = 1_700_000_000_000
    for start in range(0, 50, 10):  # several batches, so that the time lies within, at and between them
        messages = [Message(value=b"%d" % n, timestamp=base + n * 1000) for n in range(start, start + 10)]
        client_named("confluent").produce(broker_address, topic, messages, codec="lz4")
    for wanted, expected in [
        (base, 0),
        (base + 17_000, 17),
        (base + 17_001, 18),
        (base + 30_000, 30),
        (base + 49_000, 49),
    ]:
        received = client.consume(broker_address, topic, 1, start=Start("timestamp", wanted))
        assert (received[0].offset, received[0].timestamp) == (expected, base + expected * 1000)


def test_a_waiting_consumer_gets_the_record_at_once(client: Client, broker_address: str, topic: str) -> None:
    client.produce(broker_address, topic, [Message(value=b"before")])
    received: list[Received] = []
    errors: list[BaseException] = []

    def read() -> None:
        try:
            received.extend(client.consume(broker_address, topic, 1, start=Start("offset", 1)))
        except BaseException as error:  # noqa: BLE001 - told to the test, which fails
            errors.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(0.7)  # the fetch is parked by now; if not, the test still holds
    CLIENTS["confluent"](None).produce(broker_address, topic, [Message(value=b"after")])
    reader.join(120)
    assert not reader.is_alive()
    assert not errors
    assert [(record.offset, record.value) for record in received] == [(1, b"after")]


@pytest.mark.parametrize("name", ["aiokafka", "confluent", "java", "kafka-python"])  # kcat waits, whatever is set
def test_out_of_range_offset_is_an_error(
    name: str, broker_address: str, topic: str, client_named: Callable[[str], Client]
) -> None:
    client = client_named(name)
    client.produce(broker_address, topic, [Message(value=b"only one")])
    with pytest.raises(ClientError) as raised:
        client.consume(broker_address, topic, 1, start=Start("offset", 1000))
    assert "range" in str(raised.value).lower() or "reset" in str(raised.value).lower()


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_one_megabyte_message(client: Client, broker_address: str, topic: str, codec: str) -> None:
    value = (b"0123456789abcdef" * 65536)[: 1_000_000 - 1000]
    client.produce(
        broker_address, topic, [Message(value=value, key=b"large")], codec=codec, max_request_bytes=2_000_000
    )
    received = client.consume(broker_address, topic, 1)
    assert _contents(received) == [(b"large", value, ())]


def test_too_large_message_gets_the_right_error(client: Client, broker_address: str, topic: str) -> None:
    client.produce(broker_address, topic, [Message(value=b"fits")])
    with pytest.raises(ClientError) as raised:
        client.produce(broker_address, topic, [Message(value=b"z" * 1_100_000)], max_request_bytes=2_000_000)
    assert raised.value.code == TOO_LARGE or "too large" in str(raised.value)
    client.produce(broker_address, topic, [Message(value=b"fits again")])
    received = client.consume(broker_address, topic, 2)
    assert [(record.offset, record.value) for record in received] == [(0, b"fits"), (1, b"fits again")]


def test_partitions_keep_to_themselves(
    client: Client, broker_address: str, topic: str, create_topic: Callable[..., None]
) -> None:
    create_topic(topic, partitions=3)
    for partition in range(3):
        messages = [Message(value=b"%d" % partition)] * (partition + 1)
        client.produce(broker_address, topic, messages, partition=partition)
    for partition in range(3):
        received = client.consume(broker_address, topic, partition + 1, partition=partition)
        assert [record.value for record in received] == [b"%d" % partition] * (partition + 1)
        assert client.positions(broker_address, topic, partition) == (0, partition + 1)


def test_keys_choose_partitions(
    client: Client, broker_address: str, topic: str, create_topic: Callable[..., None]
) -> None:
    create_topic(topic, partitions=4)
    client.produce(broker_address, topic, TEXT, partition=None)
    ends = [client.positions(broker_address, topic, partition).end for partition in range(4)]
    assert sum(ends) == len(TEXT)
    assert all(ends)


def test_offset_and_epoch_are_validated_against_the_leader(
    broker_address: str, topic: str, client_named: Callable[[str], Client]
) -> None:
    """A position with a leader epoch makes these clients ask OffsetForLeaderEpoch before they fetch."""
    for name in ("java", "confluent"):
        client = client_named(name)
        client.produce(broker_address, topic, TEXT)
        epoch = client.consume(broker_address, topic, 1)[0].leader_epoch
        assert epoch is not None
        assert epoch >= 0
        received = client.consume(broker_address, topic, 5, start=Start("offset", 10, epoch))
        assert received[0].offset == 10
