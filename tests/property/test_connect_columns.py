"""Avro into files and data frames by columns comes to what it comes to record by record, whatever is in the records."""

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compat.support.quick import lasting
from headwater.client import ConsumerRecord
from headwater.connect.connectors.topic_files.connector import TopicFilesConnector
from headwater.connect.connectors.topic_files.rotation import Cut, Entry, Limits
from headwater.connect.converters.avro.converter import AvroConverter
from headwater.connect.data import schema as s
from headwater.connect.data.record import SinkRecord
from headwater.connect.data.runs import ArrowColumn, SinkRun
from headwater.testing.connect import SinkKit
from property.connect_columns_support import Line, Polls, check_frames, converted, files_of

TIMES = {"type": "long", "logicalType": "timestamp-millis"}
_small = st.integers(-200, 200)
# Avro's type and values as fastavro writes them; raw numbers for what has a logical type, so that all of them are there
LEAVES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int": ("int", st.integers(-(1 << 31), (1 << 31) - 1)),
    "long": ("long", st.integers(-(1 << 63), (1 << 63) - 1)),
    "float": ("float", st.floats(width=32)),
    "double": ("double", st.floats()),
    "boolean": ("boolean", st.booleans()),
    "string": ("string", st.text(max_size=5)),
    "bytes": ("bytes", st.binary(max_size=5)),
    "int8": ({"type": "int", "connect.type": "int8"}, _small),
    "date": ({"type": "int", "logicalType": "date"}, st.integers(-800_000, 3_000_000)),
    "time": ({"type": "int", "logicalType": "time-millis"}, st.integers(-1, 86_400_000)),
    "timestamp": (TIMES, st.integers(-63_000_000_000_000, 254_000_000_000_000)),
    "micros": ({"type": "long", "logicalType": "timestamp-micros"}, st.integers(-(1 << 50), 1 << 50)),
    "local": ({"type": "long", "logicalType": "local-timestamp-millis"}, st.integers(-(1 << 40), 1 << 40)),
    "decimal": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, st.binary(min_size=1, max_size=4)),
    "fixed": ({"type": "fixed", "name": "F", "size": 3}, st.binary(min_size=3, max_size=3)),
    "enum": ({"type": "enum", "name": "E", "symbols": ["a", "b"]}, st.sampled_from(["a", "b"])),
    "uuid": ({"type": "string", "logicalType": "uuid"}, st.uuids().map(lambda each: str(each).upper())),
    "default": ({"type": "long", "connect.default": 5}, st.integers(0, 9)),
    "map": ({"type": "map", "values": "int"}, st.dictionaries(st.text(max_size=2), _small, max_size=2)),
    "union": (["int", "string"], st.one_of(_small, st.text(max_size=2))),
    "nested": (
        {"type": "record", "name": "N", "fields": [{"name": "x", "type": ["null", "int"]}]},
        st.fixed_dictionaries({"x": st.none() | _small}),
    ),
}  # fmt: skip


@st.composite
def fields(draw: st.DrawFn) -> tuple[dict[str, Any], st.SearchStrategy[dict[str, Any]]]:
    """A record's schema, and its values. Mostly of what has columns, so that these are seen at work."""
    rare = ("uuid", "map", "union", "default", "int8", "time", "date")
    common = [name for name in LEAVES if name not in rare]
    names = draw(st.lists(st.sampled_from(common), min_size=1, max_size=4, unique=True))
    if draw(st.integers(0, 3)) == 0:
        names.append(draw(st.sampled_from(rare)))
    made, values = [], {}
    for name in names:
        kind, value = LEAVES[name]
        match draw(st.integers(0, 3)) if name != "union" else 0:
            case 1:
                kind, value = ["null", kind], st.none() | value
            case 2:
                kind, value = {"type": "array", "items": kind}, st.lists(value, max_size=3)
        made.append({"name": f"f_{name}", "type": kind})
        values[f"f_{name}"] = value
    return {"type": "record", "name": "R", "fields": made}, st.fixed_dictionaries(values)


def avro(schemas: list[dict[str, Any]]) -> Line:
    return Line(AvroConverter, [{"schema": json.dumps(each)} for each in schemas])


