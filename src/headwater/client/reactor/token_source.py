"""The token of one client, fetched over HTTP when a login needs it, and kept until a part of its life has passed.

A thread asks the endpoint, since a kernel must not wait; all logins that need a token at the same time wait for the
same answer. An endpoint in trouble is asked again while `patience_s` lasts, after pauses that double. A renewal that
fails leaves the old token in use until it ends, and so does one that takes longer than a login can wait. State: the
token, the question under way and the next pause, all owned by the kernel; the thread only posts what it got. Redirects
are not followed: the secret is for one address.
"""

import contextlib
import http.client
import logging
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from headwater.base.redaction import without_login
from headwater.base.security.login_errors import LoginFailed
from headwater.client.backoff import Backoff
from headwater.client.reactor.kernel import Future, Kernel, TimedOut
from headwater.client.token_requests import (
    ANSWER_BYTES_MAX,
    Renewal,
    Token,
    TokenNotFetched,
    TokenRequest,
    read_answer,
)

logger = logging.getLogger("headwater.client")

Fetch = Callable[[], Token]
"""Blocks. Raises LoginFailed or TokenNotFetched."""


RENEWAL_S: Final = 2.0  # a login waits no longer for a new token where the old one still holds


class Post(Protocol):
    def __call__(self, action: Callable[[], None], /) -> None: ...


class Limits(NamedTuple):
    connect_s: float = 10.0
    answer_s: float = 10.0  # from the connection to the last byte of the answer


class TokenSource:
    """What `Credentials.token` is: called, it gives the token that `renew` has made sure of."""

    def __init__(
        self,
        fetch: Fetch,
        renewal: Renewal,
        backoff: Backoff,
        patience_s: float,
        *,
        renewal_s: float = RENEWAL_S,
        chance: Callable[[], float] = random.random,
        start: "Callable[[Callable[[], None]], None] | None" = None,
    ) -> None:
        self._fetch = fetch
        self._renewal = renewal
        self._backoff = backoff
        self._patience_s = patience_s
        self._renewal_s = renewal_s
        self._chance = chance
        self._start = start or _in_a_thread
        self._token: Token | None = None
        self._renew_at = 0.0
        self._ends_at = 0.0
        self._failures = 0
        self._not_before = 0.0
        self._give_up_at = 0.0
        self._under_way: Future[None] | None = None

    def __call__(self) -> str:
        if self._token is None:
            raise LoginFailed("there is no token yet")
        return self._token.text

    def fetch(self) -> str:
        """One question, and a token that nobody keeps: for who has no kernel and may wait. Raises LoginFailed, or
        TokenNotFetched.
        """
        return self._fetch().text

    async def renew(self, kernel: Kernel, post: Post) -> None:
        """Returns when there is a token to log in with. Raises LoginFailed, or TokenNotFetched."""
        if self._token is not None and kernel.clock() < self._renew_at:
            return
        waiting = self._under_way
        if waiting is None:
            waiting = self._under_way = Future()
            self._give_up_at = kernel.clock() + self._patience_s
            pause = self._not_before - kernel.clock()
            if pause > 0:
                kernel.after(pause, lambda: self._ask(kernel, post))
            else:
                self._ask(kernel, post)
        if self._is_usable(kernel):
            with contextlib.suppress(TimedOut):
                await kernel.within(self._renewal_s, waiting)
            if self._is_usable(kernel):
                return
        await waiting

    def _is_usable(self, kernel: Kernel) -> bool:
        return self._token is not None and kernel.clock() < self._ends_at

    def _ask(self, kernel: Kernel, post: Post) -> None:
        def work() -> None:
            got: Token | Exception
            try:
                got = self._fetch()
            except Exception as problem:  # noqa: BLE001  # whatever it is, those who wait must hear of it
                got = problem
            post(lambda: self._got(kernel, post, got))

        try:
            self._start(work)
        except RuntimeError as problem:  # no thread is to be had: those who wait must hear of it
            self._got(kernel, post, problem)

    def _got(self, kernel: Kernel, post: Post, got: Token | Exception) -> None:
        now = kernel.clock()
        waiting = self._under_way
        assert waiting is not None
        if isinstance(got, Token):
            self._under_way, self._failures = None, 0
            self._token = got
            self._ends_at = now + got.lifetime_s if got.lifetime_s is not None else now
            self._renew_at = now + self._renewal.after_s(got.lifetime_s, self._chance())
            waiting.resolve(None)
            return
        pause = self._backoff.delay_ms(self._failures, self._chance()) / 1000
        self._failures += 1
        self._not_before = now + pause
        is_usable = self._is_usable(kernel)
        if isinstance(got, TokenNotFetched) and not is_usable and self._not_before < self._give_up_at:
            kernel.after(pause, lambda: self._ask(kernel, post))
            return
        self._under_way = None
        if is_usable:
            logger.warning("event=token-not-renewed reason=%r note='the one that there is goes on'", str(got))
            self._renew_at = now + pause
            waiting.resolve(None)
        else:
            waiting.fail(got if isinstance(got, LoginFailed | TokenNotFetched) else TokenNotFetched(_reason(got)))


