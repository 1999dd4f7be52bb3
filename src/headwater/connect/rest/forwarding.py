"""Calls that another worker has to do, handed on to it with whatever it answers: at most twice, by the parameter
`forward`.

A worker that is asked sends the call to the leader (`forward=true`); the leader may send it on to who runs the task
(`forward=false`); who cannot do it then says so (409), and the caller may try again.
"""

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

from headwater.web.client import HttpClient, HttpClientError
from headwater.web.messages import HttpError, Request, Response

if TYPE_CHECKING:
    from headwater.base.security.tls import ContextSource

_TIMEOUT_S: Final = 90.0
_PASSED_ON: Final = ("content-type", "accept", "authorization", "x-connect-authorization", "x-connect-request-signature-algorithm")  # fmt: skip
_NEXT: Final = {None: "true", "true": "false"}


class Forwarding:
    """Owned by one loop; its connections are closed by `close`."""

    def __init__(self, tls: "ContextSource | None" = None) -> None:
        self._tls = tls
        self._client: HttpClient | None = None

    async def forward(self, request: Request, url: str) -> Response:
        hop = _NEXT.get(request.query.get("forward"))
        if hop is None:
            raise HttpError(409, "Cannot complete request because of a conflicting operation (e.g. worker rebalance)")
        if self._client is None:
            self._client = HttpClient(tls=self._tls)
        headers = {name: value for name, value in request.headers if name.lower() in _PASSED_ON}
        try:
            answer = await self._client.request(
                request.method,
                url.rstrip("/") + with_hop(request.target, hop),
                headers=headers,
                body=request.body,
                timeout_s=_TIMEOUT_S,
            )
        except HttpClientError as error:
            raise HttpError(500, f"IO Error trying to forward REST request: {error}") from None
        kept = {name: answer.headers.get(name) for name in ("content-type", "location")}
        return Response(answer.status, answer.body, {name: value for name, value in kept.items() if value is not None})

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


def with_hop(target: str, hop: str) -> str:
    """A request's target with `forward` set. Pure."""
    parts = urlsplit(target)
    others = "&".join(each for each in parts.query.split("&") if each and not each.startswith("forward="))
    query = "&".join(each for each in (others, urlencode({"forward": hop})) if each)
    return f"{parts.path}?{query}"
