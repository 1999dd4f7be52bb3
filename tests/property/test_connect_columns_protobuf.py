"""Protobuf into files and data frames by columns comes to what it comes to record by record."""

import random
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compat.support.quick import lasting
from headwater.client import ConsumerRecord
from headwater.connect.converters.protobuf.converter import ProtobufConverter
from headwater.connect.data.runs import ArrowColumn, SinkRun
from headwater.schemas import SchemaType, parse
from headwater.schemas.protobuf import ProtobufSchema
from headwater.schemas.protobuf.messages import compile_message_writer
from property.connect_columns_support import Line, Polls, check_files, check_frames, converted, drawn_polls, files_of

Draw = random.Random
META = '[(confluent.field_meta) = {{ params: [{{ key: "{}", value: "{}" }}] }}]'


def whole(bits: int, *, signed: bool = True) -> Callable[[Draw], int]:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return lambda draw: draw.choice([0, 1, low, high, draw.randint(low, high)])


def text(draw: Draw) -> str:
    return draw.choice(["", "a", "äöü", "x" * 40, "\0"])


def inner(draw: Draw) -> dict[str, Any]:
    return {"x": text(draw), "y": draw.choice([None, 0, 5])}


SCALARS: dict[str, Callable[[Draw], Any]] = {
    "int32": whole(32), "int64": whole(64), "uint32": whole(32, signed=False), "uint64": whole(64, signed=False),
    "sint32": whole(32), "sint64": whole(64), "fixed32": whole(32, signed=False), "fixed64": whole(64, signed=False),
    "sfixed32": whole(32), "sfixed64": whole(64), "bool": lambda draw: draw.random() < 0.5, "string": text,
    "double": lambda draw: draw.choice([0.0, -0.0, 0.1, float("inf"), float("nan")]),
    "float": lambda draw: draw.choice([0.0, 1.5, -2.25]), "bytes": lambda draw: draw.randbytes(draw.choice([0, 3])),
    "Colour": lambda draw: draw.choice(["NONE", "RED", 99, -3]), "Inner": inner,
    "google.protobuf.Timestamp": lambda draw: datetime(2026, 1, 2, 3, 4, draw.randrange(60), draw.choice([0, 999, 5001])),  # noqa: DTZ001
    "google.protobuf.Int64Value": whole(64), "google.protobuf.UInt64Value": whole(64, signed=False),
    "google.protobuf.StringValue": text, "google.type.Date": lambda draw: date(draw.choice([1, 2026, 9999]), 2, 28),
    "google.type.TimeOfDay": lambda draw: time(23, 59, draw.randrange(60), draw.choice([0, 1001])),
}  # fmt: skip
# A field, and its values; {0} is its number
FIELDS: dict[str, tuple[str, Callable[[Draw], Any]]] = {
    **{f"one {kind}": (f"{kind} f{{0}} = {{0}};", make) for kind, make in SCALARS.items()},
    **{f"optional {kind}": (f"optional {kind} f{{0}} = {{0}};", make) for kind, make in SCALARS.items()},
    **{
        f"many {kind}": (f"repeated {kind} f{{0}} = {{0}};", lambda draw, make=make: [make(draw) for _ in range(draw.randrange(3))])
        for kind, make in SCALARS.items()
    },
    "map": ("map<string, sint64> f{0} = {0};", lambda draw: {text(draw): 1, "b": 2}),
    "map of large numbers": ("map<uint64, string> f{0} = {0};", lambda draw: {draw.choice([0, 1 << 63, (1 << 64) - 1]): "a"}),
    "map of fixed numbers": ("map<fixed64, bool> f{0} = {0};", lambda draw: {draw.choice([7, (1 << 64) - 1]): True}),
    "map of messages": ("map<int32, Inner> f{0} = {0};", lambda draw: {draw.randrange(9): inner(draw)}),
    "decimal": (f"confluent.type.Decimal f{{0}} = {{0}} {META.format('scale', 2)};", lambda _draw: Decimal("-1.50")),
    "decimal of another scale": (f"confluent.type.Decimal f{{0}} = {{0}} {META.format('scale', 3)};", lambda _draw: Decimal("1.50")),
    "int8": (f"int32 f{{0}} = {{0}} {META.format('connect.type', 'int8')};", lambda draw: draw.choice([-5, 5, 5, 5, 500])),
    "entries": ("repeated PairEntry f{0} = {0};", lambda draw: [{"key": 0.5, "value": text(draw)}]),
    "duration": ("google.protobuf.Duration f{0} = {0};", lambda _draw: {"seconds": 5, "nanos": 1}),
    "oneof": ("oneof choice { string f{0} = {0}; Inner other = 77; int32 third = 78; }", text),
}  # fmt: skip
WITHOUT_COLUMNS = {"entries", "duration"}
IMPORTS = (
    "google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto", "google/protobuf/duration.proto", "google/type/date.proto",
    "google/type/timeofday.proto", "confluent/type/decimal.proto", "confluent/meta.proto",
)  # fmt: skip
SETTINGS: list[dict[str, str]] = [
    {}, {"optional.for.nullables": "true"}, {"wrapper.for.nullables": "true"}, {"enhanced.protobuf.schema.support": "true"},
]  # fmt: skip


