"""HTTP to a schema registry: one connection that is kept, several addresses tried in turn. Owns its connection; a lock
lets threads share it.

An answer may be 64 MB and a call takes at most `timeout_s`. A request is repeated at the next address if no connection
came about; on a new connection if a kept one ended without a byte of an answer, as one does that was closed meanwhile.
Else only what changes nothing (GET) is asked again: a write that got no answer in time may have been carried out.
"""

import base64
import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, Protocol
from urllib.parse import SplitResult, unquote

from headwater.base.errors import UserError
from headwater.base.redaction import http_address
from headwater.client.schema_registry.errors import SchemaRegistryError

_ANSWER_BYTES_MAX: Final = 64 << 20
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class Transport(Protocol):
    """What a client needs: an answer's status and JSON."""

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]: ...
    def close(self) -> None: ...


class _Phase(Enum):
    """How far a request has come."""

    CONNECTING = 0
    ASKED = 1
    ANSWERED = 2  # the answer has begun


class HttpTransport:
    def __init__(self, urls: Sequence[str], settings: Mapping[str, Any], timeout_s: float) -> None:
        self._addresses = [_address(url) for url in urls]
        self._timeout_s = timeout_s
        self._ssl = ssl_context(settings) if any(each.scheme == "https" for each in self._addresses) else None
        self._headers = {"Content-Type": _CONTENT_TYPE, "Accept": f"{_CONTENT_TYPE}, application/json"}
        login = authorization(settings, self._addresses[0])
        if login:
            self._headers["Authorization"] = login
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None
        self._current = 0
        self._kept = False  # whether the connection has served before
        self._phase = _Phase.CONNECTING

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        with self._lock:
            why = ""
            for _ in range(len(self._addresses) + 1):  # a kept connection may have been closed meanwhile
                try:
                    return self._ask(method, path, data)
                except (OSError, http.client.HTTPException) as error:
                    why = f"{self._addresses[self._current].netloc.rpartition('@')[2]}: {error or type(error).__name__}"
                    was_kept = self._drop()
                    if method != "GET" and not self._was_surely_not_done(error):
                        raise SchemaRegistryError(
                            "The schema registry did not answer",
                            why,
                            "Whether it has done what it was asked for is not known: look, then ask again",
                        ) from error
                    if not was_kept:
                        self._current = (self._current + 1) % len(self._addresses)
        raise SchemaRegistryError(
            "No schema registry answers", why, "Is `headwater registry start` running, at this address?"
        )

    def _ask(self, method: str, path: str, data: bytes | None) -> tuple[int, Any]:
        self._phase = _Phase.CONNECTING
        self._kept = self._connection is not None
        if self._connection is None:
            self._connection = self._connect(self._addresses[self._current])
            self._connection.connect()
        self._phase = _Phase.ASKED
        self._connection.request(method, self._addresses[self._current].path.rstrip("/") + path, data, self._headers)
        response = self._connection.getresponse()
        self._phase = _Phase.ANSWERED
        content = response.read(_ANSWER_BYTES_MAX + 1)
        if len(content) > _ANSWER_BYTES_MAX:
            self._drop()
            raise SchemaRegistryError(
                "The schema registry's answer is too large", f"more than {_ANSWER_BYTES_MAX:,} bytes"
            )
        if response.will_close:
            self._drop()
        return response.status, _parsed(content)

    def _was_surely_not_done(self, error: Exception) -> bool:
        if self._phase is _Phase.CONNECTING:
            return True
        return self._kept and self._phase is _Phase.ASKED and isinstance(error, ConnectionError)

    def _connect(self, address: SplitResult) -> http.client.HTTPConnection:
        host = address.hostname or "localhost"
        if address.scheme == "https":
            return http.client.HTTPSConnection(host, address.port, timeout=self._timeout_s, context=self._ssl)
        return http.client.HTTPConnection(host, address.port, timeout=self._timeout_s)

    def _drop(self) -> bool:
        """Close the connection; whether it had served before."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()
        return self._kept

    def close(self) -> None:
        with self._lock:
            self._drop()

    def __del__(self) -> None:
        """A serializer that was given an address has a client of its own, which ends with it."""
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()


def _address(url: str) -> SplitResult:
    parts = http_address(url if "://" in url else f"http://{url}")
    if parts is None:  # not repeated: it may have a login in it
        raise UserError(
            "The address of the schema registry cannot be understood", "", "It looks like http://localhost:8081"
        )
    return parts


def authorization(settings: Mapping[str, Any], address: SplitResult) -> str:
    """The header's value by the settings, or by the address (`https://user:password@host`); empty: no login. Pure.
    Raises UserError.
    """
    basic = str(settings.get("basic.auth.credentials.source") or "").upper()
    bearer = str(settings.get("bearer.auth.credentials.source") or "").upper()
    if basic not in ("", "USER_INFO", "URL") or bearer not in ("", "STATIC_TOKEN"):
        name = (
            "basic.auth.credentials.source"
            if basic not in ("", "USER_INFO", "URL")
            else "bearer.auth.credentials.source"
        )
        raise UserError(
            f"Bad value for {name}: {basic if name.startswith('basic') else bearer}",
            "this client cannot get credentials there",
            "Use USER_INFO or URL for basic, STATIC_TOKEN for bearer",
        )
    if bearer and not settings.get("bearer.auth.token"):
        raise UserError("bearer.auth.credentials.source is STATIC_TOKEN, and there is no bearer.auth.token")
    if not bearer:
        given = "" if basic == "URL" else str(settings.get("basic.auth.user.info") or "")
        user_info = given or ("" if basic == "USER_INFO" else _credentials_in(address))
        if user_info:
            return "Basic " + base64.b64encode(user_info.encode()).decode()
        if basic:
            raise UserError(
                f"basic.auth.credentials.source is {basic}, and there are no credentials", "", "Write user:password"
            )
    return f"Bearer {settings['bearer.auth.token']}" if settings.get("bearer.auth.token") else ""


def _credentials_in(address: SplitResult) -> str:
    return f"{unquote(address.username)}:{unquote(address.password or '')}" if address.username else ""


def ssl_context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    """Trusts `ssl.ca.location` (Java's name: `ssl.truststore.location`, PEM), else what the system trusts. Raises
    UserError.
    """
    trusted = settings.get("ssl.ca.location") or settings.get("ssl.truststore.location")
    try:
        context = ssl.create_default_context(cafile=trusted)
    except OSError as problem:
        raise UserError(f"Cannot use the certificates in {trusted}", str(problem), "It is a PEM file") from None
    if settings.get("ssl.certificate.location"):
        context.load_cert_chain(
            settings["ssl.certificate.location"], settings.get("ssl.key.location"), settings.get("ssl.key.password")
        )
    return context


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return {"error_code": 0, "message": content[:200].decode("utf-8", "replace")}
