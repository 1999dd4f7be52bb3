"""Request and response headers.

    request v1    api_key int16, api_version int16, correlation_id int32, client_id nullable string
    request v2    the same, then tagged fields; client_id keeps its old form
    response v0   correlation_id int32
    response v1   the same, then tagged fields

Flexible versions of an API use request v2 and response v1. The exception is ApiVersions: its response is always v0,
because a client must be able to read it before it knows what the broker speaks.
"""

from struct import Struct, error
from typing import Final, NamedTuple

from headwater.base.ports import Buffer
from headwater.wire.api import API_VERSIONS_KEY, FLEXIBLE_SINCE, NEVER
from headwater.wire.errors import DecodeError
from headwater.wire.primitives import skip_tagged_fields

_REQUEST: Final = Struct(">hhih")
_REQUEST_BYTES: Final = 10
_CORRELATION_ID: Final = Struct(">i")
_CORRELATION_ID_AND_NO_TAGS: Final = Struct(">ix")

_REQUEST_FLEXIBLE_SINCE: Final = FLEXIBLE_SINCE.get
_RESPONSE_FLEXIBLE_SINCE: Final = {**FLEXIBLE_SINCE, API_VERSIONS_KEY: NEVER}


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_at: int  # where the body begins in the buffer


def decode_request_header(buffer: Buffer) -> RequestHeader:
    """The header at the start of a frame (behind its length). An unknown API is read as if it were not flexible."""
    try:
        key, version, correlation_id, length = _REQUEST.unpack_from(buffer)
        position = _REQUEST_BYTES
        client_id = None
        if length >= 0:
            position += length
            client_id = str(buffer[_REQUEST_BYTES:position], "utf-8")
        if version >= _REQUEST_FLEXIBLE_SINCE(key, NEVER):
            tags = buffer[position]
            position += 1
            if tags:
                position = skip_tagged_fields(tags, buffer, position)
    except (error, IndexError, UnicodeDecodeError) as cause:
        raise DecodeError("the request header is cut short or not UTF-8") from cause
    if position > len(buffer):
        raise DecodeError("the request header is cut short")
    return RequestHeader(key, version, correlation_id, client_id, position)


def encode_request_header(key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    encoded = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(encoded)
    tags = b"\0" if version >= FLEXIBLE_SINCE[key] else b""
    return _REQUEST.pack(key, version, correlation_id, length) + encoded + tags


def response_header_bytes(key: int, version: int, correlation_id: int) -> bytes:
    if version >= _RESPONSE_FLEXIBLE_SINCE.get(key, NEVER):
        return _CORRELATION_ID_AND_NO_TAGS.pack(correlation_id)
    return _CORRELATION_ID.pack(correlation_id)


def decode_response_header(buffer: Buffer, key: int, version: int) -> tuple[int, int]:
    """(correlation id, where the body begins), for a response to a request of this key and version."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(buffer)
        position = 4
        if version >= _RESPONSE_FLEXIBLE_SINCE[key]:
            tags = buffer[position]
            position = skip_tagged_fields(tags, buffer, position + 1)
    except (error, IndexError) as cause:
        raise DecodeError("the response header is cut short") from cause
    if position > len(buffer):
        raise DecodeError("the response header is cut short")
    return correlation_id, position
