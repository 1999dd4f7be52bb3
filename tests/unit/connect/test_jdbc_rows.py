"""Statements and their values: of records of one shape, which are worked out together, and of each by itself."""

import random
import re
from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from headwater.connect.connectors.jdbc_rows import RowPlanner, row_of, statement_of
from headwater.connect.connectors.jdbc_sink import JdbcSinkConnector
from headwater.connect.connectors.jdbc_url import dialect_of
from headwater.connect.data import schema as s
from headwater.connect.data.record import Header, SinkRecord
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError

WIDE = s.struct(
    [
        ("id", s.INT64), ("text", s.OPTIONAL_STRING), ("five", s.OPTIONAL_INT32.changed(default=5)), ("at", s.TIMESTAMP_SCHEMA),
        ("price", s.decimal_schema(2, optional=True)), ("share", s.FLOAT64),
    ]
)  # fmt: skip
NARROW = s.struct([("id", s.INT64), ("text", s.STRING)])
NESTED = s.struct([("id", s.INT64), ("inner", s.array(s.INT32))])
KEY = s.struct([("id", s.INT64), ("part", s.STRING)])
URLS = ("jdbc:sqlite:/my.db", "jdbc:postgresql://localhost/x", "jdbc:mariadb://localhost/x")


def values(draw: random.Random) -> Any:
    match draw.randrange(6):
        case 0:
            return NARROW, Struct(NARROW, {"id": draw.randrange(9), "text": "a"})
        case 1:
            return NESTED, Struct(NESTED, {"id": 1, "inner": [1]})
        case 2:
            return None, draw.choice([None, {"id": 1}])
    made = Struct(WIDE, {"id": draw.randrange(9), "at": datetime(2026, 1, 2, 3, 4, 5, 6789, UTC)})
    made.put("share", draw.choice([0.5, float("nan")])).put("five", draw.choice([None, 7]))
    return WIDE, made.put("text", draw.choice([None, "x"])).put("price", draw.choice([None, Decimal("1.50")]))


def keys(draw: random.Random) -> Any:
    return draw.choice(
        [(KEY, Struct(KEY, {"id": draw.randrange(9), "part": "p"})), (s.INT64, 3), (None, None), (None, 3)]
    )


@pytest.mark.parametrize(("url", "mode"), list(product(URLS, ("insert", "upsert", "update"))))
def test_what_a_record_is_among_others_it_is_by_itself(url: str, mode: str) -> None:
    draw = random.Random(f"{url} {mode}")
    for pk_mode, fields, only, delete in product(
        ("none", "kafka", "record_key", "record_value", "record_header"),
        ("", "id", "id,part"),
        ("", "text,id"),
        ("true", "false"),
    ):
        given = {"connection.url": url, "insert.mode": mode, "pk.mode": pk_mode, "pk.fields": fields, "fields.whitelist": only, "delete.enabled": delete}  # fmt: skip
        if (pk_mode == "kafka" and fields) or (pk_mode == "none" and mode != "insert"):
            continue  # refused before anything starts
        config = JdbcSinkConnector.config_def.parse(given)
        dialect = dialect_of(config)
        planner = RowPlanner(dialect, config)
        for offset in range(40):
            (key_schema, key), (schema, value) = keys(draw), values(draw)
            record = SinkRecord(topic=draw.choice("tu"), partition=1, key_schema=key_schema, key=key, value_schema=schema, value=value, offset=offset, headers=draw.choice([(), (Header("id", s.INT32, offset),)]))  # fmt: skip
            try:
                row = row_of(config, record)
                wanted = statement_of(dialect, mode, row)
            except DataError as error:
                with pytest.raises(DataError, match=re.escape(str(error))):
                    planner.plan(record)
                continue
            shape, found = planner.plan(record)
            assert (shape.sql, repr(found)) == (wanted.sql, repr(wanted.values))
            assert (shape.row.table, list(shape.row.cells)) == (row.table, list(row.cells))
            assert [each for each, _ in shape.row.cells.values()] == [each for each, _ in row.cells.values()]
            assert (shape.row.others is None) == (row.others is None)
        assert len(planner._known) <= 8  # two topics, at most four pairs of schemas


def test_schemas_that_are_made_anew_for_each_record_do_not_pile_up() -> None:
    config = JdbcSinkConnector.config_def.parse({"connection.url": URLS[0]})
    planner = RowPlanner(dialect_of(config), config)
    for offset in range(500):
        schema = s.struct([("id", s.INT64)])
        value = Struct(schema, {"id": offset})
        record = SinkRecord(topic="t", partition=0, key_schema=None, key=None, value_schema=schema, value=value, offset=offset)  # fmt: skip
        assert planner.plan(record).values == [offset]
    assert len(planner._known) <= 100
