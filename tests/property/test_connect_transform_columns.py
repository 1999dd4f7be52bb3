"""Cast, TimestampConverter, ExtractField, ValueToKey and the routers over Arrow's columns come to what they come to
record by record: with nulls, values at the ends of their types, and values that cannot be converted.
"""

import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compat.support.quick import lasting
from headwater.client import ConsumerRecord
from headwater.connect.connector_config.common import connector_def
from headwater.connect.converters.base import Converter
from headwater.connect.data import schema as s
from headwater.connect.data.arrow_rows import arrow_type, plain
from headwater.connect.data.java_text import to_float32, whole_to_float32
from headwater.connect.data.runs import ArrowColumn, Column, SinkRun
from headwater.connect.data.schema import Schema
from headwater.connect.data.struct import Struct
from headwater.connect.plugins import Catalog, Kind
from headwater.connect.runtime.pipeline import Pipeline
from headwater.connect.runtime.sink_conversion import SinkConversion
from headwater.connect.runtime.spark_conversion import Packing, records_of
from headwater.connect.runtime.tolerance import Tolerance
from property.connect_columns_support import batch_of, unpacked

CATALOG = Catalog(installed=False)
ROWS = 16
YEAR_1, YEAR_9999 = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)


def whole(bits: int) -> st.SearchStrategy[int]:
    ends = [-(1 << bits - 1), (1 << bits - 1) - 1, -1, 0, 1]
    return st.sampled_from(ends) | st.integers(ends[0], ends[1])


_fractions = [0.0, -0.0, 0.5, -0.9, 1e10, -3e9, 2.0**31, 2.0**63, -(2.0**63), 1e300, -1e300, float("inf"), float("nan")]
_numbers = [
    "0",
    "-1",
    "+7",
    "1.5",
    "1e3",
    "Infinity",
    "NaN",
    "99999999999999999999",
    "true",
    "TRUE",
    "",
    "x",
    " 5",
    "128",
]
_days = [date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), date(1970, 1, 1)]
_moments = [YEAR_1, YEAR_9999, datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)]
_seconds = [-62_135_596_800, -62_135_596_801, 253_402_300_799, 253_402_300_800, -1, 0, 1, 1_700_000_000]
KINDS: dict[str, tuple[Schema, st.SearchStrategy[Any]]] = {
    "int8": (s.INT8, whole(8)),
    "int16": (s.INT16, whole(16)),
    "int32": (s.INT32, whole(32)),
    "int64": (s.INT64, whole(64) | st.sampled_from([each * by for each in _seconds for by in (1, 1000, 10**6, 10**9)]).filter(lambda n: abs(n) < 1 << 63)),
    "float32": (s.FLOAT32, st.sampled_from(_fractions).map(to_float32) | st.floats(width=32)),
    "float64": (s.FLOAT64, st.sampled_from(_fractions) | st.floats()),
    "small": (s.FLOAT64, st.floats(-(2**31), 2**31 - 1)),
    "boolean": (s.BOOLEAN, st.booleans()),
    "string": (s.STRING, st.sampled_from(_numbers) | st.text(max_size=3) | st.integers(-200, 200).map(str)),
    "year": (s.STRING, st.sampled_from(["2024-05-06", "1969-12-31", "2024-13-01", "24-1-1", "nonsense", ""])),
    "bytes": (s.BYTES, st.binary(max_size=3)),
    "decimal": (s.decimal_schema(2), st.decimals(-1000, 1000, places=2).map(lambda each: each.quantize(Decimal("0.01")))),
    "date": (s.DATE_SCHEMA, st.sampled_from(_days) | st.dates()),
    "time": (s.TIME_SCHEMA, st.integers(0, 86_399_999).map(lambda ms: (_moments[3] + timedelta(milliseconds=ms)).time())),
    "timestamp": (s.TIMESTAMP_SCHEMA, st.sampled_from(_moments) | st.integers(-62_135_596_800_000, 253_402_300_799_999).map(lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms))),
    "array": (s.array(s.INT32), st.lists(st.integers(0, 3), max_size=2)),
    "inner": (s.struct([("x", s.OPTIONAL_INT32), ("y", s.STRING)]), st.tuples(st.none() | whole(32), st.text(max_size=2))),
}  # fmt: skip
CASTS = ["int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string"]


