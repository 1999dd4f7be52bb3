"""What messages may repeat of texts that can hold a secret: nothing of a login within an address, and nothing of an
argument that was to be `name=value` and is not, for it may be the value alone.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from urllib.parse import SplitResult

_NEXT_ADDRESS: Final = re.compile(r",(?=\w+://)")
_SCHEME: Final = re.compile(r"(?:\w+:)?//")
_END_OF_AUTHORITY: Final = re.compile(r"[/?#]")
_PLAIN_AUTHORITY: Final = re.compile(r"(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::[0-9]+)?")  # host or host:port, and no login


def without_login(address: str) -> str:
    """An address, or several with commas, without the user and the password before each host.

    A password may have any characters in it, so where `user:password` may begin, all to the last `@` is taken for it:
    rather too little of an address is shown than a part of a password. (What follows `,scheme://` is another address.)
    """
    return ",".join(map(_one_without_login, _NEXT_ADDRESS.split(address)))


def _one_without_login(address: str) -> str:
    scheme = _SCHEME.match(address)
    start = scheme.end() if scheme else 0
    login, at, host = address[start:].rpartition("@")
    is_in_path = scheme and ":" not in login and "@" not in _authority(address[start:])
    return address if not at or is_in_path else address[:start] + host


def _authority(behind_scheme: str) -> str:
    return _END_OF_AUTHORITY.split(behind_scheme, maxsplit=1)[0]


def has_login(text: str) -> bool:
    """Whether an address in it has one: before an `@` stands something else than a host and its path."""
    for each in _NEXT_ADDRESS.split(text):
        _, _, behind = each.partition("//")
        if "@" in behind and not _PLAIN_AUTHORITY.fullmatch(_authority(behind)):
            return True
    return False


def http_address(url: str) -> "SplitResult | None":
    """The parts of http(s)://[user:password@]host[:port][/path]; None for what is no such address."""
    from urllib.parse import urlsplit  # 3 ms that a broker's start does not need

    try:
        parts = urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # whose text has the port, or what stands where a port is looked for
        return None
    return parts if is_one else None


def assignments(arguments: Sequence[str], option: str = "--set") -> tuple[dict[str, str], str]:
    """`name=value` each, the last of a name wins; and what is wrong with one of them, by its number alone."""
    found: dict[str, str] = {}
    for number, argument in enumerate(arguments, 1):
        name, equals, value = argument.partition("=")
        if not equals or not name.strip():
            which = f"the {_ordinal(number)} {option}" if len(arguments) > 1 else option
            return found, f"{which} is not name=value"
        found[name.strip()] = value
    return found, ""


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
