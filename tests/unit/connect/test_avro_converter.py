"""Connect's schemas and values as Avro's, by Confluent's rules, and the converter with a registry in memory."""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from headwater.client.schema_registry.client import SchemaRegistryClient
from headwater.connect.connector_config.validation import validate
from headwater.connect.converters.avro.converter import AvroConverter
from headwater.connect.converters.avro.from_avro import connect_schema, connect_value
from headwater.connect.converters.avro.names import AvroOptions
from headwater.connect.converters.avro.to_avro import avro_schema, avro_value
from headwater.connect.data import schema as s
from headwater.connect.data.schema import Schema, SchemaAndValue, Type
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConfigError, DataError, RetriableError
from headwater.connect.plugins import Catalog, Kind
from headwater.schemas import SchemaType, parse
from headwater.schemas.avro import AvroSchema
from headwater.schemas.avro.decoding import compile_reader
from headwater.schemas.avro.encoding import compile_writer
from unit.connect.registry_memory import Memory

LINE = s.struct([("n", s.INT32)], name="shop.Line")
LOGICAL = "org.apache.kafka.connect.data."
NAMESPACE = "io.confluent.connect.avro"


def entries(key: Any, value: Any) -> dict[str, Any]:
    fields = [{"name": "key", "type": key}, {"name": "value", "type": value}]
    return {"type": "array", "items": {"type": "record", "name": "MapEntry", "namespace": NAMESPACE, "fields": fields}}


