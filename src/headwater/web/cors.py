"""Cross-origin resource sharing: the pages of which other origins may use a door, by `access.control.allow.*`.

Without `access.control.allow.origin` no page of another origin may, and answers say nothing of it. With it, an origin
that is allowed is named in each answer, errors too, and a browser that asks first (the preflight: `OPTIONS` with
`Access-Control-Request-Method`) is answered here, in front of the login, since it shows none. A request of any other
origin goes on as before: `check_origin` of the door refuses it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import re2

from headwater.base.config.definition import ConfigType, Definition
from headwater.base.errors import UserError
from headwater.web.messages import HttpError, Request, Response
from headwater.web.server import Application
from headwater.web.websocket import WebSocketResponse

_ORIGIN: Final = "access.control.allow.origin"
_METHODS: Final = "access.control.allow.methods"
_HEADERS: Final = "access.control.allow.headers"
_DEFAULT_METHODS: Final = ("GET", "POST", "HEAD")
_DEFAULT_HEADERS: Final = ("X-Requested-With", "Content-Type", "Accept", "Origin")
_PREFLIGHT_MAX_AGE_S: Final = 1800
_TOKEN: Final = re2.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

# fmt: off
# one row, one line
ROWS: Final = (
    Definition(_ORIGIN, ConfigType.LIST, [], "The origins whose pages may use the door in a browser: https://app.example; a * stands for any characters. None: no page of another origin may."),
    Definition(_METHODS, ConfigType.LIST, [], "The methods that such pages may use. None: GET, POST and HEAD."),
    Definition(_HEADERS, ConfigType.LIST, [], "The headers that such pages may send; *: any. None: X-Requested-With, Content-Type, Accept and Origin, so no Authorization."),
)
# fmt: on


class Cors:
    """An application in front of which browsers are told who may use it."""

    def __init__(
        self, application: Application, origins: Iterable[str], methods: Sequence[str], headers: Sequence[str]
    ) -> None:
        self._application = application
        self._origins = re2.compile("|".join(".*".join(map(re2.escape, each.split("*"))) for each in origins))
        self._methods = ",".join(methods)
        self._headers = None if "*" in headers else ",".join(headers)

    async def handle(self, request: Request) -> Response:
        origin = self._allowed(request)
        if origin is None:
            response = await self._application.handle(request)
        elif request.method == "OPTIONS" and request.headers.get("access-control-request-method"):
            response = self._preflight(request)
        else:
            response = await self._application.handle(replace(request, is_of_allowed_origin=True))
        return _with(response, origin)

    def on_error(self, error: HttpError, request: Request | None) -> Response:
        origin = self._allowed(request) if request is not None else None
        return _with(self._application.on_error(error, request), origin)

    def _allowed(self, request: Request) -> str | None:
        """The origin of the page that sent it, if it is allowed."""
        origin = request.headers.get("origin")
        return origin if origin is not None and self._origins.fullmatch(origin) else None

    def _preflight(self, request: Request) -> Response:
        headers = self._headers
        if headers is None:
            headers = request.headers.get("access-control-request-headers") or ""
        told = {"Access-Control-Allow-Methods": self._methods, "Access-Control-Max-Age": str(_PREFLIGHT_MAX_AGE_S)}
        return Response(204, b"", told | ({"Access-Control-Allow-Headers": headers} if headers else {}))


def _with(response: Response, origin: str | None) -> Response:
    """Caches are told that another origin is answered otherwise. A WebSocket knows none of it."""
    if isinstance(response, WebSocketResponse):
        return response
    response.headers = {**response.headers, "Vary": "Origin"}
    if origin is not None:
        response.headers |= {"Access-Control-Allow-Origin": origin, "Access-Control-Allow-Credentials": "true"}
    return response


def sharing(values: Mapping[str, Any]) -> Callable[[Application], Application]:
    """Makes of an application what the settings share of it: itself if they allow no origin. Raises UserError."""
    origins = [each for each in values[_ORIGIN] if each]
    methods = [each.upper() for each in _tokens(_METHODS, values)] or _DEFAULT_METHODS
    headers = _tokens(_HEADERS, values) or _DEFAULT_HEADERS
    return lambda application: Cors(application, origins, methods, headers) if origins else application


def _tokens(name: str, values: Mapping[str, Any]) -> list[str]:
    tokens = [each for each in values[name] if each]
    for each in tokens:
        if not _TOKEN.fullmatch(each):
            raise UserError(f"{name} cannot have {each!r}", "no name of a method or a header has such characters")
    return tokens
