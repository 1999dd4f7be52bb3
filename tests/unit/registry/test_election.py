"""Who leads, and the bytes in which registries tell each other."""

import json

import pytest

from headwater.registry.election import (
    DUPLICATE_URLS,
    Assignment,
    Identity,
    elect,
    is_unopposed,
    last_elected,
    readable,
)


def member(port: int, *, eligible: bool = True, leads: bool = False) -> Identity:
    return Identity("host", port, eligible, "http", leads)


@pytest.mark.parametrize(
    ("members", "leader"),
    [
        ({"m1": member(2), "m2": member(1)}, "m2"),
        ({"m1": member(2, leads=True), "m2": member(1)}, "m1"),  # who leads goes on
        ({"m1": member(2, leads=True), "m2": member(1, leads=True)}, "m2"),  # two think so: as if none did
        ({"m1": member(1, eligible=False), "m2": member(2)}, "m2"),
        ({"m1": member(1, eligible=False, leads=True)}, None),
        ({}, None),
    ],
)
def test_election(members: dict[str, Identity], leader: str | None) -> None:
    assert elect(members).leader == leader
    assert Assignment.decode(elect(members).encode()) == elect(members)


def test_two_registries_with_one_address_are_told() -> None:
    assert elect({"m1": member(1), "m2": member(1)}).error == DUPLICATE_URLS


def test_the_documents_are_confluents() -> None:
    assert json.loads(elect({"m": member(8081)}).encode()) == {
        "error": 0,
        "master": "m",
        "master_identity": {
            "version": 1,
            "host": "host",
            "port": 8081,
            "master_eligibility": True,
            "scheme": "http",
            "leader": False,
        },
        "version": 1,
    }
    assert Identity.of({"host": "::1", "port": 1, "master_eligibility": False}).url == "http://[::1]:1"
    for bad in (None, [], {}, {"host": "a"}):
        with pytest.raises(ValueError):
            Identity.of(bad)


def test_what_a_crash_left_of_ones_predecessor_opposes_nobody() -> None:
    own, other = member(1), member(2)
    metadata = {each.url: json.dumps(each.document()).encode() for each in (own, other)}

    def unopposed(*found: bytes) -> bool:
        return is_unopposed(own, found, beside_brokers=False)

    assert unopposed()
    assert unopposed(metadata[own.url])
    assert not unopposed(metadata[own.url], metadata[other.url])
    assert not unopposed(b"")  # the group does not tell: the election decides
    assert not unopposed(b"[]")


def test_an_address_of_the_loopback_may_be_another_machines() -> None:
    own = Identity("127.0.0.1", 8081)
    metadata = [json.dumps(own.document()).encode()]
    assert not is_unopposed(own, metadata, beside_brokers=False), "it may lead elsewhere, and go on doing so"
    assert is_unopposed(own, [], beside_brokers=False)
    assert is_unopposed(own, metadata, beside_brokers=True), "the brokers are on this machine: so is it"


def test_who_was_elected_is_known_before_one_is_a_member() -> None:
    own, other = member(1), member(2)
    elected = elect({"m": other}).encode()
    assert last_elected(own, [elected, elected]) == other
    assert last_elected(own, [b"", b"[]", b"{", elected]) == other  # members that came since then have none yet
    assert last_elected(own, [elect({"m": own}).encode()]) is None  # a predecessor: nobody forwards to itself
    assert last_elected(own, [elect({}).encode()]) is None
    assert last_elected(own, []) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"1",
        b"\xff",
        b'{"error":[1]}',
        b'{"error":1e400}',
        b'{"master_identity":7}',
        b'{"master_identity":{"host":"a","port":1e400}}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_assignment_is_a_value_error_and_nothing_else(data: bytes) -> None:
    with pytest.raises(ValueError):
        Assignment.decode(data)
    assert last_elected(member(1), [data]) is None


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"host":"a","port":1e400}', b"[" * 100_000])
def test_a_member_that_does_not_say_who_it_is_neither_leads_nor_keeps_others_from_it(data: bytes) -> None:
    own = json.dumps(member(2).document()).encode()
    assert elect(readable({"a": data, "b": own})).leader == "b"
    assert elect(readable({"a": data})).leader is None
    assert not is_unopposed(member(2), [own, data], beside_brokers=True)
