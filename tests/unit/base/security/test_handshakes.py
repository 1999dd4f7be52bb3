"""TLS handshakes in memory, between the contexts of our servers and of our clients: whose certificate counts, on either
side.
"""

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from compat.support.certificates import Authority
from headwater.base.errors import UserError
from headwater.base.security.tls import TlsSettings, client_context, server_context


def shaken(server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost") -> str:
    """Empty if both sides are content; else what the first of them that is not says."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(ends)
    for _ in range(20):
        for end in list(waiting):
            try:
                end.do_handshake()
                waiting.remove(end)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as problem:
                return str(problem)
        if not waiting:
            return _read(ends[0])  # with TLS 1.3 a client hears only now that its certificate was refused
    raise AssertionError("a handshake without an end")


def _read(end: ssl.SSLObject) -> str:
    try:
        end.read(1)
    except ssl.SSLWantReadError:
        return ""
    except ssl.SSLError as problem:
        return str(problem)
    raise AssertionError("nobody has written anything")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def trusting(authority: Authority, **more: str | tuple[str, ...]) -> ssl.SSLContext:
    return client_context(TlsSettings(truststore_location=authority.path, **more))  # type: ignore[arg-type]


def serving(authority: Authority, pem: str, client_auth: str = "none") -> ssl.SSLContext:
    return server_context(
        TlsSettings(keystore_location=pem, truststore_location=authority.path, client_auth=client_auth)
    )


def of_another(authority: Authority) -> str:
    beside = authority.directory / "another"
    beside.mkdir()
    return Authority(beside).pem("stranger")


CERTIFICATES: dict[str, tuple[Callable[[Authority], str], str]] = {
    "good": (lambda authority: authority.pem("good"), ""),
    "expired": (lambda authority: authority.pem("expired", valid_days=(-10, -1)), "expired"),
    "for later": (lambda authority: authority.pem("later", valid_days=(1, 10)), "not yet valid"),
    "of another host": (lambda authority: authority.pem("other", host="other.example"), "ostname mismatch"),
    "of another authority": (of_another, "CERTIFICATE_VERIFY_FAILED"),
}


@pytest.mark.parametrize("which", sorted(CERTIFICATES))
def test_what_a_client_takes_for_the_brokers_certificate(authority: Authority, which: str) -> None:
    make, said = CERTIFICATES[which]
    found = shaken(serving(authority, make(authority)), trusting(authority))
    assert (said in found) if said else found == ""


def test_a_certificate_that_signs_itself_is_not_trusted(tmp_path: Path, authority: Authority) -> None:
    beside = tmp_path / "itself"
    beside.mkdir()
    itself = Authority(beside)
    settings = TlsSettings(keystore_key=itself.key_pem, keystore_certificate_chain=Path(itself.path).read_text())
    assert "self-signed" in shaken(server_context(settings), trusting(authority)).replace("self signed", "self-signed")


def test_without_a_check_of_hosts_another_host_will_do_but_no_other_authority(authority: Authority) -> None:
    lenient = trusting(authority, endpoint_identification="")
    assert shaken(serving(authority, authority.pem("other", host="other.example")), lenient) == ""
    assert shaken(serving(authority, of_another(authority)), lenient) != ""


@pytest.mark.parametrize("which", ["good", "expired", "for later", "of another authority", "none"])
def test_what_a_broker_takes_for_a_clients_certificate(authority: Authority, which: str) -> None:
    server = serving(authority, authority.pem("broker"), "required")
    own = {} if which == "none" else {"keystore_location": CERTIFICATES[which][0](authority)}
    found = shaken(server, trusting(authority, **own))
    assert (found == "") == (which == "good"), found


def test_nobody_negotiates_again_and_nobody_speaks_what_is_older_than_1_2(authority: Authority) -> None:
    server = serving(authority, authority.pem("broker"))
    assert server.options & ssl.OP_NO_RENEGOTIATION
    assert server.options & ssl.OP_NO_COMPRESSION
    assert server.minimum_version == ssl.TLSVersion.TLSv1_2
    older = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    older.load_verify_locations(authority.path)
    older.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        older.minimum_version = older.maximum_version = ssl.TLSVersion.TLSv1_1
    assert shaken(server, older) != ""


def test_cipher_suites_have_their_iana_names_and_are_those_that_are_spoken(authority: Authority) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    older = TlsSettings(
        keystore_location=authority.pem("broker"), enabled_protocols=("TLSv1.2",), cipher_suites=(suite,)
    )
    server = server_context(older)
    assert server.maximum_version == ssl.TLSVersion.TLSv1_2
    chosen = [each["name"] for each in server.get_ciphers() if each["protocol"] == "TLSv1.2"]
    assert chosen == ["ECDHE-ECDSA-AES256-GCM-SHA384"]
    assert shaken(server, trusting(authority)) == ""
    other = trusting(authority, cipher_suites=("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",))
    assert shaken(server, other) != ""


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cipher_suites": ("TLS_AES_256_GCM_SHA384",)}, "TLS 1.3 cannot be chosen"),
        ({"cipher_suites": ("ECDHE-ECDSA-AES256-GCM-SHA384",)}, "no such cipher suite"),
        ({"cipher_suites": ("TLS_RSA_WITH_RC4_128_MD5",)}, "no such cipher suite"),
        ({"enabled_protocols": ("TLSv1.1", "TLSv1.2")}, "TLS before 1.2 is broken"),
        ({"enabled_protocols": ()}, "ssl.enabled.protocols"),
    ],
    ids=str,
)
def test_suites_and_protocols_that_cannot_be_had_are_refused_with_a_sentence(
    authority: Authority, settings: dict[str, tuple[str, ...]], said: str
) -> None:
    with pytest.raises(UserError) as told:
        server_context(TlsSettings(keystore_location=authority.pem("broker"), **settings))  # type: ignore[arg-type]
    assert said in str(told.value)
