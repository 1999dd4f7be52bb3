import pytest

from headwater.base.security.digest_md5 import DigestMd5Client
from headwater.base.security.login_errors import LoginFailed

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'


def client(username: str = "chris", password: str = "secret") -> DigestMd5Client:
    return DigestMd5Client(username, password, "OA6MHXh6VqTrRk", "imap/elwood.innosoft.com")


def test_the_example_of_the_rfc() -> None:
    one = client()
    assert b"response=d388dad90d4bbd760a152321f2143af7," in one.answer(CHALLENGE)
    one.check(b"rspauth=ea40f60335c427b5527b84dbabcdfffd")


@pytest.mark.parametrize("last", [b"", b"rspauth=", b"rspauth=d388dad90d4bbd760a152321f2143af7", b"ok=1", b"?"])
def test_a_server_that_does_not_know_the_password(last: bytes) -> None:
    one = client()
    one.answer(CHALLENGE)
    with pytest.raises(LoginFailed):
        one.check(last)


def test_nothing_is_believed_before_the_challenge() -> None:
    with pytest.raises(LoginFailed):
        client().check(b"rspauth=")


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"nonce",
        b'nonce="a"',
        b'nonce="a",algorithm=md5',
        b'nonce="a",algorithm=md5-sess,qop="auth-int"',
        b'nonce="never ends',
        b'realm="a",algorithm=md5-sess',
        b'nonce="a",algorithm=md5-sess,' + b"x" * 2048 + b"=1",
        b"\xff\xfe=\x00",
    ],
)
def test_challenges_that_are_none(challenge: bytes) -> None:
    with pytest.raises(LoginFailed):
        client().answer(challenge)


def test_names_are_quoted_and_those_of_latin_1_hashed_as_that() -> None:
    answer = client('a"b\\c', "x").answer(CHALLENGE)
    assert b'username="a\\"b\\\\c"' in answer
    accented = client("chris", "s\u00e9cret").answer(CHALLENGE)
    assert b"response=d388dad90d4bbd760a152321f2143af7" not in accented
    assert client("chris", "\u4e2d").answer(CHALLENGE) != accented
