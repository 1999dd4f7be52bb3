"""Bytes that no client sends: the right error or a closed connection, and the broker goes on."""

import os
import struct
from collections.abc import Callable, Iterator

import psutil
import pytest
from crc32c import crc32c

from compat.support import raw
from compat.support.broker import BrokerProcess
from compat.support.raw import Raw, batch, fetch, make_topic, metadata, produce, produced, wait_for_topic

Connect = Callable[[], Raw]


@pytest.fixture
def connect(headwater_process: BrokerProcess) -> Iterator[Connect]:
    """New connections, all closed at the end; by then the broker must still answer."""
    connections: list[Raw] = []

    def connect() -> Raw:
        connections.append(Raw(headwater_process.bootstrap))
        return connections[-1]

    yield connect
    for connection in connections:
        connection.socket.close()
    with Raw(headwater_process.bootstrap) as after:
        assert after.call(metadata()).brokers
    assert headwater_process.alive


@pytest.fixture
def existing(connect: Connect, broker_address: str, topic: str) -> str:
    """A topic that exists, with one record."""
    make_topic(broker_address, topic)
    with connect() as connection:
        assert produced(connection.call(produce(topic, batch(b"first")))) == (0, 0)
    return topic


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", id="http"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), id="tls hello"),
        pytest.param(b"\xff" * 64, id="negative size"),
        pytest.param(bytes(64), id="size zero"),
        pytest.param(struct.pack(">i", 2**31 - 1) + b"\x00\x03\x00\x01", id="2 GiB"),
        pytest.param(struct.pack(">i", 104857601), id="one byte over socket.request.max.bytes"),
        pytest.param(struct.pack(">i", 3) + b"abc", id="shorter than a header"),
        pytest.param(struct.pack(">ihhih", 10, 3, 1, 1, 500), id="client id beyond the frame"),
        pytest.param(struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1), id="array of 2^31"),
        pytest.param(struct.pack(">ihhih", 10, 3, 9, 1, -1) + b"\x00\xff\xff\xff\xff\x0f", id="compact array of 2^32"),
        pytest.param(struct.pack(">ihhih", 10, 999, 0, 1, -1), id="unknown api"),
        pytest.param(struct.pack(">ihhih", 10, -1, 0, 1, -1), id="negative api"),
        pytest.param(struct.pack(">ihhihi", 14, 3, 99, 1, -1, 0), id="unknown version"),
        pytest.param(struct.pack(">ihhihi", 14, 3, -1, 1, -1, 0), id="negative version"),
        pytest.param(struct.pack(">i", 200) + os.urandom(200), id="noise in a frame"),
    ],
)
def test_connection_is_closed_on(connect: Connect, data: bytes) -> None:
    connection = connect()
    connection.send_bytes(data)
    assert connection.closed_by_peer()


def test_a_2_gib_prefix_costs_no_memory(connect: Connect, headwater_process: BrokerProcess) -> None:
    process = psutil.Process(headwater_process.pid)
    before = process.memory_info().rss
    for _ in range(50):
        connection = connect()
        connection.send_bytes(struct.pack(">i", 2**31 - 1) + bytes(1000))
    assert process.memory_info().rss - before < 100 << 20


def test_frames_that_claim_much_and_send_little_cost_little(
    connect: Connect, headwater_process: BrokerProcess, apache: bool
) -> None:
    if apache:
        pytest.skip("Apache Kafka allocates what the prefix claims, and runs out of memory")
    process = psutil.Process(headwater_process.pid)
    before = process.memory_info().rss
    for _ in range(20):
        connection = connect()
        connection.send_bytes(struct.pack(">i", 100_000_000) + bytes(1000))
    with connect() as other:
        assert other.call(metadata()).brokers
    assert process.memory_info().rss - before < 400 << 20


@pytest.mark.parametrize("version", [5, 6, 99, 32767])
def test_api_versions_of_an_unknown_version_is_answered_in_version_0(connect: Connect, version: int) -> None:
    connection = connect()
    rest = b"\x00\x04raw\x021\x00"  # the flexible header's tagged fields, and a body as version 3 has it
    connection.send_bytes(struct.pack(">ihhih", 10 + len(rest), 18, version, 7, -1) + rest)
    correlation_id, error, count = struct.unpack_from(">ihi", connection.receive_frame())
    assert (correlation_id, error) == (7, 35)
    assert count >= 1
    # the connection lives on: the client now asks with a version that it saw
    api_versions = raw.message("api_versions", 0, "ApiVersionsRequest")()
    response = connection.call(api_versions)
    assert response.error_code == 0
    assert (18, 0) in [(api.api_key, api.min_version) for api in response.api_keys]


