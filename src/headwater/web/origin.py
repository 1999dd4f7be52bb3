"""What keeps web pages of others away from a door on a developer's machine: a browser names the page that sends a
request.

That a page has the door's own address proves nothing where its owner's name servers say who has that name: they can
name this machine, once the page is loaded (DNS rebinding). So a page by such a name is refused where nobody logs in.
"""

import ipaddress
import socket
from urllib.parse import urlsplit

from headwater.web.callers import EVERYBODY
from headwater.web.messages import HttpError, Request


def check_origin(request: Request) -> None:
    """Raises HttpError 403 for a request that a page of another origin sent, unless `access.control.allow.origin`
    allows that origin; a request that names no origin comes from no page.
    """
    origin = request.headers.get("origin")
    if origin is None or request.is_of_allowed_origin:
        return
    own = (request.headers.get("host") or "").lower()
    if not own or _host(origin) != own or _may_be_rebound(request, own):
        raise HttpError(403, "This request comes from a page of another origin")


def media_type(request: Request) -> str:
    """What the body says that it is, in small letters and without parameters; empty if it says nothing."""
    return (request.headers.get("content-type") or "").partition(";")[0].strip().lower()


def _host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _may_be_rebound(request: Request, own: str) -> bool:
    """Whether the page is on this machine's door by a name that is not this machine's."""
    if request.caller is not EVERYBODY or not _is_loopback(request.peer.rpartition(":")[0]):
        return False
    try:
        name = (urlsplit(f"//{own}").hostname or "").removesuffix(".")
    except ValueError:
        return True
    if name == "localhost" or name.endswith(".localhost") or name == socket.gethostname().lower():
        return False
    return not _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    if not _is_address(host):
        return False
    address = ipaddress.ip_address(host)
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
