"""What `tests/unit/schemas/test_protobuf_options.py` and `tests/compat/test_protoc_descriptors.py` both need: the tests
that hold our descriptors against protoc's.
"""

from typing import Final

from google.protobuf import descriptor_pb2

USING: Final = 'syntax = "proto3"; package shop.use; import "options.proto"; import "options2.proto"; import "confluent/meta.proto"; '


def _on_a_field(options: str) -> str:
    return f"message M {{ string a = 1 [{options}]; }}"


# What protoc refuses (each of these is held against it), and what we say.
REFUSED: Final = [
    (_on_a_field("(nobody.knows) = 1"), "the extension nobody.knows is not defined here or imported"),
    (_on_a_field("nobody = 1"), "google.protobuf.FieldOptions has no field nobody"),
    (_on_a_field("(options.i32) = 3000000000"), "from -2147483648 to 2147483647"),
    (_on_a_field("(options.i32) = 1.5"), "a whole number"),
    (_on_a_field('(options.i32) = "1"'), "does not stand in quotes"),
    (_on_a_field("(options.u64) = -1"), "from 0 to"),
    (_on_a_field("(options.text) = 1"), "stands in quotes"),
    (_on_a_field("(options.text) = { }"), "does not stand in braces"),
    (_on_a_field('(options.text) = "\\x80"'), "not UTF-8"),
    (_on_a_field("(options.yes) = 1"), "true or false"),
    (_on_a_field("(options.yes) = True"), "true or false"),
    (_on_a_field("(options.level) = NONE"), "has no value 'NONE'"),
    (_on_a_field("(options.level) = 3"), "has no value '3'"),
    (_on_a_field("(options.fl) = x"), "a number"),
    (_on_a_field("(options.db) = infinity"), "a number"),
    (_on_a_field("(options.rule) = 3"), "it is a message"),
    (_on_a_field("(options.rule) = { nobody: 1 }"), "shop.options.Rule has no field 'nobody'"),
    (_on_a_field("(options.rule) = { text: 1 }"), "stands in quotes"),
    (_on_a_field('(options.rule) = { text: "a" text: "b" }'), "is there twice"),
    (_on_a_field("(options.rule) = { on: true share: 1 }"), "of one oneof"),
    (_on_a_field("(options.rule) = { inner: 3 }"), "stands in braces"),
    (_on_a_field("(options.rule) = { text { } }"), "is not a message"),
    (_on_a_field("(options.rule) = { maybe: 3000000000 }"), "from -2147483648"),
    (_on_a_field("(options.rule) = { share: 0x10 }"), "a number"),
    (_on_a_field("(options.rule) = { any { [type.googleapis.com/no.Such] { } } }"), "is not a message that is defined"),
    (_on_a_field("(shop.two.two) = { zero: 1 }"), "is required"),
    (_on_a_field('(options.rule) = { text: "a" }, (options.rule).text = "b"'), "set already, as a whole"),
    (_on_a_field('(options.rule).text = "b", (options.rule) = { text: "a" }'), "set already"),
    (_on_a_field("(options.i32) = 1, (options.i32) = 1"), "set already"),
    (_on_a_field("deprecated = true, deprecated = true"), "set already"),
    (_on_a_field('(options.rule).text.x = "b"'), "text is not a message"),
    (_on_a_field('(options.rules).text = "b"'), "is repeated"),
    (_on_a_field("(options.rule).limits = 3"), "it is a map"),
    (_on_a_field("(options.message_rule) = {}"), "does not extend google.protobuf.FieldOptions"),
    (_on_a_field('(options.rule).inner.(shop.two.ext) = "x"'), "does not extend shop.options.Rule"),
    ("option optimize_for = FAST;", "has no value 'FAST'"),
    ("option uninterpreted_option = { };", "has no field uninterpreted_option"),
    ('message M { option (confluent.field_meta).doc = "x"; }', "does not extend google.protobuf.MessageOptions"),
    ("message M { option features.field_presence = EXPLICIT; }", "only editions have features"),
]


def without_usual_json_names(file: descriptor_pb2.FileDescriptorProto) -> None:
    """protoc writes those that follow from the name into descriptors, and leaves them out of generated classes."""
    fields, pending = list(file.extension), list(file.message_type)
    while pending:
        message = pending.pop()
        fields += [*message.field, *message.extension]
        pending += message.nested_type
    for field in fields:
        first, *rest = field.name.split("_")
        if field.json_name == first + "".join(each[:1].upper() + each[1:] for each in rest):
            field.ClearField("json_name")
