"""What keeps web pages of others away from a door on a developer's machine: a browser names the page that sends a
request.
"""

from urllib.parse import urlsplit

from headwater.web.messages import HttpError, Request


def check_origin(request: Request) -> None:
    """Raises HttpError 403 for a request that a page of another origin sent, unless `access.control.allow.origin`
    allows that origin; a request that names no origin comes from no page.
    """
    origin = request.headers.get("origin")
    if origin is None or request.is_of_allowed_origin:
        return
    own = (request.headers.get("host") or "").lower()
    if not own or _host(origin) != own:
        raise HttpError(403, "This request comes from a page of another origin")


def media_type(request: Request) -> str:
    """What the body says that it is, in small letters and without parameters; empty if it says nothing."""
    return (request.headers.get("content-type") or "").partition(";")[0].strip().lower()


def _host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
