"""The wire format beside confluent-kafka's own reader and writer of it."""

import io
import uuid

import pytest
from confluent_kafka.schema_registry.serde import SchemaId as Theirs

from headwater.schemas.framing import SchemaId, read_schema_id
from headwater.schemas.model import DataError

GUID = uuid.UUID("89791762-2336-4186-9674-299b90a802e2")


@pytest.mark.parametrize("number", [0, 1, 255, 2**31, 2**32 - 1])
@pytest.mark.parametrize("indexes", [(), (0,), (1,), (0, 0), (2, 1, 300)])
def test_prefix_and_header_are_confluents(number: int, indexes: tuple[int, ...]) -> None:
    theirs = Theirs("PROTOBUF" if indexes else "AVRO", number, str(GUID), list(indexes) or None)
    ours = SchemaId(number, GUID, indexes)
    assert ours.prefix() == theirs.id_to_bytes()
    assert ours.header() == theirs.guid_to_bytes()
    for data, expected in (
        (ours.prefix(), SchemaId(number, None, indexes)),
        (ours.header(), SchemaId(None, GUID, indexes)),
    ):
        found, end = read_schema_id(data + b"rest", protobuf=bool(indexes))
        assert found == expected
        assert (data + b"rest")[end:] == b"rest"
        again = Theirs("PROTOBUF" if indexes else "AVRO")
        assert again.from_bytes(io.BytesIO(data + b"rest")).read() == b"rest"
        assert tuple(again.message_indexes or ()) == found.message_indexes


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "no bytes"),
        (b"\x00\x00\x00", "end within the schema's id"),
        (b"\x01" + b"x" * 15, "end within the schema's guid"),
        (b"{}", "the first byte is 123"),
        (b"\x00\x00\x00\x00\x01", "end within the path"),
        (b"\x00\x00\x00\x00\x01\x80\x80\x80\x80\x80\x80", "end within the path"),
        (b"\x00\x00\x00\x00\x01\xfe\xff\x7f", "cannot have"),
        (b"\x00\x00\x00\x00\x01\x01", "cannot have"),
        (b"\x00\x00\x00\x00\x01\x02\x01", "cannot have the index"),
    ],
)
def test_bytes_that_are_no_frame_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(DataError, match=why):
        read_schema_id(data, protobuf=True)
