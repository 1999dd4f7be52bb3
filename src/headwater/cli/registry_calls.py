"""Calls to a schema registry for commands: one request, its JSON, and an error that a person can do something about."""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

from headwater.base.errors import UserError
from headwater.cli.door_access import door_access
from headwater.cli.settings import REGISTRY, ConnectOptions, FoundDoor, find_door

VARIABLE: Final = "HEADWATER_SCHEMA_REGISTRY_URL"
DEFAULT_URL: Final = "http://localhost:8081"
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_PATIENCE_S: Final = 90.0


def find_registry(given: str | None, options: ConnectOptions = ConnectOptions()) -> FoundDoor:  # noqa: B008
    return find_door(given, VARIABLE, REGISTRY, DEFAULT_URL, options)


class RegistryCalls:
    def __init__(self, url: str, security: Mapping[str, str] = MappingProxyType({})) -> None:
        self._access = door_access(url, security, "a registry", "http://localhost:8081")

    def call(self, method: str, path: str, document: object = None) -> Any:
        """The answer's document. Raises UserError for an answer that is an error."""
        status, answer = self.try_call(method, path, document)
        if status >= 400:
            message = answer.get("message") if isinstance(answer, dict) else None
            code = answer.get("error_code", status) if isinstance(answer, dict) else status
            raise UserError(str(message or f"The registry answered {status}"), f"error {code} of the registry")
        return answer

    def try_call(self, method: str, path: str, document: object = None) -> tuple[int, Any]:
        from http.client import HTTPException

        connection = self._access.connect(_PATIENCE_S)
        body = None if document is None else json.dumps(document).encode()
        try:
            headers = {"Accept": _CONTENT_TYPE, "Content-Type": _CONTENT_TYPE, **self._access.headers}
            connection.request(method, self._access.path + path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
            return answer.status, json.loads(data) if data else None
        except (OSError, HTTPException, ValueError) as problem:
            raise UserError(
                f"The schema registry at {self._access.url} does not answer",
                str(problem),
                f"`headwater up` starts one; another is named with --url or {VARIABLE}",
            ) from None
        finally:
            connection.close()


def encoded(name: str) -> str:
    return quote(name, safe="")