# Connect's schema, Avro's, a value of Connect's, and what Avro's encoder is given
CASES: dict[str, tuple[Schema, Any, Any, Any]] = {
    "int8": (s.INT8, {"type": "int", "connect.type": "int8"}, -3, -3),
    "int16": (s.INT16, {"type": "int", "connect.type": "int16"}, 300, 300),
    "int32": (s.INT32, "int", 7, 7),
    "int64": (s.INT64, "long", 1 << 40, 1 << 40),
    "float32": (s.FLOAT32, "float", 1.5, 1.5),
    "float64": (s.FLOAT64, "double", 0.1, 0.1),
    "boolean": (s.BOOLEAN, "boolean", True, True),
    "string": (s.STRING, "string", "foo", "foo"),
    "bytes": (s.BYTES, "bytes", b"\x00\xff", b"\x00\xff"),
    "optional": (s.OPTIONAL_STRING, ["null", "string"], "foo", "foo"),
    "optional, null": (s.OPTIONAL_STRING, ["null", "string"], None, None),
    "optional with a default": (
        s.OPTIONAL_INT64.changed(default=5),
        [{"type": "long", "connect.default": 5}, "null"],
        6,
        6,
    ),
    "decimal": (
        s.decimal_schema(2),
        {"type": "bytes", "scale": 2, "precision": 64, "connect.version": 1, "connect.parameters": {"scale": "2"}, "connect.name": LOGICAL + "Decimal", "logicalType": "decimal"},
        Decimal("-1.50"),
        b"\xff\x6a",
    ),
    "decimal with a precision": (
        s.decimal_schema(1).changed(parameters={"scale": "1", "connect.decimal.precision": "9"}),
        {"type": "bytes", "scale": 1, "precision": 9, "connect.version": 1, "connect.parameters": {"scale": "1", "connect.decimal.precision": "9"}, "connect.name": LOGICAL + "Decimal", "logicalType": "decimal"},
        Decimal("0.1"),
        b"\x01",
    ),
    "decimal that Avro does not know": (
        s.decimal_schema(-2),
        {"type": "bytes", "scale": -2, "precision": 64, "connect.version": 1, "connect.parameters": {"scale": "-2"}, "connect.name": LOGICAL + "Decimal"},
        Decimal("1E+2"),
        b"\x01",
    ),
    "date": (
        s.DATE_SCHEMA,
        {"type": "int", "connect.version": 1, "connect.name": LOGICAL + "Date", "logicalType": "date"},
        date(1970, 1, 11),
        10,
    ),
    "time": (
        s.TIME_SCHEMA,
        {"type": "int", "connect.version": 1, "connect.name": LOGICAL + "Time", "logicalType": "time-millis"},
        time(0, 0, 1, 2000),
        1002,
    ),
    "timestamp": (
        s.TIMESTAMP_SCHEMA,
        {"type": "long", "connect.version": 1, "connect.name": LOGICAL + "Timestamp", "logicalType": "timestamp-millis"},
        datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
        2000,
    ),
    "array": (s.array(s.OPTIONAL_INT32), {"type": "array", "items": ["null", "int"]}, [1, None], [1, None]),
    "map": (s.map_of(s.STRING, s.INT32), {"type": "map", "values": "int"}, {"a": 1}, {"a": 1}),
    "map with keys that are no strings": (
        s.map_of(s.INT32, s.STRING),
        entries("int", "string"),
        {1: "a"},
        [{"key": 1, "value": "a"}],
    ),
    "name, version, doc, parameters": (
        Schema(Type.STRING, name="shop.Text", version=3, doc="words", parameters={"a": "b"}),
        {"type": "string", "connect.doc": "words", "connect.version": 3, "connect.parameters": {"a": "b"}, "connect.name": "shop.Text"},
        "x",
        "x",
    ),
    "struct": (
        s.struct([("a", s.INT32.changed(default=4)), ("b", s.OPTIONAL_STRING), ("line", LINE), ("again", LINE.as_optional())], name="shop.Order", version=2),
        {
            "type": "record", "name": "Order", "namespace": "shop",
            "fields": [
                {"name": "a", "type": {"type": "int", "connect.default": 4}, "default": 4},
                {"name": "b", "type": ["null", "string"], "default": None},
                {"name": "line", "type": {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "n", "type": "int"}], "connect.name": "shop.Line"}},
                {"name": "again", "type": ["null", "shop.Line"], "default": None},
            ],
            "connect.version": 2, "connect.name": "shop.Order",
        },
        {"a": 1, "b": None, "line": {"n": 2}, "again": {"n": 3}},
        {"a": 1, "b": None, "line": {"n": 2}, "again": {"n": 3}},
    ),
    "structs without names": (
        s.struct([("inner", s.struct([("n", s.INT32)]))]),
        {
            "type": "record", "name": "ConnectDefault", "namespace": NAMESPACE,
            "fields": [{"name": "inner", "type": {"type": "record", "name": "ConnectDefault2", "namespace": NAMESPACE, "fields": [{"name": "n", "type": "int"}]}}],
        },
        {"inner": {"n": 1}},
        {"inner": {"n": 1}},
    ),
    "defaults of every shape": (
        s.struct([
            ("bytes", s.BYTES.changed(default=b"\xff")),
            ("list", s.array(s.INT32).changed(default=[1])),
            ("pairs", s.map_of(s.INT32, s.STRING).changed(default={1: "a"})),
            ("day", s.DATE_SCHEMA.changed(default=date(1970, 1, 2))),
        ], name="D"),
        {
            "type": "record", "name": "D", "namespace": "",
            "fields": [
                {"name": "bytes", "type": {"type": "bytes", "connect.default": "\xff"}, "default": "\xff"},
                {"name": "list", "type": {"type": "array", "items": "int", "connect.default": [1]}, "default": [1]},
                {"name": "pairs", "type": entries("int", "string") | {"connect.default": [{"key": 1, "value": "a"}]}, "default": [{"key": 1, "value": "a"}]},
                {"name": "day", "type": {"type": "int", "connect.version": 1, "connect.default": 1, "connect.name": LOGICAL + "Date", "logicalType": "date"}, "default": 1},
            ],
            "connect.name": "D",
        },
        {"bytes": b"", "list": [], "pairs": {}, "day": date(1970, 1, 1)},
        {"bytes": b"", "list": [], "pairs": [], "day": 0},
    ),
    "union": (
        s.struct([("int", s.OPTIONAL_INT32), ("string", s.OPTIONAL_STRING), ("Line", LINE.as_optional())], name=NAMESPACE + ".Union", optional=True),
        ["null", "int", "string", {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "n", "type": "int"}], "connect.name": "shop.Line"}],
        {"Line": {"n": 1}},
        ("shop.Line", {"n": 1}),
    ),
}  # fmt: skip


def built(schema: Schema, value: Any) -> Any:
    """A value in which structs were written as dicts."""
    if schema.type is not Type.STRUCT or value is None:
        return value
    fields = {each.name: each.schema for each in schema.fields}
    return Struct(schema, {name: built(fields[name], each) for name, each in value.items()})


def parsed(avro: Any) -> AvroSchema:
    found = parse(SchemaType.AVRO, json.dumps(avro))
    assert isinstance(found, AvroSchema)
    return found


@pytest.mark.parametrize("case", CASES)
def test_schemas_and_values_go_to_avro_and_come_back(case: str) -> None:
    schema, avro, given, plain = CASES[case]
    value = built(schema, given)
    made = avro_schema(schema)
    assert json.dumps(made) == json.dumps(avro), "in this order: it is the text that registries compare"
    root = parsed(made).root
    assert connect_schema(root) == schema
    assert avro_value(schema, value) == plain
    data = compile_writer(root)(plain)
    assert connect_value(schema, root, compile_reader(root, stored=True)(data)) == value


