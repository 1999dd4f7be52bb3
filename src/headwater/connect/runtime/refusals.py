"""Why a herder does not do what it is asked, by the status that the REST door answers with."""

import json
from typing import Any

from headwater.connect.errors import ConnectError


class NotFound(ConnectError):
    """404."""


class AlreadyExists(ConnectError):
    """409."""


class BadRequest(ConnectError):
    """400."""


class Conflict(ConnectError):
    """409: not now; the group is being balanced, or its leader has changed."""


class Forbidden(ConnectError):
    """403: a call between workers that none of them signed."""


class Elsewhere(ConnectError):
    """Another worker does this; `url` is where it is."""

    def __init__(self, url: str) -> None:
        super().__init__(f"The worker at {url} does this")
        self.url = url


NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
    "specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
)


def has_half_character(document: Any) -> bool:
    """A lone surrogate, which no text in UTF-8 can have."""
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
