"""Connect's values as ConnectOracle.java has them, random records, and random transforms with fitting configs."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from random import Random
from typing import Any

from headwater.connect.data import schema as s
from headwater.connect.data.java_text import to_float32
from headwater.connect.data.logical import (
    days_to_date,
    decimal_of,
    millis_of,
    millis_to_time,
    millis_to_timestamp,
    scale_of_value,
    unscaled,
)
from headwater.connect.data.record import ConnectRecord, Header, SinkRecord
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.struct import Struct
from headwater.connect.data.validation import with_default

# shorter in newer JVMs: 3.0e10f is 3.0000001E10 in Java 17
FRACTIONS = (0.0, -0.0, 0.5, 1.0, -1.25, 65536.0, 1e-5, 123456.789, 9999999.0, 1e7, 0.001, 100.0, 1e21)
TEXTS = (
    "",
    "a",
    "true",
    "12",
    "-7",
    "1.5",
    "x y",
    'quote"d',
    "back\\slash",
    "é",
    "2020-02-29",
    "tab\t",
    "\x01",
    "1583020800000",
)
NAMES = ("a", "b", "c", "d.e", "ts")


def encode_schema(schema: Schema | None) -> Any:
    if schema is None:
        return None
    made: dict[str, Any] = {
        "type": schema.type.name,
        "optional": schema.optional,
        "name": schema.name,
        "version": schema.version,
        "doc": schema.doc,
        "parameters": None if schema.parameters is None else dict(schema.parameters),
        "default": encode_value(schema.default),
    }
    if schema.type is Type.STRUCT:
        made["fields"] = [[each.name, encode_schema(each.schema)] for each in schema.fields]
    if schema.type is Type.MAP:
        made["keys"] = encode_schema(schema.key_schema)
    if schema.type in (Type.MAP, Type.ARRAY):
        made["values"] = encode_schema(schema.value_schema)
    return made


def encode_value(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, bool):
        return ["b", value]
    if isinstance(value, int):
        return ["i", str(value)]
    if isinstance(value, float):
        return ["f", repr(float(value)).replace("inf", "Infinity").replace("nan", "NaN")]
    if isinstance(value, str):
        return ["s", value]
    if isinstance(value, bytes):
        return ["x", value.hex()]
    if isinstance(value, date | time | datetime):
        return ["d", millis_of(value)]
    if isinstance(value, Decimal):
        return ["n", str(unscaled(value)), scale_of_value(value)]
    if isinstance(value, list):
        return ["l", [encode_value(each) for each in value]]
    if isinstance(value, dict):
        return ["m", [[encode_value(key), encode_value(each)] for key, each in value.items()]]
    assert isinstance(value, Struct)
    return ["t", [encode_value(value.get_without_default(each.name)) for each in value.schema.fields]]


def encode_record(record: ConnectRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "keySchema": encode_schema(record.key_schema),
        "key": encode_value(record.key),
        "valueSchema": encode_schema(record.value_schema),
        "value": encode_value(record.value),
        "timestamp": record.timestamp_ms,
        "headers": [
            {"key": each.key, "schema": encode_schema(each.schema), "value": encode_value(each.value)}
            for each in record.headers
        ],
    }


def normal(answer: Any) -> Any:
    """Maps in an order of their own, floats as floats, whole numbers without their width."""
    if isinstance(answer, dict):
        return {key: normal(each) for key, each in answer.items()}
    if isinstance(answer, list):
        if len(answer) == 2 and answer[0] == "m":
            return ["m", sorted((normal(each) for each in answer[1]), key=repr)]
        if len(answer) == 2 and answer[0] == "f":
            return ["f", repr(float(answer[1].replace("Infinity", "inf")))]
        return [normal(each) for each in answer]
    return answer


class Records:
    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)

    def schema(self, depth: int = 0) -> Schema:
        kinds = [
            *(Type if depth < 2 else [each for each in Type if each not in (Type.ARRAY, Type.MAP, Type.STRUCT)]),
            "date",
            "time",
            "timestamp",
            "decimal",
        ]
        kind = self.dice.choice(kinds)
        optional = self.dice.random() < 0.5
        if kind == Type.ARRAY:
            made = s.array(self.schema(depth + 1), optional=optional)
        elif kind == Type.MAP:
            made = s.map_of(s.STRING, self.schema(depth + 1), optional=optional)
        elif kind == Type.STRUCT:
            return self.struct_schema(depth + 1, optional=optional)
        elif kind == "decimal":
            made = s.decimal_schema(self.dice.choice([0, 2]), optional=optional)
        elif isinstance(kind, Type):
            made = Schema(kind, optional)
        else:
            logical = {"date": s.DATE_SCHEMA, "time": s.TIME_SCHEMA, "timestamp": s.TIMESTAMP_SCHEMA}[kind]
            made = logical.as_optional() if optional else logical
        if depth and self.dice.random() < 0.2 and made.type not in (Type.ARRAY, Type.MAP):
            made = with_default(made, self.value(made, required=True))
        return made

    def struct_schema(self, depth: int = 0, *, optional: bool = False) -> Schema:
        names = self.dice.sample(NAMES, self.dice.randint(1, 4))
        version, doc = self.dice.choice([(None, None), (3, "of a test")])
        return s.struct(
            [(each, self.schema(depth + 1)) for each in names],
            optional=optional,
            name=self.dice.choice([None, "my.Name"]),
            version=version,
            doc=doc,
            parameters=self.dice.choice([None, {"p": "1", "a": "2"}]),
        )

    def value(self, schema: Schema, *, required: bool = False) -> Any:
        dice = self.dice
        if schema.optional and not required and dice.random() < 0.3:
            return None
        match schema.name:
            case s.DECIMAL:
                return decimal_of(dice.randint(-(10**6), 10**6), int((schema.parameters or {})["scale"]))
            case s.DATE:
                return days_to_date(dice.randint(-1000, 20000))
            case s.TIME:
                return millis_to_time(dice.randrange(86_400_000))
            case s.TIMESTAMP:
                return millis_to_timestamp(dice.choice([0, dice.randrange(10**12), dice.randrange(20000) * 86_400_000]))
        match schema.type:
            case Type.BOOLEAN:
                return dice.random() < 0.5
            case Type.STRING:
                return dice.choice(TEXTS)
            case Type.BYTES:
                return dice.randbytes(dice.randint(0, 5))
            case Type.FLOAT32:
                return to_float32(dice.choice(FRACTIONS))
            case Type.FLOAT64:
                return dice.choice(FRACTIONS)
            case Type.ARRAY:
                assert schema.value_schema is not None
                return [self.value(schema.value_schema) for _ in range(dice.randint(0, 3))]
            case Type.MAP:
                assert schema.value_schema is not None
                return {key: self.value(schema.value_schema) for key in dice.sample(TEXTS, dice.randint(0, 3))}
            case Type.STRUCT:
                made = Struct(schema)
                for field in schema.fields:
                    found = self.value(field.schema)
                    if found is not None:
                        made.put(field.name, found)
                return made
        bits = {Type.INT8: 7, Type.INT16: 15, Type.INT32: 31, Type.INT64: 63}[schema.type]
        return dice.choice([0, 1, -1, (1 << bits) - 1, -(1 << bits), dice.randrange(1 << min(bits, 45))])

    def plain(self, depth: int = 0) -> Any:
        """A value without a schema."""
        dice = self.dice
        kind = dice.randrange(8 if depth < 2 else 6)
        if kind == 6:
            return [self.plain(depth + 1) for _ in range(dice.randint(0, 2))]
        if kind == 7:
            return self.plain_map(depth + 1)
        simple = (
            None,
            dice.random() < 0.5,
            dice.randrange(-(10**12), 10**12),
            dice.choice(FRACTIONS),
            dice.choice(TEXTS),
            dice.randbytes(3),
        )
        return simple[kind]

    def plain_map(self, depth: int = 0) -> dict[str, Any]:
        return {name: self.plain(depth + 1) for name in self.dice.sample(NAMES, self.dice.randint(0, 4))}

    def part(self) -> tuple[Schema | None, Any]:
        kind = self.dice.random()
        if kind < 0.45:
            schema = self.struct_schema(optional=self.dice.random() < 0.2)
            return schema, self.value(schema)
        if kind < 0.8:
            return None, self.plain_map()
        if kind < 0.9:
            schema = self.schema()
            return schema, self.value(schema)
        return None, self.plain()

    def record(self) -> SinkRecord:
        key_schema, key = self.part()
        value_schema, value = self.part()
        headers = tuple(
            Header(name, s.STRING, self.dice.choice(TEXTS)) for name in self.dice.sample(NAMES, self.dice.randint(0, 2))
        )
        return SinkRecord(
            topic=self.dice.choice(["orders", "a-b.c", "topic_1"]),
            partition=self.dice.randrange(4),
            key_schema=key_schema,
            key=key,
            value_schema=value_schema,
            value=value,
            timestamp_ms=self.dice.choice([None, 0, self.dice.randrange(10**12)]),
            headers=headers,
            offset=self.dice.randrange(10**9),
        )

    def step(self) -> dict[str, Any]:
        name, config = self._transform()
        made = {"class": f"org.apache.kafka.connect.transforms.{name}", "config": config}
        if self.dice.random() < 0.3 or name == "Filter":
            predicate, of = self.dice.choice(
                [
                    ("HasHeaderKey", {"name": "a"}),
                    ("RecordIsTombstone", {}),
                    ("TopicNameMatches", {"pattern": "orders|top.*"}),
                ]
            )
            made["predicate"] = {
                "class": f"org.apache.kafka.connect.transforms.predicates.{predicate}",
                "config": of,
                "negate": self.dice.random() < 0.5,
            }
        return made

    def _transform(self) -> tuple[str, dict[str, str]]:
        dice = self.dice
        fields = dice.sample(NAMES, dice.randint(1, 2))
        part = dice.choice(["$Key", "$Value"])
        types = ["int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string"]
        keep = {"replace.null.with.default": dice.choice(["true", "false"])}
        choices: list[tuple[str, dict[str, str]]] = [
            (f"Cast{part}", {"spec": ",".join(f"{each}:{dice.choice(types)}" for each in fields), **keep}),
            (f"Cast{part}", {"spec": dice.choice(types)}),
            ("DropHeaders", {"headers": ",".join(fields)}),
            (f"ExtractField{part}", {"field": fields[0], **keep}),
            (
                f"ExtractField{part}",
                {"field": dice.choice(["a.b", "`d.e`", "c.`d.e`", "a.b.c", "ts"]), "field.syntax.version": "v2"},
            ),
            ("Filter", {}),
            (f"Flatten{part}", {"delimiter": dice.choice([".", "_"])}),
            (
                f"HeaderFrom{part}",
                {
                    "fields": ",".join(fields),
                    "headers": ",".join(f"h{each}" for each in fields),
                    "operation": dice.choice(["move", "copy"]),
                    **keep,
                },
            ),
            (f"HoistField{part}", {"field": fields[0]}),
            (
                f"InsertField{part}",
                {
                    "topic.field": "t!",
                    "partition.field": "p?",
                    "offset.field": "o",
                    "timestamp.field": "when",
                    "static.field": "fixed",
                    "static.value": "v",
                    **keep,
                },
            ),
            (f"InsertField{part}", {"timestamp.field": "when!"}),
            (
                "InsertHeader",
                {
                    "header": "h",
                    "value.literal": dice.choice(
                        ["5", "1.5", "true", "text", "[1, 2]", '{"a": 300}', "2020-02-29", "99999999999"]
                    ),
                },
            ),
            (f"MaskField{part}", {"fields": ",".join(fields), **keep}),
            (f"MaskField{part}", {"fields": ",".join(fields), "replacement": dice.choice(["1", "xx", "300", "1.5"])}),
            ("RegexRouter", {"regex": "(.*)r(.*)", "replacement": "$2-$1x"}),
            (f"ReplaceField{part}", {"exclude": fields[0], "renames": f"{fields[-1]}:new", **keep}),
            (f"ReplaceField{part}", {"include": ",".join(fields)}),
            (f"SetSchemaMetadata{part}", {"schema.name": "other", "schema.version": "7", **keep}),
            (
                f"TimestampConverter{part}",
                {
                    "field": dice.choice(["", *fields]),
                    "target.type": dice.choice(["unix", "Date", "Time", "Timestamp"]),
                    "unix.precision": dice.choice(["seconds", "milliseconds", "microseconds", "nanoseconds"]),
                    "format": "yyyy-MM-dd",
                    **keep,
                },
            ),
            (
                f"TimestampConverter{part}",
                {
                    "field": fields[0],
                    "target.type": "string",
                    "format": dice.choice(
                        ["yyyy-MM-dd HH:mm:ss.SSS", "EEE, d MMM yy hh:mm a", "yyyyMMdd'T'HHmmssX", "DDD k K"]
                    ),
                },
            ),
            ("TimestampRouter", {"topic.format": "${topic}_${timestamp}", "timestamp.format": "yyyy_MM"}),
            ("ValueToKey", {"fields": ",".join(fields), **keep}),
        ]
        return dice.choice(choices)


UTC_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
