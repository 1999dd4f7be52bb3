"""The header Authorization: what is read from it, what is none, and that nothing of it is shown."""

import base64

import pytest

from headwater.web.messages import Headers, Request
from headwater.web.presented import Malformed, Scheme, basic_header, presented


def given(*values: str) -> Headers:
    return Headers(tuple(("Authorization", each) for each in values))


def encoded(text: str | bytes) -> str:
    return "Basic " + base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


@pytest.mark.parametrize(
    ("header", "user", "secret"),
    [
        (encoded("alice:secret"), "alice", "secret"),
        (encoded("alice:a:b"), "alice", "a:b"),
        (encoded("zoë:pässwörd"), "zoë", "pässwörd"),
        ("basic   " + encoded("a:b").removeprefix("Basic "), "a", "b"),
        (basic_header("a:b"), "a", "b"),
    ],
)
def test_basic(header: str, user: str, secret: str) -> None:
    assert presented(given(header)) == (Scheme.BASIC, user, secret)


def test_a_token_and_nothing() -> None:
    assert presented(given("Bearer aa.bb-_.cc=")) == (Scheme.BEARER, "", "aa.bb-_.cc=")
    assert presented(Headers()) is None


@pytest.mark.parametrize(
    "values",
    [
        (encoded("alice"),),
        (encoded(":secret"),),
        (encoded("alice:"),),
        (encoded("al\0ice:secret"),),
        (encoded(b"\xff\xfe:x"),),
        (encoded("a:" + "x" * 10_000),),
        ("Basic !!!!",),
        ("Basic",),
        ("Bearer",),
        ("Bearer a b",),
        ("Bearer a\tb",),
        ("Bearer " + "a" * 100_000,),
        ("Digest username=alice",),
        (encoded("alice:secret"), encoded("bob:secret")),
    ],
)
def test_what_is_none_is_told_without_what_it_held(values: tuple[str, ...]) -> None:
    with pytest.raises(Malformed) as told:
        presented(given(*values))
    assert "secret" not in str(told.value)


def test_secrets_are_not_shown() -> None:
    headers = given(encoded("alice:canary"), "Bearer canary")
    shown = presented(given(encoded("alice:canary")))
    request = Request("GET", "/", (), headers=headers, body=b"canary")
    assert "canary" not in f"{shown!r} {shown} {headers!r} {request!r} {request}"
    assert encoded("alice:canary") not in f"{headers!r} {request!r}"
