"""The configuration of a server of ours, and its ports."""

import random
import socket
from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.server.zookeeper.process import Member, ask, configuration, expect_free, free_ports, is_serving


def settings(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())


def test_one_server() -> None:
    found = settings(configuration(Path("/data"), "127.0.0.1", 2181))
    assert found["dataDir"] == "/data"
    assert (found["clientPortAddress"], found["clientPort"]) == ("127.0.0.1", "2181")
    assert int(found["minSessionTimeout"]) <= 1500
    assert int(found["maxSessionTimeout"]) >= 18_000, "a broker's default"
    assert found["admin.enableServer"] == "false"
    assert not [name for name in found if name.startswith("server.")]


def test_a_member_of_an_ensemble() -> None:
    members = [Member(1, "a", 2888, 3888), Member(2, "b", 2889, 3889)]
    found = settings(configuration(Path("/data"), "0.0.0.0", 2181, members))
    assert found["server.1"] == "a:2888:3888"
    assert found["server.2"] == "b:2889:3889"
    assert {"initLimit", "syncLimit"} <= set(found)


def test_a_port_that_is_taken_is_refused_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match="Address already in use"):
            expect_free("127.0.0.1", port)
    expect_free("127.0.0.1", port)


def test_ports_are_different_and_nobody_answers_there() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert ask("127.0.0.1", ports[0], b"ruok") == b""
    assert not is_serving("127.0.0.1", ports[0])


def test_processes_whose_dice_have_the_same_seed_draw_other_ports() -> None:
    """Those of tests have it: two that began together started their servers on the same port."""
    drawn = []
    for _ in range(2):
        random.seed(1)
        drawn.append(free_ports(20))
    assert drawn[0] != drawn[1]
