"""Transforms over columns: what comes out is what they make of each record."""

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from headwater.client import ConsumerRecord
from headwater.connect.connector_config.common import connector_def
from headwater.connect.converters.base import Converter
from headwater.connect.data import schema as s
from headwater.connect.data.arrow_rows import arrow_type, plain
from headwater.connect.data.runs import ArrowColumn, Column, SinkRun
from headwater.connect.data.schema import Schema
from headwater.connect.data.struct import Struct
from headwater.connect.plugins import Catalog, Kind
from headwater.connect.runtime.pipeline import Pipeline
from headwater.connect.runtime.sink_conversion import SinkConversion
from headwater.connect.runtime.tolerance import Tolerance

ROWS = 40
SCHEMA = s.struct(
    [
        ("id", s.INT64),
        ("name", s.OPTIONAL_STRING),
        ("amount", s.OPTIONAL_FLOAT64),
        ("ok", s.BOOLEAN),
        ("note", s.OPTIONAL_STRING.changed(default="none")),
        ("day", s.DATE_SCHEMA.as_optional()),
        ("inner", s.struct([("x", s.OPTIONAL_INT32)])),
    ],
    name="Row",
)
STEPS: dict[str, dict[str, str]] = {
    "static": {"type": "InsertField$Value", "static.field": "src", "static.value": "x"},
    "place": {"type": "InsertField$Value", "topic.field": "t", "partition.field": "p!", "offset.field": "o"},
    "time": {"type": "InsertField$Value", "timestamp.field": "at"},
    "time-required": {"type": "InsertField$Value", "timestamp.field": "at!"},
    "drop": {"type": "ReplaceField$Value", "exclude": "name,day"},
    "keep": {"type": "ReplaceField$Value", "include": "id,inner,note", "renames": "id:number"},
    "swap": {"type": "ReplaceField$Value", "renames": "id:ok,ok:id"},
    "nothing": {"type": "ReplaceField$Value", "include": "unknown"},
    "mask": {"type": "MaskField$Value", "fields": "id,name,amount,ok"},
    "mask-day": {"type": "MaskField$Value", "fields": "day"},
    "mask-to": {"type": "MaskField$Value", "fields": "name", "replacement": "***"},
    "no-defaults": {"type": "MaskField$Value", "fields": "id", "replace.null.with.default": "false"},
    "filter": {"type": "Filter", "predicate": "here"},
    "filter-others": {"type": "Filter", "predicate": "here", "negate": "true"},
    "filter-nulls": {"type": "Filter", "predicate": "null"},
    "filter-headers": {"type": "Filter", "predicate": "head"},
    "headers": {"type": "DropHeaders", "headers": "h"},
    "route": {"type": "RegexRouter", "regex": "t", "replacement": "u"},
    "route-elsewhere": {"type": "RegexRouter", "regex": "x.*", "replacement": "u"},
    "route-wrongly": {"type": "RegexRouter", "regex": "t", "replacement": "$7"},
    "route-by-time": {
        "type": "TimestampRouter",
        "topic.format": "${topic}.${timestamp}",
        "timestamp.format": "mmss.SSS",
    },
    "key": {"type": "ValueToKey", "fields": "id"},
    "key-with-nulls": {"type": "ValueToKey", "fields": "name,note"},
    "key-unknown": {"type": "ValueToKey", "fields": "nobody"},
    "extract": {"type": "ExtractField$Value", "field": "inner"},
    "extract-unknown": {"type": "ExtractField$Value", "field": "nobody"},
    "extract-number": {"type": "ExtractField$Value", "field": "id"},
    "flatten": {"type": "Flatten$Value", "delimiter": "_"},
    "hoist": {"type": "HoistField$Value", "field": "whole"},
    "name": {"type": "SetSchemaMetadata$Value", "schema.name": "Other", "schema.version": "3"},
    "name-of-a-date": {"type": "SetSchemaMetadata$Value", "schema.name": "org.apache.kafka.connect.data.Date"},
    "mask-inner": {"type": "MaskField$Value", "fields": "inner"},
    "mask-number": {"type": "MaskField$Value", "fields": "id,amount,name", "replacement": "7.5"},
    "mask-wrongly": {"type": "MaskField$Value", "fields": "ok", "replacement": "7.5"},
    "cast": {"type": "Cast$Value", "spec": "id:string,amount:float32,ok:int8"},
    "cast-default": {"type": "Cast$Value", "spec": "note:string,name:string"},
    "cast-inner": {"type": "Cast$Value", "spec": "inner:string"},
    "cast-whole": {"type": "Cast$Value", "spec": "string"},
    "to-time": {"type": "TimestampConverter$Value", "field": "id", "target.type": "Timestamp"},
    "to-text": {"type": "TimestampConverter$Value", "field": "day", "target.type": "string", "format": "yyyy"},
    "to-nothing": {"type": "TimestampConverter$Value", "field": "nobody", "target.type": "Timestamp"},
    "to-whole": {"type": "TimestampConverter$Value", "target.type": "Timestamp"},
    "to-wrong": {"type": "TimestampConverter$Value", "field": "ok", "target.type": "Timestamp"},
    "key-part": {"type": "InsertField$Key", "static.field": "src", "static.value": "x"},
}
PREDICATES = {
    "predicates": "here,null,head",
    "predicates.here.type": "TopicNameMatches",
    "predicates.here.pattern": "t.*",
    "predicates.null.type": "RecordIsTombstone",
    "predicates.head.type": "HasHeaderKey",
    "predicates.head.name": "h",
}
BY_COLUMNS = {"no-defaults", "time-required", "static", "place", "time", "drop", "keep", "swap", "mask", "filter-others", "filter-nulls", "filter-headers", "headers", "route", "route-elsewhere", "route-by-time", "key", "key-with-nulls", "extract", "cast", "cast-default", "to-time", "to-text", "to-nothing", "flatten", "hoist", "name", "mask-day", "mask-to", "mask-number"}  # fmt: skip


