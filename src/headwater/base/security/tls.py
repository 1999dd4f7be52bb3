"""TLS contexts from Kafka's `ssl.*` settings, for servers and clients; made anew when a file or a setting changes.

Python loads keys from files only. Keys that come from a setting or out of a key store are shown to it as an anonymous
file in memory (`memfd_create`), so that they never touch the disk. Cipher suites have their IANA names; OpenSSL's are
its own, and the table of those that TLS 1.2 should still be used with is short. TLS 1.3's cannot be chosen by Python's
`ssl` before 3.15: naming some is refused.

A `ContextSource` belongs to one listener or client. When new files cannot be read, the old context goes on, and the log
says so once.
"""

import logging
import os
import ssl
from collections.abc import Callable
from typing import Final, NamedTuple

from headwater.base.errors import UserError
from headwater.base.security.key_stores import (
    KeyPair,
    pem_blocks,
    pem_key_pair,
    read_certificates,
    read_file,
    read_key_pair,
)

CIPHERS: Final = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256": "DHE-RSA-AES128-GCM-SHA256",
    "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
}
STORE_TYPES: Final = ("JKS", "PKCS12", "PEM")
_TLS_13: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

logger = logging.getLogger("headwater.security")


class TlsSettings(NamedTuple):
    """The values of Kafka's `ssl.*` settings, with underscores. Not shown: some are secrets."""

    keystore_location: str | None = None
    keystore_password: str | None = None
    keystore_key: str | None = None
    keystore_certificate_chain: str | None = None
    key_password: str | None = None
    truststore_location: str | None = None
    truststore_password: str | None = None
    truststore_certificates: str | None = None
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    client_auth: str = "none"
    endpoint_identification: str = "https"

    def __repr__(self) -> str:
        return f"TlsSettings(keystore={self.keystore_location!r}, truststore={self.truststore_location!r})"

    def files(self) -> list[str]:
        return [path for path in (self.keystore_location, self.truststore_location) if path]


def check_store_type(setting: str, kind: str | None) -> None:
    """What a file is, its first bytes say; a type that nobody could read is told here."""
    if kind is not None and kind.upper() not in STORE_TYPES:
        raise UserError(
            f"Bad value for {setting}: {kind}", "no such store can be read", f"Use {', '.join(STORE_TYPES)}"
        )


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Raises UserError."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings)
    pair = _key_pair(settings)
    if pair is None:
        raise UserError(
            "A listener with TLS needs a key and a certificate",
            "neither ssl.keystore.location nor ssl.keystore.key is set",
            "Set ssl.keystore.location to a PEM, PKCS#12 or JKS file",
        )
    _load_key_pair(context, pair)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.verify_mode = _VERIFY[settings.client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        _load_trusted(context, settings, ssl.Purpose.CLIENT_AUTH)
    return context


def check_trusted(settings: TlsSettings) -> None:
    """Reads the trust store, if there is one. Raises UserError."""
    if settings.truststore_location or settings.truststore_certificates:
        _load_trusted(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), settings, ssl.Purpose.CLIENT_AUTH)


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Always checks the certificate; the host name too, unless `ssl.endpoint.identification.algorithm` is empty. Raises
    UserError.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings)
    if settings.endpoint_identification.lower() not in ("https", ""):
        raise UserError(
            f"Bad value for ssl.endpoint.identification.algorithm: {settings.endpoint_identification}",
            "it is https, or empty for no check of host names",
        )
    context.check_hostname = bool(settings.endpoint_identification)
    context.verify_mode = ssl.CERT_REQUIRED
    _load_trusted(context, settings, ssl.Purpose.SERVER_AUTH)
    pair = _key_pair(settings)
    if pair is not None:
        _load_key_pair(context, pair)
    return context


