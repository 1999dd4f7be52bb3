"""Values of Spark as the sinks of databases write them: what is nested is JSON, as Spark's `to_json` has it."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import VariantVal

from headwater.spark.sinks.values import row_as_json, simplified

TEXT, LONG = spark.StringType(), spark.LongType()


def written(kind: spark.DataType, *values: Any, zone: str = "UTC") -> list[Any]:
    column = pa.array(values, to_arrow_type(kind, timezone=zone))
    made: list[Any] = simplified(pa.RecordBatch.from_arrays([column], names=["x"])).column(0).to_pylist()
    return made


def refused(text: str) -> None:
    raise AssertionError(f"{text} is no number of JSON")


@pytest.mark.parametrize(
    ("kind", "value", "tree"),
    [
        (spark.MapType(TEXT, LONG), [("a", 1), ("b", None)], {"a": 1, "b": None}),
        (spark.MapType(LONG, spark.MapType(TEXT, LONG)), [(7, [("a", 1)])], {"7": {"a": 1}}),
        (spark.MapType(spark.BooleanType(), LONG), [(True, 1)], {"true": 1}),
        (spark.MapType(spark.DateType(), LONG), [(date(2024, 5, 1), 1)], {"2024-05-01": 1}),
        (
            spark.ArrayType(spark.StructType().add("m", spark.MapType(TEXT, spark.ArrayType(LONG)))),
            [{"m": [("a", [1, None])]}, None, {"m": None}],
            [{"m": {"a": [1, None]}}, None, {"m": None}],
        ),
        (
            spark.ArrayType(spark.DoubleType()),
            [0.5, float("nan"), float("inf"), -float("inf")],
            [0.5, "NaN", "Infinity", "-Infinity"],
        ),
        (spark.ArrayType(spark.FloatType()), [0.1, float("nan")], [0.1, "NaN"]),
        (spark.ArrayType(spark.DecimalType(38, 10)), [Decimal("1.10")], ["1.1000000000"]),
        (spark.ArrayType(spark.BinaryType()), [b"\0\1", b""], ["AAE=", ""]),
        (spark.ArrayType(spark.BooleanType()), [True, False], [True, False]),
        (
            spark.ArrayType(spark.TimestampNTZType()),
            [datetime.fromisoformat("2024-05-01T02:03")],
            ["2024-05-01 02:03:00.000000"],
        ),
        (spark.ArrayType(spark.DateType()), [date(2024, 5, 1), 3_000_000], ["2024-05-01", "10183-09-21"]),
        (spark.ArrayType(spark.DayTimeIntervalType()), [timedelta(1, 3)], ["1 day, 0:00:03"]),
        (spark.StructType().add("x", TEXT), {"x": "\u00fc"}, {"x": "\u00fc"}),
    ],
)
def test_nested_values_are_json(kind: spark.DataType, value: Any, tree: Any) -> None:
    """A map was a list of pairs; NaN is no JSON, and PostgreSQL refuses it; Python has no year 10000."""
    (text, none) = written(kind, value, None)
    assert json.loads(text, parse_constant=refused) == tree
    assert none is None


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_nested_times_are_in_utc_whatever_the_zone_of_the_session(zone: str) -> None:
    (text,) = written(spark.ArrayType(spark.TimestampType()), [datetime(2024, 5, 1, 2, tzinfo=UTC)], zone=zone)
    assert text == '["2024-05-01 02:00:00.000000+00:00"]'


def test_a_variant_is_the_json_that_it_holds() -> None:
    """It was the two parts of its encoding, in base64."""
    held = VariantVal.parseJson('{"a":[1,"x",null]}')
    parts = {"value": held.value, "metadata": held.metadata}
    assert json.loads(written(spark.VariantType(), parts)[0]) == {"a": [1, "x", None]}
    assert json.loads(written(spark.ArrayType(spark.VariantType()), [parts])[0]) == [{"a": [1, "x", None]}]


def test_an_interval_is_text_without_quotes() -> None:
    assert written(spark.DayTimeIntervalType(), timedelta(1, 3), None) == ["1 day, 0:00:03", None]


def test_slices_of_nested_columns() -> None:
    column = pa.array([[("a", 1)], None, [("b", 2)]], pa.map_(pa.string(), pa.int64()))
    batch = pa.RecordBatch.from_arrays([column], names=["x"]).slice(1, 2)
    assert simplified(batch).column(0).to_pylist() == [None, '{"b": 2}']


def test_a_bad_row_is_shown_as_json() -> None:
    columns = {
        "n": pa.array([1, 13]),
        "real": pa.array([0.5, float("nan")]),
        "tags": pa.array([None, [("a", 1)]], pa.map_(pa.string(), pa.int64())),
        "day": pa.array([0, 3_000_000], pa.date32()),
        "word": pa.array(["", "\u00fc"]),
    }
    assert row_as_json(pa.record_batch(columns), 1) == (
        '{"n": 13, "real": "NaN", "tags": {"a": 1}, "day": "10183-09-21", "word": "\u00fc"}'
    )
