"""Connect's schemas as Protobuf and back, by Confluent's rules, worked out by hand; and the converter with a registry
in memory.
"""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from headwater.client.schema_registry.client import SchemaRegistryClient
from headwater.connect.converters.protobuf.converter import ProtobufConverter
from headwater.connect.converters.protobuf.to_protobuf import ENUM, TAG, UNION, Printer, ProtobufOptions
from headwater.connect.data import schema as s
from headwater.connect.data.schema import Schema
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError, RetriableError
from headwater.connect.plugins import Catalog, Kind
from headwater.schemas import SchemaType, parse
from unit.connect.registry_memory import Memory


class InMemory(ProtobufConverter):
    def __init__(self, memory: Memory, **settings: str) -> None:
        self.memory = memory
        self.configure({"schema.registry.url": "http://nowhere", **settings}, kind="value")

    def connect(self, config: Any) -> SchemaRegistryClient:
        made = SchemaRegistryClient({"url": "http://nowhere"})
        made._transport = self.memory  # type: ignore[assignment]
        return made


def fields(*named: tuple[str, Schema]) -> Schema:
    return s.struct(named, name="shop.Order")


def text_of(schema: Schema, **options: bool) -> str:
    return parse(SchemaType.PROTOBUF, Printer(ProtobufOptions(**options)).file(schema)).canonical


def expected(body: str, *imports: str) -> str:
    head = "".join(f'import "{each}";' for each in imports)
    return parse(SchemaType.PROTOBUF, f'syntax = "proto3"; package shop; {head} message Order {{ {body} }}').canonical


def meta(*pairs: tuple[str, str]) -> str:
    entries = ", ".join(f'{{ key: "{key}", value: "{value}" }}' for key, value in pairs)
    return f"[(confluent.field_meta) = {{ params: [{entries}] }}]"


LINE = s.struct([("n", s.INT32)], name="shop.Line")
COLOUR = s.STRING.changed(name="Colour", parameters={ENUM: "Colour", f"{ENUM}.RED": "0", f"{ENUM}.BLUE": "7"})
CHOICE = s.struct([("a", s.OPTIONAL_INT32.changed(parameters={TAG: "4"})), ("b", s.OPTIONAL_STRING.changed(parameters={TAG: "5"}))], name=f"{UNION}.choice", optional=True)  # fmt: skip

