"""The .proto files that everyone may import without bringing them: Google's well-known types, and Confluent's three.

Their messages with names, numbers and types, as their public definitions have them; comments and options are left out,
for what is compared are names, numbers and types.
"""

from functools import cache
from typing import Final

from headwater.schemas.protobuf import descriptor_proto
from headwater.schemas.protobuf.parser import parse_file
from headwater.schemas.protobuf.types import File

DESCRIPTOR: Final = "google/protobuf/descriptor.proto"
META: Final = "confluent/meta.proto"
_GOOGLE: Final = 'syntax = "proto3"; package google.protobuf; '
_WRAPPERS: Final = (
    ("Double", "double"),
    ("Float", "float"),
    ("Int64", "int64"),
    ("UInt64", "uint64"),
    ("Int32", "int32"),
    ("UInt32", "uint32"),
    ("Bool", "bool"),
    ("String", "string"),
    ("Bytes", "bytes"),
)
_TYPES: Final = {
    "calendar_period": "enum CalendarPeriod { CALENDAR_PERIOD_UNSPECIFIED = 0; DAY = 1; WEEK = 2; FORTNIGHT = 3; MONTH = 4; QUARTER = 5; HALF = 6; YEAR = 7; }",
    "color": "message Color { float red = 1; float green = 2; float blue = 3; google.protobuf.FloatValue alpha = 4; }",
    "date": "message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    "datetime": "message DateTime { int32 year = 1; int32 month = 2; int32 day = 3; int32 hours = 4; int32 minutes = 5; int32 seconds = 6; int32 nanos = 7; oneof time_offset { google.protobuf.Duration utc_offset = 8; TimeZone time_zone = 9; } } message TimeZone { string id = 1; string version = 2; }",
    "dayofweek": "enum DayOfWeek { DAY_OF_WEEK_UNSPECIFIED = 0; MONDAY = 1; TUESDAY = 2; WEDNESDAY = 3; THURSDAY = 4; FRIDAY = 5; SATURDAY = 6; SUNDAY = 7; }",
    "decimal": "message Decimal { string value = 1; }",
    "expr": "message Expr { string expression = 1; string title = 2; string description = 3; string location = 4; }",
    "fraction": "message Fraction { int64 numerator = 1; int64 denominator = 2; }",
    "interval": "message Interval { google.protobuf.Timestamp start_time = 1; google.protobuf.Timestamp end_time = 2; }",
    "latlng": "message LatLng { double latitude = 1; double longitude = 2; }",
    "money": "message Money { string currency_code = 1; int64 units = 2; int32 nanos = 3; }",
    "month": "enum Month { MONTH_UNSPECIFIED = 0; JANUARY = 1; FEBRUARY = 2; MARCH = 3; APRIL = 4; MAY = 5; JUNE = 6; JULY = 7; AUGUST = 8; SEPTEMBER = 9; OCTOBER = 10; NOVEMBER = 11; DECEMBER = 12; }",
    "phone_number": "message PhoneNumber { message ShortCode { string region_code = 1; string code = 2; } oneof kind { string e164_number = 1; ShortCode short_code = 2; } string extension = 3; }",
    "postal_address": "message PostalAddress { int32 revision = 1; string region_code = 2; string language_code = 3; string postal_code = 4; string sorting_code = 5; string administrative_area = 6; string locality = 7; string sublocality = 8; repeated string address_lines = 9; repeated string recipients = 10; string organization = 11; }",
    "quaternion": "message Quaternion { double x = 1; double y = 2; double z = 3; double w = 4; }",
    "timeofday": "message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",
}  # fmt: skip
_IMPORTS_OF_TYPES: Final = 'import "google/protobuf/wrappers.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/timestamp.proto"; '

