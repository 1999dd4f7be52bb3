"""The login that a command sends to an HTTP door, where it is a token."""

from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.base.security.login_errors import LoginFailed
from headwater.cli.door_access import door_access
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
