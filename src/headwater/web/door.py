"""An application made of a router and an error hook: what the registry, Connect and later doors are."""

from collections.abc import Callable
from typing import TypeAlias

from headwater.web.content import json_response
from headwater.web.messages import HttpError, Request, Response
from headwater.web.router import Router

ErrorBody: TypeAlias = Callable[[HttpError, Request | None], Response]


def json_error(error: HttpError, _request: Request | None) -> Response:
    """`{"error_code":404,"message":"..."}`: as Confluent's services and Connect write it."""
    return json_response({"error_code": error.code, "message": error.message}, error.status, headers=error.headers)


class Door:
    """Stateless but for its router: handlers hold what they need."""

    def __init__(self, router: Router, error_body: ErrorBody = json_error) -> None:
        self._router = router
        self._error_body = error_body

    async def handle(self, request: Request) -> Response:
        handler, routed = self._router.route(request)
        return await handler(routed)

    def on_error(self, error: HttpError, request: Request | None) -> Response:
        return self._error_body(error, request)
