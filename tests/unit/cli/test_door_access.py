"""The login that a command sends to an HTTP door, where it is a token."""

from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.base.security.login_errors import LoginFailed
from headwater.cli.door_access import door_access
from headwater.cli.profiles import check_url
from headwater.client.settings import tokens
from headwater.client.token_requests import Token, TokenNotFetched, TokenRequest

BEARER = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
ENDPOINT = {
    **BEARER,
    "sasl.oauthbearer.token.endpoint.url": "https://login.example/token",
    "sasl.oauthbearer.client.credentials.client.id": "alice",
    "sasl.oauthbearer.client.credentials.client.secret": "canary",
}


def authorization(security: dict[str, str]) -> str:
    return door_access("http://127.0.0.1:8081", security, "a registry", "http://host:8081").authorization


def test_a_token_comes_from_its_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands took a source that nobody had asked yet, and ended with a traceback."""

    def fetched(request: TokenRequest, *_: object) -> Token:
        assert (request.url, request.client_id) == ("https://login.example/token", "alice")
        return Token("abc.def", 60)

    monkeypatch.setattr(tokens, "fetch_over_http", fetched)
    assert authorization(ENDPOINT) == "Bearer abc.def"


@pytest.mark.parametrize("problem", [LoginFailed("it answered 401"), TokenNotFetched("connection refused")])
def test_an_endpoint_that_gives_none_is_told(monkeypatch: pytest.MonkeyPatch, problem: Exception) -> None:
    def refused(*_: object) -> Token:
        raise problem

    monkeypatch.setattr(tokens, "fetch_over_http", refused)
    with pytest.raises(UserError, match=str(problem)) as told:
        authorization(ENDPOINT)
    assert "canary" not in str(told.value)


def test_a_token_in_a_file_is_read_and_told_where_there_is_none(tmp_path: Path) -> None:
    file = tmp_path / "token"
    security = {**BEARER, "sasl.oauthbearer.token.endpoint.url": f"file://{file}"}
    with pytest.raises(UserError, match="cannot read the token"):
        authorization(security)
    file.write_text("abc\n")
    assert authorization(security) == "Bearer abc"


@pytest.mark.parametrize(
    "url",
    [
        "http://host:80811",
        "http://host:8o81",
        "https://alice:canary@host:-1",
        "http://alice:ca#nary@host:8081",
        "http://[::1:8081",
        "host:99999",
        "ftp://host",
    ],
)
def test_an_address_that_names_no_port_that_there_is(url: str) -> None:
    """Such a port was left out: the command, and its login, went to port 80 or 443. Half an address was a traceback."""
    with pytest.raises(UserError, match="is no address of a registry") as refused:
        door_access(url, {}, "a registry", "http://host:8081")
    assert "nary" not in str(refused.value)
    if "://" in url and "alice" not in url:
        with pytest.raises(UserError, match="is no address of a door"):
            check_url(url)


def test_a_port_may_be_left_out() -> None:
    assert door_access("host", {}, "a registry", "http://host:8081").url == "http://host:80"
    assert door_access("https://[::1]/a/", {}, "a registry", "http://host:8081").url == "https://[::1]:443/a"
    assert check_url("https://host/") == "https://host"
