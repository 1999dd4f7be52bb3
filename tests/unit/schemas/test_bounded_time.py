"""Schemas that were made to cost time: each of these ran for ever, or for minutes, in an earlier version of what it
goes through.
"""

import json
import time
from typing import Any

import pytest

from headwater.schemas import SchemaError, SchemaType, incompatibilities, parse
from headwater.schemas.json_text import limit_depth
from headwater.schemas.tags import tagged_entities

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize(
    "text", ["[]," * 200 + '"' + "x" * 500_000, "[]," * 200 + '"' + '\\"' * 250_000, "[]," * 200 + '"\\']
)
def test_a_string_without_an_end(text: str) -> None:
    limit_depth(text)
    with pytest.raises(SchemaError):
        parse(SchemaType.AVRO, text)


def test_text_that_is_nearly_base64() -> None:
    with pytest.raises(SchemaError):
        parse(SchemaType.PROTOBUF, "A" + " " * 500_000 + "!")


def test_a_default_within_unions_of_records_that_contain_each_other() -> None:
    value: Any = "this fits nothing"
    for _ in range(60):
        value = {"x": value}
    one = {"type": "record", "name": "One", "fields": [{"name": "x", "type": ["null", "One", "Two"]}]}
    two = {"type": "record", "name": "Two", "fields": [{"name": "x", "type": ["null", one, "Two"]}]}
    last = {"name": "g", "type": ["One", "Two"], "default": value}
    schema = {"type": "record", "name": "Top", "fields": [{"name": "f", "type": two}, last]}
    with pytest.raises(SchemaError, match="fits no branch"):
        parse(SchemaType.AVRO, json.dumps(schema))


def test_many_patterns_and_many_properties() -> None:
    closed = {"type": "object", "additionalProperties": False}
    patterns = json.dumps(
        {**closed, "patternProperties": {f"^a{index}b*$": {"type": "string"} for index in range(2_000)}}
    )
    properties = json.dumps({**closed, "properties": {f"p{index}": {"type": "string"} for index in range(2_000)}})
    with pytest.raises(SchemaError, match="too large to be compared"):
        incompatibilities(parse(SchemaType.JSON, patterns), parse(SchemaType.JSON, properties))


def test_many_files_that_import_all_before_them() -> None:
    messages = " ".join(f"message M{{0}}_{index} {{{{ }}}}" for index in range(50))
    references: dict[str, str] = {}
    for number in range(200):
        imports = " ".join(f'import "{path}";' for path in references)
        references[f"{number}.proto"] = f'syntax = "proto3"; {imports} {messages.format(number)}'
    with pytest.raises(SchemaError, match="too large"):
        parse(SchemaType.PROTOBUF, 'syntax = "proto3"; import "199.proto";', references)


def test_a_ladder_of_records_each_with_two_fields_of_the_one_below() -> None:
    def ladder(leaf: str) -> Any:
        lower: Any = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": leaf}]}
        for number in range(1, 40):
            fields = [{"name": "a", "type": lower}, {"name": "b", "type": f"R{number - 1}"}]
            lower = {"type": "record", "name": f"R{number}", "fields": fields}
        return parse(SchemaType.AVRO, json.dumps(lower))

    (difference,) = incompatibilities(ladder("string"), ladder("int"))
    assert difference.kind == "TYPE_MISMATCH"


def test_a_ladder_of_objects_each_with_two_properties_of_the_one_below() -> None:
    def ladder(leaf: str) -> Any:
        steps: dict[str, Any] = {"s0": {"type": "object", "properties": {"x": {"type": leaf}}}}
        for number in range(1, 40):
            below = {"$ref": f"#/definitions/s{number - 1}"}
            steps[f"s{number}"] = {"type": "object", "properties": {"a": below, "b": below}}
        return parse(SchemaType.JSON, json.dumps({"definitions": steps, "$ref": "#/definitions/s39"}))

    assert incompatibilities(ladder("string"), ladder("string")) == []
    with pytest.raises(SchemaError, match="too large to be compared"):
        incompatibilities(ladder("string"), ladder("number"))


def test_many_changes_under_a_name_as_long_as_a_schema_may_be() -> None:
    def wide(leaf: str) -> Any:
        inner = {"type": "object", "properties": {f"p{number}": {"type": leaf} for number in range(2_000)}}
        return parse(SchemaType.JSON, json.dumps({"type": "object", "properties": {"n" * 500_000: inner}}))

    with pytest.raises(SchemaError, match="too large to be compared"):
        incompatibilities(wide("string"), wide("number"))


def test_a_deep_json_schema_is_compared() -> None:
    def deep(leaf: str) -> Any:
        node: Any = {"type": leaf, "description": "x" * 200_000}
        for _ in range(70):
            node = {"anyOf": [node]}
        return parse(SchemaType.JSON, json.dumps(node))

    assert incompatibilities(deep("string"), deep("string")) == []
    assert incompatibilities(deep("string"), deep("number"))


def filled(piece: str, count: int, *, begin: str = "", end: str = "") -> str:
    """A .proto file with so many of a piece, each with its number in it where `#` stands;
    19000 to 19999 are left out.
    """
    numbers = (number if number < 19_000 else number + 1_000 for number in range(1, count + 1))
    return 'syntax = "proto2"; ' + begin + "".join(piece.replace("#", str(number)) for number in numbers) + end


def cost(text: str) -> float:
    """The processor's seconds, whatever else the machine does."""
    began = time.process_time()
    parse(SchemaType.PROTOBUF, text)
    return time.process_time() - began


