"""Rows within a query keep every value exactly, and those that need no tags are the bytes that the encoder writes."""

import json
import string
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.sql.formats.internal import ROWS

PLAIN = st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.text(string.printable + '"\\\u00e9\U0001f600\ud800\x00')  # fmt: skip
MILLIS = st.integers(0, 10**12).map(lambda millis: datetime.fromtimestamp(millis // 1000))  # noqa: DTZ006
TAGGED = (
    st.decimals(allow_nan=False, allow_infinity=False, places=3)
    | st.binary()
    | MILLIS
    | st.dates(date(1970, 1, 1))
    | st.builds(time, st.integers(0, 23), st.integers(0, 59))
    | st.floats(allow_nan=False)
)
NESTED = st.recursive(
    PLAIN | TAGGED,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(PLAIN))
def test_plain_rows_are_what_the_encoder_writes(row: list[Any]) -> None:
    written = ROWS.serialize(row)
    assert written == json.dumps(row, separators=(",", ":")).encode()
    assert ROWS.deserialize(written) == row
    assert [type(each) for each in ROWS.deserialize(written)] == [type(each) for each in row]


@given(st.lists(NESTED, max_size=5))
def test_every_value_comes_back(row: list[Any]) -> None:
    assert ROWS.deserialize(ROWS.serialize(row)) == row


def test_kinds_of_numbers_and_texts_of_ones_own_are_written_as_such() -> None:
    class Number(int):
        def __repr__(self) -> str:
            return "a number"

    assert ROWS.serialize([Number(7), Decimal("1.50")]) == b'[7,{"$d":"1.50"}]'


@pytest.mark.parametrize("data", [b"", b"[1", b"[1] [2]", b"[1,]", b"\xff"])
def test_what_is_cut_off_or_goes_on_is_told(data: bytes) -> None:
    with pytest.raises(ValueError):
        ROWS.deserialize(data)


def test_what_another_version_wrote_with_spaces_is_read() -> None:
    assert ROWS.deserialize(b' [1, "a"] ') == [1, "a"]
