"""The sockets of a listener: one for each address that its name has on this machine, all on one port."""

import asyncio
import errno
import socket
from typing import Final

BACKLOG: Final = 256
_NOT_HERE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


async def listening_sockets(host: str, port: int) -> list[socket.socket]:
    """They listen. An address that this machine does not have is left out where there is another: localhost is ::1,
    too, also in a container without IPv6. Raises OSError.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            chosen = port or (made[0].getsockname()[1] if made else 0)
            try:
                made.append(_listening(family, (address[0], chosen, *address[2:])))
            except OSError as problem:
                if problem.errno not in _NOT_HERE:
                    raise
                missing = problem
        if missing is not None and not made:
            raise missing
    except OSError:
        for each in made:
            each.close()
        raise
    return made


def _listening(family: int, address: tuple[object, ...]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
        made.listen(BACKLOG)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made
