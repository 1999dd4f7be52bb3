"""What `path` names: a directory of this machine, `s3://bucket/prefix`, or `webhdfs://host:port/directory`. Pure."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://")


class S3Location(NamedTuple):
    bucket: str
    prefix: str
    region: str
    endpoint: str
    access_key: str
    secret_key: str


class HdfsLocation(NamedTuple):
    host: str
    port: int
    directory: Path
    user: str


Location = Path | S3Location | HdfsLocation


def location_of(config: Mapping[str, Any]) -> Location:
    """ValueError says why not."""
    given = config["path"]
    scheme = scheme_of(given)
    parts = check_path(given)
    if scheme == "s3":
        secret = config["aws.secret.access.key"]
        return S3Location(
            parts.netloc,
            unquote(parts.path).strip("/"),
            config["s3.region"],
            config["s3.endpoint"],
            config["aws.access.key.id"],
            "" if secret is None else str(secret),
        )
    if scheme == "webhdfs":
        assert parts.hostname is not None
        return HdfsLocation(parts.hostname, parts.port or 9870, Path(unquote(parts.path)), config["webhdfs.user"])
    return Path(unquote(parts.path)) if scheme == "file" else Path(given)


def scheme_of(given: str) -> str:
    found = _SCHEME.match(given)
    return "" if found is None else found[1].lower()


def check_path(given: str) -> SplitResult:
    """ValueError says what is wrong with it."""
    if not given:
        raise ValueError("a directory is needed")
    scheme, parts = scheme_of(given), urlsplit(given)
    if not scheme:
        return parts
    if scheme not in _CHECKS:
        raise ValueError(f"{scheme}:// is not known: a local path, {', '.join(_CHECKS)}{_HINTS.get(scheme, '')}")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("queries, fragments and users in it are not known")
    _CHECKS[scheme](parts)
    return parts


def _file(parts: SplitResult) -> None:
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise ValueError("file:///path is a local path; other hosts are not known")


def _s3(parts: SplitResult) -> None:
    if not parts.netloc or ":" in parts.netloc:
        raise ValueError("s3://bucket/prefix names the bucket; s3.endpoint is the server's address")


def _webhdfs(parts: SplitResult) -> None:
    if not parts.hostname or not parts.path.startswith("/") or parts.path == "/":
        raise ValueError("webhdfs://namenode:9870/directory is needed")
    parts.port  # noqa: B018 - ValueError: not a port


_CHECKS: Final = {"file": _file, "s3": _s3, "webhdfs": _webhdfs}
_HINTS: Final = {
    "hdfs": ". The NameNode's HTTP address is the one to give: webhdfs://namenode:9870/directory",
    "s3a": ". The same bucket is s3://bucket/prefix here",
}
