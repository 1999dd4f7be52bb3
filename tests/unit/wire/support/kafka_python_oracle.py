"""kafka-python's classes beside ours. They are loaded by name; None where kafka-python lacks the message or version."""

from functools import cache
from importlib import import_module
from typing import Any

from headwater.wire.schema import Message, Struct
from unit.wire.support.values import OUR_TAGS

MODULES = ("admin", "consumer", "producer", "metadata", "sasl")

OLDER_NAMES = {"generation_id_or_member_epoch": "generation_id"}


def comparable(message: Message, version: int) -> bool:
    """Whether kafka-python has the version. It reads an ApiVersions response with an error always as v0."""
    theirs = kafka_python_class(type(message))
    if theirs is None or not theirs.valid_versions[0] <= version <= theirs.valid_versions[1]:
        return False
    return not (theirs.__name__ == "ApiVersionsResponse" and getattr(message, "error_code", 0))


@cache
def kafka_python_class(cls: type[Message]) -> Any | None:
    for name in MODULES:
        found = getattr(import_module(f"kafka.protocol.{name}"), cls.__name__, None)
        if found is not None:
            return found
    return None


def same(ours: Any, theirs: Any, version: int) -> bool:
    """Whether the two hold the same, over the fields that the version has."""
    if isinstance(ours, Struct):
        fields = [field for field in ours.FIELDS if field.in_version(version) and (field.tag or 0) < OUR_TAGS]
        return all(_same_field(field, getattr(ours, field.name), theirs, version) for field in fields)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(same(a, b, version) for a, b in zip(ours, theirs, strict=True))
    if isinstance(ours, bytes) and len(ours) == 16 and hasattr(theirs, "bytes"):
        return bool(ours == theirs.bytes)
    return bool(ours == theirs)


def _same_field(field: Any, ours: Any, theirs: Any, version: int) -> bool:
    if field.name.endswith("authorized_operations"):
        return True  # kafka-python has another name for it, and makes a set of its bits
    name = field.name if hasattr(theirs, field.name) else OLDER_NAMES[field.name]
    held = getattr(theirs, name)
    if field.tagged_in(version) and ours is None and isinstance(field.type, type):
        return held is None or same(field.type(), held, version)
    return same(ours, held, version)