@pytest.mark.parametrize(
    ("avro", "expected"),
    [
        ({"type": "long", "logicalType": "timestamp-micros"}, s.INT64),
        ({"type": "string", "logicalType": "uuid"}, s.STRING),
        ({"type": "fixed", "name": "F", "size": 2}, s.BYTES),
        (
            {"type": "enum", "name": "x.E", "symbols": ["A", "B"]},
            Schema(Type.STRING, name="x.E", parameters={NAMESPACE + ".Enum": "x.E", NAMESPACE + ".Enum.A": "A", NAMESPACE + ".Enum.B": "B"}),
        ),
        (
            {"type": "record", "name": "R", "doc": "d", "fields": [{"name": "a", "type": "int", "default": 1, "doc": "e"}, {"name": "b", "type": ["int", "null"], "default": 2}]},
            s.struct(
                [("a", s.INT32.changed(default=1, parameters={NAMESPACE + ".field.default": "true"})), ("b", s.OPTIONAL_INT32)],
                name="R", parameters={NAMESPACE + ".record.doc": "d", NAMESPACE + ".field.doc.a": "e"},
            ),
        ),
    ],
)  # fmt: skip
def test_schemas_that_others_wrote(avro: Any, expected: Schema) -> None:
    assert connect_schema(parsed(avro).root) == expected


def test_enums_come_back_as_enums_with_enhanced_support() -> None:
    avro = {"type": "enum", "name": "E", "namespace": "x", "symbols": ["A", "B"], "default": "B"}
    schema = connect_schema(parsed(avro).root)
    assert schema is not None
    assert avro_schema(schema)["type"] == "string"
    enhanced = avro_schema(schema, AvroOptions(enhanced=True))
    assert {name: enhanced[name] for name in avro} == avro


def test_without_metadata_a_schema_is_avro_alone() -> None:
    schema = s.struct([("a", s.INT8.changed(default=1)), ("t", s.TIMESTAMP_SCHEMA)], name="x.R", version=1)
    assert avro_schema(schema, AvroOptions(metadata=False)) == {
        "type": "record", "name": "R", "namespace": "x",
        "fields": [{"name": "a", "type": "int", "default": 1}, {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}}],
    }  # fmt: skip


@pytest.mark.parametrize(
    "value", [True, b"a", 0.5, 7, "x", [1, None, ["a"]], {"a": 1, 2: [3.0]}, {}], ids=lambda each: str(each)
)
def test_values_without_a_schema_are_anything(value: Any) -> None:
    root = parsed(avro_schema(None)).root
    assert connect_schema(root) is None
    data = compile_writer(root)(avro_value(None, value))
    assert connect_value(None, root, compile_reader(root, stored=True)(data)) == value


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        (s.INT32, None, "null value for non-optional"),
        (s.INT32, "x", "Invalid type for INT32: str"),
        (s.decimal_schema(2), Decimal("1.5"), "mismatching scale"),
        (LINE, Struct(s.struct([("n", s.INT64)], name="shop.Line")), "Mismatching struct schema"),
    ],
)
def test_values_that_do_not_fit_are_told(schema: Schema, value: Any, told: str) -> None:
    with pytest.raises(DataError, match=told):
        avro_value(schema, value)


def test_what_has_no_counterpart_is_refused() -> None:
    itself = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    with pytest.raises(DataError, match="Node contains itself"):
        connect_schema(parsed(itself).root)
    two = s.struct([("a", LINE), ("b", s.struct([("m", s.INT32)], name="shop.Line"))], name="x")
    with pytest.raises(DataError, match=r"Two different schemas have the name shop\.Line"):
        avro_schema(two)


def test_a_struct_may_be_a_default() -> None:
    schema = s.struct([("line", LINE.changed(default=Struct(LINE, {"n": 4})))], name="R")
    made = avro_schema(schema)
    assert made["fields"][0]["default"] == {"n": 4}
    assert connect_schema(parsed(made).root) == schema
    assert avro_value(schema, Struct(schema)) == {"line": {"n": 4}}


def test_a_null_where_there_is_a_default_is_the_default_unless_told_otherwise() -> None:
    schema = s.struct([("a", s.OPTIONAL_INT32.changed(default=5)), ("b", s.INT32.changed(default=6))], name="R")
    assert avro_value(schema, Struct(schema)) == {"a": 5, "b": 6}
    assert avro_value(schema, Struct(schema), AvroOptions(keep_nulls=True)) == {"a": None, "b": 6}


def converter(memory: Memory, kind: str = "value", **props: str) -> AvroConverter:
    class InMemory(AvroConverter):
        def connect(self, config: Mapping[str, Any]) -> SchemaRegistryClient:
            return SchemaRegistryClient({"latest.cache.ttl.sec": 0}, transport=memory)

    made = InMemory()
    named = {name.replace("_", "."): value for name, value in props.items()}
    made.configure({"schema.registry.url": "http://registry", **named}, kind=kind)
    return made


