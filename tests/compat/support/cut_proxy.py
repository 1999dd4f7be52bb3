"""A TCP proxy that can be cut as a network is: connections stay, nothing passes, and what was on its way arrives when
the cut is mended. A client that has not connected before gets no answer either.
"""

import contextlib
import socket
import threading
from typing import Final

_PIECE: Final = 1 << 16


class CutProxy:
    def __init__(self, port: int) -> None:
        """`port`: of the server."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.port = port
        self.held_bytes = 0  # of clients, since the last cut
        self._whole = threading.Event()
        self._whole.set()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self.held_bytes = 0
        self._whole.clear()

    def mend(self) -> None:
        self._whole.set()

    def close(self) -> None:
        self._whole.set()
        for each in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._open.append(client)
        self._whole.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self.port))
        except OSError:
            client.close()
            return
        self._open.append(server)
        threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()
        self._pass(client, server, True)

    def _pass(self, source: socket.socket, target: socket.socket, of_client: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_PIECE):
                if of_client and not self._whole.is_set():
                    self.held_bytes += len(data)
                self._whole.wait()
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
