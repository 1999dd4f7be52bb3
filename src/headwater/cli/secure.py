"""What `headwater up --secure` keeps in `secure/` of the data directory: made once, used again by every later start.

    ca.key, ca.pem            an authority of this directory's own, and its certificate, which clients trust
    server.pem                the broker's key and certificate, for localhost, 127.0.0.1 and ::1
    broker-N.pem              the same for each of several brokers
    admin.password            of the first user
    zookeeper.password        of the brokers at their ZooKeeper, where several have one
    zookeeper.jaas            for ZooKeeper (section Server) and its tools (section Client; KAFKA_OPTS names the file)
    server.properties         the broker's settings; the broker knows the first user by its own login there
    client.properties         for Java's clients and tools, and for ours (`--command-config`)
    librdkafka.properties     for librdkafka: confluent-kafka, kcat (`kcat -F`)

The directory is for its owner alone (0700), and so is each file (0600). Files are written beside their place and moved
there; keys with their certificates and the password are never written again once they are there, but for a certificate
that is about to expire. The rest is derived from them, and written at every start: the directory may have been moved.
No secret goes into an argument or a log.
"""

import os
import secrets
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headwater.base.errors import UserError
from headwater.base.security.oauthbearer import require_cryptography

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

ADMIN: Final = "admin"
MECHANISM: Final = "SCRAM-SHA-512"
_DIRECTORY: Final = "secure"
_SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_DIGEST_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
_ZOOKEEPER_USER: Final = "broker"
_PASSWORD_BYTES: Final = 24
_AUTHORITY_DAYS: Final = 3650
_SERVER_DAYS: Final = 365  # more than 398 is refused by some clients
_RENEWED_DAYS: Final = 30  # before its end


class Secured(NamedTuple):
    """Where everything lies."""

    directory: Path

    @classmethod
    def of(cls, data_dir: Path) -> "Secured":
        return cls(data_dir / _DIRECTORY)

    @property
    def authority(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def server_config(self) -> Path:
        return self.directory / "server.properties"

    @property
    def client_config(self) -> Path:
        return self.directory / "client.properties"

    @property
    def librdkafka_config(self) -> Path:
        return self.directory / "librdkafka.properties"

    @property
    def password(self) -> Path:
        return self.directory / "admin.password"

    @property
    def zookeeper_password(self) -> Path:
        return self.directory / "zookeeper.password"

    @property
    def zookeeper_jaas(self) -> Path:
        return self.directory / "zookeeper.jaas"

    def key_store(self, broker_id: int) -> Path:
        """The key and the certificate of one of several brokers."""
        return self.directory / f"broker-{broker_id}.pem"


def prepare(data_dir: Path, now: datetime, brokers: int = 1, *, has_zookeeper: bool = False) -> Secured:
    """Everything there, made or found, for so many brokers, with a ZooKeeper of their own or without. Raises UserError.
    The caller holds the lock of the data directory.
    """
    require_cryptography("for `headwater up --secure`, which makes certificates")
    secured = Secured.of(data_dir)
    directory = secured.directory
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for private in (
            data_dir,
            directory,
        ):  # the log holds what users may not read, and the metadata their credentials
            private.chmod(0o700)
        password = _password(secured.password)
        several = [secured.key_store(each) for each in range(1, brokers + 1)] if brokers > 1 else []
        _prepare_certificates(directory, now, several)
        settings = server_properties(directory, password)
        if has_zookeeper:
            at_zookeeper = _password(secured.zookeeper_password)
            _write(secured.zookeeper_jaas, zookeeper_jaas(at_zookeeper).encode())
            settings["headwater.zookeeper.sasl.jaas.config"] = _zookeeper_login(at_zookeeper)
        _write(secured.server_config, properties_text(settings))
        _write(secured.client_config, properties_text(java_properties(directory, password)))
        _write(secured.librdkafka_config, properties_text(librdkafka_properties(directory, password)))
    except OSError as problem:
        raise UserError(f"Cannot use {directory}", problem.strerror or str(problem), "It must be yours") from None
    return secured


# The settings: pure


def server_properties(directory: Path, password: str) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
        "sasl.enabled.mechanisms": MECHANISM,
        "sasl.mechanism.inter.broker.protocol": MECHANISM,
        "security.inter.broker.protocol": "SASL_SSL",
        "sasl.jaas.config": _login(password),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN}",
    }


def java_properties(directory: Path, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
        "sasl.mechanism": MECHANISM,
        "sasl.jaas.config": _login(password),
    }


