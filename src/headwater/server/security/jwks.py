"""The keys that sign tokens: from a file, read again when it changes, or from an allowed URL, fetched by a thread that
only waits.

Until the first fetch has come, and while it fails, the keys are those there were: at first none, and no token counts. A
document that cannot be read leaves the old keys in place, and the log says so; one key that cannot be read is left out.
Owned by the server's loop; the thread only posts what it got.
"""

import logging
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.base.config.listener_config import ListenerConfig
from headwater.base.errors import UserError
from headwater.base.redaction import has_login, without_login
from headwater.base.security.oauthbearer import Key, read_keys, require_cryptography

if TYPE_CHECKING:
    from headwater.server.loop import Loop

_DOCUMENT_BYTES_MAX: Final = 1 << 20
_FETCH_S: Final = 10
_RETRY_MS: Final = 1000
_NOT_READ: Final = (ValueError, KeyError, TypeError, RecursionError, UserError)  # documents that are no JWKS

logger = logging.getLogger("headwater.security")


def check_keys(settings: ListenerConfig) -> None:
    """Raises UserError for a setting that cannot work. A URL is not fetched: its server may be away for a while."""
    path = _path_of(_checked_url(settings))
    if path is not None:
        try:
            with open(path, "rb") as file:
                found = _keys_in(file.read(_DOCUMENT_BYTES_MAX + 1))
        except (OSError, *_NOT_READ):
            found = []
        if not found:
            raise _no_keys(path)


class KeySet:
    """Raises UserError at once for a setting that cannot work. `must_exist`: for a file without keys, too."""

    def __init__(self, settings: ListenerConfig, loop: "Loop", *, must_exist: bool = True) -> None:
        self._settings = settings
        self._loop = loop
        self._keys: list[Key] = []
        self._stamp: tuple[int, ...] | None = None
        self._url = _checked_url(settings)
        self._path = _path_of(self._url)
        if self._path is None:
            self._fetch()
        elif not self.current() and must_exist:
            raise _no_keys(self._path)

    def current(self) -> list[Key]:
        if self._path is not None:
            stamp = _stamp_of(self._path)
            if stamp != self._stamp:
                self._stamp = stamp
                self._read_file(self._path)
        return self._keys

    def _read_file(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                self._take(file.read(_DOCUMENT_BYTES_MAX + 1))
        except OSError as problem:
            logger.error("event=keys-not-read file=%r reason=%r", path, problem.strerror)

    def _take(self, document: bytes) -> None:
        try:
            self._keys = _keys_in(document)
        except _NOT_READ as problem:
            logger.error("event=keys-not-read url=%r reason=%r note='the old ones go on'", self._url, str(problem))

    # From a URL

    def _fetch(self) -> None:
        threading.Thread(target=_fetch, args=(self._url, self._got, self._loop.post), name="jwks", daemon=True).start()

    def _got(self, document: bytes | None, problem: str) -> None:
        if document is not None:
            self._take(document)
        else:
            logger.error("event=keys-not-fetched url=%r reason=%r", self._url, problem)
        refresh_ms = self._settings.int("sasl.oauthbearer.jwks.endpoint.refresh.ms")
        self._loop.call_later(refresh_ms if self._keys else min(refresh_ms, _RETRY_MS), self._fetch)


def _checked_url(settings: ListenerConfig) -> str:
    require_cryptography("for OAUTHBEARER")
    url = settings.string("sasl.oauthbearer.jwks.endpoint.url") or ""
    if url.startswith("file://"):
        return url
    if has_login(url):
        raise UserError(
            "Bad value for sasl.oauthbearer.jwks.endpoint.url: it has a login in it",
            "keys are fetched without a login, and the URL is shown in logs",
            "Publish the keys without a login: they are public; or use file:///path",
        )
    if not url.startswith(("https://", "http://")) or url not in settings.list("sasl.oauthbearer.allowed.urls"):
        raise UserError(
            f"Bad value for sasl.oauthbearer.jwks.endpoint.url: {without_login(url)}",
            "it is neither file:///path nor one of sasl.oauthbearer.allowed.urls",
            "Add the URL to sasl.oauthbearer.allowed.urls, if the broker may fetch it",
        )
    return url


def _path_of(url: str) -> str | None:
    """Where its file is, if it names one."""
    return url.removeprefix("file://") if url.startswith("file://") else None


def _keys_in(document: bytes) -> list[Key]:
    """Raises one of _NOT_READ."""
    if len(document) > _DOCUMENT_BYTES_MAX:
        raise ValueError("more than a megabyte")
    return read_keys(document)


def _no_keys(path: str) -> UserError:
    return UserError(f"Cannot read the keys in {path}", "it is not there, or no JWKS document")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Somebody has allowed one URL, not where it leads."""

    def redirect_request(self, *_arguments: Any) -> None:
        return None


def _fetch(url: str, got: Callable[[bytes | None, str], None], post: Callable[[Callable[[], None]], None]) -> None:
    document: bytes | None = None
    reason = ""
    try:
        with urllib.request.build_opener(_NoRedirects).open(url, timeout=_FETCH_S) as answer:
            document = answer.read(_DOCUMENT_BYTES_MAX + 1)
    except Exception as problem:  # noqa: BLE001  # whatever it is, the next fetch must come
        reason = str(problem) or type(problem).__name__
    post(lambda: got(document, reason))


def _stamp_of(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