@st.composite
def values(draw: st.DrawFn) -> list[Struct]:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3, unique=True))
    optional = {name: draw(st.booleans()) for name in names}
    schema = s.struct([(n, KINDS[n][0].as_optional() if optional[n] else KINDS[n][0]) for n in names], name="R")
    pools = {
        name: draw(st.lists(st.none() | KINDS[name][1] if optional[name] else KINDS[name][1], min_size=1, max_size=4))
        for name in names
    }
    return [
        Struct(schema, {name: made(schema, name, pool[row % len(pool)]) for name, pool in pools.items()})
        for row in range(ROWS)
    ]


def made(schema: Schema, name: str, value: Any) -> Any:
    field = schema.field(name)
    assert field is not None
    if name != "inner" or value is None:
        return value
    return Struct(field.schema, {"x": value[0], "y": value[1]})


@st.composite
def steps(draw: st.DrawFn, names: list[str]) -> dict[str, str]:
    field = draw(st.sampled_from([*names, *names, "nobody"]))
    match draw(
        st.sampled_from(
            [
                "cast",
                "cast",
                "time",
                "time",
                "extract",
                "path",
                "key",
                "route",
                "stamp",
                "insert",
                "flatten",
                "hoist",
                "name",
                "mask",
                "mask-to",
            ]
        )
    ):
        case "cast":
            return {"type": "Cast$Value", "spec": f"{field}:{draw(st.sampled_from(CASTS))}"}
        case "time":
            return {
                "type": "TimestampConverter$Value",
                "field": field,
                "target.type": draw(st.sampled_from(["string", "unix", "Date", "Time", "Timestamp"])),
                "format": "yyyy-MM-dd",
                "unix.precision": draw(st.sampled_from(["seconds", "milliseconds", "microseconds", "nanoseconds"])),
            }
        case "extract":
            return {"type": "ExtractField$Value", "field": field}
        case "path":
            return {"type": "ExtractField$Value", "field": f"{field}.y", "field.syntax.version": "V2"}
        case "key":
            return {"type": "ValueToKey", "fields": field}
        case "route":
            return {"type": "RegexRouter", "regex": "(t).*", "replacement": "$1-x"}
        case "stamp":
            return {"type": "TimestampRouter", "timestamp.format": "HHmmss"}
        case "flatten":
            return {"type": "Flatten$Value"}
        case "hoist":
            return {"type": "HoistField$Value", "field": field}
        case "name":
            return {"type": "SetSchemaMetadata$Value", "schema.name": "N", "schema.version": "2"}
        case "mask":
            return {"type": "MaskField$Value", "fields": field}
        case "mask-to":
            return {
                "type": "MaskField$Value",
                "fields": field,
                "replacement": draw(st.sampled_from(["1", "x", "300.7"])),
            }
    return {"type": "InsertField$Value", "topic.field": "topic_of_it", "timestamp.field": "at"}


class Rows(Converter):
    def __init__(self, found: list[Struct]) -> None:
        self._values, self.schema = found, found[0].schema

    def to_connect_run(self, topic: str, data: Any) -> Column:
        return Column(self.schema, [self._values[int(each)] for each in data])

    def to_connect(self, topic: str, data: bytes | None) -> Any:
        assert data is not None
        return s.SchemaAndValue(self.schema, self._values[int(data)])

    def to_connect_columns(self, topic: str, data: pa.Array) -> ArrowColumn:
        arrow = pa.array([plain(self.schema, each) for each in self._values], arrow_type(self.schema))
        return ArrowColumn(self.schema, arrow, lambda: list(self._values))


def pipeline_of(found: list[Struct], chain: list[dict[str, str]]) -> tuple[Pipeline, Any]:
    names = [f"s{number}" for number in range(len(chain))]
    props = {"name": "c", "connector.class": "C", "topics": "t", "transforms": ",".join(names)}
    props |= {f"transforms.{n}.{key}": each for n, step in zip(names, chain, strict=True) for key, each in step.items()}
    config = connector_def(CATALOG, Kind.SINK).parse(props)
    pipeline = Pipeline(
        CATALOG, props, config, {"key.converter": "StringConverter", "value.converter": "JsonConverter"}
    )
    pipeline.value = Rows(found)
    return pipeline, config


