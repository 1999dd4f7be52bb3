"""Asking a Connect worker over REST, for `headwater connect`: answers as JSON, errors as sentences."""

import json
from collections.abc import Mapping
from http.client import HTTPException
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote, urlencode

from headwater.base.errors import UserError
from headwater.cli.door_access import door_access
from headwater.cli.settings import CONNECT, ConnectOptions, FoundDoor, find_door

DEFAULT_URL: Final = "http://127.0.0.1:8083"
VARIABLE: Final = "HEADWATER_CONNECT_URL"
_PATIENCE_S: Final = 90


def find_worker(given: str | None, options: ConnectOptions = ConnectOptions()) -> FoundDoor:  # noqa: B008
    return find_door(given, VARIABLE, CONNECT, DEFAULT_URL, options)


class ConnectClient:
    def __init__(self, url: str, security: Mapping[str, str] = MappingProxyType({})) -> None:
        self._access = door_access(url, security, "a Connect worker", DEFAULT_URL)
        self.url = self._access.url

    def ask(self, method: str, *path: str, body: Any = None, **query: str) -> Any:
        """The answer's document; None where there is none."""
        target = self._access.path + ("/".join(["", *(quote(each, safe="") for each in path)]) or "/")
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"} if data is not None else {}
        connection = self._access.connect(_PATIENCE_S)
        try:
            full = target + (f"?{urlencode(query)}" if query else "")
            connection.request(method, full, data, {**headers, **self._access.headers})
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, HTTPException) as error:
            raise UserError(
                f"No Connect worker answers at {self.url}",
                str(error),
                "Start one with `headwater connect run worker.properties`, or name another with --url",
            ) from None
        finally:
            connection.close()
        if answer.status >= 400:
            raise UserError("The Connect worker refused", _message(text) or f"HTTP {answer.status}")
        try:
            return json.loads(text) if text else None
        except ValueError:
            raise UserError(
                f"What answers at {self.url} is no Connect worker",
                f"it answered {answer.status}, and no JSON",
                f"Another is named with --url or {VARIABLE}",
            ) from None


def _message(body: bytes) -> str:
    try:
        found = json.loads(body)
        return str(found["message"])
    except (ValueError, KeyError, TypeError):
        return ""
