"""Asking a Connect worker over REST, for `headwater connect`: answers as JSON, errors as sentences."""

import json
import os
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from headwater.base.errors import UserError

DEFAULT_URL: Final = "http://127.0.0.1:8083"
_PATIENCE_S: Final = 90


def worker_url(given: str | None) -> str:
    return (given or os.environ.get("HEADWATER_CONNECT_URL") or DEFAULT_URL).rstrip("/")


class ConnectClient:
    def __init__(self, url: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise UserError(f"{url} is not the address of a Connect worker", hint=f"Write it as {DEFAULT_URL}")
        self.url = url

    def ask(self, method: str, *path: str, body: Any = None, **query: str) -> Any:
        """The answer's document; None where there is none."""
        target = "/".join(["", *(quote(each, safe="") for each in path)])
        url = f"{self.url}{target or '/'}" + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"} if data is not None else {}
        request = Request(url, data, headers, method=method)
        try:
            with urlopen(request, timeout=_PATIENCE_S) as answer:
                text = answer.read()
        except HTTPError as error:
            with error:
                raise UserError("The Connect worker refused", _message(error.read()) or f"HTTP {error.code}") from None
        except (URLError, TimeoutError, OSError) as error:
            why = str(getattr(error, "reason", error))
            raise UserError(
                f"No Connect worker answers at {self.url}",
                why,
                "Start one with `headwater connect run worker.properties`, or name another with --url",
            ) from None
        return json.loads(text) if text else None


def _message(body: bytes) -> str:
    try:
        found = json.loads(body)
        return str(found["message"])
    except (ValueError, KeyError, TypeError):
        return ""
