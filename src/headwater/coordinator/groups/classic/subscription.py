"""Which topics a consumer's join metadata names.

The metadata of the protocol type `consumer` begins, in all its versions, with: int16 version, int32 count, that many
strings (int16 length, UTF-8). Nothing behind that matters here.
"""

from struct import Struct, error
from typing import Final

_HEAD: Final = Struct(">hi")
_LENGTH: Final = Struct(">h")


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """None when the metadata is something else: then nobody knows what the member reads."""
    topics = []
    try:
        version, count = _HEAD.unpack_from(metadata, 0)
        if version < 0 or count < 0:
            return None
        position = _HEAD.size
        for _ in range(count):  # a lie about the count ends at the end of the bytes
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            if length < 0 or position + length > len(metadata):
                return None
            topics.append(str(metadata[position : position + length], "utf-8"))
            position += length
    except (error, UnicodeDecodeError):
        return None
    return topics
