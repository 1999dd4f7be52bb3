"""Key stores and trust stores become PEM: from PEM, PKCS#12 and JKS, told apart by their first bytes. No state; nothing
is written.

JKS is Java's own format, old and documented nowhere but in its code: big-endian, entries of an encrypted key with its
certificates or of a trusted certificate, and a SHA-1 over the password and all of it at the end. A key is XORed with a
stream of SHA-1s over the password and the digest before, and a SHA-1 of the result stands behind it. It is read here so
that files from elsewhere work, and never written. PKCS#12 needs the package `cryptography`.
"""

import base64
import hashlib
import hmac
import re
from struct import Struct, error
from typing import Final, NamedTuple

from headwater.base.errors import UserError
from headwater.base.security.oauthbearer import require_cryptography

FILE_BYTES_MAX: Final = 16 << 20
_JKS_MAGIC: Final = 0xFEEDFEED
_JCEKS_MAGIC: Final = 0xCECECECE
_HEAD: Final = Struct(">IIi")
_KEY, _CERTIFICATE = 1, 2
_SHA1_BYTES: Final = 20
_ENTRIES_MAX: Final = 100_000
_WHITENING: Final = b"Mighty Aphrodite"
_JKS_KEY_OID: Final = bytes.fromhex("060a2b060104012a02110101")  # Sun's key protector
_PEM: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)


class KeyPair(NamedTuple):
    """As PEM; `password` is that of the key, if it is encrypted still."""

    key: str
    certificates: str
    password: str | None = None

    def __repr__(self) -> str:
        return "KeyPair()"


def read_file(path: str, setting: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as problem:
        raise UserError(f"Cannot read {setting}={path}", problem.strerror or str(problem)) from None
    if len(data) > FILE_BYTES_MAX:
        raise UserError(f"Cannot read {setting}={path}", f"it has more than {FILE_BYTES_MAX} bytes")
    return data


def read_key_pair(data: bytes, password: str | None, key_password: str | None, where: str) -> KeyPair:
    """The key and the chain of certificates in a key store. Raises UserError."""
    if is_pem(data):
        return pem_key_pair(data.decode("ascii", "replace"), data.decode("ascii", "replace"), key_password, where)
    if _is_jks(data):
        for entry in _read_jks(data, password, where):
            if entry.key is not None:
                key = _recover_jks_key(entry.key, key_password or password or "", where)
                return KeyPair(
                    _pem("PRIVATE KEY", key), "".join(_pem("CERTIFICATE", der) for der in entry.certificates)
                )
        raise UserError(f"{where} has no private key", "it is a store of certificates only")
    return _pkcs12_key_pair(data, password, where)


def read_certificates(data: bytes, password: str | None, where: str) -> str:
    """All certificates in a trust store, as PEM. Raises UserError."""
    if is_pem(data):
        found = "\n".join(pem_blocks(data.decode("ascii", "replace"), "CERTIFICATE"))
    elif _is_jks(data):
        entries = _read_jks(data, password, where)
        found = "".join(_pem("CERTIFICATE", entry.certificates[0]) for entry in entries if entry.certificates)
    else:
        found = _pkcs12_certificates(data, password, where)
    if not found:
        raise UserError(f"{where} has no certificate", "nobody could be trusted by it")
    return found


def is_pem(data: bytes) -> bool:
    return b"-----BEGIN " in data


def pem_blocks(text: str, kind: str) -> list[str]:
    return [found[0] for found in _PEM.finditer(text) if found[1] == kind]


def pem_key_pair(key_text: str, certificate_text: str, key_password: str | None, where: str) -> KeyPair:
    keys = [found[0] for found in _PEM.finditer(key_text) if found[1].endswith("PRIVATE KEY")]
    certificates = pem_blocks(certificate_text, "CERTIFICATE")
    if len(keys) != 1 or not certificates:
        raise UserError(
            f"{where} is not a key with its certificates",
            f"it has {len(keys)} keys and {len(certificates)} certificates",
        )
    is_encrypted = "ENCRYPTED" in keys[0].splitlines()[0] or "Proc-Type: 4,ENCRYPTED" in keys[0]
    if is_encrypted and not key_password:
        raise UserError(f"The key in {where} is encrypted", "ssl.key.password is not set")
    return KeyPair(keys[0], "\n".join(certificates) + "\n", key_password if is_encrypted else None)


# JKS


class _JksEntry(NamedTuple):
    key: bytes | None  # encrypted
    certificates: list[bytes]


def _is_jks(data: bytes) -> bool:
    return data[:4] in (_JKS_MAGIC.to_bytes(4), _JCEKS_MAGIC.to_bytes(4))


def _read_jks(data: bytes, password: str | None, where: str) -> list[_JksEntry]:
    if data[:4] == _JCEKS_MAGIC.to_bytes(4):
        raise UserError(
            f"{where} is a JCEKS store", "only JKS and PKCS12 are read", "keytool -importkeystore -deststoretype PKCS12"
        )
    if password is not None:
        digest = hashlib.sha1(password.encode("utf-16-be") + _WHITENING + data[:-_SHA1_BYTES]).digest()
        if not hmac.compare_digest(digest, data[-_SHA1_BYTES:]):
            raise UserError(f"Cannot open {where}", "the password is wrong, or the file is damaged")
    try:
        return _JksReader(data[:-_SHA1_BYTES]).entries()
    except (error, ValueError) as problem:
        raise UserError(f"Cannot open {where}", f"it is damaged ({problem})") from None


class _JksReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = _HEAD.size
        _, self._version, self._count = _HEAD.unpack_from(data)

    def entries(self) -> list[_JksEntry]:
        if self._version not in (1, 2) or not 0 <= self._count <= _ENTRIES_MAX:
            raise ValueError("an unknown version, or too many entries")
        return [self._entry() for _ in range(self._count)]

    def _entry(self) -> _JksEntry:
        kind = self._number(4)
        self._take(self._number(2))  # its alias
        self._take(8)  # when it was made
        if kind == _CERTIFICATE:
            return _JksEntry(None, [self._certificate()])
        if kind != _KEY:
            raise ValueError("an entry of an unknown kind")
        key = self._take(self._number(4))
        count = self._number(4)
        if count > 100:
            raise ValueError("a chain of more than 100 certificates")
        return _JksEntry(key, [self._certificate() for _ in range(count)])

    def _certificate(self) -> bytes:
        if self._version == 2:
            self._take(self._number(2))  # X.509
        return self._take(self._number(4))

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size))

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) != size:
            raise ValueError("it ends too early")
        self._at += size
        return taken


