"""Numbers of an answer, by the types of their columns."""

from decimal import Decimal

from headwater.sql.answered_rows import row_reader


def test_a_decimal_keeps_its_digits_and_a_double_is_a_float() -> None:
    read = row_reader(["STRING", "DECIMAL(30, 2)", "DECIMAL(5, 0)", "DOUBLE", "BIGINT"])
    row = read(b'["a", 12345678901234567890.10, 5, 1.50, 9223372036854775807]')
    assert row == ["a", Decimal("12345678901234567890.10"), Decimal(5), 1.5, 9223372036854775807]
    assert [type(each) for each in row] == [str, Decimal, Decimal, float, int]
    assert str(row[1]) == "12345678901234567890.10"


def test_decimals_within_arrays_maps_and_structs_keep_theirs() -> None:
    read = row_reader(["ARRAY<DECIMAL(5, 2)>", "STRUCT<`A` DOUBLE, `b c` MAP<STRING, DECIMAL(5, 2)>>", "ARRAY<DOUBLE>"])
    row = read(b'[[1.50, null], {"A": 1.5, "b c": {"x": 2.10}}, [2.5]]')
    assert repr(row) == "[[Decimal('1.50'), None], {'A': 1.5, 'b c': {'x': Decimal('2.10')}}, [2.5]]"


def test_what_is_no_row_comes_as_it_is() -> None:
    assert row_reader(["DECIMAL(5, 2)"])(b'{"message": "no", "at": 1.5}') == {"message": "no", "at": 1.5}
    assert row_reader([])(b"[1.5]") == [1.5]
    assert row_reader(["DECIMAL of another kind"])(b"[1.5]") == [1.5]
