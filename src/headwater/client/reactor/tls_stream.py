"""A stream over TLS: connected once the handshake is over and the certificate, with its host name, was checked.

Owned by the kernel's owner, as a plain stream.
"""

import selectors
import socket
import ssl
from typing import TYPE_CHECKING

from headwater.base.security.tls import ContextSource
from headwater.base.security.tls_socket import TlsSocket
from headwater.client.addresses import Address
from headwater.client.reactor.network import Network, NotSecured, StreamOwner, TcpStream

if TYPE_CHECKING:
    from collections.abc import Callable


def tls_streams(source: ContextSource) -> "Callable[[Network, Address, StreamOwner, int], TlsStream]":
    """For `Network`: streams by the context that is right when they are made."""

    def stream_to(network: Network, address: Address, owner: StreamOwner, frame_bytes_max: int) -> TlsStream:
        return TlsStream(network, address, owner, frame_bytes_max, source.current())

    return stream_to


class TlsStream(TcpStream):
    def __init__(
        self, network: Network, address: Address, owner: StreamOwner, frame_bytes_max: int, context: ssl.SSLContext
    ) -> None:
        self._context = context
        self._host = address.host
        self._tls: TlsSocket | None = None
        self._is_shaking = False
        super().__init__(network, address, owner, frame_bytes_max)

    def _opened(self) -> None:
        plain = self._socket
        assert isinstance(plain, socket.socket)
        self._watch(0)
        try:
            self._tls = self._socket = TlsSocket(plain, self._context, self._host)
        except (OSError, ValueError) as problem:
            self._fail(NotSecured(sentence(problem), is_final=isinstance(problem, ssl.SSLCertVerificationError)))
            return
        self._is_shaking = True
        self._shake()

    def _on_event(self, mask: int) -> None:
        if self._is_shaking and not self._closed:
            self._shake()
        else:
            super()._on_event(mask)

    def _shake(self) -> None:
        tls = self._tls
        assert tls is not None
        try:
            is_over = tls.step()
        except OSError as problem:
            self._fail(NotSecured(sentence(problem), is_final=isinstance(problem, ssl.SSLCertVerificationError)))
            return
        if not is_over:
            self._watch(selectors.EVENT_WRITE if tls.is_writing else selectors.EVENT_READ)
            return
        self._is_shaking = False
        super()._opened()

    def _receive(self) -> None:
        super()._receive()
        if self._tls is not None and not self._tls.is_drained and not self._closed:
            self._network.post(self._receive_rest)  # the selector does not know what OpenSSL holds

    def _receive_rest(self) -> None:
        if not self._closed:
            self._receive()


def sentence(problem: Exception) -> str:
    """What went wrong with TLS, and what helps."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        reason = problem.verify_message
        hint = (
            "check the address, or ssl.endpoint.identification.algorithm"
            if "ostname" in reason or "IP address" in reason
            else "is its authority in ssl.truststore.location?"
        )
        return f"its certificate is not trusted: {reason} ({hint})"
    reason = (problem.reason if isinstance(problem, ssl.SSLError) else None) or str(problem)
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
        return "what answers there does not speak TLS (is the listener PLAINTEXT or SASL_PLAINTEXT?)"
    if reason == "UNEXPECTED_EOF_WHILE_READING":
        return "it ended the connection in the TLS handshake (is the listener PLAINTEXT or SASL_PLAINTEXT?)"
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
        return f"the broker refused the TLS handshake ({reason}): it may want a certificate (ssl.keystore.location)"
    return f"no TLS handshake ({reason})"
