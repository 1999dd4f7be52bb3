"""F17: clients that say nothing, stop half-way, stop reading, are reset, or vanish while they wait; against a real
broker.

Each costs the broker one connection until it is idle for too long, and nobody else anything. Afterwards the broker has
the descriptors it had before: those of segments that were to be sent, too.
"""

import random
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from compat.support.broker import BrokerProcess
from compat.support.quick import lasting, quick
from compat.support.raw import Raw, batch, fetch, frame, metadata, produce, produced
from compat.support.raw import message as raw_message
from hostile.support.frames import KINDS, Known, Maker, mutated, served, whole
from hostile.support.process import WAIT_S, Neighbour, descriptors, receive_frame, reset, sockets, wait_for

StartBroker = Callable[..., BrokerProcess]
TOPIC = "served"
ROUNDS = lasting(10, 500)
FRAMES = lasting(1, 50)  # of each API and version

pytestmark = [pytest.mark.soak, pytest.mark.timeout(lasting(300, 1800))]


def connect(broker: BrokerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), timeout=WAIT_S)


def fill(broker: BrokerProcess, megabytes: int = 16) -> None:
    """More than the sockets' buffers hold."""
    with Raw(broker.bootstrap) as writer:
        writer.socket.settimeout(WAIT_S)
        for _ in range(megabytes):
            assert produced(writer.call(produce(TOPIC, batch(b"y" * 1_000_000))))[0] == 0


def is_closed(sock: socket.socket) -> bool:
    try:
        while sock.recv(1 << 20):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_whoever_says_no_more_is_closed_and_whoever_asks_is_not(start_broker: StartBroker) -> None:
    """Nothing at all; half a length; half a request, small or large; a whole one and then nothing; answers that are not
    taken.
    """
    broker = start_broker(connections_max_idle_ms=8000)
    fill(broker)
    small, large = frame(metadata(TOPIC)), frame(produce(TOPIC, batch(b"x" * 900_000)))
    with Neighbour(broker, TOPIC) as neighbour:
        neighbour.is_served_again()
        before = descriptors(broker)
        silent = [connect(broker) for _ in range(5)]
        deaf = connect(broker)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            for sock, start in zip(silent, (b"", small[:2], small[:-1], large[:500_000], small), strict=True):
                sock.sendall(start)
            deaf.sendall(b"".join(frame(fetch(TOPIC, number)) for number in range(16)))
            assert all(is_closed(sock) for sock in silent)
            wait_for(lambda: descriptors(broker) <= before, "all of them are closed")
            neighbour.is_served_again()
        finally:
            for sock in (*silent, deaf):
                sock.close()


