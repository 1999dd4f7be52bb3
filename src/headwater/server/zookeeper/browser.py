"""ZooKeeper for people: calls that wait for their answers, and problems as sentences. Not for brokers."""

import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from headwater.base.errors import UserError

Result = TypeVar("Result")

_CONNECT_TIMEOUT_S: Final = 15.0
_SESSION_TIMEOUT_S: Final = 30.0


class Browser:
    """A session, from `with` to the end of it. `connect` is host:port,host:port/chroot."""

    def __init__(self, connect: str) -> None:
        try:
            from kazoo import exceptions
            from kazoo.client import KazooClient
        except ImportError as problem:
            raise UserError(
                "The client of ZooKeeper is not installed", str(problem), "pip install 'headwater[cluster]'"
            ) from problem
        silent = logging.Logger("headwater.zookeeper.silent", logging.CRITICAL)
        self._connect = connect
        self._exceptions = exceptions
        try:
            self._client: Any = KazooClient(connect, timeout=_SESSION_TIMEOUT_S, logger=silent)
        except ValueError as problem:
            raise UserError(f"{connect} names no ZooKeeper", str(problem), "Write host:port") from problem

    def __enter__(self) -> "Browser":
        if not self._client.start_async().wait(_CONNECT_TIMEOUT_S):
            self.__exit__()
            raise UserError(f"Cannot reach ZooKeeper at {self._connect}")
        return self

    def __exit__(self, *_exception: object) -> None:
        self._client.stop()
        self._client.close()

    def children(self, path: str) -> list[str]:
        return sorted(self._asked(path, lambda: self._client.get_children(path)))

    def below(self, path: str) -> Iterator[str]:
        """The path itself and everything under it, parents first."""
        yield path
        for name in self.children(path):
            yield from self.below(f"{path.rstrip('/')}/{name}")

    def get(self, path: str) -> bytes:
        data: bytes = self._asked(path, lambda: self._client.get(path))[0]
        return data

    def stat(self, path: str) -> Any:
        found = self._asked(path, lambda: self._client.exists(path))
        if found is None:
            raise UserError(f"Node does not exist: {path}")
        return found

    def create(self, path: str, data: bytes, *, ephemeral: bool, sequential: bool) -> str:
        made: str = self._asked(path, lambda: self._client.create(path, data, ephemeral=ephemeral, sequence=sequential))
        return made

    def set(self, path: str, data: bytes, version: int) -> None:
        self._asked(path, lambda: self._client.set(path, data, version))

    def delete(self, path: str, version: int) -> None:
        self._asked(path, lambda: self._client.delete(path, version))

    def delete_all(self, path: str) -> None:
        for each in reversed(list(self.below(path))):
            self.delete(each, -1)

    def _asked(self, path: str, ask: Callable[[], Result]) -> Result:
        known = self._exceptions
        try:
            return ask()
        except known.NoNodeError as problem:
            raise UserError(f"Node does not exist: {path}") from problem
        except known.NodeExistsError as problem:
            raise UserError(f"Node already exists: {path}") from problem
        except known.NotEmptyError as problem:
            raise UserError(f"Node not empty: {path}") from problem
        except known.BadVersionError as problem:
            raise UserError(f"version No is not valid : {path}") from problem
        except known.NoChildrenForEphemeralsError as problem:
            raise UserError(f"Ephemerals cannot have children: {path}") from problem
        except known.KazooException as problem:
            raise UserError(f"ZooKeeper refused {path}", type(problem).__name__) from problem
        except ValueError as problem:
            raise UserError(f"{path} is no path", str(problem)) from problem
