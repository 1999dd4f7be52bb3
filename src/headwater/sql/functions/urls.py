"""Functions of URLs, which are read as `java.net.URI` reads them. What is no URL gives NULL."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import quote_plus, unquote, unquote_plus

from headwater.sql.functions.registry import scalar
from headwater.sql.values import EvaluationError

_CATEGORY = "URL"
_PARTS: Final = re.compile(
    r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL
)
_ILLEGAL: Final = re.compile(
    r"""[\x00-\x20\x7f-\xa0<>"{}|\\^`\u2028\u2029\u3000]|%(?![0-9A-Fa-f]{2})|#.*#""", re.DOTALL
)
_BRACKETS: Final = re.compile(r"[\[\]]")
_SERVER: Final = re.compile(
    r"(?:[^@]*@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+(?:%[\w.]+)?\]|\d{1,3}(?:\.\d{1,3}){3}"
    r"|(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.?)"
    r"(?::0*(?P<port>\d{0,10}))?",
    re.ASCII,
)
_PORT_MAX: Final = 2**31 - 1


class _Url(NamedTuple):
    """The parts without their escapes; None is a part that is not there."""

    scheme: str | None
    host: str | None
    port: int | None
    path: str | None
    query: str | None
    fragment: str | None


def _read(url: str) -> _Url:
    """Raises EvaluationError. A name of a server that is none (`my_host`, or one with a port beyond an
    INTEGER) is no host, and has no port.
    """
    found = _PARTS.fullmatch(url)
    scheme, authority, path, query, fragment = found.groups() if found else (None,) * 5
    if found is None or path is None or _ILLEGAL.search(url) or _BRACKETS.search(path):
        raise EvaluationError(f"URL input has invalid syntax: {url}")
    if scheme is None and authority is None and ":" in path.partition("/")[0]:
        raise EvaluationError(f"URL input has invalid syntax: {url}")
    if scheme is not None and authority is None and not path.startswith("/"):
        if not path:
            raise EvaluationError(f"URL input has invalid syntax: {url}")
        return _Url(scheme, None, None, None, None, _plain(fragment))  # mailto:somebody
    server = _SERVER.fullmatch(authority) if authority else None
    if authority is not None and _BRACKETS.search(authority) and server is None:
        raise EvaluationError(f"URL input has invalid syntax: {url}")
    host, port = (server["host"], server["port"]) if server else (None, None)
    if port and int(port) > _PORT_MAX:
        host = port = None
    return _Url(scheme, host, int(port) if port else None, _plain(path), _plain(query), _plain(fragment))


def _plain(part: str | None) -> str | None:
    return None if part is None else unquote(part)


@scalar("URL_ENCODE_PARAM", "(value STRING) -> STRING", "A text as a parameter of a URL.", category=_CATEGORY)
def url_encode(value: str) -> str:
    return quote_plus(value, safe="*-._").replace("~", "%7E")


@scalar("URL_DECODE_PARAM", "(value STRING) -> STRING", "A parameter of a URL as text.", category=_CATEGORY)
def url_decode(value: str) -> str:
    if re.search("%(?![0-9A-Fa-f]{2})", value):
        raise EvaluationError(f"Illegal hex characters in escape (%) pattern: {value}")
    return unquote_plus(value)


@scalar("URL_EXTRACT_FRAGMENT", "(url STRING) -> STRING", "What follows #.", category=_CATEGORY)
def url_fragment(url: str) -> str | None:
    return _read(url).fragment


@scalar("URL_EXTRACT_HOST", "(url STRING) -> STRING", "The host.", category=_CATEGORY)
def url_host(url: str) -> str | None:
    return _read(url).host


@scalar("URL_EXTRACT_PATH", "(url STRING) -> STRING", "The path.", category=_CATEGORY)
def url_path(url: str) -> str | None:
    return _read(url).path


@scalar("URL_EXTRACT_PORT", "(url STRING) -> INTEGER", "The port, or NULL if it is not written.", category=_CATEGORY)
def url_port(url: str) -> int | None:
    return _read(url).port


@scalar("URL_EXTRACT_PROTOCOL", "(url STRING) -> STRING", "The protocol.", category=_CATEGORY)
def url_protocol(url: str) -> str | None:
    return _read(url).scheme


@scalar("URL_EXTRACT_QUERY", "(url STRING) -> STRING", "What follows ?.", category=_CATEGORY)
def url_query(url: str) -> str | None:
    return _read(url).query


@scalar("URL_EXTRACT_PARAMETER", "(url STRING, name STRING) -> STRING", "The value of a parameter.", category=_CATEGORY)
def url_parameter(url: str, name: str) -> str | None:
    query = _read(url).query
    for each in query.split("&") if query is not None else ():
        key, _, value = each.partition("=")
        if key == name:
            return value
    return None