def consumed(timeless: bool) -> list[ConsumerRecord]:
    times = [-1 if timeless and n == 3 else 1_700_000_000_000 + 400 * n for n in range(ROWS)]
    return [ConsumerRecord("t", 0, n, times[n], 0, b"k", b"%d" % n, (), 0) for n in range(ROWS)]


def check(found: list[Struct], chain: list[dict[str, str]], *, timeless: bool = False, skip: bool = False) -> bool:
    """Whether it went by columns, into a data frame at least; both ways agree. `skip`: errors are tolerated."""
    pipeline, config = pipeline_of(found, chain)
    if skip:
        config = {**config, "errors.tolerance": "all"}
    tolerance = Tolerance(config, [], lambda: 0, lambda _seconds: False)
    conversion, records = SinkConversion(pipeline, tolerance, columns=True), consumed(timeless)
    expected: Any = None
    try:
        expected = [each for each in map(conversion.sink_record, records) if each is not None]
    except Exception:  # noqa: BLE001 - by columns it is left to the records
        assert not skip
    run = conversion.sink_run(records)
    if run is None:
        assert expected is None or len(expected) < ROWS
    else:
        assert expected is not None
        if isinstance(run, SinkRun) and isinstance(run.values, ArrowColumn):
            schema = run.values.schema
            assert schema == expected[0].value_schema
            assert run.values.arrow.type == arrow_type(schema)
            wanted = pa.array([plain(schema, each.value) for each in expected], arrow_type(schema))
            assert str(run.values.arrow.to_pylist()) == str(wanted.to_pylist())
            assert str(run.keys.values) == str([each.key for each in expected])
        assert [str(each) for each in run] == [str(each) for each in expected]
    return frames_agree(pipeline, conversion, records)


def frames_agree(pipeline: Pipeline, conversion: SinkConversion, records: list[ConsumerRecord]) -> bool:
    if any(each.timestamp_ms < 0 for each in records):
        return False
    batch, rows, columns = batch_of(records), Packing(nulls_fail=True), Packing(nulls_fail=True)
    by_columns = columns.add_columns(batch, pipeline)
    try:
        for each in map(conversion.sink_record, records_of(batch)):
            if each is not None:
                rows.add(each)
    except Exception:  # noqa: BLE001 - one that no column can hold, or no transform
        assert not by_columns
        return False
    if by_columns:
        assert list(unpacked(columns)) == list(unpacked(rows))
    return by_columns


