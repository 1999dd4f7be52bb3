"""What columns become in records."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from headwater.connect.connectors.jdbc_dialects import Column
from headwater.connect.connectors.jdbc_fields import fields_of
from headwater.connect.connectors.jdbc_source import JdbcSourceConnector
from headwater.connect.data import schema as s
from headwater.connect.data.schema import Schema, Type
from headwater.connect.errors import ConnectError

MOMENT = datetime(2020, 7, 1, 10, 0, 0, 123456, UTC)


def read(schema: Schema, value: Any, *, maps_numerics: bool = True, **config: str) -> tuple[Schema, Any]:
    named = {name.replace("_", "."): each for name, each in config.items()}
    given = JdbcSourceConnector.config_def.parse({"connection.url": "jdbc:sqlite:/x.db", **named})
    (field,) = fields_of([Column("c", schema)], given, maps_numerics=maps_numerics)
    return field.schema, field.read(value)


DECIMAL, INT8, INT16, INT32, INT64, FLOAT64 = Type.BYTES, Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT64


@pytest.mark.parametrize(
    ("precision", "scale", "types"),  # by none, precision_only, best_fit and best_fit_eager_double
    [
        (2, 0, (DECIMAL, INT8, INT8, INT8)),
        (4, 0, (DECIMAL, INT16, INT16, INT16)),
        (9, 0, (DECIMAL, INT32, INT32, INT32)),
        (18, 0, (DECIMAL, INT64, INT64, INT64)),
        (19, 0, (DECIMAL, DECIMAL, DECIMAL, DECIMAL)),
        (10, 2, (DECIMAL, DECIMAL, FLOAT64, FLOAT64)),
        (20, 5, (DECIMAL, DECIMAL, DECIMAL, FLOAT64)),
    ],
)
def test_decimals_become_what_the_mapping_says(precision: int, scale: int, types: tuple[Type, ...]) -> None:
    schema = s.decimal_schema(scale, precision=precision, optional=True)
    for mapping, kind in zip(("none", "precision_only", "best_fit", "BEST_FIT_EAGER_DOUBLE"), types, strict=True):
        found, value = read(schema, "1.00000"[: 2 + scale].rstrip("."), numeric_mapping=mapping)
        assert (found.type, found.optional, value) == (kind, True, 1)
        assert found == schema or found.name is None
    assert read(schema, "1", numeric_precision_mapping="true")[0].type is types[1]
    assert read(schema, "1", numeric_precision_mapping="true", numeric_mapping="none")[0].type is types[0]


def test_decimals_stay_where_the_original_has_other_types() -> None:
    assert read(s.decimal_schema(0, precision=4), 7, numeric_mapping="best_fit", maps_numerics=False)[1] == Decimal(7)
    assert read(s.decimal_schema(0), 7, numeric_mapping="best_fit")[1] == Decimal(7)


@pytest.mark.parametrize(
    ("granularity", "kind", "value"),
    [
        ("connect_logical", Type.INT64, MOMENT),
        ("micros_long", Type.INT64, 1593597600123456),
        ("micros_string", Type.STRING, "1593597600123456"),
        ("micros_iso_datetime_string", Type.STRING, "2020-07-01T12:00:00.123456"),
        ("nanos_long", Type.INT64, 1593597600123456000),
        ("nanos_string", Type.STRING, "1593597600123456000"),
        ("NANOS_ISO_DATETIME_STRING", Type.STRING, "2020-07-01T12:00:00.123456000"),
    ],
)
def test_timestamps_are_as_fine_as_is_said(granularity: str, kind: Type, value: Any) -> None:
    schema, found = read(s.TIMESTAMP_SCHEMA, MOMENT, timestamp_granularity=granularity, db_timezone="Europe/Berlin")
    assert (schema.type, found) == (kind, value)
    assert (schema.name is None) == (granularity != "connect_logical")


def test_a_timestamp_with_too_many_nanoseconds_for_a_number_is_told() -> None:
    far = datetime(2263, 1, 1, tzinfo=UTC)
    with pytest.raises(ConnectError, match="more nanos since 1970 than an int64"):
        read(s.TIMESTAMP_SCHEMA, far, timestamp_granularity="nanos_long")
    assert read(s.TIMESTAMP_SCHEMA, far, timestamp_granularity="nanos_string")[1] == "9246182400000000000"
