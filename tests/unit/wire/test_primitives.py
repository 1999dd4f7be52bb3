"""Varints at the borders of their lengths."""

import pytest

from headwater.wire import primitives
from headwater.wire.errors import DecodeError
from unit.wire.support import reference

BORDERS = [at + step for at in (0, 2**7, 2**14, 2**21, 2**28, 2**31) for step in (-1, 0, 1) if at + step >= 0]


@pytest.mark.parametrize("value", BORDERS)
def test_a_varint_comes_back(value: int) -> None:
    encoded = primitives.encode_uvarint(value)
    assert encoded == reference.uvarint(value)
    assert primitives.decode_uvarint(b"x" + encoded + b"\xff", 1) == (value, 1 + len(encoded))
    for length in range(len(encoded)):
        with pytest.raises(IndexError):
            primitives.decode_uvarint(encoded[:length], 0)


def test_a_varint_has_five_bytes_at_most() -> None:
    assert primitives.decode_uvarint(b"\xff\xff\xff\xff\x0f", 0) == (2**32 - 1, 5)
    with pytest.raises(DecodeError):
        primitives.decode_uvarint(b"\xff\xff\xff\xff\xff\x01", 0)


def test_tagged_fields_are_skipped_up_to_a_number_that_no_client_sends() -> None:
    """A hundred megabytes of them in a header were read for half a minute."""
    section = primitives.encode_tagged_fields([(tag, bytes(tag)) for tag in range(primitives.TAGGED_FIELDS_MAX)])
    assert primitives.skip_tagged_fields(section[0], section + b"rest", 1) == len(section)
    section = primitives.encode_tagged_fields([(tag, b"") for tag in range(primitives.TAGGED_FIELDS_MAX + 1)])
    with pytest.raises(DecodeError, match="tagged fields"):
        primitives.skip_tagged_fields(section[0], section + b"rest", 1)
