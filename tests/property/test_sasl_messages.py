"""Properties of what reads a peer's login: SCRAM under damage and reordering, JAAS round trips, any bytes to every
reader.
"""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.base.errors import UserError
from headwater.base.security import oauthbearer
from headwater.base.security.jaas import parse_jaas
from headwater.base.security.login_errors import LoginFailed
from headwater.base.security.scram import ScramClient, ScramCredential, ScramMechanism, ScramServer, credential_of

MECHANISM = ScramMechanism.SHA_256
SALTED = b"s" * 32  # PBKDF2's work is not what is tried here
CREDENTIAL = credential_of(MECHANISM, SALTED, b"salt", 4096)
NONCE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters=","), min_size=1, max_size=30)
NAME = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


def server(user: str, nonce: str) -> ScramServer:
    return ScramServer(MECHANISM, {user: CREDENTIAL}.get, nonce, b"secret")


@settings(max_examples=60, deadline=None)
@given(NAME, NONCE, NONCE, st.data())
def test_no_change_of_a_message_logs_anybody_in(user: str, ours: str, theirs: str, data: st.DataObject) -> None:
    client = ScramClient(MECHANISM, user, "password", ours)
    kept = credential_of(MECHANISM, _salted("password"), b"salt", 4096)

    def fresh() -> ScramServer:
        return ScramServer(MECHANISM, {user: kept}.get, theirs, b"secret")

    one = fresh()
    final = client.receive(one.receive(client.first()))
    assert final is not None
    one.receive(final)
    assert one.user == user
    at = data.draw(st.integers(0, len(final) - 1))
    damaged = final[:at] + bytes([final[at] ^ data.draw(st.integers(1, 255))]) + final[at + 1 :]
    for messages in ([final], [damaged], [client.first(), damaged], [final, client.first()], [client.first()] * 2):
        other = fresh()
        try:
            for message in messages:
                other.receive(message)
        except LoginFailed:
            pass
        assert other.user is None, messages


_SALTED: dict[str, bytes] = {}


def _salted(password: str) -> bytes:
    from headwater.base.security.scram import salted_password

    return _SALTED.setdefault(password, salted_password(MECHANISM, password, b"salt", 4096))


@given(st.binary(min_size=1, max_size=64), st.binary(min_size=1, max_size=64), st.integers(0, 1 << 20))
def test_a_credential_is_what_its_text_says(salt: bytes, key: bytes, iterations: int) -> None:
    credential = ScramCredential(salt, key, key[::-1], iterations)
    assert ScramCredential.from_text(credential.to_text()) == credential


@given(
    st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,20}", fullmatch=True), st.text(max_size=20), max_size=5)
)
def test_jaas_gives_back_what_was_quoted(options: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    text = "a.b.Module required " + " ".join(f"{name}={quoted(value)}" for name, value in options.items()) + ";"
    (module,) = parse_jaas(text)
    assert module.options == options


@given(st.binary(max_size=200))
def test_any_bytes_end_a_login_or_go_on_and_nothing_else(data: bytes) -> None:
    one = server("user", "theirs")
    for read in (one.receive, one.receive, oauthbearer.read_first_message):
        with contextlib.suppress(LoginFailed):
            read(data)
    assert one.user is None


@given(st.text(max_size=200))
def test_any_text_is_jaas_or_a_sentence(text: str) -> None:
    with contextlib.suppress(UserError):
        parse_jaas(text)


@given(st.text(max_size=200))
def test_any_token_is_refused(text: str) -> None:
    try:
        oauthbearer.verify(text, [], oauthbearer.Expected(), 0)
    except LoginFailed:
        return
    raise AssertionError("a token without keys was taken")
