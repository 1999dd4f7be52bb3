"""Tables, sizes and durations."""

import json

import pytest
import yaml

from headwater.cli.output import duration_text, render, render_pairs, render_table, size_text


def test_columns_are_as_wide_as_they_must_be_and_numbers_stand_to_the_right() -> None:
    table = render_table(["NAME", "N", "REPLICAS"], [["orders", 3, [1, 2]], ["a", 12, []], ["b", None, [7]]])
    assert table == (
        "NAME     N  REPLICAS\n"  #
        "orders   3  1,2\n"
        "a       12\n"
        "b        -  7\n"
    )


def test_a_table_without_rows_has_its_header() -> None:
    assert render_table(["A", "LONG"], []) == "A  LONG\n"


def test_a_cell_stays_on_its_line() -> None:
    assert render_table(["A", "B"], [["x\ny", True]]) == "A     B\nx\\ny  yes\n"


def test_pairs_line_up() -> None:
    assert render_pairs([("a", 1), ("long", None)]) == "a     1\nlong  -\n"


def test_json_and_yaml_carry_the_same_value() -> None:
    value = [{"name": "ä", "n": 1, "none": None, "list": [1, 2]}]
    assert json.loads(render("json", value, "x")) == value
    assert yaml.safe_load(render("yaml", value, "x")) == value
    assert render("table", value, "x") == "x"


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(-1, "-"), (0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (3 << 50, "3072.0 TiB")],
)
def test_sizes(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0s"), (59, "59s"), (60, "1m"), (90061, "1d 1h 1m"), (7200, "2h")])
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text
