"""A request, a response, and the error that becomes one. Plain data: the parser makes requests, the server writes
responses.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from headwater.web.callers import EVERYBODY, Caller

if TYPE_CHECKING:
    from headwater.web.body_stream import BodyStream


class Headers:
    """Header fields in their order; names are compared without regard to case. Immutable."""

    __slots__ = ("_fields",)

    def __init__(self, fields: tuple[tuple[str, str], ...] = ()) -> None:
        self._fields = tuple((name.lower(), value) for name, value in fields)

    def get(self, name: str, default: str | None = None) -> str | None:
        """The first value of that name."""
        wanted = name.lower()
        return next((value for each, value in self._fields if each == wanted), default)

    def all(self, name: str) -> list[str]:
        wanted = name.lower()
        return [value for each, value in self._fields if each == wanted]

    def listed(self, name: str) -> list[str]:
        """The entries of a field that is a list with commas, which may come in several lines; in lower case."""
        pieces = ",".join(self.all(name)).split(",")
        return [piece.strip().lower() for piece in pieces if piece.strip()]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._fields)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self._fields == other._fields

    def __hash__(self) -> int:
        return hash(self._fields)

    def __repr__(self) -> str:
        """Names only: values may be secrets."""
        return f"Headers({[name for name, _ in self._fields]!r})"


class HttpError(Exception):
    """What a door answers instead of a result. Its error hook gives it a body;
    `code` is the door's own number for it.
    """

    def __init__(self, status: int, message: str, code: int | None = None, headers: Mapping[str, str] | None = None):
        super().__init__(status, message)
        self.status = status
        self.message = message
        self.code = status if code is None else code
        self.headers: dict[str, str] = dict(headers or {})

    def __str__(self) -> str:
        return f"{self.status} {self.message}"


class Query:
    """The parameters behind the question mark; a name may come several times."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    @classmethod
    def parse(cls, text: str, fields_max: int = 200) -> "Query":
        try:
            return cls(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=fields_max))
        except (ValueError, UnicodeDecodeError):
            raise HttpError(400, "The query string is malformed, or has too many parameters") from None

    def get(self, name: str, default: str | None = None) -> str | None:
        return next((value for each, value in self._pairs if each == name), default)

    def all(self, name: str) -> list[str]:
        return [value for each, value in self._pairs if each == name]

    def boolean(self, name: str, default: bool = False) -> bool:
        """As Java reads it: `true` in any case is true, and anything else is not. Python's clients write `True` and
        `False`.
        """
        value = self.get(name)
        return default if value is None or value == "" else value.lower() == "true"

    def integer(self, name: str, default: int) -> int:
        value = self.get(name)
        if value is None or value == "":
            return default
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
            raise HttpError(400, f"The parameter {name} must be a whole number, not {value[:100]!r}")
        return int(value)

    def __contains__(self, name: str) -> bool:
        return any(each == name for each, _ in self._pairs)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)


@dataclass(frozen=True, slots=True)
class Request:
    """`target` is as it came. `segments` are the pieces of its path, split at slashes and only then decoded, so that an
    encoded slash stays inside its piece; a slash at the end adds none.
    """

    method: str
    target: str
    segments: tuple[str, ...]
    query_string: str = ""
    headers: Headers = field(default_factory=Headers)
    body: bytes = b""
    http_minor: int = 1
    peer: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)  # of the path, named by the route
    caller: Caller = EVERYBODY  # who sends it: set by the gate of a door
    is_of_allowed_origin: bool = False  # `access.control.allow.origin` lets the page that sends it
    stream: "BodyStream | None" = None  # the body, where the server hands it on while it comes; `body` is empty then

    def __repr__(self) -> str:
        """Without headers and body: a password or a token may be in them."""
        return f"Request({self.method} {self.target!r})"

    @property
    def query(self) -> Query:
        return Query.parse(self.query_string)

    @property
    def keeps_alive(self) -> bool:
        options = self.headers.listed("connection")
        return "close" not in options if self.http_minor else "keep-alive" in options


Body = bytes | AsyncIterator[bytes]


@dataclass(slots=True)
class Response:
    """A body of bytes is sent with its length; an asynchronous iterator piece by piece as it yields (chunked).

    The server closes an iterator that is an async generator, whether it was read to its end or not.
    """

    status: int = 200
    body: Body = b""
    headers: dict[str, str] = field(default_factory=dict)


_REASONS: Final = {status.value: status.phrase for status in HTTPStatus}


def reason(status: int) -> str:
    return _REASONS.get(status, "Unknown")
