"""Calls to a schema registry for commands: one request, its JSON, and an error that a person can do something about."""

import json
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from headwater.base.errors import UserError
from headwater.cli.door_access import door_access
from headwater.cli.settings import REGISTRY, ConnectOptions, FoundDoor, find_door, find_door_beside

VARIABLE: Final = "HEADWATER_SCHEMA_REGISTRY_URL"
DEFAULT_URL: Final = "http://localhost:8081"
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_PATIENCE_S: Final = 90.0
_FIRST_SOFT: Final = "Delete it without --permanent first"
_THEN_FOR_GOOD: Final = "--permanent deletes it for good"
_HINTS: Final = {
    40401: "`headwater schema list` shows the subjects; with --deleted, deleted ones too",
    40402: "`headwater schema list` shows the versions of each subject; with --deleted, deleted ones too",
    40403: "`headwater schema list` shows the subjects and their latest ids",
    40404: _THEN_FOR_GOOD,
    40405: _FIRST_SOFT,
    40406: _THEN_FOR_GOOD,
    40407: _FIRST_SOFT,
    42206: "Delete the schemas that refer to it first",
    50002: "Try again: registering the same schema twice is safe",
    50003: "Try again: registering the same schema twice is safe",
    50004: "Try again when a registry leads; its log says who was elected",
}
_HINTS_BY_WORDS: Final = {
    "read-only mode": "`headwater schema mode SUBJECT --set READWRITE` makes it writable, without a subject all of them",
    "not in read-write mode": "`headwater schema mode SUBJECT --set READWRITE` ends the import",
    "Cannot import": "--force sets the mode though there are schemas",
}


def find_registry(given: str | None, options: ConnectOptions = ConnectOptions()) -> FoundDoor:  # noqa: B008
    return find_door(given, VARIABLE, REGISTRY, DEFAULT_URL, options)


def find_registry_beside(options: ConnectOptions, environment: Mapping[str, str] = os.environ) -> FoundDoor | None:
    """The registry that belongs to the brokers which a command reads from, if one is known."""
    return find_door_beside(VARIABLE, REGISTRY, options, environment)


class RegistryCalls:
    def __init__(
        self, url: str, security: Mapping[str, str] = MappingProxyType({}), patience_s: float | None = None
    ) -> None:
        self._access = door_access(url, security, "a registry", "http://localhost:8081")
        self._patience_s = _PATIENCE_S if patience_s is None else patience_s

    @property
    def is_in_context(self) -> bool:
        """Whether the address ends in `/contexts/.name`: everything is asked of that context then."""
        return "/contexts/" in self._access.path

    def call(self, method: str, path: str, document: object = None) -> Any:
        """The answer's document. Raises UserError for an answer that is an error."""
        status, answer = self.try_call(method, path, document)
        if status >= 400:
            raise registry_error(status, answer)
        return answer

    def try_call(self, method: str, path: str, document: object = None) -> tuple[int, Any]:
        from http.client import HTTPException

        connection = self._access.connect(self._patience_s)
        body = None if document is None else json.dumps(document).encode()
        try:
            headers = {"Accept": _CONTENT_TYPE, "Content-Type": _CONTENT_TYPE, **self._access.headers}
            connection.request(method, self._access.path + path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
        except (OSError, HTTPException) as problem:
            raise UserError(
                f"The schema registry at {self._access.url} does not answer",
                str(problem),
                f"`headwater up` starts one; another is named with --url or {VARIABLE}",
            ) from None
        finally:
            connection.close()
        try:
            return answer.status, json.loads(data) if data else None
        except ValueError:
            raise UserError(
                f"What answers at {self._access.url} is no schema registry",
                f"it answered {answer.status}, and no JSON",
                f"Another is named with --url or {VARIABLE}",
            ) from None


def registry_error(status: int, answer: Any) -> UserError:
    """What the registry said, and what can be done about it."""
    document = answer if isinstance(answer, dict) else {}
    message, code = (
        str(document.get("message") or f"The registry answered {status}"),
        document.get("error_code", status),
    )
    hint = next((hint for words, hint in _HINTS_BY_WORDS.items() if words in message), _HINTS.get(code, ""))
    return UserError(message, f"error {code} of the registry", hint)


class RegistryTransport:
    """The calls as a `SchemaRegistryClient` wants them:
    the login of a command, each call on a connection of its own.
    """

    def __init__(self, calls: RegistryCalls) -> None:
        self._calls = calls

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return self._calls.try_call(method, path, body)

    def close(self) -> None:
        """Nothing is kept open."""


def encoded(name: str) -> str:
    return quote(name, safe="")