def proto(names: list[str]) -> str:
    head = "".join(f'import "{each}";' for each in IMPORTS)
    body = " ".join(FIELDS[name][0].replace("{0}", str(number)) for number, name in enumerate(names, 1))
    return f"""syntax = "proto3"; {head} message R {{ {body} enum Colour {{ NONE = 0; RED = 1; }}
        message Inner {{ string x = 1; optional int32 y = 2; }} message PairEntry {{ double key = 1; string value = 2; }} }}"""


class Records:
    def __init__(self, draw: Draw, names: list[str], **config: str) -> None:
        self._draw, self._names = draw, names
        source = proto(names)
        parsed = parse(SchemaType.PROTOBUF, source)
        assert isinstance(parsed, ProtobufSchema)
        self._write = compile_message_writer(parsed.file.messages[0])
        self.line = Line(ProtobufConverter, [{"schema": source, "schemaType": "PROTOBUF"}], **config)

    def message(self) -> bytes:
        draw = self._draw
        fields = {
            f"f{number}": FIELDS[name][1](draw) for number, name in enumerate(self._names, 1) if draw.random() < 0.7
        }
        return self._write(fields)

    def value(self) -> bytes:
        draw, data = self._draw, self.message()
        match draw.randrange(8):
            case 0:
                data += self.message()
            case 1:
                data += b"\xea\x04\x02\x0a\x00\xf0\x04\x05"  # two choices of the oneof, where there is one
            case 2:
                data += b"\xfb\x7f\x08\x01\xfc\x7f"  # a group that nobody knows
        return b"\0\0\0\0\1\0" + data

    def damaged(self) -> bytes:
        draw, data = self._draw, self.value()
        return draw.choice(
            [data[:-1], b"", data + b"\x0a", data + draw.randbytes(3), data[:5] + b"\x02\0" + data[6:], data[:5] + b"\x04\0\0"]
        )  # fmt: skip


def drawn(seed: int) -> tuple[Line, Polls]:
    draw = Draw(seed)
    common = [name for name in FIELDS if name not in WITHOUT_COLUMNS and name != "decimal of another scale"]
    names = draw.sample(common, draw.randint(1, 6))
    if draw.random() < 0.1:
        names.append(draw.choice(list(FIELDS)))
    records = Records(draw, names, **draw.choice(SETTINGS))
    return records.line, drawn_polls(draw, records.value, records.damaged)


@settings(max_examples=lasting(25, 2000), deadline=None)
@given(st.integers(0, 1 << 32))
def test_files_are_the_same_to_the_byte(seed: int) -> None:
    check_files(*drawn(seed))


@settings(max_examples=lasting(25, 2000), deadline=None)
@given(st.integers(0, 1 << 32))
def test_data_frames_are_the_same(seed: int) -> None:
    check_frames(*drawn(seed))


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_what_has_columns_gets_them(name: str) -> None:
    """And what has none does not, so that the two ways are both looked at above."""
    records = Records(Draw(3), [name, "one int32"])
    made = [b"\0\0\0\0\1\0" + records.message() for _ in range(20)]
    polled = [ConsumerRecord("t", 0, n, 0, 0, None, each, (), -1) for n, each in enumerate(made)]
    run = converted(records.line, polled, columns=True)
    assert isinstance(run, SinkRun)
    refused = name in {*WITHOUT_COLUMNS, "decimal of another scale", "int8"}
    assert isinstance(run.values, ArrowColumn) == (not refused)
    plain = converted(records.line, polled, columns=False)
    assert repr([each.value for each in run]) == repr([each.value for each in plain])  # whoever wants records has them


def test_a_message_that_is_not_the_first_of_its_file_and_one_among_others() -> None:
    source = 'syntax = "proto3"; message A { int32 a = 1; } message B { string b = 1; message C { int64 c = 1; } }'
    line = Line(ProtobufConverter, [{"schema": source, "schemaType": "PROTOBUF"}])
    data = {"A": b"\0\x08\x01", "A too": b"\x02\0\x08\x01", "B": b"\x02\x02\x0a\x01x", "C": b"\x04\x02\0\x08\x05"}
    for names, goes in ((["A"], True), (["B"], True), (["C"], True), (["A", "A too"], False), (["A", "B"], False)):
        values = [b"\0\0\0\0\1" + data[names[n % len(names)]] for n in range(20)]
        polled = [ConsumerRecord("t", 1, n, 0, 0, None, each, (), -1) for n, each in enumerate(values)]
        run = converted(line, polled, columns=True)
        assert isinstance(run.values, ArrowColumn) == goes
        by_columns, one_by_one = (
            files_of(line, [polled], {"flush.size": "20"}, columns=each) for each in (True, False)
        )
        assert by_columns == one_by_one
