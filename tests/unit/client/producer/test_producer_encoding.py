"""Columns to JSON, text and numbers: as Python's own json has them, nulls kept."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.base.errors import UserError
from headwater.client.producer.encoding import encode_column, json_column

TEXT = st.text(max_size=20)
ROWS = st.lists(
    st.one_of(
        st.none(),
        st.fixed_dictionaries(
            {
                "text": st.one_of(st.none(), TEXT),
                "number": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
                "real": st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False)),
                "flag": st.one_of(st.none(), st.booleans()),
                "deep": st.one_of(st.none(), st.fixed_dictionaries({'na"me': TEXT})),
                "many": st.one_of(st.none(), st.lists(TEXT, max_size=3)),
            }
        ),
    ),
    max_size=8,
)
TYPE = pa.struct(
    [
        ("text", pa.string()),
        ("number", pa.int64()),
        ("real", pa.float64()),
        ("flag", pa.bool_()),
        ("deep", pa.struct([('na"me', pa.string())])),
        ("many", pa.list_(pa.string())),
    ]
)


@settings(deadline=None)
@given(ROWS)
def test_json_is_what_was_in_the_rows(rows: list[Any]) -> None:
    text = json_column(pa.array(rows, TYPE))
    assert [None if each is None else json.loads(each) for each in text.to_pylist()] == rows


@pytest.mark.parametrize(
    ("values", "kind", "texts"),
    [
        ([1, None], pa.int8(), ["1", None]),
        ([True, None, False], pa.bool_(), ["true", None, "false"]),
        ([float("inf"), float("nan"), 2.5], pa.float64(), [None, None, "2.5"]),
        ([Decimal("1.50")], pa.decimal128(5, 2), ["1.50"]),
        (["a\x02\n"], pa.large_string(), ['"a\\u0002\\n"']),
        ([b"a", b"\xff"], pa.binary(), ['"a"', '"\ufffd"']),
        ([date(2024, 1, 2)], pa.date32(), ['"2024-01-02"']),
        (
            [datetime(2024, 1, 2, 3, 4, 5, 600, tzinfo=UTC)],
            pa.timestamp("us", "Europe/Berlin"),
            ['"2024-01-02T03:04:05.000600Z"'],
        ),
        ([datetime(2024, 1, 2, 3, 4, 5)], pa.timestamp("s"), ['"2024-01-02T03:04:05"']),  # noqa: DTZ001 (a local time)
        ([None], pa.null(), [None]),
        ([{}], pa.struct([]), ["{}"]),
    ],
)
def test_json_of_each_type(values: list[Any], kind: pa.DataType, texts: list[str | None]) -> None:
    assert json_column(pa.array(values, kind)).to_pylist() == texts


@pytest.mark.parametrize(
    ("form", "first"),
    [("short", b"\0\5"), ("int", b"\0\0\0\5"), ("long", b"\0" * 7 + b"\5"), ("double", b"@\x14" + b"\0" * 6)],
)
def test_numbers_are_javas(form: str, first: bytes) -> None:
    assert encode_column(pa.array([5, None, -1]), form).to_pylist()[:2] == [first, None]


def test_text_functions_and_what_is_not_known() -> None:
    assert encode_column(pa.array([5, None]), "string").to_pylist() == ["5", None]
    assert encode_column(pa.array([5]), lambda column: column.cast(pa.string())).to_pylist() == ["5"]
    with pytest.raises(UserError, match="json"):
        encode_column(pa.array([5]), "xml")
