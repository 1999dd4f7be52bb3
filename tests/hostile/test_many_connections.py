"""F24: ten thousand connections, storms of them, and clients that send a byte at a time: others are served, and all of
it is given back.
"""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from compat.support.broker import BrokerProcess
from compat.support.quick import lasting
from compat.support.raw import Raw, batch, fetch, frame, make_topic, metadata, produce, produced
from hostile.support.process import (
    WAIT_S,
    Neighbour,
    connect_from,
    descriptors,
    many_descriptors,
    memory_bytes,
    receive_frame,
    reset,
    sockets,
    wait_for,
)

StartBroker = Callable[..., BrokerProcess]
TOPIC, QUIET = "served", "quiet"
ADDRESSES = [f"127.0.1.{number}" for number in range(1, 21)]
CONNECTION_BYTES_MAX = 20_000  # a parked fetch included; some 6 KB were measured
ROUNDS = lasting(2, 20)

pytestmark = [pytest.mark.soak, pytest.mark.timeout(lasting(300, 1800))]


def open_many(broker: BrokerProcess, count: int) -> list[socket.socket]:
    before = sockets(broker)
    opened: list[socket.socket] = []
    try:
        for number in range(count):
            opened.append(connect_from(ADDRESSES[number % len(ADDRESSES)], broker))
        wait_for(lambda: sockets(broker) >= before + count, "all are accepted")
    except BaseException:
        close_all(opened)
        raise
    return opened


def close_all(opened: list[socket.socket]) -> None:
    """Half of them politely."""
    for number, sock in enumerate(opened):
        (reset if number % 2 else socket.socket.close)(sock)
    opened.clear()


def test_ten_thousand_connections(start_broker: StartBroker) -> None:
    """They are quiet, ask all at once, wait in a fetch all at once, and are gone; again and again."""
    broker = start_broker()
    make_topic(broker.bootstrap, QUIET)
    with many_descriptors(10_000) as count, Neighbour(broker, TOPIC) as neighbour:
        neighbour.is_served_again()
        open_before, memory_before = descriptors(broker), memory_bytes(broker)
        memory_after: list[int] = []
        for _ in range(ROUNDS):
            opened = open_many(broker, count)
            try:
                memory_idle = memory_bytes(broker)
                neighbour.is_served_again()
                ask_all(opened, frame(metadata(TOPIC)))
                park_all(broker, opened)
                neighbour.is_served_again()
                memory_with = memory_bytes(broker)
                assert memory_with - memory_before < count * CONNECTION_BYTES_MAX
            finally:
                close_all(opened)
            wait_for(lambda: descriptors(broker) <= open_before, "their descriptors are given back")
            neighbour.is_served_again()
            memory_after.append(memory_bytes(broker))
            tell(
                f"{count} connections",
                before=memory_before,
                idle=memory_idle,
                parked=memory_with,
                after=memory_after[-1],
            )
        # What the allocator keeps of the first round serves the next ones.
        assert memory_after[-1] - memory_after[0] < 30_000_000, memory_after


def tell(what: str, **bytes_by_name: int) -> None:
    """For whoever runs it with -s."""
    print(what, ", ".join(f"{name} {size / 1e6:.0f} MB" for name, size in bytes_by_name.items()))


def ask_all(opened: list[socket.socket], request: bytes) -> None:
    for sock in opened:
        sock.sendall(request)
    for sock in opened:
        assert receive_frame(sock)


def park_all(broker: BrokerProcess, opened: list[socket.socket]) -> None:
    """All of them wait at the end of a log that is quiet; one record wakes them all."""
    with Raw(broker.bootstrap) as writer:
        writer.socket.settimeout(WAIT_S)
        end = produced(writer.call(produce(QUIET, batch(b"x"))))[1] + 1
        waiting = frame(fetch(QUIET, end, wait_ms=600_000), 7)
        for sock in opened:
            sock.sendall(waiting)
        assert produced(writer.call(produce(QUIET, batch(b"wakes them")))) == (0, end)
        for sock in opened:
            answer = receive_frame(sock)
            assert answer[:4] == b"\0\0\0\x07"
            assert b"wakes them" in answer


