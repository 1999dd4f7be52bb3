"""Bodies: JSON in and out with bounded depth, and which of the offered content types a client takes."""

import json
import re
from array import array
from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Final

from headwater.web.messages import HttpError, Request, Response

_JSON: Final = "application/json"
JSON_DEPTH_MAX: Final = 200

_STRING: Final = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL
)  # an end that is missing is no match undone: linear
_NO_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"{}[]")
_STEPS: Final = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")  # as signed bytes: +1 and -1


def json_response(
    document: object, status: int = 200, content_type: str = _JSON, headers: Mapping[str, str] | None = None
) -> Response:
    """Without spaces, in the order of the document's keys, text as UTF-8: as Jackson writes it. A document with half a
    character (a lone surrogate), which UTF-8 has no bytes for, is written with escapes.
    """
    try:
        body = _json_text(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        body = _json_text(document, ensure_ascii=True).encode()
    return Response(status, body, {"Content-Type": content_type, **(headers or {})})


def _json_text(document: object, *, ensure_ascii: bool) -> str:
    return json.dumps(document, ensure_ascii=ensure_ascii, separators=(",", ":"), allow_nan=False)


def json_body(request: Request, depth_max: int = JSON_DEPTH_MAX) -> Any:
    """The document of a request's body. Raises HttpError 400 for what is none, or is nested too deeply."""
    return parse_json(request.body, depth_max)


def parse_json(data: bytes, depth_max: int = JSON_DEPTH_MAX) -> Any:
    if depth_of(data) > depth_max:
        raise HttpError(400, f"The JSON of the request is nested more than {depth_max} deep")
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise HttpError(400, "The body of the request is not UTF-8") from None
    except (ValueError, RecursionError) as problem:
        raise HttpError(400, f"The body of the request is not JSON: {str(problem)[:200]}") from None


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def depth_of(data: bytes) -> int:
    """How deeply its braces and brackets are nested, those in strings left out: asked before the recursive parser
    is.
    """
    brackets = _STRING.sub(b"", data).translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(array("b", brackets)), default=0)


def negotiate(accept: str | None, offered: tuple[str, ...]) -> str | None:
    """The offered type that the Accept header prefers; of equals the one that is offered first. None: it takes none of
    them.
    """
    return _best(accept, offered, as_named=False)


def preferred(accept: str | None, offered: tuple[str, ...]) -> str | None:
    """As `negotiate`; but of types that are as welcome as each other, the one that is named more exactly, then the one
    that is named first, and only then the one that is offered first.
    """
    return _best(accept, offered, as_named=True)


def _best(accept: str | None, offered: tuple[str, ...], *, as_named: bool) -> str | None:
    if accept is None or not accept.strip():
        return offered[0]
    ranges = [_media_range(piece) for piece in accept.split(",")[:50] if piece.strip()]
    best, best_rank = None, (0.0, 0, 0)
    for content_type in offered:
        fitting = [
            (specific, -at if as_named else 0, quality)
            for at, (pattern, quality) in enumerate(ranges)
            if (specific := _fits(pattern, content_type))
        ]
        specific, place, quality = max(fitting, default=(0, 0, 0.0))
        rank = (quality, specific, place) if as_named else (quality, 0, 0)
        if quality > 0 and (best is None or rank > best_rank):
            best, best_rank = content_type, rank
    return best


def _media_range(piece: str) -> tuple[str, float]:
    name, *parameters = (part.strip() for part in piece.split(";"))
    quality = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "q":
            try:
                quality = min(1.0, max(0.0, float(value)))
            except ValueError:
                quality = 0.0
    return name.lower(), quality


def _fits(pattern: str, content_type: str) -> int:
    """0: it does not; else how specific it is."""
    plain = content_type.partition(";")[0].strip().lower()
    if pattern == plain:
        return 3
    if pattern == "*/*":
        return 1
    return 2 if pattern.endswith("/*") and plain.startswith(pattern[:-1]) else 0
