"""The names that Confluent's converter gives what Avro and Connect do not have in common."""

from dataclasses import dataclass
from typing import Any, Final

from headwater.connect.data.schema import Schema, Type

NAMESPACE: Final = "io.confluent.connect.avro"
DEFAULT_NAME: Final = (
    f"{NAMESPACE}.ConnectDefault"  # of a struct without a name; the next ones are ConnectDefault2, ...
)
MAP_ENTRY: Final = "MapEntry"
UNION: Final = f"{NAMESPACE}.Union"  # a struct with one field for each branch
ENUM: Final = f"{NAMESPACE}.Enum"  # a parameter of strings that were enums; ENUM.symbol are others
RECORD_DOC: Final = f"{NAMESPACE}.record.doc"
FIELD_DOC: Final = f"{NAMESPACE}.field.doc."
ENUM_DOC: Final = f"{NAMESPACE}.enum.doc."
ENUM_DEFAULT: Final = f"{NAMESPACE}.enum.default."
FIELD_DEFAULT: Final = f"{NAMESPACE}.field.default"  # a parameter: the default is the Avro field's, not Connect's
INTERNAL_TYPE: Final = "connect.internal.type"
PRECISION: Final = "connect.decimal.precision"
PRECISION_DEFAULT: Final = 64

# What has no schema is a record with one field for each type, of which at most one is not null:
# unions cannot refer to themselves.
ANYTHING_NAME: Final = f"{NAMESPACE}.Anything"
ANYTHING: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Anything",
    "namespace": NAMESPACE,
    "fields": [
        *(
            {"name": kind, "type": ["null", kind], "default": None}
            for kind in ("boolean", "bytes", "double", "float", "int", "long", "string")
        ),
        {"name": "array", "type": ["null", {"type": "array", "items": "Anything"}], "default": None},
        {
            "name": "map",
            "type": [
                "null",
                {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": MAP_ENTRY,
                        "fields": [{"name": "key", "type": "Anything"}, {"name": "value", "type": "Anything"}],
                    },
                },
            ],
            "default": None,
        },
    ],
}


@dataclass(frozen=True, slots=True)
class AvroOptions:
    """`metadata`: whether names, versions, docs, parameters and defaults of Connect are kept in Avro's schema.
    `enhanced`: whether strings that were enums become enums again, and fields of unions have whole names. `keep_nulls`:
    whether a null in an optional field with a default stays null.
    """

    metadata: bool = True
    enhanced: bool = False
    keep_nulls: bool = False


def is_enum(schema: Schema) -> bool:
    return schema.type is Type.STRING and ENUM in (schema.parameters or {})


def has_string_keys(schema: Schema) -> bool:
    keys = schema.key_schema
    return keys is not None and keys.type is Type.STRING and not keys.optional
