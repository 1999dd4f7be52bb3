"""What is fuzzed of schemas: any text to the parsers of Avro, JSON Schema and Protobuf, and any bytes to the reader of
descriptors.

The first byte chooses the format, the second a schema to compare with; the rest is the schema. It is refused with
SchemaError, or it stands: then its canonical text is a schema with the same canonical text, its normalized one
likewise, it is compatible with itself, and whatever else a registry does with a schema ends in an answer or a
SchemaError.
"""

import base64
import contextlib
import functools
import json
from collections.abc import Iterator
from typing import Any

from headwater.schemas import ParsedSchema, SchemaError, SchemaType, check, parse
from headwater.schemas.model import CompatibilityLevel
from headwater.schemas.protobuf import ProtobufSchema
from headwater.schemas.tag_entities import Entity, EntityType
from headwater.schemas.tags import tagged_entities, with_tags
from hostile.support.column_targets import EVERYTHING, NESTED, OLD, PROTO

CHOICES_BYTES = 2
KINDS = (SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF, SchemaType.PROTOBUF)
DESCRIPTOR = 3

AVRO = (
    json.dumps(EVERYTHING),
    json.dumps(NESTED),
    '{"type":"record","name":"a.Node","aliases":["Old"],"doc":"d","confluent:tags":["PII"],"fields":['
    '{"name":"next","type":["null","Node"],"default":null,"aliases":["n"],"order":"ignore"},'
    '{"name":"m","type":{"type":"map","values":["int","string"]},"default":{"k":1}},'
    '{"name":"d","type":{"type":"fixed","name":"F","size":8,"logicalType":"decimal","precision":4,"scale":2}}]}',
    '["null",{"type":"enum","name":"E","symbols":["A","B"],"default":"A"},{"type":"array","items":"bytes","default":[]}]',
)
JSON_SCHEMA = (
    '{"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://x/y","type":"object","required":["a"],'
    '"properties":{"a":{"type":["string","null"],"pattern":"^a+$","confluent:tags":["PII"]},"b":{"$ref":"#/$defs/B"},'
    '"c":{"type":"array","prefixItems":[{"type":"integer","minimum":0}],"items":{"$anchor":"x"}}},'
    '"patternProperties":{"^x":{"enum":[1,"a",null,{"b":[]}]}},"additionalProperties":false,'
    '"$defs":{"B":{"oneOf":[{"const":1},{"$ref":"#"}],"dependentRequired":{"a":["b"]}}}}',
    '{"$schema":"http://json-schema.org/draft-04/schema#","id":"i","definitions":{"a":{"allOf":[{"$ref":"#/definitions/a"},'
    '{"maximum":3,"exclusiveMaximum":true}]}},"items":[{"not":{}},true],"additionalItems":{"format":"date"},"anyOf":[{},{}]}',
    '{"if":{"type":"number","multipleOf":0.1},"then":{"maxLength":2},"else":{"dependencies":{"a":["b"],"c":{}}}}',
    "true",
)
OPTIONS = """syntax = "proto3";
package p;
import "google/protobuf/descriptor.proto";
import "confluent/meta.proto";
message R { string text = 1; repeated int32 n = 2; map<string, R> m = 3; oneof k { bool on = 4; R in = 5; } }
extend google.protobuf.FieldOptions { R rule = 50000; repeated sint32 many = 50001; optional double share = 50002; }
message M {
  option (confluent.message_meta) = { doc: "d" params: [{ key: "a" value: "b" }] tags: "T" };
  string a = 1 [(rule).text = "x", (rule).in.on = true, (many) = -1, (many) = 2, deprecated = true];
  R b = 2 [(rule) = { n: [1, -2] m { key: "k" value { on: false } } in < text: 'y' > }, (share) = -inf];
  reserved 7 to 9, 20; reserved "z";
}
service S { rpc Get (stream M) returns (M) { option deprecated = true; } }
"""
EDITION = """edition = "2023";
option features.field_presence = IMPLICIT;
message M { repeated int32 a = 1 [features.repeated_field_encoding = EXPANDED]; extensions 10 to max; enum E { A = 0; } }
"""
PROTO_TEXTS = (PROTO, OLD, OPTIONS, EDITION)


