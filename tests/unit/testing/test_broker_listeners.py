"""Where an embedded broker listens when it is started again."""

import socket

import pytest

from headwater.testing.broker import Broker, settled_listeners


@pytest.mark.parametrize(
    ("configured", "reported", "settled"),
    [
        ("PLAINTEXT://127.0.0.1:0", "PLAINTEXT://127.0.0.1:4711", "PLAINTEXT://127.0.0.1:4711"),
        ("SASL_PLAINTEXT://127.0.0.1:0", "SASL_PLAINTEXT://127.0.0.1:4711", "SASL_PLAINTEXT://127.0.0.1:4711"),
        (
            "INSIDE://localhost:0, OUTSIDE://0.0.0.0:0",
            "INSIDE://127.0.0.1:4711,OUTSIDE://host:4712",
            "INSIDE://localhost:4711,OUTSIDE://0.0.0.0:4712",
        ),
        ("PLAINTEXT://:0,CONTROLLER://:0", "PLAINTEXT://host:4711", "PLAINTEXT://:4711,CONTROLLER://:0"),
        ("PLAINTEXT://:9092", "PLAINTEXT://balancer:443", "PLAINTEXT://:9092"),
        ("A://[::1]:0,B://:9092", "A://[::1]:4711,B://host:9092", "A://[::1]:4711,B://:9092"),
    ],
)
def test_each_listener_keeps_its_name_and_its_host(configured: str, reported: str, settled: str) -> None:
    """Whatever they were, one listener without TLS and login was left after a restart."""
    assert settled_listeners(configured, reported) == settled


def test_a_listener_is_the_same_one_after_a_restart() -> None:
    """It came back as PLAINTEXT, which no listener of the map was."""
    config = {"listeners": "OUTSIDE://127.0.0.1:0", "listener.security.protocol.map": "OUTSIDE:PLAINTEXT"}
    with Broker({**config, "inter.broker.listener.name": "OUTSIDE"}) as broker:
        port = broker.port
        broker.stop()
        broker.start()
        assert broker.port == port


def test_the_ports_of_all_listeners_are_nobody_elses_while_it_is_away() -> None:
    """Only that of the first was held, and only for IPv4."""
    config = {
        "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://[::1]:0,MORE://127.0.0.1:0",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT,MORE:PLAINTEXT",
    }
    with Broker({**config, "inter.broker.listener.name": "INSIDE"}) as broker:
        places = str(broker._settings["listeners"]).split(",")
        ports = [int(place.rpartition(":")[2]) for place in places]
        broker.kill()
        for port, family, host in zip(
            ports, (socket.AF_INET, socket.AF_INET6, socket.AF_INET), ("127.0.0.1", "::1", "127.0.0.1"), strict=True
        ):
            with socket.socket(family) as other, pytest.raises(OSError, match="in use"):
                other.bind((host, port))
        broker.start()
        assert str(broker._settings["listeners"]).split(",") == places