class Rows(Converter):
    """Values that are there, by both ways."""

    def __init__(self, values: list[Struct]) -> None:
        self._values, self.schema = values, values[0].schema

    def to_connect_run(self, topic: str, data: Any) -> Column:
        return Column(self.schema, list(self._values))

    def to_connect(self, topic: str, data: bytes | None) -> Any:
        assert data is not None
        return s.SchemaAndValue(self.schema, self._values[int(data)])

    def to_connect_columns(self, topic: str, data: pa.Array) -> ArrowColumn:
        return ArrowColumn(self.schema, as_arrow(self.schema, self._values), lambda: list(self._values))


def as_arrow(schema: Schema, values: list[Any]) -> pa.StructArray:
    return pa.array([plain(schema, each) for each in values], arrow_type(schema))


def drawn(dice: Random, *, nulls: bool) -> list[Struct]:
    def maybe(value: Any) -> Any:
        return None if nulls and dice.random() < 0.3 else value

    inner = SCHEMA.fields[6].schema
    return [
        Struct(
            SCHEMA,
            {
                "id": dice.randrange(1000), "name": maybe(f"name {number}"), "amount": maybe(dice.random()), "ok": dice.random() < 0.5,
                "note": "a note", "day": maybe(None), "inner": Struct(inner, {"x": maybe(7)}),
            },
        )
        for number in range(ROWS)
    ]  # fmt: skip


def conversion(values: list[Struct], chain: list[str]) -> SinkConversion:
    catalog = Catalog()
    props = {"name": "c", "connector.class": "C", "topics": "t", "transforms": ",".join(chain)}
    props |= {f"transforms.{name}.{key}": value for name in chain for key, value in STEPS[name].items()}
    if any("predicate" in STEPS[name] for name in chain):
        props |= PREDICATES
    config = connector_def(catalog, Kind.SINK).parse(props)
    pipeline = Pipeline(
        catalog, props, config, {"key.converter": "StringConverter", "value.converter": "JsonConverter"}
    )
    pipeline.value = Rows(values)
    return SinkConversion(pipeline, Tolerance(config, [], lambda: 0, lambda _seconds: False), columns=True)


def consumed(dice: Random, *, timeless: bool) -> list[ConsumerRecord]:
    times = [-1 if timeless and dice.random() < 0.2 else 1_700_000_000_000 + number for number in range(ROWS)]
    return [
        ConsumerRecord("t", number % 3, number // 3, times[number], 0, b"k", b"%d" % number, (), 0)
        for number in range(ROWS)
    ]


def outcome(made: SinkConversion, records: list[ConsumerRecord]) -> Any:
    try:
        return [each for each in map(made.sink_record, records) if each is not None]
    except Exception as error:  # noqa: BLE001 - by runs it is left to the records
        return str(error)


@pytest.mark.parametrize("seed", range(120))
def test_random_chains_over_columns_are_what_they_are_over_records(seed: int) -> None:
    dice = Random(seed)
    values = drawn(dice, nulls=bool(seed % 2))
    chain = dice.sample(list(STEPS), dice.randrange(1, 4)) if seed >= len(STEPS) else [list(STEPS)[seed]]
    records = consumed(dice, timeless=seed % 3 == 0)
    made = conversion(values, chain)
    expected, found = outcome(made, records), made.sink_run(records)
    if found is None:
        assert isinstance(expected, str)
        return
    assert list(found) == expected
    if isinstance(found, SinkRun) and isinstance(found.values, ArrowColumn):
        schema = found.values.schema
        assert schema == expected[0].value_schema
        assert found.values.arrow.equals(as_arrow(schema, [each.value for each in expected]))
        assert found.values.arrow.type == arrow_type(schema)


@pytest.mark.parametrize("name", sorted(STEPS))
def test_the_common_transforms_keep_columns(name: str) -> None:
    dice = Random(1)
    found = conversion(drawn(dice, nulls=False), [name]).sink_run(consumed(dice, timeless=False))
    by_columns = isinstance(found, SinkRun) and isinstance(found.values, ArrowColumn)
    assert by_columns == (name in BY_COLUMNS)
    if name == "filter":
        assert found == []


def test_a_null_with_a_default_goes_record_by_record() -> None:
    dice = Random(2)
    values = drawn(dice, nulls=False)
    values[3] = Struct(SCHEMA, {**{f.name: values[3].get(f.name) for f in SCHEMA.fields}, "note": None})
    records = consumed(dice, timeless=False)

    class Raw(Rows):
        def to_connect_columns(self, topic: str, data: pa.Array) -> ArrowColumn:
            rows = [{f.name: each.get_without_default(f.name) for f in SCHEMA.fields} for each in values]
            rows = [{**row, "inner": {"x": row["inner"].get("x")}} for row in rows]
            return ArrowColumn(SCHEMA, pa.array(rows, arrow_type(SCHEMA)), lambda: list(values))

    made = conversion(values, ["static"])
    made._pipeline.value = Raw(values)
    found = made.sink_run(records)
    assert isinstance(found, list)
    assert found[3].value.get_without_default("note") == "none"
