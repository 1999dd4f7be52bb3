"""Why connections with TLS are `SSLSocket`s and not memory BIOs: `python -m bench.tls_faces`.

400 MiB go through a socket to another thread, a megabyte at a time. What counts is the processor time of the thread
that sends them, or that receives them, so that a busy machine changes little. Not a row of the benchmarks: it decides
something once (docs/adr/0027-one-gate-before-requests.md).
"""

import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from headwater.cli.secure import prepare

PIECE, PIECES, ROUNDS = bytes(1 << 20), 400, 3
READ_BYTES = 256 << 10
TOTAL = len(PIECE) * PIECES


class MemoryFace:
    """A socket, and OpenSSL between two buffers in memory."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext) -> None:
        self._plain = plain
        self._inward, self._outward = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._inward, self._outward, server_side=True)
        while True:
            try:
                self._tls.do_handshake()
                self._flush()
                return
            except ssl.SSLWantReadError:
                self._flush()
                self._inward.write(plain.recv(65536))

    def _flush(self) -> None:
        if self._outward.pending:
            self._plain.sendall(self._outward.read())

    def sendall(self, data: bytes) -> None:
        self._tls.write(data)
        self._flush()

    def recv_into(self, buffer: memoryview) -> int:
        while True:
            try:
                return self._tls.read(len(buffer), buffer)  # type: ignore[arg-type]  # typeshed knows bytearrays only
            except ssl.SSLWantReadError:
                received = self._plain.recv(READ_BYTES)
                if not received:
                    return 0
                self._inward.write(received)


def socket_face(plain: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    return context.wrap_socket(plain, server_side=True)


FACES: dict[str, Callable[[socket.socket, ssl.SSLContext], "ssl.SSLSocket | MemoryFace"]] = {
    "SSLSocket": socket_face,
    "memory BIO": MemoryFace,
}


def measured(face: str, what: str, server: ssl.SSLContext, client: ssl.SSLContext) -> float:
    """Seconds of the processor for all of it."""
    ours, theirs = socket.socketpair()

    def other_side() -> None:
        with client.wrap_socket(theirs, server_hostname="localhost") as peer:
            if what == "send":
                drained(peer)
            else:
                for _ in range(PIECES):
                    peer.sendall(PIECE)

    peer = threading.Thread(target=other_side)
    peer.start()
    connection = FACES[face](ours, server)
    began = time.thread_time()
    if what == "send":
        for _ in range(PIECES):
            connection.sendall(PIECE)
    else:
        drained(connection)
    took = time.thread_time() - began
    peer.join()
    ours.close()
    return took


def drained(connection: "ssl.SSLSocket | MemoryFace") -> None:
    buffer = memoryview(bytearray(READ_BYTES))
    left = TOTAL
    while left:
        received = connection.recv_into(buffer)
        if not received:
            raise ConnectionError(f"the peer ended with {left} bytes to come")
        left -= received


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = prepare(Path(folder), datetime.now(UTC)).directory
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(files / "server.pem")
        client = ssl.create_default_context(cafile=str(files / "ca.pem"))
        for what in ("send", "receive"):
            for face in FACES:
                best = min(measured(face, what, server, client) for _ in range(ROUNDS))
                print(f"{what:8} {face:11} {best / PIECES * 1e6:6.0f} us of the processor per MiB")


if __name__ == "__main__":
    main()
