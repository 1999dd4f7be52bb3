"""Tokens by client credentials: the request, what its answers mean, and when a token is renewed."""

import base64
import json
from typing import Any
from urllib.parse import parse_qs

import pytest

from headwater.base.security.login_errors import LoginFailed
from headwater.client.token_requests import Renewal, TokenNotFetched, TokenRequest, read_answer

NOW_S = 1_000_000.0
SECRET = "hunter2:/+ &"


def jwt(**claims: Any) -> str:
    parts = [json.dumps(part).encode() for part in ({"alg": "ES256"}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in [*parts, b"signature"])


def answer(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def test_the_request_is_javas() -> None:
    request = TokenRequest("https://login.example/token", "me", SECRET, "kafka read")
    scheme, value = request.headers()["Authorization"].split()
    assert (scheme, base64.b64decode(value).decode()) == ("Basic", f"me:{SECRET}")
    assert parse_qs(request.body().decode()) == {"grant_type": ["client_credentials"], "scope": ["kafka read"]}
    assert parse_qs(request._replace(scope=None).body().decode()) == {"grant_type": ["client_credentials"]}
    encoded = request._replace(url_encodes=True).headers()["Authorization"].split()[1]
    assert base64.b64decode(encoded) == b"me:hunter2%3A%2F%2B+%26"
    assert "hunter2" not in repr(request)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"access_token": "opaque"}, None),
        ({"access_token": "opaque", "expires_in": 60}, 60),
        ({"access_token": "opaque", "expires_in": "60"}, 60),
        ({"access_token": "opaque", "expires_in": -1}, None),
        ({"access_token": "opaque", "expires_in": True}, None),
        ({"access_token": "opaque", "expires_in": 10**30}, 10 * 365 * 86_400),
        ({"access_token": jwt(exp=NOW_S + 90)}, 90),
        ({"access_token": jwt(exp=NOW_S + 90), "expires_in": 60}, 60),
        ({"access_token": jwt(exp=NOW_S + 30), "expires_in": 60}, 30),
        ({"access_token": jwt(exp="soon"), "expires_in": 60}, 60),
        ({"access_token": "a.b.c", "expires_in": 60}, 60),
    ],
)
def test_how_long_a_token_lives(fields: dict[str, Any], expected: float | None) -> None:
    token = read_answer(200, answer(**fields), NOW_S)
    assert (token.text, token.lifetime_s) == (fields["access_token"], expected)
    assert token.text not in repr(token)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (400, answer(error="invalid_scope", error_description=SECRET), r"400 \(invalid_scope\)"),
        (401, answer(error=SECRET), "401$"),
        (403, b"<html>", "403$"),
        (404, b"", "404$"),
        (200, b"", "no JSON"),
        (200, b"[]", "no JSON"),
        (200, b"[" * 100_000, "no JSON"),
        (200, answer(), "no access_token"),
        (200, answer(access_token=""), "no access_token"),
        (200, answer(access_token="a\x01auth=b"), "no access_token"),
        (200, answer(access_token="a\nb"), "no access_token"),
        (200, answer(access_token="x" * 70_000), "no access_token"),
        (200, b" " * (1 << 20) + b"{}", "megabyte"),
    ],
)
def test_refusals_and_nonsense_are_final(status: int, body: bytes, said: str) -> None:
    with pytest.raises(LoginFailed, match=said) as told:
        read_answer(status, body, NOW_S)
    assert SECRET not in str(told.value)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b""),
        (503, answer(error="temporarily_unavailable")),
        (429, b""),
        (408, b""),
        (302, b""),
        (200, answer(access_token=jwt(exp=NOW_S - 1))),
    ],
)
def test_trouble_may_pass(status: int, body: bytes) -> None:
    with pytest.raises(TokenNotFetched):
        read_answer(status, body, NOW_S)


@pytest.mark.parametrize(
    ("lifetime", "chance", "expected"),
    [
        (3600, 0.0, 2880),
        (3600, 0.5, 2970),
        (1000, 0.0, 700),  # the buffer of 300 s counts
        (400, 0.0, 100),
        (360, 0.0, 60),  # as long as the least period
        (300, 0.0, 240),  # too short for either: the window alone
        (None, 0.0, 0),
    ],
)
def test_when_a_token_is_renewed(lifetime: float | None, chance: float, expected: float) -> None:
    assert Renewal().after_s(lifetime, chance) == pytest.approx(expected)