def librdkafka_properties(directory: Path, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(directory / "ca.pem"),
        "sasl.mechanism": MECHANISM,
        "sasl.username": ADMIN,
        "sasl.password": password,
    }


def _login(password: str) -> str:
    return f'{_SCRAM_MODULE} required username="{ADMIN}" password="{password}";'


def _zookeeper_login(password: str) -> str:
    return f'{_DIGEST_MODULE} required username="{_ZOOKEEPER_USER}" password="{password}";'


def zookeeper_jaas(password: str) -> str:
    users = f'{_DIGEST_MODULE} required user_{_ZOOKEEPER_USER}="{password}";'
    return f"Server {{\n  {users}\n}};\nClient {{\n  {_zookeeper_login(password)}\n}};\n"


def properties_text(settings: dict[str, str]) -> bytes:
    """As Java reads it: a backslash stands for itself only behind another."""
    lines = (f"{name}={text.replace(chr(92), chr(92) * 2)}\n" for name, text in settings.items())
    return ("# Made by `headwater up --secure` at each start\n" + "".join(lines)).encode()


def _password(path: Path) -> str:
    """The one that is there, or a new one."""
    if not path.exists():
        _write(path, (secrets.token_urlsafe(_PASSWORD_BYTES) + "\n").encode())
    return _password_in(path)


def _password_in(path: Path) -> str:
    text = path.read_text(encoding="utf-8").strip()
    if not text or any(character in '"\\;' or not character.isprintable() for character in text):
        raise UserError(
            f"Cannot use the password in {path}",
            "it is empty, or has a quote, a backslash or a semicolon in it",
            "Remove the file: a new password is made",
        )
    return text


# The certificates


def _prepare_certificates(directory: Path, now: datetime, several: list[Path]) -> None:
    """One for a broker alone, and those of `several`; each has a key of its own."""
    from cryptography.hazmat.primitives.asymmetric import ec

    authority_key, authority = _authority(directory, now)
    for path in (directory / "server.pem", *several):
        if path.exists() and _is_good(_certificate_in(path), authority, now):
            continue
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _signed("localhost", key, authority_key, authority, now, _SERVER_DAYS)
        _write(path, _key_text(key) + _text(certificate))


def _is_good(certificate: "x509.Certificate", authority: "x509.Certificate", now: datetime) -> bool:
    from datetime import timedelta

    soon = now + timedelta(days=_RENEWED_DAYS)
    return certificate.not_valid_after_utc > soon and certificate.issuer == authority.subject


def _authority(directory: Path, now: datetime) -> "tuple[EllipticCurvePrivateKey, x509.Certificate]":
    """The one that there is, or a new one. Its certificate is never made anew: clients have copied it."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key_path, path = directory / "ca.key", directory / "ca.pem"
    if path.exists():
        certificate = _certificate_in(path)
        try:
            key = load_pem_private_key(key_path.read_bytes(), None)
        except (OSError, ValueError, TypeError):
            key = None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise UserError(
                f"Cannot use the key of the authority, {key_path}",
                f"it is not there, or not that of {path}",
                f"Put it back, or remove {path} and {directory / 'server.pem'}: clients need the new {path.name} then",
            )
        return key, certificate
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _signed(f"Headwater {secrets.token_hex(4)}", key, key, None, now, _AUTHORITY_DAYS)
    _write(key_path, _key_text(key))
    _write(path, _text(certificate))
    return key, certificate


def _signed(
    name: str,
    key: "EllipticCurvePrivateKey",
    by: "EllipticCurvePrivateKey",
    authority: "x509.Certificate | None",
    now: datetime,
    days: int,
) -> "x509.Certificate":
    """Without an authority: one that signs itself."""
    import ipaddress
    from datetime import timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if authority is None else authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=0 if authority is None else None), True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), False)
        .add_extension(_usage(signs_certificates=authority is None), True)
    )
    if authority is not None:
        addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in ("127.0.0.1", "::1")]
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost"), *addresses]), False)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
    return builder.sign(by, hashes.SHA256())


def _usage(*, signs_certificates: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _certificate_in(path: Path) -> "x509.Certificate":
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(path.read_bytes())[0]
    except ValueError:
        raise UserError(f"Cannot use {path}", "there is no certificate in it", "Remove it: a new one is made") from None


def _text(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _key_text(key: Any) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    assert isinstance(text, bytes)
    return text


def _write(path: Path, content: bytes) -> None:
    """For its owner alone from the first byte on, and there as a whole or not at all."""
    beside = path.with_name(path.name + ".new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