def test_records_are_framed_with_the_id_of_a_schema_that_is_registered_once() -> None:
    memory = Memory()
    ours = converter(memory)
    first = ours.from_connect("orders", LINE, Struct(LINE, {"n": 1}))
    assert first == b"\x00\x00\x00\x00\x01\x02"
    assert ours.from_connect("orders", s.STRING, "foo") == b"\x00\x00\x00\x00\x02\x06foo"
    assert ours.from_connect("orders", LINE, Struct(LINE, {"n": 1})) == first
    assert memory.subjects == {"orders-value": [1, 2]}
    assert ours.to_connect("orders", first) == SchemaAndValue(
        LINE.changed(version=1), Struct(LINE.changed(version=1), {"n": 1})
    )
    assert ours.from_connect("orders", LINE.as_optional(), None) is None
    assert ours.to_connect("orders", None) == SchemaAndValue(None, None)


def test_bytes_alone_have_no_length() -> None:
    ours = converter(Memory())
    data = ours.from_connect("t", s.BYTES, b"raw")
    assert data == b"\x00\x00\x00\x00\x01raw"
    assert ours.to_connect("t", data).value == b"raw"


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("io.confluent.kafka.serializers.subject.TopicNameStrategy", "t-key"),
        ("RecordNameStrategy", "shop.Line"),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy", "t-shop.Line"),
    ],
)
def test_subjects_are_named_by_their_strategy(strategy: str, subject: str) -> None:
    memory = Memory()
    ours = converter(memory, "key", key_subject_name_strategy=strategy)
    data = ours.from_connect("t", LINE, Struct(LINE, {"n": 1}))
    assert list(memory.subjects) == [subject]
    assert ours.to_connect("t", data).value["n"] == 1


def test_without_auto_registration_a_schema_must_be_there() -> None:
    memory = Memory()
    ours = converter(memory, auto_register_schemas="false")
    with pytest.raises(DataError, match="Schema not found"):
        ours.from_connect("t", s.STRING, "foo")
    memory.register("t-value", {"schema": '"string"'})
    assert ours.from_connect("t", s.STRING, "foo") == b"\x00\x00\x00\x00\x01\x06foo"


def test_the_latest_version_is_written_with_and_read_by() -> None:
    memory = Memory()
    old = converter(memory).from_connect("t", LINE, Struct(LINE, {"n": 1}))
    wider = {"type": "record", "name": "shop.Line", "fields": [{"name": "n", "type": "long"}, {"name": "m", "type": "int", "default": 9}]}  # fmt: skip
    memory.register("t-value", {"schema": json.dumps(wider)})
    ours = converter(memory, use_latest_version="true")
    data = ours.from_connect("t", LINE, Struct(LINE, {"n": 1}))
    assert data == b"\x00\x00\x00\x00\x02\x02\x12"
    for each in (old, data):
        assert ours.to_connect("t", each).value.as_dict() == {"n": 1, "m": 9}
    with pytest.raises(DataError, match="does not read what this record's writes"):
        ours.from_connect("t", s.STRING, "foo")


def test_a_registry_that_does_not_answer_is_a_reason_to_try_again() -> None:
    memory = Memory()
    memory.gone = True
    ours = converter(memory)
    with pytest.raises(RetriableError, match="No schema registry answers"):
        ours.from_connect("t", s.STRING, "foo")
    memory.gone = False
    assert ours.from_connect("t", s.STRING, "foo") is not None


def test_bytes_that_are_no_record_of_a_registry_are_told() -> None:
    with pytest.raises(DataError, match="the first byte is 123"):
        converter(Memory()).to_connect("t", b'{"a": 1}')


def test_properties_that_are_not_known_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"no property scrub\.invalid\.names"):
        converter(Memory(), scrub_invalid_names="true")
    with pytest.raises(ConfigError, match="TopicNameStrategy, RecordNameStrategy"):
        converter(Memory(), value_subject_name_strategy="Mine")
    config = {
        "name": "x", "connector.class": "FileStreamSource", "topic": "t",
        "value.converter": "io.confluent.connect.avro.AvroConverter", "value.converter.scrub.invalid.names": "true",
    }  # fmt: skip
    found = validate(Catalog(installed=False), config).values
    assert found["value.converter.schema.registry.url"].errors == [
        'Missing required configuration "value.converter.schema.registry.url" which has no default value.'
    ]
    assert "scrub.invalid.names" in found["value.converter.scrub.invalid.names"].errors[0]


def test_the_converter_is_found_under_all_its_names() -> None:
    catalog = Catalog(installed=False)
    for name in ("io.confluent.connect.avro.AvroConverter", "AvroConverter", "Avro"):
        assert catalog.find(name, Kind.CONVERTER).cls is AvroConverter