TEXTS: Final = {
    "google/protobuf/any.proto": _GOOGLE + "message Any { string type_url = 1; bytes value = 2; }",
    "google/protobuf/duration.proto": _GOOGLE + "message Duration { int64 seconds = 1; int32 nanos = 2; }",
    "google/protobuf/timestamp.proto": _GOOGLE + "message Timestamp { int64 seconds = 1; int32 nanos = 2; }",
    "google/protobuf/empty.proto": _GOOGLE + "message Empty {}",
    "google/protobuf/field_mask.proto": _GOOGLE + "message FieldMask { repeated string paths = 1; }",
    "google/protobuf/source_context.proto": _GOOGLE + "message SourceContext { string file_name = 1; }",
    "google/protobuf/struct.proto": _GOOGLE
    + "message Struct { map<string, Value> fields = 1; } enum NullValue { NULL_VALUE = 0; } message ListValue { repeated Value values = 1; } "
    "message Value { oneof kind { NullValue null_value = 1; double number_value = 2; string string_value = 3; bool bool_value = 4; "
    "Struct struct_value = 5; ListValue list_value = 6; } }",
    "google/protobuf/type.proto": _GOOGLE + 'import "google/protobuf/any.proto"; import "google/protobuf/source_context.proto"; '
    "message Type { string name = 1; repeated Field fields = 2; repeated string oneofs = 3; repeated Option options = 4; SourceContext source_context = 5; "
    "Syntax syntax = 6; string edition = 7; } message Field { Kind kind = 1; Cardinality cardinality = 2; int32 number = 3; string name = 4; "
    "string type_url = 6; int32 oneof_index = 7; bool packed = 8; repeated Option options = 9; string json_name = 10; string default_value = 11; "
    "enum Kind { TYPE_UNKNOWN = 0; TYPE_DOUBLE = 1; TYPE_FLOAT = 2; TYPE_INT64 = 3; TYPE_UINT64 = 4; TYPE_INT32 = 5; TYPE_FIXED64 = 6; TYPE_FIXED32 = 7; "
    "TYPE_BOOL = 8; TYPE_STRING = 9; TYPE_GROUP = 10; TYPE_MESSAGE = 11; TYPE_BYTES = 12; TYPE_UINT32 = 13; TYPE_ENUM = 14; TYPE_SFIXED32 = 15; "
    "TYPE_SFIXED64 = 16; TYPE_SINT32 = 17; TYPE_SINT64 = 18; } enum Cardinality { CARDINALITY_UNKNOWN = 0; CARDINALITY_OPTIONAL = 1; "
    "CARDINALITY_REQUIRED = 2; CARDINALITY_REPEATED = 3; } } message Enum { string name = 1; repeated EnumValue enumvalue = 2; "
    "repeated Option options = 3; SourceContext source_context = 4; Syntax syntax = 5; string edition = 6; } message EnumValue { string name = 1; "
    "int32 number = 2; repeated Option options = 3; } message Option { string name = 1; Any value = 2; } "
    "enum Syntax { SYNTAX_PROTO2 = 0; SYNTAX_PROTO3 = 1; SYNTAX_EDITIONS = 2; }",
    "google/protobuf/api.proto": _GOOGLE + 'import "google/protobuf/source_context.proto"; import "google/protobuf/type.proto"; '
    "message Api { string name = 1; repeated Method methods = 2; repeated Option options = 3; string version = 4; SourceContext source_context = 5; "
    "repeated Mixin mixins = 6; Syntax syntax = 7; string edition = 8; } message Method { string name = 1; string request_type_url = 2; "
    "bool request_streaming = 3; string response_type_url = 4; bool response_streaming = 5; repeated Option options = 6; Syntax syntax = 7; "
    "string edition = 8; } message Mixin { string name = 1; string root = 2; }",
    "google/protobuf/wrappers.proto": _GOOGLE + " ".join(f"message {name}Value {{ {kind} value = 1; }}" for name, kind in _WRAPPERS),
    DESCRIPTOR: descriptor_proto.TEXT,
    META: 'syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto"; '
    "message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; } "
    "extend google.protobuf.FileOptions { Meta file_meta = 1088; } extend google.protobuf.MessageOptions { Meta message_meta = 1088; } "
    "extend google.protobuf.FieldOptions { Meta field_meta = 1088; } extend google.protobuf.EnumOptions { Meta enum_meta = 1088; } "
    "extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }",
    "confluent/type/decimal.proto": 'syntax = "proto3"; package confluent.type; message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }',
    "confluent/type/variant.proto": 'syntax = "proto3"; package confluent.type; message Variant { bytes metadata = 1; bytes value = 2; }',
    **{f"google/type/{name}.proto": f'syntax = "proto3"; package google.type; {_IMPORTS_OF_TYPES}{text}' for name, text in _TYPES.items()},
}  # fmt: skip


@cache
def well_known(path: str) -> File:
    """One of `TEXTS`."""
    file = parse_file(TEXTS[path])
    file.name = path
    return file
