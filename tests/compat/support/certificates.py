"""An authority, certificates and tokens, made for one test run."""

import base64
import ipaddress
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM


class Authority:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._sign("authority", self._key, is_authority=True)
        self.path = str(directory / "ca.pem")
        Path(self.path).write_bytes(self.certificate.public_bytes(PEM))

    @property
    def key_pem(self) -> str:
        plain = serialization.NoEncryption()
        return self._key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, plain).decode()

    def issue(
        self, name: str, host: str = "localhost", valid_days: tuple[int, int] = (-1, 1)
    ) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
        key = ec.generate_private_key(ec.SECP256R1())
        return key, self._sign(name, key, host=host, valid_days=valid_days)

    def pem(self, name: str, host: str = "localhost", valid_days: tuple[int, int] = (-1, 1)) -> str:
        """The path of a key with its certificate: for `host` and 127.0.0.1, within these days from now."""
        key, certificate = self.issue(name, host, valid_days)
        path = self.directory / f"{name}.pem"
        plain = serialization.NoEncryption()
        path.write_bytes(
            key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, plain) + certificate.public_bytes(PEM)
        )
        return str(path)

    def _sign(
        self,
        name: str,
        key: Any,
        *,
        is_authority: bool = False,
        host: str = "localhost",
        valid_days: tuple[int, int] = (-1, 1),
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        hosts = [x509.DNSName(host), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name("authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + timedelta(days=valid_days[0]))
            .not_valid_after(now + timedelta(days=valid_days[1]))
        )
        if is_authority:
            builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        else:
            builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _name(common: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example"), x509.NameAttribute(NameOID.COMMON_NAME, common)]
    )


class Issuer:
    """Who signs tokens by ES256."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())

    def jwks(self) -> bytes:
        numbers = self._key.public_key().public_numbers()
        x, y = (_base64(number.to_bytes(32)) for number in (numbers.x, numbers.y))
        return json.dumps({"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", "x": x, "y": y}]}).encode()

    def token(self, *, algorithm: str = "ES256", **claims: Any) -> str:
        header = {"alg": algorithm, "kid": "1"}
        signed = ".".join(_base64(json.dumps(part).encode()) for part in (header, claims))
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_base64(r.to_bytes(32) + s.to_bytes(32))}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
