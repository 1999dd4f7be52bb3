"""HDFS by its REST interface (WebHDFS), so that neither Java nor Hadoop's libraries are needed beside the task.

A rename is atomic on HDFS, and never replaces a file. Clusters with Kerberos are not served: no ticket is presented.
"""

import getpass
import http.client
import json
from collections.abc import Iterator
from errno import EEXIST, EIO, ENOENT
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from headwater.connect.connectors.topic_files.locations import HdfsLocation

_PATIENCE_S: Final = 60
_TOLD_MAX: Final = 500


class WebHdfs:
    """A `FileSystem`. Names stay once the NameNode has answered, so there is nothing to sync."""

    def __init__(self, location: HdfsLocation) -> None:
        self._host, self._port = location.host, location.port
        self._user = location.user or getpass.getuser()

    def walk(self, directory: Path) -> Iterator[Path]:
        try:
            found = self._call("GET", directory, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        except FileNotFoundError:
            return
        for each in found:
            below = directory / each["pathSuffix"]
            if each["type"] == "DIRECTORY":
                yield from self.walk(below)
            else:
                yield below

    def write(self, path: Path, data: bytes) -> None:
        """The NameNode says which DataNode takes the bytes."""
        where = self._call("PUT", path, "CREATE", overwrite="true", noredirect="true")["Location"]
        parts = urlsplit(where)
        if parts.scheme != "http" or parts.hostname is None:
            raise OSError(EIO, f"the DataNode's address {where} is not served", str(path))
        _exchange(parts.hostname, parts.port or 80, "PUT", f"{parts.path}?{parts.query}", data, path)

    def rename(self, source: Path, target: Path) -> None:
        if self._call("PUT", source, "RENAME", destination=str(target))["boolean"]:
            return
        if not self.exists(source):
            raise FileNotFoundError(ENOENT, "it is gone", str(source))
        if not self.exists(target):
            raise OSError(EIO, "HDFS refused to rename it", str(source))
        if self._length(source) != self._length(target):
            raise FileExistsError(EEXIST, "another file of that name is there", str(target))
        self.unlink(source)  # the same file, written by another task

    def unlink(self, path: Path) -> None:
        if not self._call("DELETE", path, "DELETE")["boolean"]:
            raise FileNotFoundError(ENOENT, "it is gone", str(path))

    def exists(self, path: Path) -> bool:
        try:
            self._length(path)
        except FileNotFoundError:
            return False
        return True

    def make_directory(self, directory: Path) -> None:
        if not self._call("PUT", directory, "MKDIRS")["boolean"]:
            raise OSError(EIO, "HDFS refused to make the directory", str(directory))

    def sync(self, directory: Path) -> None:
        del directory

    def _length(self, path: Path) -> int:
        return int(self._call("GET", path, "GETFILESTATUS")["FileStatus"]["length"])

    def _call(self, method: str, path: Path, operation: str, **given: str) -> dict[str, Any]:
        query = urlencode({"op": operation, "user.name": self._user, **given})
        told = _exchange(self._host, self._port, method, f"/webhdfs/v1{quote(str(path))}?{query}", None, path)
        try:
            answer = json.loads(told)
        except ValueError:
            raise OSError(EIO, f"{self._host}:{self._port} does not speak WebHDFS", str(path)) from None
        assert isinstance(answer, dict)
        return answer


def _exchange(host: str, port: int, method: str, target: str, data: bytes | None, path: Path) -> bytes:
    connection = http.client.HTTPConnection(host, port, timeout=_PATIENCE_S)
    try:
        headers = {"Content-Type": "application/octet-stream"} if data is not None else {}
        connection.request(method, target, data, headers)
        answer = connection.getresponse()
        told = answer.read()
    except http.client.HTTPException as error:
        raise OSError(EIO, f"{host}:{port} does not speak HTTP: {error}", str(path)) from error
    finally:
        connection.close()
    if answer.status >= 300:
        raise _refusal(answer.status, told, path)
    return told


def _refusal(status: int, told: bytes, path: Path) -> OSError:
    try:
        said = json.loads(told)["RemoteException"]
        kind, message = str(said["exception"]), str(said["message"]).partition("\n")[0][:_TOLD_MAX]
    except (ValueError, KeyError, TypeError):
        kind, message = "", f"HTTP {status}"
    if kind == "FileNotFoundException":
        return FileNotFoundError(ENOENT, message, str(path))
    return OSError(EIO, f"{kind}: {message}" if kind else message, str(path))
