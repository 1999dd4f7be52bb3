"""The login of one connection, as a line of states, without a socket: what SaslHandshake and SaslAuthenticate ask, and
their answers.

    MECHANISM --handshake v1--> TOKENS --SaslAuthenticate, as many as the mechanism needs--> DONE
              --handshake v0--> BARE_TOKENS --frames of nothing but a token--> DONE
    DONE --handshake v1--> TOKENS (again: KIP-368), by the same mechanism, and as the same user

Anything else, and any failure, is the end: FAILED answers nothing more. Owned by its connection.
"""

import math
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode
from headwater.base.security.login_errors import LoginFailed
from headwater.server.security.sasl_servers import Mechanisms, SaslServer
from headwater.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from headwater.wire.messages.sasl_handshake import SaslHandshakeResponse

_BARE_TOKENS_VERSION: Final = 0
FOR_EVER: Final = math.inf


class State(Enum):
    MECHANISM = "mechanism"
    TOKENS = "tokens"
    BARE_TOKENS = "bare tokens"
    DONE = "done"
    FAILED = "failed"


class Refusal(NamedTuple):
    """The end of the login: what the log says of it, and what the client is answered before the connection ends, if
    anything.
    """

    why: str
    answer: SaslHandshakeResponse | SaslAuthenticateResponse | None


class Login:
    """`now_ms` is the clock of tokens' times; `max_session_ms` says how long a login may hold (0: no limit)."""

    def __init__(self, mechanisms: Mechanisms, now_ms: Callable[[], int], max_session_ms: Callable[[], int]) -> None:
        self._mechanisms = mechanisms
        self._now_ms = now_ms
        self._max_session_ms = max_session_ms
        self._server: SaslServer | None = None
        self.state = State.MECHANISM
        self.mechanism = ""
        self.user: str | None = None
        self.session_ms: float = FOR_EVER  # how long this login holds, from its end on

    @property
    def is_done(self) -> bool:
        return self.state is State.DONE

    def handshake(self, version: int, mechanism: str) -> SaslHandshakeResponse | Refusal:
        enabled = self._mechanisms.enabled()
        if self.state not in (State.MECHANISM, State.DONE):
            return self._refuse_handshake(ErrorCode.ILLEGAL_SASL_STATE, "SaslHandshake in the middle of a login")
        if mechanism not in enabled:
            return self._refuse_handshake(
                ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"it wants to log in by {mechanism[:40]!r}", enabled
            )
        if self.state is State.DONE and (mechanism != self.mechanism or version == _BARE_TOKENS_VERSION):
            return self._refuse_handshake(
                ErrorCode.ILLEGAL_SASL_STATE, "it logs in again by another mechanism", enabled
            )
        self.mechanism = mechanism
        self._server = self._mechanisms.begin(mechanism)
        self.state = State.BARE_TOKENS if version == _BARE_TOKENS_VERSION else State.TOKENS
        return SaslHandshakeResponse(error_code=0, mechanisms=enabled)

    def authenticate(self, token: bytes) -> SaslAuthenticateResponse | Refusal:
        if self.state is not State.TOKENS:
            answer = _failed(ErrorCode.ILLEGAL_SASL_STATE, "SaslAuthenticate comes behind SaslHandshake")
            return self._refuse("SaslAuthenticate without SaslHandshake", answer)
        try:
            challenge = self._receive(token)
        except LoginFailed as problem:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            told = f": {problem.told}" if problem.told else " due to invalid credentials"
            message = f"Authentication failed{told} with SASL mechanism {self.mechanism}"
            return self._refuse(str(problem), _failed(code, message))
        lifetime_ms = int(self.session_ms) if self.is_done and self.session_ms != FOR_EVER else 0
        return SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=challenge, session_lifetime_ms=lifetime_ms
        )

    def bare_token(self, token: bytes) -> bytes | Refusal:
        """A frame of the oldest way. A failure is not told: the connection just ends."""
        assert self.state is State.BARE_TOKENS
        try:
            return self._receive(token)
        except LoginFailed as problem:
            return self._refuse(str(problem), None)

    def _receive(self, token: bytes) -> bytes:
        server = self._server
        assert server is not None
        challenge = server.receive(token)
        if server.user is not None:
            if self.user is not None and server.user != self.user:
                raise LoginFailed("it logs in again as somebody else", told="the user has changed")
            self.user = server.user
            self.session_ms = self._session_ms(server.expires_ms)
            self.state = State.DONE
            self._server = None
        return challenge

    def _session_ms(self, expires_ms: int | None) -> float:
        limit_ms = self._max_session_ms() or FOR_EVER
        return limit_ms if expires_ms is None else min(limit_ms, max(0, expires_ms - self._now_ms()))

    def _refuse_handshake(self, code: ErrorCode, why: str, enabled: list[str] | None = None) -> Refusal:
        return self._refuse(why, SaslHandshakeResponse(error_code=int(code), mechanisms=enabled or []))

    def _refuse(self, why: str, answer: SaslHandshakeResponse | SaslAuthenticateResponse | None) -> Refusal:
        self.state = State.FAILED
        self._server = None
        return Refusal(why, answer)


def _failed(code: ErrorCode, message: str) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=int(code), error_message=message, auth_bytes=b"", session_lifetime_ms=0)