def framed(number: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema, _write_hint=False), value)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


@st.composite
def topics(draw: st.DrawFn) -> tuple[Line, Polls]:
    drawn = [draw(fields()) for _ in range(draw(st.sampled_from([1, 1, 1, 2])))]
    schemas = [({**schema, "name": f"R{number}"}, values) for number, (schema, values) in enumerate(drawn)]
    polls, offsets = [], [0, 0]
    for _ in range(draw(st.integers(1, 3))):
        poll = []
        chosen = draw(st.integers(0, len(schemas) - 1))
        schema, values = schemas[chosen]
        pool = [framed(chosen + 1, schema, draw(values)) for _ in range(draw(st.integers(1, 4)))]
        damage = draw(st.sampled_from([None, None, None, b"", None]))
        for partition in (0, 1):
            for n in range(draw(st.sampled_from([0, 9, 20]))):
                time_ms = draw(st.sampled_from([-1, 0, 10, 20]))
                value = pool[n % len(pool)]
                if n == 5 and damage is not None:
                    value = draw(st.sampled_from([damage, value[:-1], value + b"\0", value[:5] + b"\xff" * 12]))
                offset, offsets[partition] = offsets[partition], offsets[partition] + 1
                poll.append(ConsumerRecord("t", partition, offset, time_ms, 0, b"k", value, (), -1))
        polls.append(poll)
    return avro([each for each, _ in schemas]), polls


@settings(max_examples=lasting(15, 600), deadline=None, suppress_health_check=list(HealthCheck))
@given(topics(), st.sampled_from([3, 10, 1000]), st.sampled_from([0, 10]))
def test_files_are_the_same_to_the_byte(made: tuple[Line, Polls], size: int, interval: int) -> None:
    line, polls = made
    config = {"flush.size": str(size), "rotate.interval.ms": str(interval)}
    assert files_of(line, polls, config, columns=True) == files_of(line, polls, config, columns=False)


@settings(max_examples=lasting(15, 600), deadline=None, suppress_health_check=list(HealthCheck))
@given(topics())
def test_data_frames_are_the_same(made: tuple[Line, Polls]) -> None:
    check_frames(*made)


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_what_has_columns_gets_them(name: str) -> None:
    """And what has none does not, so that the two ways are both looked at above."""
    kind, _ = LEAVES[name]
    value: Any = {
        "float": 0.5, "double": 0.5, "boolean": True, "string": "x", "bytes": b"x", "decimal": b"\x01", "fixed": b"abc",
        "enum": "a", "uuid": "5F1A9C2E-0000-4000-8000-000000000000", "map": {"a": 1}, "nested": {"x": 1},
    }.get(name, 1)  # fmt: skip
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}
    records = [ConsumerRecord("t", 0, n, 0, 0, None, framed(1, schema, {"f": value}), (), -1) for n in range(20)]
    run = converted(avro([schema]), records, columns=True)
    assert isinstance(run, SinkRun)
    assert isinstance(run.values, ArrowColumn) == (name not in ("uuid", "map", "union"))
    plain = converted(avro([schema]), records, columns=False)
    assert [each.value for each in run] == [each.value for each in plain]  # whoever wants records has them


