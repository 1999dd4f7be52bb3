"""JSON of a JSON Schema into files and data frames by columns comes to what it comes to record by record."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compat.support.quick import lasting
from headwater.client import ConsumerRecord
from headwater.connect.converters.jsonschema.converter import JsonSchemaConverter
from headwater.connect.data.runs import ArrowColumn, SinkRun
from property.connect_columns_support import Line, Polls, check_files, check_frames, converted, drawn_polls, files_of

Draw = random.Random
CONNECT = "org.apache.kafka.connect.data."


def of(*values: Any) -> Callable[[Draw], Any]:
    return lambda draw: draw.choice(values)


def whole(bits: int) -> Callable[[Draw], int]:
    return lambda draw: draw.choice([0, -1, (1 << bits - 1) - 1, -(1 << bits - 1), draw.randrange(1 << bits - 1)])


TEXTS = of("", "a", "äöü", "x" * 40, "\0", 'quo"ted\\', "2026-01-02", "5", "😀")
INNER = {"type": "object", "properties": {"x": {"type": "string"}, "y": {"oneOf": [{"type": "null"}, {"type": "integer"}]}}}  # fmt: skip
# A property, and its values
LEAVES: dict[str, tuple[dict[str, Any], Callable[[Draw], Any]]] = {
    "string": ({"type": "string"}, TEXTS),
    "integer": ({"type": "integer"}, whole(64)),
    "int32": ({"type": "integer", "connect.type": "int32"}, whole(32)),
    "int8": ({"type": "integer", "connect.type": "int8"}, whole(8)),
    "number": ({"type": "number"}, of(0.1, 0, -0.0, 5, 1e300, 12345678901234567890, 5e-324)),
    "float32": ({"type": "number", "connect.type": "float32"}, of(0.1, 1.5, -0.0, 16777217, 3.5e38, -1e-46)),
    "boolean": ({"type": "boolean"}, of(True, False)),
    "enum": ({"enum": ["a", "b"]}, of("a", "b")),
    "bytes": ({"type": "string", "connect.type": "bytes"}, of("", "AAE=", "/+8=")),
    "date": ({"type": "integer", "connect.type": "int32", "title": f"{CONNECT}Date"}, of(0, -719162, 2932896)),
    "time": ({"type": "integer", "connect.type": "int32", "title": f"{CONNECT}Time"}, of(0, 86_399_999)),
    "timestamp": ({"type": "integer", "connect.type": "int64", "title": f"{CONNECT}Timestamp"}, of(0, -1, 253_402_300_799_999)),
    "array": ({"type": "array", "items": {"type": "integer"}}, lambda draw: [whole(64)(draw) for _ in range(draw.randrange(3))]),
    "array of objects": ({"type": "array", "items": INNER}, lambda draw: [{"x": "a", "y": None}] * draw.randrange(3)),
    "array with nulls": ({"type": "array", "items": {"oneOf": [{"type": "null"}, {"type": "string"}]}}, of([], [None, "a"])),
    "object": (INNER, lambda draw: {"x": TEXTS(draw), "y": draw.choice([None, 5])}),
    "default": ({"type": "integer", "default": 5}, whole(64)),
    "decimal": ({"type": "number", "connect.type": "bytes", "title": f"{CONNECT}Decimal", "connect.parameters": {"scale": "2"}}, of("AZA=")),
    "map": ({"type": "object", "connect.type": "map", "additionalProperties": {"type": "integer"}}, of({}, {"a": 1})),
    "one of two": ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, of(1, "a")),
}  # fmt: skip
WITHOUT_COLUMNS = {"decimal", "map", "one of two"}
SPOILT: list[Any] = [None, "text", 5, 1.5, True, [], {}, 1 << 63, -(1 << 63) - 1, 300, 1 << 31, -719163, 86_400_000, "A", [None], {"x": 1}]  # fmt: skip
# What json.dumps does not write: whole values of a record
TEXTS_SPOILT = [
    b"", b"{", b"null", b"[]", b" {}", b"{} ", b"{}x", b"{}{}", b"{\n}", b'{"more": 1}', b"\xef\xbb\xbf{}", b'{"f0": NaN}',
    b'{"f0": 1e999}', b'{"f0": 1e-400}', b'{"f0": 1e-99999999999999999999}', b'{"f0": 1e99999999999999999999}', b'{"f0": -Infinity}',
    b'{"f0": 1.0}', b'{"f0": 1e2}', b'{"f0": "\\ud800"}', b'{"f0": "\xff"}', b'{"f0": 1, "f0": 2}', b'{"f0": "\t"}', b'{"f0": -0}', b'{"f0":',
    b'{"f0": ' + b"9" * 5000 + b"}", b'{"f0": 0.' + b"1" * 5000 + b"}", b'{"f0": ' + b"[" * 3000 + b"]" * 3000 + b"}", b'{"f0": 01}', b"{'f0': 1}",
]  # fmt: skip


class Records:
    def __init__(self, draw: Draw, names: list[str], *, nullable: bool, **config: str) -> None:
        self._draw, self._makers = draw, {}
        properties = {}
        for number, name in enumerate(names):
            kind, make = LEAVES[name]
            if nullable and name != "one of two" and draw.random() < 0.4:
                kind, make = (
                    {"oneOf": [{"type": "null"}, kind]},
                    lambda draw, make=make: draw.choice([None, make(draw)]),
                )
            properties[f"f{number}"], self._makers[f"f{number}"] = kind, make
        source = json.dumps({"type": "object", "title": "R", "properties": properties, "required": ["f0"]})
        self.line = Line(JsonSchemaConverter, [{"schema": source, "schemaType": "JSON"}], **config)

    def fields(self) -> dict[str, Any]:
        return {name: make(self._draw) for name, make in self._makers.items()}

    def value(self) -> bytes:
        return framed(json.dumps(self.fields(), ensure_ascii=self._draw.random() < 0.5).encode())

    def damaged(self) -> bytes:
        draw, fields = self._draw, self.fields()
        name = draw.choice(list(fields))
        match draw.randrange(4):
            case 0:
                fields[name] = draw.choice(SPOILT)
            case 1:
                del fields[name]
            case 2:
                return framed(
                    json.dumps(fields, indent=draw.choice([1, None])).encode() + draw.choice([b"", b" ", b"}"])
                )
            case 3:
                return draw.choice([framed(draw.choice(TEXTS_SPOILT)), b"", b"\0\0\0\0", framed(b"{}")[:5]])
        return framed(json.dumps(fields).encode())


def framed(data: bytes) -> bytes:
    return b"\0\0\0\0\1" + data


def drawn(seed: int) -> tuple[Line, Polls]:
    draw = Draw(seed)
    common = [name for name in LEAVES if name not in WITHOUT_COLUMNS]
    names = draw.sample(common, draw.randint(1, 6))
    if draw.random() < 0.1:
        names.append(draw.choice(list(LEAVES)))
    config = draw.choice([{}, {"use.optional.for.nonrequired": "true"}])
    records = Records(draw, names, nullable=True, **config)
    return records.line, drawn_polls(draw, records.value, records.damaged)


@settings(max_examples=lasting(25, 2000), deadline=None)
@given(st.integers(0, 1 << 32))
def test_files_are_the_same_to_the_byte(seed: int) -> None:
    check_files(*drawn(seed))


@settings(max_examples=lasting(25, 2000), deadline=None)
@given(st.integers(0, 1 << 32))
def test_data_frames_are_the_same(seed: int) -> None:
    check_frames(*drawn(seed))


@pytest.mark.parametrize("name", sorted(LEAVES))
def test_what_has_columns_gets_them(name: str) -> None:
    """And what has none does not, so that the two ways are both looked at above."""
    records = Records(Draw(3), [name, "string"], nullable=False)
    polled = [ConsumerRecord("t", 0, n, 0, 0, None, records.value(), (), -1) for n in range(20)]
    run = converted(records.line, polled, columns=True)
    assert isinstance(run, SinkRun)
    assert isinstance(run.values, ArrowColumn) == (name not in WITHOUT_COLUMNS)
    plain = converted(records.line, polled, columns=False)
    assert repr([each.value for each in run]) == repr([each.value for each in plain])  # whoever wants records has them


@pytest.mark.parametrize("name", ["string", "integer", "number", "array"])
@pytest.mark.parametrize("text", TEXTS_SPOILT, ids=range(len(TEXTS_SPOILT)))
def test_texts_that_nobody_should_write(name: str, text: bytes) -> None:
    records = Records(Draw(3), [name], nullable=False, **{"use.optional.for.nonrequired": "true"})
    values = [framed(text) if n in (3, 17) else records.value() for n in range(20)]
    polled = [ConsumerRecord("t", 1, n, 0, 0, None, each, (), -1) for n, each in enumerate(values)]
    by_columns, one_by_one = (
        files_of(records.line, [polled], {"flush.size": "20"}, columns=columns) for columns in (True, False)
    )
    assert by_columns == one_by_one