@functools.cache
def others() -> dict[SchemaType, list[ParsedSchema]]:
    texts = {SchemaType.AVRO: AVRO, SchemaType.JSON: JSON_SCHEMA, SchemaType.PROTOBUF: PROTO_TEXTS}
    return {kind: [parse(kind, text) for text in each] for kind, each in texts.items()}


def seeds() -> list[bytes]:
    found = []
    for number, texts in enumerate((AVRO, JSON_SCHEMA, PROTO_TEXTS)):
        found += [bytes([number, place]) + text.encode() for place, text in enumerate(texts)]
    for place, schema in enumerate(others()[SchemaType.PROTOBUF]):
        assert isinstance(schema, ProtobufSchema)
        found.append(bytes([DESCRIPTOR, place]) + schema.descriptor())
    return found


def schemas(data: bytes) -> None:
    if len(data) <= CHOICES_BYTES:
        return
    number = data[0] % len(KINDS)
    kind = KINDS[number]
    rest = data[CHOICES_BYTES:]
    # JSON can name half of a surrogate pair, so that a text can have one.
    text = base64.b64encode(rest).decode() if number == DESCRIPTOR else rest.decode("utf-8", "surrogateescape")
    try:
        parsed = parse(kind, text)
    except SchemaError:
        return
    _stands(parsed)
    known = others()[kind]
    other = known[data[1] % len(known)]
    for pair in ((parsed, other), (other, parsed)):
        _allowed(check, pair[0], [pair[1]], CompatibilityLevel.FULL)


def _stands(parsed: ParsedSchema) -> None:
    again = parse(parsed.schema_type, parsed.canonical)
    assert again.canonical == parsed.canonical
    normalized = parsed.normalized()
    assert parse(parsed.schema_type, normalized).normalized() == normalized
    assert check(parsed, [parsed], CompatibilityLevel.FULL) == []
    assert check(again, [parsed], CompatibilityLevel.FULL) == []
    _allowed(tagged_entities, parsed)
    _allowed(with_tags, parsed, {Entity("R.a", EntityType.FIELD): ["T"]}, {})
    _allowed(parsed.formatted, "serialized")
    _allowed(parsed.formatted, "resolved")
    if parsed.name is not None:
        assert parsed.name
    if isinstance(parsed, ProtobufSchema):
        assert isinstance(again, ProtobufSchema)
        assert again.problem == parsed.problem
        for each in parsed.file.services:
            for method in each.methods:
                method.has_braces = bool(method.options)  # which the text does not keep where there is nothing in them
        # Messages of entries of maps may stand elsewhere: all fields come before all messages in canonical text.
        assert sorted(again.descriptor("a.proto")) == sorted(parsed.descriptor("a.proto"))


def _allowed(call: object, *arguments: object) -> None:
    assert callable(call)
    with contextlib.suppress(SchemaError):
        call(*arguments)


ODD_VALUES = (
    [],
    {},
    0,
    -1,
    1.5,
    True,
    None,
    "",
    "x",
    "null",
    "#",
    10**400,
    1e308,
    ["int"],
    {"type": "x"},
    "\x00",
    "(",
    [[]],
)
ODD_WORDS = (
    "",
    "{",
    "}",
    "[",
    ";",
    "=",
    "-",
    ".",
    '"x"',
    "0",
    "-1",
    "536870912",
    "1e400",
    "message",
    "map",
    "group",
    "M",
)


def confused(seed: bytes, place: int, choice: int) -> bytes:
    """One value, or one word, of a seed in place of which something stands that may stand elsewhere."""
    head, text = seed[:CHOICES_BYTES], seed[CHOICES_BYTES:].decode("utf-8", "replace")
    if seed[0] == DESCRIPTOR:
        return seed
    if seed[0] == KINDS.index(SchemaType.PROTOBUF):
        words = text.split(" ")
        words[place % len(words)] = ODD_WORDS[choice % len(ODD_WORDS)]
        return head + " ".join(words).encode()
    document = json.loads(text)
    places = list(_places(document))
    if places:
        holder, key = places[place % len(places)]
        holder[key] = ODD_VALUES[choice % len(ODD_VALUES)]
    return head + json.dumps(document).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from _places(value[key])
