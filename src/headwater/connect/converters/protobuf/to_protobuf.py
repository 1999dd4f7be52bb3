"""Connect's schemas and values as Protobuf's, by the rules of Confluent's converter. Pure.

A struct is a message; a field's number is its parameter `io.confluent.connect.protobuf.Tag`, else its place. Structs
within it are messages within the message that has them first. int8 and int16 are int32 with a note in
`confluent.field_meta`; the logical types are messages that everybody knows; a struct whose name begins with
`io.confluent.connect.protobuf.Union` is a oneof; a string with the parameter `io.confluent.connect.protobuf.Enum` is an
enum.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from headwater.connect.data import logical
from headwater.connect.data import schema as s
from headwater.connect.data.schema import Schema, Type
from headwater.connect.errors import DataError
from headwater.schemas.protobuf.types import MAP_KEYS

PREFIX: Final = "io.confluent.connect.protobuf."
TAG: Final = f"{PREFIX}Tag"
UNION: Final = f"{PREFIX}Union"
ENUM: Final = f"{PREFIX}Enum"
META: Final = "(confluent.field_meta)"
CONNECT_TYPE: Final = "connect.type"
_DEFAULT_NAME: Final = "ConnectDefault"
_DEPTH_MAX: Final = 60
_BAD: Final = re.compile(r"[^A-Za-z0-9_]")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_SCALARS: Final = {
    Type.INT8: "int32",
    Type.INT16: "int32",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "bool",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_WRAPPERS: Final = {
    "int32": "Int32Value",
    "int64": "Int64Value",
    "float": "FloatValue",
    "double": "DoubleValue",
    "bool": "BoolValue",
    "string": "StringValue",
    "bytes": "BytesValue",
}
_LOGICAL: Final = {
    s.DECIMAL: ("confluent.type.Decimal", "confluent/type/decimal.proto"),
    s.DATE: ("google.type.Date", "google/type/date.proto"),
    s.TIME: ("google.type.TimeOfDay", "google/type/timeofday.proto"),
    s.TIMESTAMP: ("google.protobuf.Timestamp", "google/protobuf/timestamp.proto"),
}


class ProtobufOptions(NamedTuple):
    full_names: bool = False  # enhanced.protobuf.schema.support
    scrub: bool = True  # scrub.invalid.names
    optional_for_nullables: bool = False
    wrapper_for_nullables: bool = False


def is_union(schema: Schema) -> bool:
    return schema.type is Type.STRUCT and (schema.name or "").startswith(UNION)


def scrubbed(name: str, options: ProtobufOptions) -> str:
    """A name that Protobuf takes."""
    if not options.scrub or not name:
        return name
    clean = _BAD.sub("_", name)
    return clean if clean[0].isalpha() else f"x{clean}"


class Printer:
    """The .proto file of one schema."""

    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options
        self._imports: set[str] = set()
        self._unnamed = 0
        self._known: dict[str, Schema] = {}  # messages by the name of their schema
        self._names: dict[int, str] = {}  # of schemas without one, by identity

    def file(self, schema: Schema) -> str:
        if schema.type is not Type.STRUCT or is_union(schema):
            raise DataError(
                f"Unsupported root schema of type {schema.type.name}: Protobuf has messages; the transform HoistField makes a struct"
            )
        package, _, _ = self._name(schema).rpartition(".")
        message = self._message(self._simple(schema), schema, 0)
        imports = "".join(f'import "{path}";\n' for path in sorted(self._imports))
        return f'syntax = "proto3";\n{f"package {package};{chr(10)}" if package else ""}{imports}{message}\n'

    def _name(self, schema: Schema) -> str:
        if schema.name:
            return schema.name
        found = self._names.get(id(schema))
        if found is None:
            self._unnamed += 1
            found = self._names[id(schema)] = f"{_DEFAULT_NAME}{self._unnamed}"
        return found

    def _simple(self, schema: Schema) -> str:
        name = scrubbed(self._name(schema).rpartition(".")[2], self._options)
        if _NAME.fullmatch(name) is None:
            raise DataError(f"{name!r} cannot be the name of a message; scrub.invalid.names=true changes it")
        return name

    def _message(self, name: str, schema: Schema, depth: int) -> str:
        if depth > _DEPTH_MAX:
            raise DataError(f"Structs are within each other more than {_DEPTH_MAX} times")
        inner: list[str] = []
        lines: list[str] = []
        number = 0
        for field in schema.fields:
            if is_union(field.schema):
                lines.append(self._oneof(field.schema, inner, depth))
                continue
            given = (field.schema.parameters or {}).get(TAG)
            if given is None:
                number += 1
            lines.append(self._field(field.name, field.schema, _tag(given, number), inner, depth))
        return f"message {name} {{\n" + "\n".join(dict.fromkeys([*inner, *lines])) + "\n}"

    def _oneof(self, schema: Schema, inner: list[str], depth: int) -> str:
        name = scrubbed((schema.name or "").removeprefix(UNION).removeprefix(".").rpartition(".")[2], self._options)
        lines = []
        for field in schema.fields:
            given = (field.schema.parameters or {}).get(TAG)
            if given is None or field.schema.type in (Type.ARRAY, Type.MAP):
                raise DataError(f"The field {field.name} of a union has no number ({TAG}), or is repeated")
            lines.append(self._field(field.name, field.schema, _tag(given, 0), inner, depth, plain=True))
        return f"oneof {name} {{\n" + "\n".join(lines) + "\n}"

    def _field(
        self, name: str, schema: Schema, number: int, inner: list[str], depth: int, *, plain: bool = False
    ) -> str:
        name = scrubbed(name, self._options)
        if _NAME.fullmatch(name) is None:
            raise DataError(f"{name!r} cannot be the name of a field; scrub.invalid.names=true changes it")
        if schema.type is Type.MAP:
            return self._map_field(name, schema, number, inner, depth)
        label, value = "", schema
        if schema.type is Type.ARRAY:
            assert schema.value_schema is not None
            label, value = "repeated ", schema.value_schema
        elif schema.optional and not plain and self._options.optional_for_nullables:
            label = "optional "
        kind = self._kind(name, value, inner, depth)
        return f"{label}{kind} {name} = {number}{self._meta(value)};"

    def _map_field(self, name: str, schema: Schema, number: int, inner: list[str], depth: int) -> str:
        """A map of Protobuf's, or entries where it has none with such keys: on the wire they are alike."""
        assert schema.key_schema is not None
        assert schema.value_schema is not None
        if schema.value_schema.type in (Type.ARRAY, Type.MAP):
            raise DataError(f"The field {name} is a map of arrays or maps, which Protobuf has not got")
        keys = self._kind("key", schema.key_schema.changed(optional=False), inner, depth)
        if keys in MAP_KEYS:
            return f"map<{keys}, {self._kind('value', schema.value_schema, inner, depth)}> {name} = {number};"
        entry = f"{self._simple(schema)}Entry"
        fields = s.struct([("key", schema.key_schema), ("value", schema.value_schema)])
        inner.append(self._message(entry, fields, depth + 1))
        return f"repeated {entry} {name} = {number};"

    def _kind(self, field: str, schema: Schema, inner: list[str], depth: int) -> str:
        known = _LOGICAL.get(schema.name or "")
        if known is not None:
            self._imports.add(known[1])
            return f".{known[0]}"
        if schema.type is Type.STRUCT:
            return self._struct_kind(field, schema, inner, depth)
        if schema.type in (Type.ARRAY, Type.MAP):
            raise DataError("Array cannot be nested")
        if schema.type is Type.STRING and ENUM in (schema.parameters or {}):
            return self._enum(schema, inner)
        kind = _SCALARS[schema.type]
        if self._options.wrapper_for_nullables and schema.optional:
            self._imports.add("google/protobuf/wrappers.proto")
            return f".google.protobuf.{_WRAPPERS[kind]}"
        return kind

    def _struct_kind(self, field: str, schema: Schema, inner: list[str], depth: int) -> str:
        name = self._simple(schema)
        if name == field:  # a message and a field cannot have one name
            name += "Message"
        bare = schema.changed(optional=False, parameters=None)
        before = self._known.get(name)
        if before is not None and before != bare:
            raise DataError(f"Two schemas are called {name}")
        self._known[name] = bare
        inner.append(self._message(name, schema, depth + 1))
        return name

    def _enum(self, schema: Schema, inner: list[str]) -> str:
        parameters = schema.parameters or {}
        name = scrubbed(parameters[ENUM].rpartition(".")[2], self._options)
        values = sorted((int(number), each.removeprefix(f"{ENUM}.")) for each, number in parameters.items() if each.startswith(f"{ENUM}."))  # fmt: skip
        lines = "\n".join(f"{each} = {number};" for number, each in sorted(values, key=lambda pair: pair[0] != 0))
        inner.append(f"enum {name} {{\n{lines}\n}}")
        return name

    def _meta(self, schema: Schema) -> str:
        params: dict[str, str] = {}
        if schema.name == s.DECIMAL:
            given = schema.parameters or {}
            if "connect.decimal.precision" in given:
                params["precision"] = given["connect.decimal.precision"]
            params["scale"] = str(logical.scale_of(schema))
        elif schema.type in (Type.INT8, Type.INT16):
            params[CONNECT_TYPE] = schema.type.value
        if not params:
            return ""
        self._imports.add("confluent/meta.proto")
        entries = ", ".join(f'{{ key: "{key}", value: "{value}" }}' for key, value in params.items())
        return f" [{META} = {{ params: [{entries}] }}]"


