"""How a field is encoded, as its syntax, its options and the features of an edition decide it: whether absence can be
told, whether lists are packed, whether a message stands between two tags (a group). Pure.

A feature is written in one option each (`features.field_presence`), or all in one message (`features = { ... }`), which
is how descriptors give them.
"""

import re
from typing import Final

from headwater.schemas.protobuf.types import Field, File, Message

_UNPACKED: Final = ("string", "bytes", "map", "group")


def has_presence(field: Field, message: Message) -> bool:
    """Whether the wire can tell an absent field from one with its default."""
    if field.label == "repeated" or field.type == "map":
        return False
    if field.label or field.oneof or isinstance(field.target, Message):
        return True
    syntax = message.file.syntax if message.file is not None else "proto3"
    if syntax == "editions":
        return feature(field, message.file, "field_presence") != "IMPLICIT"
    return syntax != "proto3"


def is_packed(field: Field, file: File | None) -> bool:
    if field.label != "repeated" or field.type in _UNPACKED or isinstance(field.target, Message):
        return False
    said = next((option.value.text for option in field.options if option.name == "packed"), None)
    if said is not None:
        return said == "true"
    syntax = file.syntax if file is not None else "proto3"
    if syntax == "editions":
        return feature(field, file, "repeated_field_encoding") != "EXPANDED"
    return syntax == "proto3"


def is_delimited(field: Field, file: File | None) -> bool:
    """Whether each message stands between a tag that begins a group and one that ends it."""
    if field.type == "group":
        return True
    if field.type == "map" or not isinstance(field.target, Message) or file is None or file.syntax != "editions":
        return False
    return feature(field, file, "message_encoding") == "DELIMITED"


def feature(field: Field, file: File | None, name: str) -> str:
    """What a field of an edition says, or its file for all."""
    for options in (field.options, file.options if file is not None else ()):
        for option in options:
            if option.name == f"features.{name}":
                return option.value.text
            if option.name == "features":
                found = re.search(rf"(?<!\w){name}\s*:\s*(\w+)", option.value.text)
                if found is not None:
                    return found[1]
    return ""
