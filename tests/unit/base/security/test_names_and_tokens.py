"""Subjects as Java writes them, the rules that make users of them, and tokens that must not count."""

import base64
import json
import os
import tempfile
from collections.abc import Callable
from datetime import UTC
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from compat.support.certificates import Authority, Issuer
from headwater.base.errors import UserError
from headwater.base.security.distinguished_name import PrincipalRules, subject_of
from headwater.base.security.key_stores import read_certificates, read_key_pair
from headwater.base.security.login_errors import LoginFailed
from headwater.base.security.oauthbearer import (
    TOKEN_CHARACTERS_MAX,
    Expected,
    first_message,
    read_first_message,
    read_keys,
    verify,
)
from headwater.base.security.tls import ContextSource, TlsSettings, client_context, server_context

NOW_MS = 1_700_000_000_000
EXPECTED = Expected("us", ["headwater"])
GOOD = {"sub": "alice", "iss": "us", "aud": "headwater", "exp": NOW_MS // 1000 + 60}


# keytool -genkeypair -keyalg EC -storetype JKS -storepass secret1 -keypass secret2 -dname CN=x
JKS = base64.b64decode(
    "/u3+7QAAAAIAAAABAAAAAQABYgAAAaHnHULeAAAAfzB9MA4GCisGAQQBKgIRAQEFAARrzOVrflkeiWW1vgoLSTx+stCeC6NV366O"
    "EWZ1LOSg+G+ZbeUP3dG9U/oUs1cnZpI55bxOGwMfqF19WDZXYn9Zfcpm4aEVbgksg1/iBNOJeGN6utMHuPTUUaAiXKqUYTdCxXp7"
    "Av/Hk5F64NMAAAABAAVYLjUwOQAAATQwggEwMIHWoAMCAQICCQCTvRgixzaP9jAKBggqhkjOPQQDAjAMMQowCAYDVQQDEwF4MB4X"
    "DTI2MTExNzAxMjY1NloXDTM2MTExNDAxMjY1NlowDDEKMAgGA1UEAxMBeDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABJp1P2+L"
    "axq8vHdAfZ6zavaDOYwbQABew09BO21oIJn39T76fP8LJZoXF8sc+GeQkLace39mAXnUHwrJSXzO+cajITAfMB0GA1UdDgQWBBSI"
    "gOw84Hs1vRcruQlKWGUmERe5QTAKBggqhkjOPQQDAgNJADBGAiEA24g+9sdhINTkS7sfCR1IVbPJlLhdx5Vk/kIhSBzROMsCIQC4"
    "O6oOVCQUgerQ9YX41/WDsxusj8Koc3P5/f+ws/9m2kbRst+6M84ueCZxIrAAcbUOCJWT"
)


def named(*attributes: tuple[x509.ObjectIdentifier, str]) -> bytes:
    from datetime import datetime

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(*each) for each in attributes])
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = built.serial_number(1).not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
    signed = built.not_valid_after(datetime(2040, 1, 1, tzinfo=UTC)).sign(key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.DER)


def test_a_subject_is_written_backwards_with_javas_keywords() -> None:
    subject = subject_of(
        named(
            (NameOID.COUNTRY_NAME, "DE"),
            (NameOID.ORGANIZATION_NAME, "Smith, Sons"),
            (NameOID.ORGANIZATIONAL_UNIT_NAME, "Örders"),
            (NameOID.COMMON_NAME, "alice"),
        )
    )
    assert subject == "CN=alice,OU=Örders,O=Smith\\, Sons,C=DE"


def test_an_attribute_without_a_keyword_is_its_number_and_bytes() -> None:
    subject = subject_of(named((NameOID.EMAIL_ADDRESS, "a@b"), (NameOID.COMMON_NAME, "x")))
    assert subject == "CN=x,1.2.840.113549.1.9.1=#1603614062"


@pytest.mark.parametrize("size", range(0, 60, 7))
def test_a_certificate_that_ends_early_is_no_user(size: int) -> None:
    with pytest.raises((ValueError, IndexError)):
        subject_of(named((NameOID.COMMON_NAME, "x"))[:size])


@pytest.mark.parametrize(
    ("rules", "user"),
    [
        ("DEFAULT", "CN=Alice,OU=Orders,O=X"),
        ("RULE:^CN=(.*?),OU=Orders.*$/$1/", "Alice"),
        ("RULE:^CN=(.*?),OU=Orders.*$/$1@orders/L", "alice@orders"),
        ("RULE:^CN=Bob.*$/bob/,RULE:^CN=(.*?),.*$/$1/U", "ALICE"),
        ("RULE:^CN=Bob.*$/bob/ , DEFAULT", "CN=Alice,OU=Orders,O=X"),
        ("RULE:^CN=Bob.*$/bob/", None),
        ("RULE:^CN=(Alice),OU=(Orders),.*$/$2\\/$1/", "Orders/Alice"),
    ],
)
def test_the_first_rule_that_fits_names_the_user(rules: str, user: str | None) -> None:
    assert PrincipalRules(rules).user_of("CN=Alice,OU=Orders,O=X") == user