OPTIONS_OF_MANY = (
    'import "google/protobuf/descriptor.proto"; extend google.protobuf.MessageOptions { repeated Many many = 50000; }'
    "message Many {" + "".join(f"optional int32 f{number} = {number};" for number in range(1, 5_000)) + "} message M {"
)


@pytest.mark.parametrize(
    ("piece", "begin", "end"),
    [
        ("oneof o#{int32 f#=#;}", "message M {", "}"),
        ("message M#{extensions 1;} extend M#{optional int32 e#=1;}", "", ""),
        ("option (many) = {};", OPTIONS_OF_MANY, "}"),
    ],
    ids=["oneofs", "extensions of as many messages", "options of a message with many fields"],
)
def test_a_long_proto_file_takes_time_by_its_length(piece: str, begin: str, end: str) -> None:
    """Each of something was looked for among all of them: fifty times as long, and more with the length."""
    count = 5_000
    plain = cost(filled("optional group G# = # {}", count, begin="message M {", end="}"))
    assert cost(filled(piece, count, begin=begin, end=end)) < 10 * plain


def test_many_ranges_of_extensions_with_many_options() -> None:
    numbers = ",".join(map(str, range(1, 18_000)))
    options = ",".join(["verification=UNVERIFIED"] * 20_000)
    with pytest.raises(SchemaError, match="too many ranges with too many options"):
        parse(SchemaType.PROTOBUF, f'syntax = "proto2"; message M {{ extensions {numbers} [{options}]; }}')


def test_the_options_of_ranges_are_counted_over_all_statements() -> None:
    """Each statement by itself was within the limit: a schema of a megabyte took ten gigabytes."""
    options = ",".join(["verification=UNVERIFIED"] * 100)
    statements = "".join(
        f"extensions {','.join(map(str, range(at, at + 100)))} [{options}];" for at in range(1, 5_000, 100)
    )
    with pytest.raises(SchemaError, match="too many ranges with too many options"):
        parse(SchemaType.PROTOBUF, f'syntax = "proto2"; message M {{ {statements} }}')


LONG_NAME = "n" * 400_000


@pytest.mark.parametrize(
    ("schema_type", "text"),
    [
        (SchemaType.PROTOBUF, f"package {LONG_NAME};" + "".join(f"message M{each} {{}}" for each in range(100))),
        (SchemaType.PROTOBUF, f"package {'a.' * 1_000}a; message M {{ optional Nowhere x = 1; }}"),
        (SchemaType.PROTOBUF, f"message {'A' * 999} {{ message B {{}} }}"),
        (
            SchemaType.AVRO,
            json.dumps([{"type": "fixed", "name": f"F{each}", "namespace": LONG_NAME, "size": 1} for each in range(2)]),
        ),
        (SchemaType.JSON, json.dumps({"$id": f"http://x/{LONG_NAME}/", "properties": {"a": {"$id": "b"}}})),
        (SchemaType.JSON, json.dumps({"$ref": "./" * 200_000 + "a"})),
    ],
    ids=["package", "package of many parts", "full name", "namespace", "$id", "$ref"],
)
def test_a_name_that_everything_within_repeats(schema_type: SchemaType, text: str) -> None:
    """With as many types within as there is room for, it took gigabytes."""
    with pytest.raises(SchemaError, match=r"more than [12],000 characters"):
        parse(schema_type, text)


@pytest.mark.parametrize("number", ["0x" + "F" * 200_000, "0" + "7" * 200_000, "-0x" + "F" * 200_000])
def test_a_number_with_more_digits_than_python_writes(number: str) -> None:
    with pytest.raises(SchemaError, match="is not from 1 to"):
        parse(SchemaType.PROTOBUF, f'syntax = "proto3"; message M {{ int32 a = {number}; }}')


@pytest.mark.parametrize("number", ["0x" + "F" * 1_000, "-0x" + "F" * 1_000])
def test_an_unknown_option_with_a_number_beyond_every_double(number: str) -> None:
    parsed = parse(SchemaType.PROTOBUF, f'syntax = "proto3"; option (unknown) = {number}; message M {{}}')
    assert parse(SchemaType.PROTOBUF, parsed.formatted("serialized")).name == "M"


def test_a_type_that_is_named_very_often() -> None:
    often = parse(SchemaType.JSON, json.dumps({"type": ["string", "number"] * 40_000}))
    once = parse(SchemaType.JSON, json.dumps({"type": ["string", "number"]}))
    assert incompatibilities(often, once) == incompatibilities(once, often) == []


def test_many_properties_under_a_name_as_long_as_a_schema_may_be() -> None:
    inner = {"properties": {f"p{number}": {"type": "wrong"} if number == 0 else {} for number in range(5_000)}}
    with pytest.raises(SchemaError, match=r"p0: type is one of") as told:
        parse(SchemaType.JSON, json.dumps({"properties": {LONG_NAME: inner}}))
    assert len(str(told.value)) < 1_000


@pytest.mark.parametrize(
    "inner",
    [{"anyOf": [{}] * 100}, {"properties": {}, "definitions": {f"d{number}": {} for number in range(100)}}],
    ids=["choices", "definitions"],
)
def test_tags_of_many_schemas_under_a_name_as_long_as_a_schema_may_be(inner: Any) -> None:
    """Each had a path of its own, of as many characters: gigabytes, for whoever asked for tags."""
    schema = parse(SchemaType.JSON, json.dumps({"properties": {LONG_NAME: inner}}))
    with pytest.raises(SchemaError, match="too long, all together, for tags"):
        tagged_entities(schema)