def _in_a_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True, name="headwater-token").start()


def fetch_over_http(request: TokenRequest, limits: Limits, context: ssl.SSLContext | None) -> Token:
    """One question, and its answer within the limits, whatever the endpoint does."""
    shown = without_login(request.url)
    try:
        status, body = _post(request, limits, context)
    except (OSError, http.client.HTTPException, ValueError) as problem:
        raise TokenNotFetched(f"no token from {shown}: {_reason(problem)}") from None
    try:
        return read_answer(status, body, time.time())
    except TokenNotFetched as problem:
        raise TokenNotFetched(f"no token from {shown}: {problem}") from None
    except LoginFailed as problem:
        raise LoginFailed(f"no token from {shown}: {problem}") from None


_CHUNK_BYTES: Final = 1 << 16


def _post(request: TokenRequest, limits: Limits, context: ssl.SSLContext | None) -> tuple[int, bytes]:
    parts = urlsplit(request.url)
    assert parts.hostname is not None
    is_https = parts.scheme == "https"
    trusted = (context or ssl.create_default_context()) if is_https else None  # takes a while: before the clock runs
    port = parts.port or (443 if is_https else 80)
    connected = socket.create_connection((parts.hostname, port), limits.connect_s)
    late = threading.Event()
    watched = connected.dup()  # TLS takes the socket itself over
    watch = threading.Timer(limits.answer_s, _end, (watched, late))  # one byte at a time is an answer, too
    watch.daemon = True
    watch.start()
    connection = http.client.HTTPConnection(parts.hostname, port)
    try:
        connected.settimeout(limits.answer_s)
        if trusted is not None:
            connected = trusted.wrap_socket(connected, server_hostname=parts.hostname)
        connection.sock = connected
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, request.body(), request.headers())
        body = b""
        with connection.getresponse() as answer:
            while len(body) <= ANSWER_BYTES_MAX and (piece := answer.read1(_CHUNK_BYTES)):
                body += piece
        if late.is_set():
            raise OSError  # what came is not all
        return answer.status, body
    except (OSError, http.client.HTTPException):
        if late.is_set():
            raise TimeoutError(f"no whole answer within {limits.answer_s:g} s") from None
        raise
    finally:
        watch.cancel()
        connection.close()
        connected.close()
        watched.close()


def _end(connected: socket.socket, late: threading.Event) -> None:
    late.set()
    try:
        connected.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has ended by itself


def _reason(problem: BaseException) -> str:
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({problem.verify_message})"
    if isinstance(problem, ConnectionRefusedError):
        return "connection refused: nothing listens there"
    if isinstance(problem, TimeoutError):
        return str(problem) or "no answer in time"
    if isinstance(problem, OSError):
        return problem.strerror or type(problem).__name__
    return type(problem).__name__
