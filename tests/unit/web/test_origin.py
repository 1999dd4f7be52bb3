"""Which pages may use a door: those that it served itself, and none that only got its name."""

import socket
from typing import cast

import pytest

from headwater.web.callers import EVERYBODY, Caller
from headwater.web.messages import Headers, HttpError, Request
from headwater.web.origin import check_origin

HERE = ("127.0.0.1:40000", "::1:40000", "::ffff:127.0.0.1:40000")
OF_THIS_MACHINE = ["127.0.0.1:8083", "[::1]:8083", "localhost:8083", "LOCALHOST:8083", "a.localhost:8083", "10.0.0.5"]


def is_let_in(host: str, peer: str, caller: Caller = EVERYBODY) -> bool:
    request = Request(
        "POST", "/", (), headers=Headers((("host", host), ("origin", f"http://{host}"))), peer=peer, caller=caller
    )
    try:
        check_origin(request)
    except HttpError as error:
        return error.status != 403
    return True


@pytest.mark.parametrize("peer", HERE)
def test_a_page_whose_name_was_turned_to_this_machine_is_refused(peer: str) -> None:
    """Its origin is the host that it asks for: it could make connectors that read and write any file."""
    assert not is_let_in("rebound.evil.example:8083", peer)
    assert not is_let_in("127.0.0.1.evil.example:8083", peer)


@pytest.mark.parametrize("host", [*OF_THIS_MACHINE, f"{socket.gethostname()}:8083"])
def test_a_page_by_a_name_that_only_this_machine_has_is_let_in(host: str) -> None:
    assert all(is_let_in(host, peer) for peer in HERE)


def test_a_page_by_a_name_is_let_in_from_elsewhere_or_with_a_login() -> None:
    assert is_let_in("connect.example:8083", "10.0.0.7:40000")
    assert is_let_in("connect.example:8083", "127.0.0.1:40000", cast("Caller", object()))


def test_clients_that_are_no_pages_may_use_any_name() -> None:
    check_origin(Request("POST", "/", (), headers=Headers((("host", "connect:8083"),)), peer=HERE[0]))