def _tag(given: str | None, number: int) -> int:
    try:
        return number if given is None else int(given)
    except ValueError:
        raise DataError(f"{given!r} is no number of a field ({TAG})") from None


Make = Callable[[Any], Any]


def message_value(schema: Schema, options: ProtobufOptions) -> Callable[[Any], Mapping[str, Any]]:
    """From a struct to what is written: fields by name, without those that are null."""
    fields: list[tuple[str, str, Make | None, Schema]] = []
    for field in schema.fields:
        made = None if is_union(field.schema) else _value(field.schema, options)
        fields.append((field.name, scrubbed(field.name, options), made, field.schema))

    def make(struct: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, written, made, inner in fields:
            value = struct.get(name)
            if value is None:
                if not inner.optional and inner.default is None:
                    raise DataError(
                        f'Invalid value: null used for required field: "{name}", schema type: {inner.type.name}'
                    )
            elif made is None:
                found |= chosen(value, inner, options)
            else:
                found[written] = made(value)
        return found

    return make


def chosen(value: Any, schema: Schema, options: ProtobufOptions) -> dict[str, Any]:
    """The one field of a union that is set."""
    for field in schema.fields:
        inner = value.get(field.name)
        if inner is not None:
            return {scrubbed(field.name, options): _value(field.schema, options)(inner)}
    raise DataError("Cannot find non-null field")


def _value(schema: Schema, options: ProtobufOptions) -> Make:
    if schema.type is Type.STRUCT:
        return message_value(schema, options)
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        item = _value(schema.value_schema, options)
        return lambda items: [item(_present(each)) for each in items]
    if schema.type is Type.MAP:
        return _map_value(schema, options)
    if schema.name == s.TIMESTAMP:
        return lambda time: _utc(logical.millis_to_timestamp(logical.timestamp_to_millis(time)))
    return bytes if schema.type is Type.BYTES and schema.name != s.DECIMAL else lambda value: value


def _map_value(schema: Schema, options: ProtobufOptions) -> Make:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    keys, values = _value(schema.key_schema, options), _value(schema.value_schema, options)
    scalar = _SCALARS.get(schema.key_schema.type) in MAP_KEYS and schema.key_schema.name not in _LOGICAL
    if scalar and ENUM not in (schema.key_schema.parameters or {}):
        return lambda pairs: {keys(_present(key)): values(_present(each)) for key, each in pairs.items()}
    return lambda pairs: [{"key": keys(_present(key)), "value": values(_present(each))} for key, each in pairs.items()]


def _present(value: Any) -> Any:
    if value is None:
        raise DataError("Protobuf has no null within arrays and maps")
    return value


def _utc(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(tzinfo=None)