def _context(side: int, settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    unknown = [name for name in settings.enabled_protocols if name not in _VERSIONS]
    if unknown or not settings.enabled_protocols:
        raise UserError(
            f"Bad value for ssl.enabled.protocols: {','.join(settings.enabled_protocols)}",
            "TLS before 1.2 is broken, and later ones are not known",
            f"Use {' or '.join(_VERSIONS)}",
        )
    wanted = sorted(_VERSIONS[name] for name in settings.enabled_protocols)
    context.minimum_version, context.maximum_version = wanted[0], wanted[-1]
    if settings.cipher_suites:
        context.set_ciphers(":".join(_openssl_name(name) for name in settings.cipher_suites))
    return context


def _openssl_name(name: str) -> str:
    found = CIPHERS.get(name)
    if found is None:
        raise UserError(
            f"Bad value for ssl.cipher.suites: {name}",
            "the cipher suites of TLS 1.3 cannot be chosen here, and all of them are good"
            if name in _TLS_13
            else "no such cipher suite of TLS 1.2 is offered",
            f"Leave it out, or use some of {', '.join(CIPHERS)}",
        )
    return found


def _key_pair(settings: TlsSettings) -> KeyPair | None:
    if settings.keystore_key or settings.keystore_certificate_chain:
        if settings.keystore_location:
            raise UserError("Both ssl.keystore.location and ssl.keystore.key are set", "only one of them can be meant")
        return pem_key_pair(
            settings.keystore_key or "",
            settings.keystore_certificate_chain or "",
            settings.key_password,
            "ssl.keystore.key with ssl.keystore.certificate.chain",
        )
    if not settings.keystore_location:
        return None
    path = settings.keystore_location
    data = read_file(path, "ssl.keystore.location")
    return read_key_pair(data, settings.keystore_password, settings.key_password, f"the key store {path}")


def _load_key_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    file = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        os.write(file, f"{pair.key}\n{pair.certificates}".encode())
        context.load_cert_chain(f"/proc/self/fd/{file}", password=pair.password or "")
    except ssl.SSLError as problem:
        reason = problem.reason or str(problem)
        told = "the key does not belong to the certificate" if "MISMATCH" in reason else f"OpenSSL says {reason}"
        raise UserError("Cannot use the key and the certificate of ssl.keystore", told) from None
    finally:
        os.close(file)


def _load_trusted(context: ssl.SSLContext, settings: TlsSettings, purpose: ssl.Purpose) -> None:
    if settings.truststore_certificates:
        found = "\n".join(pem_blocks(settings.truststore_certificates, "CERTIFICATE"))
    elif settings.truststore_location:
        path = settings.truststore_location
        data = read_file(path, "ssl.truststore.location")
        found = read_certificates(data, settings.truststore_password, f"the trust store {path}")
    else:
        context.load_default_certs(purpose)
        return
    try:
        context.load_verify_locations(cadata=found)
    except (ssl.SSLError, ValueError) as problem:
        raise UserError("Cannot use the certificates of ssl.truststore", str(problem)) from None


class ContextSource:
    """The context that is right now. `settings` is asked each time: a dynamic config may have changed them."""

    def __init__(self, settings: Callable[[], TlsSettings], make: Callable[[TlsSettings], ssl.SSLContext]) -> None:
        self._settings = settings
        self._make = make
        self._seen = self._look()
        self._context = make(self._seen[0])
        self._problem = ""  # with the settings; said once

    def current(self) -> ssl.SSLContext:
        try:
            seen = self._look()
        except UserError as problem:
            if str(problem) != self._problem:
                self._problem = str(problem)
                self._not_reloaded(problem)
            return self._context
        self._problem = ""
        if seen != self._seen:
            self._seen = seen
            try:
                self._context = self._make(seen[0])
                logger.info("event=certificates-reloaded files=%r", seen[0].files())
            except UserError as problem:
                self._not_reloaded(problem)
        return self._context

    def _not_reloaded(self, problem: UserError) -> None:
        logger.error("event=certificates-not-reloaded reason=%r note='the old ones go on'", str(problem))

    def _look(self) -> tuple[TlsSettings, tuple[tuple[int, ...], ...]]:
        settings = self._settings()
        return settings, tuple(_stamp(path) for path in settings.files())


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