@settings(max_examples=lasting(80, 2000), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("xy"), st.none() | st.integers(0, 30)), max_size=30),
    st.integers(1, 5),
    st.sampled_from([0, 5, 20]),
    st.integers(1, 2),
    st.randoms(use_true_random=False),
)
def test_a_cut_takes_runs_as_it_takes_records(
    records: list[tuple[str, str, int | None]], size: int, interval: int, files: int, dice: Any
) -> None:
    """(schema, directory, time) of records that follow each other; runs of them are alike but for the time."""
    schemas = {"A": s.struct([("a", s.INT32)]), "B": s.struct([("b", s.INT32)])}
    limits = Limits(size, 0, interval, files)
    one_by_one: list[Any] = []
    by_runs: list[Any] = []

    def finish(cut: Cut, cuts: list[Any]) -> Cut:
        cuts.append({name: (file.schema, file.first, file.last, file.records) for name, file in cut.files.items()})
        return Cut()

    cut = Cut()
    for offset, (schema, directory, at) in enumerate(records):
        entry = Entry(offset, at, directory, schemas[schema], offset, 0)
        if cut.ends_before(entry, limits):
            cut = finish(cut, one_by_one)
        if cut.add(entry, limits):
            cut = finish(cut, one_by_one)
    finish(cut, one_by_one)

    cut, begin = Cut(), 0
    while begin < len(records):
        end = begin + 1
        while end < len(records) and records[end][:2] == records[begin][:2] and dice.random() < 0.8:
            end += 1
        schema, directory, _ = records[begin]
        times = [at for _, _, at in records[begin:end]]
        count = cut.room(directory, schemas[schema], times, limits)
        if not count:
            cut = finish(cut, by_runs)
            continue
        first = next((each for each in times[:count] if each is not None), None)
        entry = Entry(begin, first, directory, schemas[schema], None, 0, count, begin + count - 1)
        if cut.add(entry, limits):
            cut = finish(cut, by_runs)
        begin += count
    finish(cut, by_runs)
    assert by_runs == one_by_one


def test_a_record_of_a_run_is_that_of_the_records(tmp_path: Path) -> None:
    """`TopicFiles` with a null among the values goes one by one, and reports it."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": "int"}]}
    values = [framed(1, schema, {"f": n}) for n in range(20)]
    records = [
        ConsumerRecord("t", 0, n, 0, 0, None, None if n == 7 else value, (), -1) for n, value in enumerate(values)
    ]
    line = avro([schema])
    kit = SinkKit(TopicFilesConnector, {"path": str(tmp_path), "format": "parquet", "flush.size": "5"})
    kit.task.put(converted(line, records, columns=True))
    assert [(record.offset, type(error).__name__) for record, error in kit.reported] == [(7, "DataError")]
    assert all(isinstance(record, SinkRecord) for record, _ in kit.reported)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (["null", {"type": "long", "connect.default": 5}], None),  # reads as 5
        ({"type": "int", "logicalType": "date"}, 3_000_000),  # after the year 9999
        ({"type": "int", "logicalType": "time-millis"}, -1),
        ({"type": "int", "logicalType": "time-millis"}, 86_400_000),
        (TIMES, 253_402_300_799_999),
        (TIMES, 253_402_300_800_000),
        (TIMES, -62_135_596_800_001),
        ({"type": "int", "connect.type": "int8"}, 200),
        ({"type": "string", "logicalType": "uuid"}, "no such thing"),
        (LEAVES["decimal"][0], b""),
        (LEAVES["decimal"][0], b"\x7f" * 9),  # more digits than the schema says
        (LEAVES["decimal"][0], b"\x7f" * 20),  # more than a column has
        (["null", {"type": "array", "items": ["null", "int"]}], None),
        ({"type": "array", "items": ["null", "int"]}, [1, None]),
        (["null", LEAVES["nested"][0]], None),
        ({"type": "map", "values": "int"}, {"a": 1}),
    ],
)
def test_values_of_which_only_some_have_columns(kind: Any, value: Any) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}
    line = avro([schema])
    records = [ConsumerRecord("t", 0, n, 0, 0, None, framed(1, schema, {"f": value}), (), -1) for n in range(20)]
    by_columns, one_by_one = (
        files_of(line, [records], {"flush.size": "20"}, columns=columns) for columns in (True, False)
    )
    assert by_columns == one_by_one


def test_of_a_key_that_a_map_has_twice_the_last_counts() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": {"type": "map", "values": "int"}}]}
    twice = framed(1, schema, {"f": {}})[:-1] + bytes([4, 2, 97, 2, 2, 97, 4, 0])  # "a" is 1, "a" is 2
    records = [ConsumerRecord("t", 0, n, 0, 0, None, twice, (), -1) for n in range(20)]
    line = avro([schema])
    assert converted(line, records, columns=True)[0].value.get("f") == {"a": 2}
    assert files_of(line, [records], {"flush.size": "20"}, columns=True) == files_of(
        line, [records], {"flush.size": "20"}, columns=False
    )
