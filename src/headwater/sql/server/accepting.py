"""Which content types ksqlDB's endpoints give, and which of them the `Accept` of a request takes. One that takes none
of them is answered with 406 before anything is done, as in ksqlDB.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from headwater.web.content import preferred
from headwater.web.messages import HttpError, Request, Response

KSQL_JSON: Final = "application/vnd.ksql.v1+json"
JSON: Final = "application/json"
DELIMITED: Final = "application/vnd.ksqlapi.delimited.v1"
PROTOBUF: Final = "application/vnd.ksql.v1+protobuf"
DOCUMENTS: Final = (KSQL_JSON, JSON)  # what an endpoint that gives one document offers
ACKS: Final = (DELIMITED, JSON)  # a line for each row, or one array
ROWS: Final = (*ACKS, KSQL_JSON, PROTOBUF)
OLDER_ROWS: Final = (KSQL_JSON, JSON, DELIMITED, PROTOBUF)  # of /query, to who says nothing
ANY_ROWS: Final = (DELIMITED, KSQL_JSON, JSON, PROTOBUF)  # and to who says that anything is welcome, as in ksqlDB
ANYTHING: Final = ()  # its answer has no body

Handler = Callable[[Request], Awaitable[Response]]


def accepted(request: Request, offered: tuple[str, ...]) -> str | None:
    """The offered type that the request likes best; the first for one that says nothing. None: it takes none."""
    return preferred(request.headers.get("accept"), offered)


def producing(offered: tuple[str, ...], handler: Handler) -> Handler:
    """The handler of an endpoint that gives these types."""
    if not offered:
        return handler

    async def run(request: Request) -> Response:
        kind = accepted(request, offered)
        if kind is None:
            raise HttpError(406, f"Not Acceptable: this gives {' or '.join(offered)}")
        answer = await handler(request)
        if offered == DOCUMENTS and answer.headers.get("Content-Type") in offered:
            answer.headers["Content-Type"] = kind  # the same document, called as it was asked for
        return answer

    return run


def wants_array(request: Request) -> bool:
    """Whether acknowledgements are to be one JSON array, not a line for each."""
    return accepted(request, ACKS) != DELIMITED