# A field's schema, what stands in the message, its imports, a value, and the bytes of the message
CASES: dict[str, tuple[Schema, str, tuple[str, ...], Any, str]] = {
    "int8": (s.INT8, f"int32 f = 1 {meta(('connect.type', 'int8'))};", ("confluent/meta.proto",), -1, "08" + "ff" * 9 + "01"),
    "int16": (s.INT16, f"int32 f = 1 {meta(('connect.type', 'int16'))};", ("confluent/meta.proto",), 300, "08ac02"),
    "int32": (s.INT32, "int32 f = 1;", (), 5, "0805"),
    "int64": (s.INT64, "int64 f = 1;", (), 1 << 40, "08808080808020"),
    "float32": (s.FLOAT32, "float f = 1;", (), 1.5, "0d0000c03f"),
    "float64": (s.FLOAT64, "double f = 1;", (), 0.5, "09000000000000e03f"),
    "boolean": (s.BOOLEAN, "bool f = 1;", (), True, "0801"),
    "string": (s.STRING, "string f = 1;", (), "é", "0a02c3a9"),
    "bytes": (s.BYTES, "bytes f = 1;", (), b"\x00\xff", "0a0200ff"),
    "a number of its own": (s.INT32.changed(parameters={TAG: "9"}), "int32 f = 9;", (), 5, "4805"),
    "array": (s.array(s.INT32), "repeated int32 f = 1;", (), [1, 2], "0a020102"),
    "map": (s.map_of(s.STRING, s.INT32), "map<string, int32> f = 1;", (), {"a": 1}, "0a050a01611001"),
    "struct": (LINE, "message Line { int32 n = 1; } Line f = 1;", (), Struct(LINE, {"n": 3}), "0a020803"),
    "enum": (COLOUR, "enum Colour { RED = 0; BLUE = 7; } Colour f = 1;", (), "BLUE", "0807"),
    "date": (s.DATE_SCHEMA, ".google.type.Date f = 1;", ("google/type/date.proto",), date(2026, 1, 2), "0a0708ea0f10011802"),
    "time": (s.TIME_SCHEMA, ".google.type.TimeOfDay f = 1;", ("google/type/timeofday.proto",), time(1, 2, 3), "0a06080110021803"),
    "timestamp": (
        s.TIMESTAMP_SCHEMA, ".google.protobuf.Timestamp f = 1;", ("google/protobuf/timestamp.proto",),
        datetime(1970, 1, 1, 0, 0, 2, 5000, tzinfo=UTC), "0a07080210c096b102",
    ),
    "decimal": (
        s.decimal_schema(2), f".confluent.type.Decimal f = 1 {meta(('scale', '2'))};",
        ("confluent/meta.proto", "confluent/type/decimal.proto"), Decimal("-1.50"), "0a080a02ff6a10031802",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_types_are_those_of_confluents_converter(name: str) -> None:
    schema, body, imports, value, message = CASES[name]
    whole = fields(("f", schema))
    assert text_of(whole) == expected(body, *imports)
    converter = InMemory(Memory())
    data = converter.from_connect("t", whole, Struct(whole, {"f": value}))
    assert data is not None
    assert data[:6] == b"\x00\x00\x00\x00\x01\x00"
    assert data[6:].hex() == message
    back = converter.to_connect("t", data)
    assert back.schema is not None
    assert (back.schema.name, back.schema.version) == ("Order", 1)
    (field,) = back.schema.fields
    assert field.schema.optional
    assert (field.schema.type, field.schema.parameters["scale" if name == "decimal" else TAG]) == (schema.type, "2" if name == "decimal" else "9" if "own" in name else "1")  # fmt: skip
    found = back.value["f"]
    assert (found.as_dict() if isinstance(found, Struct) else found) == (value.as_dict() if isinstance(value, Struct) else value)  # fmt: skip


def test_a_union_is_a_oneof_and_comes_back_under_its_name_with_a_number() -> None:
    whole = fields(("n", s.INT32), ("pick", CHOICE))
    assert text_of(whole) == expected("int32 n = 1; oneof choice { int32 a = 4; string b = 5; }")
    converter = InMemory(Memory())
    data = converter.from_connect("t", whole, Struct(whole, {"n": 1, "pick": Struct(CHOICE, {"b": "x"})}))
    assert data is not None
    assert data[6:].hex() == "08012a0178"
    back = converter.to_connect("t", data)
    assert (back.value["choice_0"]["b"], back.value["choice_0"]["a"]) == ("x", None)
    nothing = converter.from_connect("t", whole, Struct(whole, {"n": 1}))
    assert converter.to_connect("t", nothing).value["choice_0"] is None


@pytest.mark.parametrize("setting", ["optional.for.nullables", "wrapper.for.nullables"])
def test_a_choice_of_a_oneof_may_be_missing_whatever_the_settings_say(setting: str) -> None:
    whole = fields(("n", s.INT32), ("choice", CHOICE))
    kept = InMemory(Memory(), **{setting: "true"})
    given = Struct(whole, {"n": 1, "choice": Struct(CHOICE, {"a": None, "b": "x"})})
    schema, value = kept.to_connect("t", kept.from_connect("t", whole, given))
    assert schema is not None
    assert value["choice_0"].as_dict() == {"a": None, "b": "x"}


def test_nulls_are_lost_unless_the_schema_can_tell_them() -> None:
    whole = fields(("a", s.OPTIONAL_STRING), ("b", s.OPTIONAL_INT64))
    value = Struct(whole, {"a": ""})
    plain = InMemory(Memory())
    assert plain.to_connect("t", plain.from_connect("t", whole, value)).value.as_dict() == {"a": "", "b": 0}
    assert text_of(whole, optional_for_nullables=True) == expected("optional string a = 1; optional int64 b = 2;")
    kept = InMemory(Memory(), **{"optional.for.nullables": "true"})
    back = kept.to_connect("t", kept.from_connect("t", whole, value))
    assert back.value.as_dict() == {"a": "", "b": None}
    wrappers = expected(
        ".google.protobuf.StringValue a = 1; .google.protobuf.Int64Value b = 2;", "google/protobuf/wrappers.proto"
    )
    assert text_of(whole, wrapper_for_nullables=True) == wrappers
    wrapped = InMemory(Memory(), **{"wrapper.for.nullables": "true"})
    data = wrapped.from_connect("t", whole, value)
    assert wrapped.to_connect("t", data).value.as_dict() == {"a": "", "b": None}
    as_structs = plain_reader(wrapped.memory).to_connect("t", data)
    assert (as_structs.value["a"].as_dict(), as_structs.value["b"]) == ({"value": ""}, None)


def plain_reader(memory: Memory) -> InMemory:
    return InMemory(memory)


def test_names_are_made_fit_and_structs_without_one_are_numbered() -> None:
    inner = s.struct([("my-field", s.STRING), ("1st", s.map_of(s.FLOAT64, s.STRING))])
    whole = s.struct([("inner", inner)])
    wanted = 'syntax = "proto3"; message ConnectDefault1 { message ConnectDefault2 { message ConnectDefault3Entry { double key = 1; string value = 2; } string my_field = 1; repeated ConnectDefault3Entry x1st = 2; } ConnectDefault2 inner = 1; }'
    assert text_of(whole) == parse(SchemaType.PROTOBUF, wanted).canonical
    converter = InMemory(Memory())
    data = converter.from_connect(
        "t", whole, Struct(whole, {"inner": Struct(inner, {"my-field": "x", "1st": {1.5: "y"}})})
    )
    assert converter.to_connect("t", data).value["inner"].as_dict() == {"my_field": "x", "x1st": {1.5: "y"}}


def test_a_message_within_a_message_of_another_producer_is_found_by_its_indexes() -> None:
    memory = Memory()
    text = 'syntax = "proto3"; package p; message A {} message B { message C { uint64 big = 1; repeated string names = 2; } }'
    memory.register("t-value", {"schema": text, "schemaType": "PROTOBUF"})
    data = bytes.fromhex("0000000001" + "040200" + "08ffffffffffffffffff01" + "120161")
    found = InMemory(memory, **{"enhanced.protobuf.schema.support": "true"}).to_connect("t", data)
    assert found.schema is not None
    assert found.schema.name == "p.B.C"
    assert found.value.as_dict() == {"big": -1, "names": ["a"]}
    with pytest.raises(DataError, match="no message at 5"):
        InMemory(memory).to_connect("t", bytes.fromhex("0000000001020a"))


def test_what_cannot_be_is_an_error_of_that_record() -> None:
    converter = InMemory(Memory())
    whole = fields(("a", s.array(s.OPTIONAL_STRING)), ("n", s.INT32))
    for schema, value, why in (
        (s.INT32, 5, "Unsupported root schema of type INT32"),
        (None, 5, "without a schema"),
        (fields(("m", s.map_of(s.STRING, s.array(s.INT32)))), Struct(fields(("m", s.map_of(s.STRING, s.array(s.INT32))))), "map of arrays"),
        (whole, Struct(whole, {"a": ["x", None], "n": 1}), "no null within arrays"),
        (whole, Struct(whole, {"a": []}), "null used for required field"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=why):
            converter.from_connect("t", schema, value)
    recursive = 'syntax = "proto3"; message A { A again = 1; }'
    converter.memory.register("r-value", {"schema": recursive, "schemaType": "PROTOBUF"})
    number = len(converter.memory.schemas)
    with pytest.raises(DataError, match="contains itself"):
        converter.to_connect("r", b"\x00" + number.to_bytes(4, "big") + b"\x00")
    with pytest.raises(DataError, match="the bytes end within"):
        converter.to_connect("r2", b"\x00\x00")
    converter.memory.gone = True
    with pytest.raises(RetriableError):
        converter.to_connect("other", b"\x00\x00\x00\x00\x63\x00")


def test_it_is_in_the_catalog_under_both_names_and_refuses_what_it_does_not_know() -> None:
    catalog = Catalog(installed=False)
    assert catalog.find("ProtobufConverter", Kind.CONVERTER).cls is ProtobufConverter
    assert catalog.find("io.confluent.connect.protobuf.ProtobufConverter", Kind.CONVERTER).cls is ProtobufConverter
    assert set(ProtobufConverter.unknown({"schema.registry.url", "flatten.unions"})) == {"flatten.unions"}


def test_tombstones_stay_what_they_are() -> None:
    converter = InMemory(Memory())
    assert converter.from_connect("t", None, None) is None
    assert converter.to_connect("t", None).value is None
    assert json.dumps(converter.memory.schemas) == "[]"
