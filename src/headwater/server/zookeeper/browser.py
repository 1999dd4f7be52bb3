"""ZooKeeper for people: calls that wait for their answers, and problems as sentences. Not for brokers.

The session logs in, and speaks TLS, as `server/zookeeper/security.py` finds it in KAFKA_OPTS, unless it is told
otherwise.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headwater.base.errors import UserError
from headwater.server.zookeeper.security import ZooKeeperSecurity, security_of_tool

if TYPE_CHECKING:
    from kazoo.security import ACL

Result = TypeVar("Result")

_CONNECT_TIMEOUT_MS: Final = 15_000
_SESSION_TIMEOUT_MS: Final = 30_000
_LOOK_AGAIN_S: Final = 0.05


class Browser:
    """A session, from `with` to the end of it. `connect` is host:port,host:port/chroot."""

    def __init__(
        self,
        connect: str,
        security: ZooKeeperSecurity | None = None,
        *,
        session_timeout_ms: int = _SESSION_TIMEOUT_MS,
        connect_timeout_ms: int = _CONNECT_TIMEOUT_MS,
    ) -> None:
        try:
            from kazoo import exceptions

            from headwater.server.zookeeper.kazoo_login import SecuredClient
            from headwater.server.zookeeper.kazoo_tls import TlsHandler
        except ImportError as problem:
            raise UserError(
                "The client of ZooKeeper is not installed", str(problem), "pip install 'headwater[cluster]'"
            ) from problem
        silent = logging.Logger("headwater.zookeeper.silent", logging.CRITICAL)
        self._connect = connect
        self._connect_timeout_ms = connect_timeout_ms
        self._exceptions = exceptions
        given = security_of_tool() if security is None else security
        self._handler = TlsHandler(given.tls)
        try:
            self._client: Any = SecuredClient(
                given.login, hosts=connect, timeout=session_timeout_ms / 1000, handler=self._handler, logger=silent
            )
        except ValueError as problem:
            raise UserError(f"{connect} names no ZooKeeper", str(problem), "Write host:port") from problem

    def __enter__(self) -> "Browser":
        is_live = self._client.start_async()
        deadline = time.monotonic() + self._connect_timeout_ms / 1000
        while not is_live.wait(_LOOK_AGAIN_S):
            refused = self._client.login_problem
            if refused or time.monotonic() > deadline:
                self.__exit__()
                if refused:
                    raise UserError(f"ZooKeeper at {self._connect} does not take the login", refused)
                raise UserError(f"Cannot reach ZooKeeper at {self._connect}", self._handler.problem)
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

    def exists(self, path: str) -> bool:
        return self._asked(path, lambda: self._client.exists(path)) is not None

    def stat(self, path: str) -> Any:
        found = self._asked(path, lambda: self._client.exists(path))
        if found is None:
            raise UserError(f"Node does not exist: {path}")
        return found

    def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False, acls: "Sequence[ACL]" = ()
    ) -> str:
        """Anybody may do anything with it unless `acls` say otherwise."""
        made: str = self._asked(
            path,
            lambda: self._client.create(path, data, list(acls) or None, ephemeral=ephemeral, sequence=sequential),
        )
        return made

    def set(self, path: str, data: bytes, version: int) -> None:
        self._asked(path, lambda: self._client.set(path, data, version))

    def delete(self, path: str, version: int) -> None:
        self._asked(path, lambda: self._client.delete(path, version))

    def delete_all(self, path: str) -> None:
        for each in reversed(list(self.below(path))):
            self.delete(each, -1)

    def acls(self, path: str) -> "list[ACL]":
        found: list[ACL] = self._asked(path, lambda: self._client.get_acls(path))[0]
        return found

    def set_acls(self, path: str, acls: "Sequence[ACL]", version: int = -1) -> None:
        self._asked(path, lambda: self._client.set_acls(path, list(acls), version))

    def set_acls_and_list(self, acls_by_path: "dict[str, list[ACL]]") -> dict[str, list[str]]:
        """Of several nodes at once: their ACLs are set, and their children are told. Those that are gone are left
        out.
        """
        asked = [
            (path, self._client.set_acls_async(path, acls), self._client.get_children_async(path))
            for path, acls in acls_by_path.items()
        ]
        found: dict[str, list[str]] = {}
        for path, is_set, names in asked:
            try:
                is_set.get()
                found[path] = sorted(names.get())
            except self._exceptions.NoNodeError:
                continue
            except self._exceptions.KazooException as problem:
                raise self._refusal(path, problem) from problem
        return found

    def _asked(self, path: str, ask: Callable[[], Result]) -> Result:
        try:
            return ask()
        except self._exceptions.KazooException as problem:
            raise self._refusal(path, problem) from problem
        except ValueError as problem:
            raise UserError(f"{path} is no path", str(problem)) from problem

    def _refusal(self, path: str, problem: Exception) -> UserError:
        known = self._exceptions
        sentences = {
            known.NoNodeError: f"Node does not exist: {path}",
            known.NodeExistsError: f"Node already exists: {path}",
            known.NotEmptyError: f"Node not empty: {path}",
            known.BadVersionError: f"version No is not valid : {path}",
            known.NoChildrenForEphemeralsError: f"Ephemerals cannot have children: {path}",
            known.NoAuthError: f"Insufficient permission : {path}",
            known.InvalidACLError: f"Acl is not valid : {path}",
        }
        found = sentences.get(type(problem))
        return UserError(found) if found else UserError(f"ZooKeeper refused {path}", type(problem).__name__)