@settings(max_examples=lasting(120, 3000), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_random_chains_come_to_the_same(data: st.DataObject) -> None:
    found = data.draw(values())
    names = [field.name for field in found[0].schema.fields]
    chain = data.draw(st.lists(steps(names), min_size=1, max_size=3))
    check(found, chain, timeless=data.draw(st.integers(0, 9)) == 0, skip=data.draw(st.booleans()))


@settings(max_examples=lasting(4, 30), deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.parametrize("name", sorted(KINDS))
@given(data=st.data())
def test_every_cast_of_every_type_comes_to_the_same(name: str, data: st.DataObject) -> None:
    schema = s.struct([("f", KINDS[name][0].as_optional())])
    pool = data.draw(st.lists(st.none() | KINDS[name][1], min_size=1, max_size=ROWS))
    inner = KINDS[name][0].as_optional()
    pool = [
        Struct(inner, {"x": each[0], "y": each[1]}) if name == "inner" and each is not None else each for each in pool
    ]
    found = [Struct(schema, {"f": pool[row % len(pool)]}) for row in range(ROWS)]
    for target in CASTS:
        check(found, [{"type": "Cast$Value", "spec": f"f:{target}"}])


EDGES: list[tuple[str, list[Any]]] = [
    ("float64", [3e9]), ("float64", [-3e9, 5.5]), ("float64", [2.0**63]), ("float64", [-(2.0**63)]), ("float64", [-0.5]),
    ("float64", [float("nan")]), ("float64", [float("inf")]), ("float64", [1e300]), ("float64", [-0.0]), ("float32", [2.0**31]),
    ("int64", [-(1 << 63), (1 << 63) - 1]), ("int64", [(1 << 60) + (1 << 36) + 1]), ("int64", [300, -1]), ("int16", [128]), ("string", ["128"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "edges"), EDGES)
def test_casts_of_values_where_arrow_and_java_could_differ(name: str, edges: list[Any]) -> None:
    schema = s.struct([("f", KINDS[name][0])])
    found = [Struct(schema, {"f": edges[row % len(edges)]}) for row in range(ROWS)]
    for target in CASTS:
        check(found, [{"type": "Cast$Value", "spec": f"f:{target}"}])


@pytest.mark.parametrize("precision", ["seconds", "milliseconds", "microseconds", "nanoseconds"])
@pytest.mark.parametrize("seconds", [*_seconds, 9_223_372_036, -9_223_372_037, 1 << 53])
def test_times_at_the_ends_of_their_types(precision: str, seconds: int) -> None:
    per_second = {"seconds": 1, "milliseconds": 1000, "microseconds": 10**6, "nanoseconds": 10**9}[precision]
    limit = (1 << 63) - 1
    number = max(-limit - 1, min(limit, seconds * per_second - 1))  # just before: what is cut off, and where
    unix = [Struct(s.struct([("f", s.INT64)]), {"f": number})] * ROWS
    step = {"type": "TimestampConverter$Value", "field": "f", "unix.precision": precision}
    for target in ("unix", "Date", "Time", "Timestamp"):
        check(unix, [{**step, "target.type": target}])
        check(
            unix,
            [{**step, "target.type": "Timestamp"}, {**step, "target.type": target, "unix.precision": "nanoseconds"}],
        )


GOOD: dict[str, Any] = {
    "int8": 1, "int16": 1, "int32": 1, "int64": 1, "float32": 1.5, "float64": 1.5, "small": 1.5, "boolean": True, "string": "1",
    "year": "2024-05-06", "bytes": b"x", "decimal": Decimal("1.25"), "date": date(2024, 5, 6), "time": time(1, 2, 3),
    "timestamp": datetime(2024, 5, 6, tzinfo=UTC), "array": [1], "inner": (1, "y"),
}  # fmt: skip
TIMES = {"int64", "year", "date", "time", "timestamp"}


@pytest.mark.parametrize("name", sorted(KINDS))
def test_what_can_be_converted_goes_by_columns(name: str) -> None:
    schema = s.struct([("f", KINDS[name][0])])
    found = [
        Struct(schema, {"f": GOOD[name] if name != "inner" else Struct(KINDS[name][0], {"x": 1, "y": "y"})})
    ] * ROWS
    cast = [{"type": "Cast$Value", "spec": "f:string"}]
    assert check(found, cast) == (name not in ("array", "inner"))
    to_time = [{"type": "TimestampConverter$Value", "field": "f", "target.type": "Timestamp", "format": "yyyy-MM-dd"}]
    assert check(found, to_time) == (name in TIMES)
    assert check(found, [{"type": "ExtractField$Value", "field": "f"}])
    assert check(
        found, [{"type": "ValueToKey", "fields": "f"}, {"type": "RegexRouter", "regex": "t", "replacement": "u"}]
    )
    assert check(found, [{"type": "TimestampRouter"}])


@given(whole(64) | st.integers(0, 1 << 40).map(lambda n: (1 << 60) + (1 << 36) + n - (1 << 39)))
def test_a_whole_number_becomes_a_float_of_32_bits_by_one_rounding(number: int) -> None:
    """As Java has it, and Arrow; Python's way over 64 bits rounds twice."""
    (arrow,) = pa.array([number], pa.int64()).cast(pa.float32(), safe=False).to_pylist()
    assert whole_to_float32(number) == arrow


def test_a_number_between_two_floats_is_rounded_once() -> None:
    number = (1 << 60) + (1 << 36) + 1
    assert whole_to_float32(number) == 2.0**60 + 2.0**37
    assert struct.unpack(">f", struct.pack(">f", float(number)))[0] == 2.0**60  # what rounding twice gives
    assert whole_to_float32(-number) == -(2.0**60) - 2.0**37
