"""What a connection over TLS has to send: an outbox whose file slices are read and sent as bytes.

Files are copied once, from the page cache through OpenSSL: sendfile needs TLS in the kernel, which Python 3.11 cannot
ask for.
"""

import os
from typing import Any, Final

from headwater.base.ports import FileSlice, Warm
from headwater.server.outbox import Outbox, is_warm

_READ_BYTES: Final = 256 * 1024
_FIRST_AFTER_WARMING_BYTES: Final = 64 * 1024


class TlsOutbox(Outbox):
    """Slices are read and sent as bytes."""

    __slots__ = ()

    def send(self, chunks: list[Any]) -> None:
        self.put(chunks)

    def _send_slice(self, piece: FileSlice) -> bool:
        if self._slice_sent == 0 and not is_warm(piece):
            self.is_warming = True
            self._disk.submit(Warm(piece.file, piece.position, piece.length), self._on_warmed)
            return False
        while self._slice_sent < piece.length:
            self._send_part(piece, _READ_BYTES)
        self._slice_sent = 0
        return True

    def warmed(self) -> None:
        self.is_warming = False
        try:
            self._send_part(self.chunks[0], _FIRST_AFTER_WARMING_BYTES)
        except BlockingIOError:
            return
        self.flush()

    def _send_part(self, piece: FileSlice, size: int) -> None:
        at = self._slice_sent
        data = os.pread(piece.file.fileno(), min(size, piece.length - at), piece.position + at)
        if not data:
            raise OSError(0, "a segment is shorter than its log says")
        self._slice_sent += self._send(data)
