"""Fields, order, nullability, tags and defaults of every message and version, as kio has them."""

import dataclasses
from typing import Any

import pytest

from headwater.wire.schema import Array, Message, Struct
from unit.wire.support import kio_oracle as kio
from unit.wire.support.values import OUR_TAGS, all_messages, versions_of

RENAMED = {"[]EntryData": "[]EntryResult"}  # in one file with another EntryData
NEWER_THAN_KIO = {
    ("ApiVersionsRequest", 5),
    ("ApiVersionsResponse", 5),
    ("DeleteGroupsRequest", 3),
    ("DeleteGroupsResponse", 3),
    ("TxnOffsetCommitRequest", 6),
    ("TxnOffsetCommitResponse", 6),
}


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_fields_are_those_of_kio(cls: type[Message]) -> None:
    for version in versions_of(cls):
        theirs = kio.kio_class(cls, version)
        if (cls.__name__, version) in NEWER_THAN_KIO:
            assert theirs is None, "kio has it now: compare it"
            continue
        assert theirs is not None, f"kio has no {cls.__name__} v{version}"
        assert theirs.__api_key__ == cls.KEY
        assert theirs.__flexible__ == (version >= cls.FLEXIBLE_SINCE)
        _compare(cls, theirs, version)


@pytest.mark.parametrize("cls", all_messages(), ids=lambda cls: cls.__name__)
def test_no_version_of_kio_is_missing(cls: type[Message]) -> None:
    assert kio.kio_class(cls, cls.VERSIONS[1] + 1) is None
    if cls.VERSIONS[0] > 0:
        assert kio.kio_class(cls, cls.VERSIONS[0] - 1) is None


def _compare(ours: type[Struct], theirs: Any, version: int) -> None:
    fields = [field for field in ours.FIELDS if field.in_version(version) and (field.tag or 0) < OUR_TAGS]
    others = dataclasses.fields(theirs)
    assert [field.name for field in fields] == [kio.our_name(ours, other.name) for other in others]
    for field, other in zip(fields, others, strict=True):
        where = f"{ours.__name__}.{field.name} v{version}"
        type_name, nullable, struct = kio.described(other)
        tag = other.metadata.get("tag")
        assert kio.our_type(field.type) in (type_name, RENAMED.get(type_name)), where
        assert (field.tag if field.tagged_in(version) else None) == tag, where
        assert field.nullable_in(version) == nullable, where
        default = kio.our_default(field)
        if tag is not None or default is not None:  # else None is our choice: nobody sees it on the wire
            assert default == kio.kio_default(other, default), where
        if struct is not None:
            element = field.type.element if isinstance(field.type, Array) else field.type
            assert isinstance(element, type)
            _compare(element, struct, version)