def test_a_storm_of_connections_that_say_nothing_and_go(start_broker: StartBroker) -> None:
    broker = start_broker()
    with Neighbour(broker, TOPIC) as neighbour:
        neighbour.is_served_again()
        before = descriptors(broker)
        threads = [threading.Thread(target=storm, args=(broker, address)) for address in ADDRESSES[:4]]
        for thread in threads:
            thread.start()
        neighbour.is_served_again()
        for thread in threads:
            thread.join(WAIT_S)
            assert not thread.is_alive()
        wait_for(lambda: descriptors(broker) <= before, "their descriptors are given back")


def storm(broker: BrokerProcess, address: str) -> None:
    for number in range(lasting(500, 10_000)):
        with suppress(OSError):  # a queue that is full is the storm's own trouble
            sock = connect_from(address, broker)
            (reset if number % 2 else socket.socket.close)(sock)


def test_connections_come_no_faster_than_the_rate_allows_and_none_is_lost(start_broker: StartBroker) -> None:
    rate, storm_size = 20, 100
    broker = start_broker(max_connection_creation_rate=rate)
    with Raw(broker.bootstrap) as other:
        began = time.monotonic()
        opened = [connect_from("127.0.1.1", broker) for _ in range(storm_size)]
        try:
            for sock in opened:
                sock.sendall(frame(metadata(TOPIC)))
            assert other.call(metadata(TOPIC)).brokers  # who is in already is served
            for sock in opened:
                assert receive_frame(sock)
            # A second's worth may come at once; the broker counts from when it was asked first,
            # which was after `began`.
            assert time.monotonic() - began > (storm_size - rate) / rate - 0.5
        finally:
            close_all(opened)


def test_an_address_gets_no_more_connections_than_its_limit(start_broker: StartBroker) -> None:
    broker = start_broker(max_connections_per_ip=30, max_connections_per_ip_overrides="127.0.1.2:3")
    for address, limit in (("127.0.1.1", 30), ("127.0.1.2", 3)):
        opened = [connect_from(address, broker) for _ in range(limit)]
        try:
            ask_all(opened, frame(metadata(TOPIC)))
            beyond = connect_from(address, broker)
            opened.append(beyond)
            assert is_closed(beyond)
            reset(opened.pop(0))
            wait_for(lambda address=address: may_ask(broker, address), "there is room again")
        finally:
            close_all(opened)


def may_ask(broker: BrokerProcess, address: str) -> bool:
    with connect_from(address, broker) as sock, suppress(ConnectionError):
        sock.sendall(frame(metadata(TOPIC)))
        return bool(sock.recv(65536))
    return False


def is_closed(sock: socket.socket) -> bool:
    """Whether the broker ends it; a minute is enough."""
    try:
        while sock.recv(65536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_slow_loris_by_the_thousand_is_closed_for_idleness(start_broker: StartBroker) -> None:
    """A byte of a request every now and then is no request: the time runs from the last whole one."""
    broker = start_broker(connections_max_idle_ms=8000)
    request = frame(produce(TOPIC, batch(b"x" * 5000)))
    with many_descriptors(lasting(1000, 5000)) as count, Neighbour(broker, TOPIC) as neighbour:
        neighbour.is_served_again()
        before, memory_before = descriptors(broker), memory_bytes(broker)
        slow = [connect_from(ADDRESSES[number % len(ADDRESSES)], broker) for number in range(count)]
        try:
            neighbour.is_served_again()
            send_drops(slow, request)
            neighbour.is_served_again()
            assert memory_bytes(broker) - memory_before < count * CONNECTION_BYTES_MAX + 10_000_000
        finally:
            close_all(slow)
        wait_for(lambda: descriptors(broker) <= before, "their descriptors are given back")


def send_drops(slow: list[socket.socket], request: bytes) -> None:
    """A byte to each in turn, until the broker has had enough of all of them, long before the request is whole."""
    deadline = time.monotonic() + WAIT_S
    lasting_on = list(slow)
    for drop in request:
        for sock in list(lasting_on):
            try:
                sock.send(bytes([drop]))
            except ConnectionError:
                lasting_on.remove(sock)
        if not lasting_on:
            return
        assert time.monotonic() < deadline, f"{len(lasting_on)} are still there"
        time.sleep(0.2)
    raise AssertionError("the request is whole")
