"""Messages with something in every field: one by rule (`example`), and as many as Hypothesis wants (`messages`)."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from hypothesis import strategies as st

from headwater.wire import registry
from headwater.wire.schema import (
    BOOL,
    BYTES,
    FLOAT64,
    RECORDS,
    STRING,
    UUID,
    Array,
    Field,
    FieldType,
    FixedType,
    Message,
    Struct,
)

RANGES = {"b": 2**7, "h": 2**15, "i": 2**31, "q": 2**63}
TIME_MS_MAX = 2**41  # kio turns times into datetime objects, which end at the year 9999
OUR_TAGS = 10_000  # from here on a tag is our own; clients skip those that they do not know, and so do the oracles


def all_messages() -> list[type[Message]]:
    return [find(key) for key in registry.known_keys() for find in (registry.request_class, registry.response_class)]


def versions_of(cls: type[Message]) -> range:
    return range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)


def structs_of(cls: type[Struct]) -> Iterator[type[Struct]]:
    """The class and every struct below it."""
    yield cls
    for field in cls.FIELDS:
        element = field.type.element if isinstance(field.type, Array) else field.type
        if isinstance(element, type):
            yield from structs_of(element)


def example(cls: type[Any], version: int) -> Any:
    """No field at its default, no array empty, nothing null."""
    values = {field.name: _example(field.type, version) for field in cls.FIELDS if field.in_version(version)}
    return cls(**values)


def _example(type_: FieldType, version: int) -> Any:
    if isinstance(type_, Array):
        return [_example(type_.element, version)] * 2
    if isinstance(type_, type):
        return example(type_, version)
    if type_ is STRING:
        return "grün"
    if type_ in (BYTES, RECORDS):
        return b"\x01\x02\x03"
    return {UUID: bytes(range(16)), BOOL: True, FLOAT64: 2.5}.get(type_, 7)


@cache  # to make a strategy takes longer than to draw from it
def messages(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    known = [field for field in cls.FIELDS if field.in_version(version) and (field.tag or 0) < OUR_TAGS]
    fields = {field.name: _field(field, version) for field in known}
    return st.builds(cls, **fields)


def _field(field: Field, version: int) -> st.SearchStrategy[Any]:
    if field.name.endswith("error_code"):
        return st.integers(-1, 118)  # kio has an enumeration of these
    if field.name.endswith("_ms") and field.type.format == "q":  # type: ignore[union-attr]
        return st.integers(-1, TIME_MS_MAX)
    values = _values(field.type, version)
    if field.tagged_in(version) and isinstance(field.type, type):
        default = field.type()
        return st.none() | values.filter(lambda value: value != default)
    return st.none() | values if field.nullable_in(version) else values


def _values(type_: FieldType, version: int) -> st.SearchStrategy[Any]:
    if isinstance(type_, Array):
        return st.lists(_values(type_.element, version), max_size=2)
    if isinstance(type_, type):
        return messages(type_, version)
    if type_ is STRING:
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.just("ö" * 100)
    if type_ in (BYTES, RECORDS):
        return st.binary(max_size=6) | st.just(bytes(200))
    if type_ is UUID:
        return st.binary(min_size=16, max_size=16)
    if type_ is BOOL:
        return st.booleans()
    if type_ is FLOAT64:
        return st.floats(allow_nan=False, allow_infinity=False)
    assert isinstance(type_, FixedType)
    if type_.format in "HI":
        return st.integers(0, 2 ** (8 * type_.size_bytes) - 1)
    return st.integers(-RANGES[type_.format], RANGES[type_.format] - 1)
