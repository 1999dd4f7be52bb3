"""Objects of S3, or of what speaks its protocol, by Arrow's client.

Arrow uploads in parts, and its streams know no abort: `close`, which the destructor calls too, completes the upload
with the parts that are there. Only with `background_writes` does a stream remember that a part was refused; then no
`close` completes it, and the object does not come to be. A stream that did not take all the data is never closed, nor
destroyed: its destructor would complete the upload, and waits for ever where the process ends, since nobody runs
Arrow's threads any more.
"""

import contextlib
import ctypes
from typing import TYPE_CHECKING, Final

from headwater.connect.connectors.topic_files.locations import S3Location

if TYPE_CHECKING:
    from pyarrow import NativeFile
    from pyarrow.fs import S3FileSystem

_PATIENCE_S: Final = 30


class S3Objects:
    def __init__(self, location: S3Location) -> None:
        self._system = _client(location)
        self._root = f"{location.bucket}/{location.prefix}".rstrip("/")

    def keys(self, prefix: str) -> list[str]:
        from pyarrow.fs import FileSelector, FileType

        selected = FileSelector(f"{self._root}/{prefix}".rstrip("/"), recursive=True, allow_not_found=True)
        found = self._system.get_file_info(selected)
        return [each.path[len(self._root) + 1 :] for each in found if each.type is FileType.File]

    def get(self, key: str) -> bytes:
        with self._system.open_input_stream(f"{self._root}/{key}") as stream:
            data: bytes = stream.read()
        return data

    def put(self, key: str, data: bytes) -> None:
        stream = self._system.open_output_stream(f"{self._root}/{key}")
        try:
            stream.write(data)
        except BaseException:
            _never_destroy(stream)
            raise
        stream.close()

    def delete(self, key: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_file(f"{self._root}/{key}")


def _never_destroy(stream: "NativeFile") -> None:
    """A reference that nobody has: what a module holds is destroyed when the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(stream))


def _client(location: S3Location) -> "S3FileSystem":
    from pyarrow.fs import S3FileSystem

    return S3FileSystem(
        access_key=location.access_key or None,
        secret_key=location.secret_key or None,
        region=location.region,
        endpoint_override=location.endpoint or None,
        background_writes=True,  # see above
        request_timeout=_PATIENCE_S,
        connect_timeout=_PATIENCE_S,
    )