def _recover_jks_key(protected: bytes, password: str, where: str) -> bytes:
    """PKCS#8 in DER."""
    at = protected.find(_JKS_KEY_OID)
    try:
        if at < 0 or at > 16:
            raise ValueError("its key is protected by another algorithm than Java's own")
        sealed = _octets_behind(protected, at + len(_JKS_KEY_OID))
    except (ValueError, IndexError) as problem:
        raise UserError(f"Cannot read the key in {where}", str(problem)) from None
    salt, encrypted, check = sealed[:_SHA1_BYTES], sealed[_SHA1_BYTES:-_SHA1_BYTES], sealed[-_SHA1_BYTES:]
    secret = password.encode("utf-16-be")
    stream, digest = bytearray(), salt
    while len(stream) < len(encrypted):
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    key = bytes(a ^ b for a, b in zip(encrypted, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise UserError(f"Cannot read the key in {where}", "ssl.key.password, or the password of the store, is wrong")
    return key


def _octets_behind(der: bytes, at: int) -> bytes:
    """The OCTET STRING behind the algorithm, whose parameters may be NULL."""
    if der[at : at + 2] == b"\x05\x00":
        at += 2
    if der[at] != 0x04:
        raise ValueError("no octets where the key should be")
    size, at = der[at + 1], at + 2
    if size & 0x80:
        count = size & 0x7F
        size, at = int.from_bytes(der[at : at + count]), at + count
    if at + size > len(der) or size < 2 * _SHA1_BYTES:
        raise ValueError("it ends too early")
    return der[at : at + size]


# PKCS#12


def _pkcs12_key_pair(data: bytes, password: str | None, where: str) -> KeyPair:
    require_cryptography(f"to read the PKCS#12 store {where}")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    try:
        key, certificate, more = pkcs12.load_key_and_certificates(data, None if password is None else password.encode())
    except ValueError as problem:
        raise _not_opened(where, problem) from None
    if key is None or certificate is None:
        raise UserError(f"{where} has no private key with a certificate", "it is a store of certificates only")
    chain = b"".join(each.public_bytes(Encoding.PEM) for each in (certificate, *more))
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(pem.decode(), chain.decode())


def _pkcs12_certificates(data: bytes, password: str | None, where: str) -> str:
    require_cryptography(f"to read the PKCS#12 store {where}")
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as problem:
        raise _not_opened(where, problem) from None
    found = [store.cert] if store.cert is not None else []
    found += store.additional_certs
    return b"".join(each.certificate.public_bytes(Encoding.PEM) for each in found).decode()


def _not_opened(where: str, problem: ValueError) -> UserError:
    reason = "the password is wrong, or it is neither PEM, PKCS#12 nor JKS"
    return UserError(f"Cannot open {where}", reason if "assword" in str(problem) else f"{reason} ({problem})")


def _pem(kind: str, der: bytes) -> str:
    text = base64.encodebytes(der).decode()
    return f"-----BEGIN {kind}-----\n{text}-----END {kind}-----\n"
