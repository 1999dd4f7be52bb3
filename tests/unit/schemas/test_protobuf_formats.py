"""The formats of a Protobuf schema that the registry's API names."""

from headwater.schemas import SchemaType, parse

TEXT = """syntax = "proto2";
import "google/protobuf/descriptor.proto";
import "confluent/meta.proto";
option java_package = "a";
message M {
  option (confluent.message_meta).doc = "kept";
  extensions 100 to 200;
  optional int32 n = 1 [deprecated = true, (mine) = 5];
}
extend google.protobuf.FieldOptions { optional int32 mine = 50000; }
extend M { optional int32 more = 100; }
"""


def test_without_extensions_there_is_nothing_that_needs_them() -> None:
    text = parse(SchemaType.PROTOBUF, TEXT).formatted("ignore_extensions")
    assert "[deprecated = true]" in text
    assert "(confluent.message_meta)" in text
    assert not any(each in text for each in ("extend", "mine", "more"))
    again = parse(SchemaType.PROTOBUF, text)
    assert again.canonical == text
    assert not again.problem


def test_a_format_that_nobody_here_knows_is_the_text_as_it_is_stored() -> None:
    for kind, text in ((SchemaType.PROTOBUF, TEXT), (SchemaType.AVRO, '"int"'), (SchemaType.JSON, "{}")):
        schema = parse(kind, text)
        assert schema.formatted("logical") == schema.formatted("default") == schema.canonical