def test_resets_in_the_middle_of_requests_and_answers_leave_nothing_behind(start_broker: StartBroker) -> None:
    broker = start_broker()
    fill(broker)
    large = frame(produce(TOPIC, batch(b"x" * 900_000)))
    wanted = b"".join(frame(fetch(TOPIC, number)) for number in range(16))
    with Neighbour(broker, TOPIC) as neighbour:
        neighbour.is_served_again()
        before = descriptors(broker)
        for number in range(ROUNDS):
            for ending in (reset, socket.socket.close):
                in_request, in_answer, at_once = connect(broker), connect(broker), connect(broker)
                in_request.sendall(large[: 1 + number * len(large) // ROUNDS])
                ending(in_request)
                in_answer.sendall(wanted)
                assert in_answer.recv(1 + 1000 * number)
                ending(in_answer)
                at_once.sendall(wanted)
                ending(at_once)
        neighbour.is_served_again()
        wait_for(lambda: descriptors(broker) <= before, "connections and segments are given back")


def test_clients_that_vanish_from_a_parked_fetch_are_forgotten(start_broker: StartBroker) -> None:
    broker = start_broker()
    before = descriptors(broker)
    with Raw(broker.bootstrap) as writer:
        end = produced(writer.call(produce(TOPIC, batch(b"first"))))[1] + 1
        parked = [connect(broker) for _ in range(100)]
        for sock in parked:
            sock.sendall(frame(fetch(TOPIC, end, wait_ms=2**31 - 1)))
        survivor = parked.pop()
        for number, sock in enumerate(parked):
            (reset if number % 2 else socket.socket.close)(sock)
        wait_for(lambda: descriptors(broker) <= before + 2, "only the one that is alive is there")
        assert produced(writer.call(produce(TOPIC, batch(b"wakes whoever waits")))) == (0, end)
        assert b"wakes whoever waits" in receive_frame(survivor)
        survivor.close()


def test_members_that_vanish_from_a_held_back_join_do_not_keep_the_group(start_broker: StartBroker) -> None:
    """A leader and nine others join, and are gone without a word; the next member has the group for itself."""
    broker = start_broker(**quick(group_initial_rebalance_delay_ms=3000))
    with Raw(broker.bootstrap) as alive:
        alive.socket.settimeout(WAIT_S)
        find_coordinator(alive, "vanishing")
        before = sockets(broker)
        gone = [connect(broker) for _ in range(10)]
        for number, sock in enumerate(gone):
            sock.sendall(frame(join("vanishing", version=3)))
            sock.settimeout(0.1)
            with suppress(TimeoutError):
                sock.recv(1)  # it is held back, and has been read by then
            (reset if number % 2 else socket.socket.close)(sock)
        members: list[Any] = []

        def is_alone() -> bool:
            answer = alive.call(join("vanishing", version=3, member_id=members[-1] if members else ""))
            if answer.error_code == 0:
                members.append(answer.member_id)
            elif answer.error_code == 25:
                members.clear()
            return answer.error_code == 0 and answer.leader == answer.member_id and len(answer.members) == 1

        wait_for(is_alone, "the dead members are gone from the group")
        wait_for(lambda: sockets(broker) <= before, "their connections are closed")


def find_coordinator(connection: Raw, group: str) -> None:
    request = raw_message("find_coordinator", 2, "FindCoordinatorRequest")(key=group, key_type=0)
    wait_for(lambda: connection.call(request).error_code == 0, "there is a coordinator")


def join(group: str, *, version: int, member_id: str = "") -> Any:
    protocol = raw_message("join_group", version, "JoinGroupRequestProtocol")(name="range", metadata=b"")
    return raw_message("join_group", version, "JoinGroupRequest")(
        group_id=group,
        session_timeout=timedelta(seconds=2),
        rebalance_timeout=timedelta(seconds=2),
        member_id=member_id,
        protocol_type="consumer",
        protocols=(protocol,),
    )


def test_malformed_frames_of_every_api_and_version_through_a_real_socket(start_broker: StartBroker) -> None:
    """Few of those that `test_malformed_frames.py` sends by the thousand: here the whole way, and with others who are
    served.
    """
    # A join may be held back for as long as it asks for, and its end is then seen by nobody:
    # such connections are idle at last.
    broker = start_broker(**quick(), log_retention_check_interval_ms=86_400_000, connections_max_idle_ms=20_000)
    known = Known(["other", "another"], [], ["readers"], ["m1"])  # not the one that others want to be served from
    with Neighbour(broker, TOPIC) as neighbour:
        neighbour.is_served_again()
        before = sockets(broker)
        for number in range(FRAMES):
            for key, version in served():
                chance = random.Random((number << 16) + (key << 8) + version)
                body = bytes(20) if (key, version) < (0, 3) else Maker(known, chance, mild=False).request(key, version)
                damaged = whole(key, version, body)
                for _ in range(chance.choice((0, 1, 2))):
                    damaged = mutated(
                        damaged, chance.choice(KINDS), chance.randrange(1 << 16), chance.randrange(1 << 16)
                    )
                answered_or_closed(broker, damaged)
        neighbour.is_served_again()
        wait_for(lambda: sockets(broker) <= before, "their connections are closed")


def answered_or_closed(broker: BrokerProcess, data: bytes) -> None:
    """A request for versions follows on the same connection: the broker reads on, or has closed. What is parked is left
    so.
    """
    with connect(broker) as sock:
        sock.settimeout(0.02)
        try:
            sock.sendall(data + struct.pack(">ihhih", 10, 18, 0, 99, -1))
            while sock.recv(1 << 16):
                pass
        except (ConnectionError, TimeoutError):
            pass
