"""Connections that stop half-way, hang, die or pipeline: each harms itself only, and answers keep their order."""

import time
from typing import Any

from compat.support import raw
from compat.support.broker import BrokerProcess
from compat.support.raw import Raw, batch, fetch, fetched, make_topic, metadata, produce, produced

PROBE, PARKED = 7001, 7002  # correlation ids


def _make_topic(bootstrap: str, topic: str) -> None:
    make_topic(bootstrap, topic)
    with Raw(bootstrap) as connection:
        assert produced(connection.call(produce(topic, batch(b"first")))) == (0, 0)


def _park(connection: Raw, waiting: Any) -> int:
    """Sends a request that waits behind one that is answered at once, in one piece: the broker begins both before it
    turns to another connection, so with that answer this one is parked (Apache Kafka begins it a little later).
    """
    connection.send_bytes(raw.frame(metadata(), PROBE) + raw.frame(waiting, PARKED))
    assert connection.receive(metadata())[0] == PROBE
    return PARKED


def test_frames_cut_at_every_byte_are_put_together(broker_address: str) -> None:
    data = raw.frame(metadata(), 5)
    with Raw(broker_address) as connection:
        for at in range(len(data)):
            connection.send_bytes(data[at : at + 1])
        correlation_id, response = connection.receive(metadata())
        assert correlation_id == 5
        assert response.brokers


def test_half_a_frame_and_then_nothing_or_a_reset(broker_address: str, topic: str) -> None:
    _make_topic(broker_address, topic)
    half = raw.frame(produce(topic, batch(b"x" * 10_000)))[:5000]
    for ending in (Raw.reset, lambda connection: connection.socket.close()):
        connection = Raw(broker_address)
        connection.send_bytes(half)
        ending(connection)
    with Raw(broker_address) as other:
        assert produced(other.call(produce(topic, batch(b"second")))) == (0, 1)


def test_slow_loris_harms_nobody_else(broker_address: str, topic: str) -> None:
    _make_topic(broker_address, topic)
    data = raw.frame(metadata(topic))
    slow = [Raw(broker_address) for _ in range(100)]
    try:
        for at in range(8):
            for connection in slow:
                connection.send_bytes(data[at : at + 1])
        with Raw(broker_address) as other:
            for number in range(1, 51):
                assert produced(other.call(produce(topic, batch(b"x")))) == (0, number)
        assert all(connection.silent(0.001) for connection in slow)  # meanwhile they were neither answered nor closed
        for connection in slow:  # and they get their answer once they are done
            connection.send_bytes(data[8:])
        for connection in slow:
            assert connection.receive(metadata(topic))[0] == 1
    finally:
        for connection in slow:
            connection.socket.close()


def test_a_client_that_does_not_read_harms_nobody_else(broker_address: str, topic: str) -> None:
    _make_topic(broker_address, topic)
    with Raw(broker_address) as other:
        for _ in range(8):
            assert produced(other.call(produce(topic, batch(b"y" * 900_000))))[0] == 0
        deaf = Raw(broker_address)
        deaf.send_bytes(b"".join(raw.frame(fetch(topic), number) for number in range(200)))
        for _ in range(20):
            assert produced(other.call(produce(topic, batch(b"z"))))[0] == 0
        assert deaf.receive(fetch(topic))[0] == 0  # all the while its answers were there to be read
        deaf.reset()
        assert produced(other.call(produce(topic, batch(b"z"))))[0] == 0


def test_pipelined_requests_are_answered_in_order(broker_address: str, topic: str) -> None:
    _make_topic(broker_address, topic)
    with Raw(broker_address) as connection:
        requests = []
        for number in range(30):
            requests += [produce(topic, batch(b"%d" % number)), metadata(topic), fetch(topic, 0)]
        connection.send_bytes(b"".join(raw.frame(request, n) for n, request in enumerate(requests)))
        offsets = []
        for expected, request in enumerate(requests):
            correlation_id, response = connection.receive(request)
            assert correlation_id == expected
            if expected % 3 == 0:
                offsets.append(produced(response))
        assert offsets == [(0, number + 1) for number in range(30)]


def test_a_request_behind_a_parked_fetch_waits_for_it(broker_address: str, topic: str) -> None:
    _make_topic(broker_address, topic)
    with Raw(broker_address) as connection:
        parked = fetch(topic, 1, wait_ms=800)
        started = time.monotonic()
        first = connection.send(parked)
        second = connection.send(metadata(topic))
        correlation_id, response = connection.receive(parked)
        assert (correlation_id, fetched(response)) == (first, (0, b""))
        assert time.monotonic() - started > 0.7
        assert connection.receive(metadata(topic))[0] == second


def test_a_parked_fetch_wakes_at_the_record_and_respects_min_bytes(broker_address: str, topic: str) -> None:
    _make_topic(broker_address, topic)
    with Raw(broker_address) as reader, Raw(broker_address) as greedy, Raw(broker_address) as writer:
        # They would wait for longer than we would: who is answered was woken.
        _park(reader, fetch(topic, 1, wait_ms=600_000))
        _park(greedy, fetch(topic, 1, wait_ms=600_000, min_bytes=5000))
        writer.call(produce(topic, batch(b"small")))
        error, records = fetched(reader.receive(fetch(topic))[1])
        assert error == 0
        assert b"small" in records
        writer.call(produce(topic, batch(b"L" * 6000)))
        error, records = fetched(greedy.receive(fetch(topic))[1])
        assert b"small" in records
        assert b"LLLL" in records  # so it was not answered when there was too little


def test_a_parked_fetch_dies_with_its_connection(headwater_process: BrokerProcess, topic: str) -> None:
    """Descriptors are reused: a late answer would land in the stream of whoever connects next."""
    _make_topic(headwater_process.bootstrap, topic)
    writer = Raw(headwater_process.bootstrap)
    dying = [Raw(headwater_process.bootstrap) for _ in range(10)]
    for connection in dying:
        _park(connection, fetch(topic, 1, wait_ms=3000))
    for connection in dying:
        connection.reset()
    heirs = [Raw(headwater_process.bootstrap) for _ in range(10)]
    for heir in heirs:
        assert heir.call(metadata(topic)).topics[0].error_code == 0
    assert produced(writer.call(produce(topic, batch(b"wakes whoever waits"))))[0] == 0
    for heir in heirs:  # an answer that is not its own would come first, with another correlation id
        assert heir.call(metadata(topic)).topics[0].error_code == 0
    assert fetched(writer.call(fetch(topic, 2, wait_ms=3000)))[1] == b""  # the wait of the dead fetches is over by now
    for heir in heirs:
        assert heir.call(metadata(topic)).topics[0].error_code == 0
        assert heir.silent(0.01)
        heir.socket.close()
    writer.socket.close()


def test_many_connections_come_and_go(headwater_process: BrokerProcess) -> None:
    for _ in range(5):
        connections = [Raw(headwater_process.bootstrap) for _ in range(100)]
        for connection in connections:
            connection.send(metadata())
        for connection in connections[::2]:
            connection.reset()
        for connection in connections[1::2]:
            assert connection.receive(metadata())[1].brokers
            connection.socket.close()
    assert headwater_process.alive
