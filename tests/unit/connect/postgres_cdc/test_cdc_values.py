"""Texts of PostgreSQL's values where they are odd: what the comparison with Debezium cannot show, or where Debezium is
wrong.
"""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.connect.connectors.postgres_cdc import text_values as t
from headwater.connect.connectors.postgres_cdc.column_types import Modes, TypeInfo, column_type
from headwater.connect.connectors.postgres_cdc.table_model import default_of
from headwater.connect.errors import DataError

TYPES = {
    number: TypeInfo(number, name)
    for number, name in enumerate(("int4", "text", "date", "timestamp", "timestamptz", "time", "numeric", "hstore", "interval", "money"), 1)
}  # fmt: skip
OIDS = {info.name: oid for oid, info in TYPES.items()}


def read(name: str, text: str, modifier: int = -1, **modes: Any) -> Any:
    found = column_type(TYPES, OIDS[name], modifier, Modes(**modes))
    assert found is not None
    return found.read(text)


@pytest.mark.parametrize(
    ("name", "text", "modes", "value"),
    [
        ("date", "infinity", {}, (1 << 31) - 1),
        ("date", "-infinity", {}, -(1 << 31)),
        ("date", "0044-03-15 BC", {}, -735160),
        ("date", "0044-03-15 BC", {"time": "isostring"}, "-0043-03-15Z"),
        ("timestamp", "infinity", {}, 9223372036825200000),
        ("timestamp", "0044-03-15 12:00:00 BC", {}, -63517780800000000),
        ("timestamp", "0044-03-15 12:00:00 BC", {"time": "nanoseconds"}, -(1 << 63)),
        ("timestamptz", "-infinity", {}, "-infinity"),
        ("timestamptz", "2020-01-01 00:30:00+05:30", {}, "2019-12-31T19:00:00.000000Z"),
        ("time", "24:00:00", {}, 86_400_000_000),
        ("interval", "P0D", {"interval": "string"}, "P0Y0M0DT0H0M0S"),
        ("interval", "P-1DT-1.5S", {"interval": "string"}, "P0Y0M-1DT0H0M-1.5S"),
        ("hstore", '"a"=>"1", "b\\"c"=>NULL', {}, '{"a":"1","b\\"c":null}'),
        ("hstore", '"a"=>"1"', {"hstore": "map"}, {"a": "1"}),
        ("numeric", "Infinity", {"decimal": "string"}, "POSITIVE_INFINITY"),
    ],
)
def test_values(name: str, text: str, modes: dict[str, str], value: Any) -> None:
    assert read(name, text, **modes) == value


def test_money_has_as_many_digits_as_is_said() -> None:
    assert str(read("money", "$12.345", money_digits=3)) == "12.345"
    assert str(read("money", "$12.5", money_digits=0)) == "13"
    assert read("money", "$1.00", money_digits=1, decimal="string") == "1.0"


def test_a_scale_may_be_negative() -> None:
    assert read("numeric", "1200", modifier=((3 << 16) | (-2 & 0x7FF)) + 4) == Decimal("12E2")


def test_dates_that_connects_own_types_cannot_hold_are_told() -> None:
    with pytest.raises(DataError, match="between the years"):
        read("date", "infinity", time="connect")


@given(st.integers(-800_000, 3_000_000))
def test_days_are_dates_and_back(days: int) -> None:
    assert t.days_of(*t.date_of(days)) == days


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("{}", []),
        ("{NULL,\"NULL\",\"\",a\\,b}", [None, "NULL", "", "a\\", "b"]),
        ('{"a,b","c\\"d","e\\\\f"}', ["a,b", 'c"d', "e\\f"]),
        ("[0:1]={1,2}", ["1", "2"]),
        ("{{1,2},{3,4}}", ["1", "2", "3", "4"]),
    ],
)  # fmt: skip
def test_arrays(text: str, elements: list[str | None]) -> None:
    assert t.array_of(text) == elements


def test_what_is_no_array_is_refused() -> None:
    for text in ("1,2", "{1", '{"a}'):
        with pytest.raises(DataError):
            t.array_of(text)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'x''y'::text", "x'y"),
        ("nextval('s'::regclass)", ""),
        ("CURRENT_USER", ""),
        ("('a' || 'b')", None),
        (None, None),
    ],
)
def test_defaults_are_constants_or_the_zero_of_a_call(expression: str | None, value: Any) -> None:
    kind = column_type(TYPES, OIDS["text"], -1, Modes())
    assert kind is not None
    assert default_of(expression, kind) == value