@pytest.mark.parametrize("rules", ["RULE:a", "RULE:(/x/", "RULE:a/b/Q", "anything"])
def test_rules_that_are_none_are_said(rules: str) -> None:
    with pytest.raises(UserError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalRules(rules)


def test_a_signed_token_counts() -> None:
    issuer = Issuer()
    verified = verify(issuer.token(**GOOD), read_keys(issuer.jwks()), EXPECTED, NOW_MS)
    assert verified == ("alice", GOOD["exp"] * 1000)  # type: ignore[operator]


def altered(token: str) -> str:
    head, _, signature = token.split(".")
    claims = base64.urlsafe_b64encode(json.dumps({**GOOD, "sub": "admin"}).encode()).decode().rstrip("=")
    return f"{head}.{claims}.{signature}"


@pytest.mark.parametrize(
    ("forge", "said"),
    [
        (lambda i: i.token(**{**GOOD, "exp": NOW_MS // 1000 - 60}), "expired"),
        (lambda i: i.token(**{k: v for k, v in GOOD.items() if k != "exp"}), "never expires"),
        (lambda i: i.token(**GOOD, nbf=NOW_MS // 1000 + 600), "for later"),
        (lambda i: i.token(**{**GOOD, "iss": "them"}), "issuer"),
        (lambda i: i.token(**{**GOOD, "aud": ["else"]}), "audience"),
        (lambda i: i.token(**{**GOOD, "sub": ""}), "who it is for"),
        (lambda i: i.token(algorithm="none", **GOOD), "signed by"),
        (lambda i: i.token(algorithm=[], **GOOD), "signed by"),
        (lambda i: i.token(algorithm={}, **GOOD), "signed by"),
        (lambda i: i.token(algorithm="HS256", **GOOD), "signed by"),
        (lambda i: i.token(algorithm="RS256", **GOOD), "no known key"),
        (lambda _: Issuer().token(**GOOD), "no known key"),
        (lambda i: altered(i.token(**GOOD)), "no known key"),
        (lambda i: i.token(**GOOD).rpartition(".")[0] + ".", "no known key"),
        (lambda _: "a.b", "not a signed JWT"),
        (lambda _: "!.b.c", "base64url"),
    ],
)
def test_a_token_that_is_wrong_anywhere_does_not_count(forge: Callable[[Issuer], str], said: str) -> None:
    issuer = Issuer()
    with pytest.raises(LoginFailed, match=said):
        verify(forge(issuer), read_keys(issuer.jwks()), EXPECTED, NOW_MS)


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b'{"keys": []}', b'{"keys": [{"kty": "oct", "k": "AA"}]}'])
def test_a_document_without_keys_is_refused(document: bytes) -> None:
    with pytest.raises(ValueError):
        read_keys(document)


def test_a_key_that_cannot_be_read_does_not_cost_the_others(caplog: pytest.LogCaptureFixture) -> None:
    issuer = Issuer()
    bad = [
        {"kty": "EC", "crv": "P-256", "kid": "off the curve", "x": "AQ", "y": "AQ"},
        {"kty": "EC", "crv": "P-256", "kid": "no base64", "x": "?", "y": "?"},
        {"kty": "RSA", "kid": "no numbers"},
        {"kty": "RSA", "kid": "a list", "alg": []},
    ]
    document = json.dumps({"keys": bad + json.loads(issuer.jwks())["keys"]}).encode()
    assert verify(issuer.token(**GOOD), read_keys(document), EXPECTED, NOW_MS).subject == "alice"
    assert caplog.text.count("event=key-not-read") == len(bad)


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (first_message("a.b.c"), ("a.b.c", "")),
        (b"y,a=bob,\x01host=x\x01auth=bearer   t\x01port=1\x01\x01", ("t", "bob")),
        (first_message("t" * TOKEN_CHARACTERS_MAX), ("t" * TOKEN_CHARACTERS_MAX, "")),
    ],
)
def test_the_first_message_of_oauthbearer_is_read(message: bytes, found: tuple[str, str]) -> None:
    assert read_first_message(message) == found


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer t\x01",
        b"n,,\x01auth=Bearer t\x01\x01x",
        b"n,,\x01auth=Bearer t\x01\x01\x01",
        b"n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01",
        b"n,,\x01auth=Basic t\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer t u\x01\x01",
        b"n,,\x01h0st=x\x01auth=Bearer t\x01\x01",
        b"n,,\x01host\x01auth=Bearer t\x01\x01",
        b"p=x,,\x01auth=Bearer t\x01\x01",
        b"n,b=x,\x01auth=Bearer t\x01\x01",
        b"n,a=x\0,\x01auth=Bearer t\x01\x01",
        b"n,,,\x01auth=Bearer t\x01\x01",
    ],
)
def test_what_is_no_first_message_of_oauthbearer_is_refused(message: bytes) -> None:
    with pytest.raises(LoginFailed, match="OAUTHBEARER"):
        read_first_message(message)


