"""Functions of URLs. What is no URL gives NULL."""

from __future__ import annotations

from urllib.parse import SplitResult, quote_plus, unquote_plus, urlsplit

from headwater.sql.functions.registry import scalar

_CATEGORY = "URL"


def _split(url: str) -> SplitResult | None:
    if any(letter.isspace() or letter in '<>"{}|\\^`' for letter in url):
        return None
    try:
        return urlsplit(url)
    except ValueError:
        return None


@scalar("URL_ENCODE_PARAM", "(value STRING) -> STRING", "A text as a parameter of a URL.", category=_CATEGORY)
def url_encode(value: str) -> str:
    return quote_plus(value, safe="*-._")


@scalar("URL_DECODE_PARAM", "(value STRING) -> STRING", "A parameter of a URL as text.", category=_CATEGORY)
def url_decode(value: str) -> str:
    return unquote_plus(value)


@scalar("URL_EXTRACT_FRAGMENT", "(url STRING) -> STRING", "What follows #.", category=_CATEGORY)
def url_fragment(url: str) -> str | None:
    parts = _split(url)
    return unquote_plus(parts.fragment) if parts and "#" in url else None


@scalar("URL_EXTRACT_HOST", "(url STRING) -> STRING", "The host.", category=_CATEGORY)
def url_host(url: str) -> str | None:
    parts = _split(url)
    if parts is None or not parts.netloc:
        return None
    host = parts.netloc.rpartition("@")[2]
    return host.rpartition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]


@scalar("URL_EXTRACT_PATH", "(url STRING) -> STRING", "The path.", category=_CATEGORY)
def url_path(url: str) -> str | None:
    parts = _split(url)
    return parts.path if parts else None


@scalar("URL_EXTRACT_PORT", "(url STRING) -> INTEGER", "The port, or NULL if it is not written.", category=_CATEGORY)
def url_port(url: str) -> int | None:
    parts = _split(url)
    try:
        return parts.port if parts else None
    except ValueError:
        return None


@scalar("URL_EXTRACT_PROTOCOL", "(url STRING) -> STRING", "The protocol.", category=_CATEGORY)
def url_protocol(url: str) -> str | None:
    parts = _split(url)
    return parts.scheme or None if parts else None


@scalar("URL_EXTRACT_QUERY", "(url STRING) -> STRING", "What follows ?.", category=_CATEGORY)
def url_query(url: str) -> str | None:
    parts = _split(url)
    return parts.query if parts and parts.query else None


@scalar("URL_EXTRACT_PARAMETER", "(url STRING, name STRING) -> STRING", "The value of a parameter.", category=_CATEGORY)
def url_parameter(url: str, name: str) -> str | None:
    parts = _split(url)
    for each in parts.query.split("&") if parts else ():
        key, equals, value = each.partition("=")
        if unquote_plus(key) == name:
            return unquote_plus(value) if equals else ""
    return None