def test_wrong_crc_is_corrupt_message(connect: Connect, existing: str) -> None:
    connection = connect()
    assert produced(connection.call(produce(existing, raw.with_wrong_crc(batch(b"bad")))))[0] == 2
    assert produced(connection.call(produce(existing, batch(b"good")))) == (0, 1)


@pytest.mark.parametrize(
    ("what", "errors"),
    [
        ("old magic", {87, 43, 2}),
        ("two batches", {87}),
        ("cut batch", {2, 87, 42}),
        ("length beyond the records", {2, 87, 42}),
        ("count too high", {87, 2, 42}),
        ("no records", {87, 2, 42}),
    ],
)
def test_damaged_batches_are_refused(connect: Connect, existing: str, what: str, errors: set[int]) -> None:
    good = batch(b"one", b"two")
    damaged = {
        "old magic": good[:16] + b"\x01" + good[17:],
        "two batches": good + good,
        "cut batch": good[:-3],
        "length beyond the records": good[:8] + struct.pack(">i", len(good)) + good[12:],
        "count too high": resealed(good[:57] + struct.pack(">i", 2**31 - 1) + good[61:]),
        "no records": b"",
    }[what]
    connection = connect()
    connection.send(produce(existing, damaged))
    try:
        _, response = connection.receive(produce(existing, b""))
    except ConnectionError:
        pass  # a closed connection is right, too
    else:
        assert produced(response)[0] in errors
    with connect() as other:
        assert produced(other.call(produce(existing, batch(b"good")))) == (0, 1)


def resealed(data: bytes) -> bytes:
    """With the CRC that belongs to the bytes: the damage is then in what they say."""
    return data[:17] + struct.pack(">I", crc32c(data[21:])) + data[21:]


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("config", ["cleanup.policy=compact", "compression.type=uncompressed"])
def test_garbage_inside_a_compressed_batch_is_refused_where_it_is_opened(
    connect: Connect, broker_address: str, topic: str, create_topic: Callable[..., None], codec: int, config: str
) -> None:
    """With a right CRC around it. Apache Kafka opens every batch; we do where the topic's config needs it."""
    create_topic(topic, dict([config.split("=")]))
    connection = connect()
    wait_for_topic(broker_address, topic)
    assert produced(connection.call(produce(topic, batch(b"good", key=b"k")))) == (0, 0)
    good = batch(b"x" * 1000, key=b"k", codec=codec)
    damaged = resealed(good[:61] + bytes(byte ^ 0x55 for byte in good[61:]))
    error, _ = produced(connection.call(produce(topic, damaged)))
    assert error in (2, 87, -1)
    assert produced(connection.call(produce(topic, batch(b"good", key=b"k")))) == (0, 1)


def test_a_decompression_bomb_costs_little_memory(
    connect: Connect, headwater_process: BrokerProcess, existing: str
) -> None:
    bomb = batch(bytes(300 << 20), codec=4)
    assert len(bomb) < 100_000
    process = psutil.Process(headwater_process.pid)
    before = process.memory_info().rss
    connection = connect()
    connection.socket.settimeout(30)
    connection.call(produce(existing, bomb))
    assert process.memory_info().rss - before < 200 << 20


def test_invalid_acks_and_unknown_partitions(connect: Connect, existing: str) -> None:
    connection = connect()
    assert produced(connection.call(produce(existing, batch(b"x"), acks=5)))[0] == 21
    assert produced(connection.call(produce(existing, batch(b"x"), partition=77)))[0] == 3
    assert produced(connection.call(produce(f"{existing}.none", batch(b"x"))))[0] == 3
    assert raw.fetched(connection.call(fetch(f"{existing}.none")))[0] == 3
    assert raw.fetched(connection.call(fetch(existing, 1000)))[0] == 1
    assert raw.fetched(connection.call(fetch(existing, -5)))[0] == 1
    assert raw.fetched(connection.call(fetch(existing, leader_epoch=1000)))[0] == 75


def test_acks_0_with_an_error_closes_the_connection(connect: Connect, existing: str) -> None:
    """There is no answer that could carry the error: a closed connection makes the client look again."""
    connection = connect()
    connection.send(produce(f"{existing}.none", batch(b"x"), acks=0))
    assert connection.closed_by_peer()
