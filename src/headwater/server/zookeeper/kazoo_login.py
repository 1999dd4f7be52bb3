"""The login at ZooKeeper below kazoo: SASL DIGEST-MD5, behind the session's own handshake and before any request.

kazoo tells of a connection before it logs in, and would count every lost connection in a login as a wrong password.
Here a connection is told of when the login is over; a connection that is lost meanwhile is made again, and only what
the server says, or shows, about the login itself ends it (`login_problem`).
"""

import os
import threading
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import EXCEPTIONS, AuthFailedError, SessionClosedRequireSaslError
from kazoo.protocol.serialization import SASL
from kazoo.protocol.states import KeeperState

from headwater.base.security.digest_md5 import DigestMd5Client
from headwater.base.security.login_errors import LoginFailed
from headwater.server.zookeeper.kazoo_handshake import Handshake
from headwater.server.zookeeper.security import SaslLogin

_DIGEST_URI: Final = "zookeeper/zk-sasl-md5"  # the same for every server
_NONCE_BYTES: Final = 16


class SecuredClient(KazooClient):  # type: ignore[misc]
    """`login_problem`: why the server does not take the login; empty while it does, or while nobody knows."""

    def __init__(self, login: SaslLogin | None, **options: Any) -> None:
        self.login_problem = ""
        self._turn = threading.RLock()
        self._login = login
        self._is_logging_in = False
        super().__init__(**options)
        retry = self._conn_retry.copy()
        if login is None:
            self._connection = Handshake(self, retry, logger=self.logger)
        else:
            self._connection = LoggingIn(self, retry, logger=self.logger, login=login)

    def _session_callback(self, state: Any) -> None:
        """kazoo's own: fails what is pending, then calls listeners. No request may come in between."""
        if state == KeeperState.CONNECTED and self._login is not None and not self._is_logging_in:
            return  # told of by `logged_in`
        with self._turn:
            super()._session_callback(state)

    def logged_in(self) -> None:
        """In kazoo's thread."""
        self.login_problem = ""
        self._is_logging_in = True
        try:
            self._session_callback(KeeperState.CONNECTED)
        finally:
            self._is_logging_in = False


class LoggingIn(Handshake):
    def __init__(self, client: SecuredClient, retry: Any, *, logger: Any, login: SaslLogin) -> None:
        super().__init__(client, retry, logger=logger, sasl_options={})
        self._secured_client = client
        self._login = login

    def _authenticate_with_sasl(self, _host: str, timeout_s: float) -> None:
        try:
            self._log_in(timeout_s)
        except LoginFailed as problem:
            self._secured_client.login_problem = str(problem)
            raise AuthFailedError(str(problem)) from problem
        self._secured_client.logged_in()

    def _log_in(self, timeout_s: float) -> None:
        client = DigestMd5Client(
            self._login.username, self._login.password, os.urandom(_NONCE_BYTES).hex(), _DIGEST_URI
        )
        challenge = self._asked(b"", 1, timeout_s)
        if not challenge:
            raise LoginFailed("the server does not know SASL: it needs an authProvider for it, and a JAAS file")
        last = self._asked(client.answer(challenge), 2, timeout_s)
        client.check(last)

    def _asked(self, token: bytes, number: int, timeout_s: float) -> bytes:
        self._submit(SASL(token), timeout_s, number)
        header, data, at = self._read_header(timeout_s)
        if header.err:
            problem = EXCEPTIONS[header.err]() if header.err in EXCEPTIONS else None
            if isinstance(problem, AuthFailedError | SessionClosedRequireSaslError):
                raise LoginFailed(f"the server refuses the user {self._login.username!r} or its password")
            raise LoginFailed(f"the server answers the login with error {header.err}")
        if header.xid != number:
            raise LoginFailed("the server answers what was not asked")
        answer: bytes | None = SASL.deserialize(data, at)[0]
        return answer or b""
