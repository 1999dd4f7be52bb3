"""SCRAM: the examples of the RFCs, and everything that must end a login."""

import base64

import pytest

from headwater.base.security.login_errors import LoginFailed
from headwater.base.security.scram import (
    ScramClient,
    ScramCredential,
    ScramMechanism,
    ScramServer,
    credential_of,
    salted_password,
)

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CREDENTIAL = credential_of(SHA_256, salted_password(SHA_256, "pencil", SALT, 4096), SALT, 4096)
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = f"n,,n=user,r={CLIENT_NONCE}".encode()
SERVER_FIRST = f"r={CLIENT_NONCE}{SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
CLIENT_FINAL = f"c=biws,r={CLIENT_NONCE}{SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def server(nonce: str = SERVER_NONCE, **users: ScramCredential) -> ScramServer:
    return ScramServer(SHA_256, (users or {"user": CREDENTIAL}).get, nonce, b"secret")


def login(client: ScramClient, at: ScramServer) -> None:
    final = client.receive(at.receive(client.first()))
    assert final is not None
    assert client.receive(at.receive(final)) is None


def test_the_server_says_what_rfc_7677_says() -> None:
    one = server()
    assert one.receive(CLIENT_FIRST) == SERVER_FIRST
    assert one.user is None
    assert one.receive(CLIENT_FINAL) == SERVER_FINAL
    assert one.user == "user"


def test_the_client_says_what_rfc_7677_says() -> None:
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    assert client.first() == CLIENT_FIRST
    assert client.receive(SERVER_FIRST) == CLIENT_FINAL
    assert client.receive(SERVER_FINAL) is None


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
@pytest.mark.parametrize("user", ["alice", "a,b=c", "ünïcode", "=2C"])
def test_both_sides_agree(mechanism: ScramMechanism, user: str) -> None:
    kept = credential_of(mechanism, salted_password(mechanism, "pässword", b"salt", 4096), b"salt", 4096)
    one = ScramServer(mechanism, {user: kept}.get, "theirs", b"secret")
    login(ScramClient(mechanism, user, "pässword", "ours"), one)
    assert one.user == user


def test_kafkas_text_of_a_credential_is_read_and_written() -> None:
    text = CREDENTIAL.to_text()
    assert text.startswith("salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=")
    assert text.endswith(",iterations=4096")
    assert ScramCredential.from_text(text) == CREDENTIAL
    for bad in ("", "salt=x", text.replace("stored_key", "stored"), text.replace("4096", "many"), text + "*"):
        with pytest.raises(ValueError):
            ScramCredential.from_text(bad)


def test_a_credential_does_not_show_its_keys() -> None:
    shown = repr(CREDENTIAL)
    assert base64.b64encode(CREDENTIAL.stored_key).decode() not in shown
    assert repr(CREDENTIAL.stored_key) not in shown


def test_a_wrong_password_fails_at_the_proof() -> None:
    one = server()
    client = ScramClient(SHA_256, "user", "pen", "ours")
    final = client.receive(one.receive(client.first()))
    assert final is not None
    with pytest.raises(LoginFailed, match="wrong"):
        one.receive(final)
    assert one.user is None


def test_an_unknown_user_meets_the_same_answers_as_a_known_one() -> None:
    """The salt is always the same for a name, another for another; the failure has the same words."""
    first = [server().receive(f"n,,n={user},r=x".encode()) for user in ("nobody", "nobody", "somebody")]
    assert first[0] == first[1] != first[2]
    assert first[0].endswith(b",i=4096")
    one = server()
    client = ScramClient(SHA_256, "nobody", "pencil", "ours")
    final = client.receive(one.receive(client.first()))
    assert final is not None
    with pytest.raises(LoginFailed, match="the user or the password is wrong"):
        one.receive(final)


def test_a_replayed_login_fails_because_the_nonce_is_another() -> None:
    one = server(nonce="another")
    one.receive(CLIENT_FIRST)
    with pytest.raises(LoginFailed, match="nonce"):
        one.receive(CLIENT_FINAL)


@pytest.mark.parametrize(
    "messages",
    [
        [CLIENT_FINAL],
        [CLIENT_FIRST, CLIENT_FIRST],
        [CLIENT_FIRST, CLIENT_FINAL, CLIENT_FINAL],
        [CLIENT_FIRST, CLIENT_FINAL[:-1]],
        [CLIENT_FIRST, CLIENT_FINAL[:-5]],
        [CLIENT_FIRST, CLIENT_FINAL.replace(b"biws", b"eSws")],
        [CLIENT_FIRST, CLIENT_FINAL.replace(b"p=d", b"p=e")],
        [CLIENT_FIRST, CLIENT_FINAL.replace(CLIENT_NONCE.encode(), CLIENT_NONCE[1:].encode())],
        [CLIENT_FIRST, b""],
        [b"p=tls-unique" + CLIENT_FIRST[1:]],
        [b"n,a=other,n=user,r=x"],
        [b"n,,m=more,n=user,r=x"],
        [b"n,,n=user,r=x,tokenauth=true"],
        [b"n,,n=us=er,r=x"],
        [b"n,,n=,r=x"],
        [b"n,,n=user,r="],
        [b"n,,n=user,r=a b"],
        [b"\xff\xfe"],
        [b"n,,n=user,r=" + b"x" * 20_000],
    ],
)
def test_what_is_out_of_order_or_damaged_ends_the_login(messages: list[bytes]) -> None:
    one = server()
    for message in messages[:-1]:
        one.receive(message)
    user = one.user
    with pytest.raises(LoginFailed):
        one.receive(messages[-1])
    with pytest.raises(LoginFailed):  # and for good
        one.receive(CLIENT_FIRST)
    assert one.user == user


def test_a_credential_with_too_few_iterations_is_not_used() -> None:
    weak = credential_of(SHA_256, salted_password(SHA_256, "pencil", SALT, 100), SALT, 100)
    with pytest.raises(LoginFailed, match="4096"):
        server(user=weak).receive(CLIENT_FIRST)


@pytest.mark.parametrize(
    "answer",
    [
        b"r=" + SERVER_NONCE.encode() + b",s=QQ==,i=4096",
        b"r=" + CLIENT_NONCE.encode() + b",s=QQ==,i=4096",
        SERVER_FIRST.replace(b"i=4096", b"i=1"),
        SERVER_FIRST.replace(b"i=4096", b"i=99999999"),
        SERVER_FIRST.replace(b"s=W2", b"s=*2"),
        b"e=other-error",
    ],
)
def test_a_client_does_not_go_on_with_a_server_that_cheats(answer: bytes) -> None:
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    client.first()
    with pytest.raises(LoginFailed):
        client.receive(answer)


@pytest.mark.parametrize("last", [b"v=AAAA", b"e=invalid-proof", b"", SERVER_FINAL[:-3]])
def test_a_server_that_does_not_know_the_password_is_not_believed(last: bytes) -> None:
    client = ScramClient(SHA_256, "user", "pencil", CLIENT_NONCE)
    client.receive(SERVER_FIRST)
    with pytest.raises(LoginFailed):
        client.receive(last)