def test_a_long_message_of_oauthbearer_is_refused_before_it_is_read() -> None:
    """A message of as many pairs as fit once took the square of its length."""
    with pytest.raises(LoginFailed, match="too long"):
        read_first_message(b"n,,\x01" + b"a=\x01" * (TOKEN_CHARACTERS_MAX // 2))


def test_settings_that_cannot_work_leave_the_old_context(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = TlsSettings(keystore_location=Authority(tmp_path).pem("broker"))
    problems: list[UserError] = []

    def ask() -> TlsSettings:
        if problems:
            raise problems[0]
        return settings

    source = ContextSource(ask, server_context)
    first = source.current()
    problems.append(UserError("Bad value for ssl.client.auth", "it is none"))
    assert [source.current(), source.current()] == [first, first]
    assert caplog.text.count("event=certificates-not-reloaded") == 1
    problems.clear()
    assert source.current() is first


def test_a_pkcs12_store_gives_its_key_and_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    key, certificate = authority.issue("broker")
    encryption = serialization.BestAvailableEncryption(b"secret")
    data = pkcs12.serialize_key_and_certificates(b"x", key, certificate, [authority.certificate], encryption)
    pair = read_key_pair(data, "secret", None, "the store")
    assert pair.certificates.count("BEGIN CERTIFICATE") == 2
    assert "PRIVATE KEY" not in repr(pair)
    with pytest.raises(UserError, match="password is wrong"):
        read_key_pair(data, "other", None, "the store")
    for name in ("broker.p12", "broker.jks"):  # keytool has written PKCS#12 into files of any name since Java 9
        (tmp_path / name).write_bytes(data)
        server_context(TlsSettings(keystore_location=str(tmp_path / name), keystore_password="secret"))


def test_inline_pem_is_used_and_a_changed_file_is_read_again(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    path = Path(authority.pem("broker"))
    text = path.read_text()
    server_context(TlsSettings(keystore_key=text, keystore_certificate_chain=text))
    client_context(TlsSettings(truststore_certificates=Path(authority.path).read_text()))
    settings = TlsSettings(keystore_location=str(path))
    source = ContextSource(lambda: settings, server_context)
    first = source.current()
    assert source.current() is first
    path.write_text("")
    assert source.current() is first  # what cannot be read leaves the old one
    path.write_text(text)
    assert source.current() is not first


def test_keys_never_touch_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL reads files only: one in memory, which has no name."""
    text = Path(Authority(tmp_path).pem("broker")).read_text()
    written: list[str] = []
    write = os.write

    def watched(file: int, data: bytes) -> int:
        written.append(os.readlink(f"/proc/self/fd/{file}"))
        return write(file, data)

    monkeypatch.setattr(os, "write", watched)
    for name in ("NamedTemporaryFile", "TemporaryFile", "mkstemp", "mkdtemp"):
        monkeypatch.delattr(tempfile, name)
    server_context(TlsSettings(keystore_key=text, keystore_certificate_chain=text))
    assert written == ["/memfd:key (deleted)"]


@pytest.mark.parametrize("data", [b"", b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce" + bytes(60), b"no store at all" * 9])
def test_what_is_no_store_is_said(data: bytes) -> None:
    for read in (
        lambda: read_key_pair(data, None, None, "the store"),
        lambda: read_certificates(data, None, "the store"),
    ):
        with pytest.raises(UserError, match="the store"):
            read()


def test_a_jks_store_of_keytools_gives_its_key_and_certificate(tmp_path: Path) -> None:
    (tmp_path / "store.jks").write_bytes(JKS)
    store = TlsSettings(keystore_location=str(tmp_path / "store.jks"), keystore_password="secret1")
    server_context(store._replace(key_password="secret2"))
    assert read_certificates(JKS, "secret1", "the store").count("BEGIN CERTIFICATE") == 1
    for wrong in (store, store._replace(keystore_password="other"), store._replace(key_password="other")):
        with pytest.raises(UserError, match="password"):
            server_context(wrong)
    with pytest.raises(UserError, match="damaged"):
        read_key_pair(JKS[:60], None, "secret2", "the store")
