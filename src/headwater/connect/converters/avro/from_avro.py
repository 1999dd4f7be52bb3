"""From Avro to Connect: schemas, defaults and values. Pure.

A union of null and one type is that type, optional; other unions are structs with one optional field for each branch.
Enums are strings whose parameters keep the symbols. A record's fields keep their docs and Avro's defaults as
parameters. A record within itself has no Connect schema and is refused.
"""

import re
from typing import Any, Final

from headwater.connect.converters.avro import names
from headwater.connect.converters.avro.names import AvroOptions, has_string_keys
from headwater.connect.data import logical
from headwater.connect.data import schema as s
from headwater.connect.data.java_text import to_float32
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.struct import Struct
from headwater.connect.data.validation import with_default
from headwater.connect.errors import DataError
from headwater.schemas.avro.types import Array, AvroType, Enum, Map, Named, Record, Union

_PLAIN: Final = {
    "boolean": s.BOOLEAN,
    "bytes": s.BYTES,
    "fixed": s.BYTES,
    "double": s.FLOAT64,
    "float": s.FLOAT32,
    "int": s.INT32,
    "long": s.INT64,
    "string": s.STRING,
}
_LOGICAL: Final = {
    ("int", "date"): s.DATE_SCHEMA,
    ("int", "time-millis"): s.TIME_SCHEMA,
    ("long", "timestamp-millis"): s.TIMESTAMP_SCHEMA,
}
_SMALL: Final = {"int8": s.INT8, "int16": s.INT16}
_UNNAMED: Final = re.compile(re.escape(names.DEFAULT_NAME) + r"\d*")


def connect_schema(
    avro_type: AvroType, options: AvroOptions | None = None, version: int | None = None
) -> Schema | None:
    """None: anything. `version` is the registry's, for a schema that names none itself."""
    if isinstance(avro_type, Named) and avro_type.name == names.ANYTHING_NAME:
        return None
    return _Reader(options or AvroOptions()).schema(avro_type, version=version)


class _Reader:
    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._under_way: set[str] = set()

    def schema(
        self, avro_type: AvroType, *, optional: bool = False, default: Any = None, version: int | None = None
    ) -> Schema:
        if isinstance(avro_type, Union):
            return self._union(avro_type, default)
        made = self._shape(avro_type)
        properties = avro_type.properties
        parameters = dict(made.parameters or {})
        if self._options.metadata:
            parameters |= _parameters(properties)
        parameters |= {key: str(value) for key, value in properties.items() if key.startswith("avro")}
        if default is None:
            default = properties.get("connect.default")
        elif "connect.default" not in properties:
            parameters[names.FIELD_DEFAULT] = "true"
        doc = properties.get("connect.doc") if self._options.metadata else None
        made = made.changed(
            optional=optional,
            name=made.name or self._name(avro_type),
            version=made.version if made.version is not None else _version(properties, version),
            doc=doc if isinstance(doc, str) else None,
            parameters=parameters or None,
        )
        return _with_default(made, avro_type, default)

    def _shape(self, avro_type: AvroType) -> Schema:
        properties = avro_type.properties
        if isinstance(avro_type, Record):
            return self._record(avro_type)
        if isinstance(avro_type, Enum):
            return self._enum(avro_type)
        if isinstance(avro_type, Array):
            if _is_entry(avro_type.items):
                assert isinstance(avro_type.items, Record)
                key, value = (avro_type.items.by_name[each].type for each in ("key", "value"))
                return s.map_of(self.schema(key), self.schema(value))
            return s.array(self.schema(avro_type.items))
        if isinstance(avro_type, Map):
            return s.map_of(s.STRING, self.schema(avro_type.values))
        if avro_type.kind == "null":
            raise DataError("Standalone null schemas are not supported by this converter")
        kind = properties.get("logicalType")
        if avro_type.kind in ("bytes", "fixed") and (kind == "decimal" or properties.get("connect.name") == s.DECIMAL):
            return _decimal(properties)
        found = _LOGICAL.get((avro_type.kind, kind)) if isinstance(kind, str) else None
        if found is None and avro_type.kind == "int" and kind is None and "connect.type" in properties:
            found = _SMALL.get(properties["connect.type"])
            if found is None:
                raise DataError("Connect type annotation for Avro int field is not int8 or int16")
        return found or _PLAIN[avro_type.kind]

    def _record(self, record: Record) -> Schema:
        if record.name in self._under_way:
            raise DataError(f"The record {record.name} contains itself: Connect has no schema for that here")
        self._under_way.add(record.name)
        parameters = {}
        if self._options.metadata and record.doc is not None:
            parameters[names.RECORD_DOC] = record.doc
        fields = []
        for each in record.fields:
            if self._options.metadata and each.doc is not None:
                parameters[names.FIELD_DOC + each.name] = each.doc
            fields.append((each.name, self.schema(each.type, default=each.default if each.has_default else None)))
        self._under_way.discard(record.name)
        return s.struct(fields, parameters=parameters or None)

    def _enum(self, enum: Enum) -> Schema:
        parameters = {}
        if self._options.metadata:
            if enum.doc is not None:
                parameters[names.ENUM_DOC + enum.simple_name] = enum.doc
            if enum.default is not None:
                parameters[names.ENUM_DEFAULT + enum.simple_name] = enum.default
        parameters[names.ENUM] = enum.name
        parameters |= {f"{names.ENUM}.{symbol}": symbol for symbol in enum.symbols}
        return Schema(Type.STRING, parameters=parameters)

    def _union(self, union: Union, default: Any) -> Schema:
        branches = [each for each in union.branches if each.kind != "null"]
        nullable = len(branches) < len(union.branches)
        if nullable and len(branches) == 1:
            return self.schema(branches[0], optional=True)  # an Avro field's default would stand in for its nulls
        fields = [(branch_field(each, self._options), self.schema(each, optional=True)) for each in branches]
        if len(dict(fields)) < len(fields):
            raise DataError("Multiple union schemas map to the Connect union field name")
        made = s.struct(fields, optional=nullable, name=names.UNION)
        return _with_default(made, union, default)

    def _name(self, avro_type: AvroType) -> str | None:
        name = avro_type.properties.get("connect.name")
        if name is None and isinstance(avro_type, Record | Enum):
            name = avro_type.name
        if name is not None and not isinstance(name, str):
            raise DataError(f"Invalid schema name: {name}")
        return None if name is None or _UNNAMED.fullmatch(name) else name


def _with_default(schema: Schema, avro_type: AvroType, default: Any) -> Schema:
    if default is None:
        return schema
    value = default_value(schema, avro_type, default)
    if schema.type is Type.STRUCT:  # checked while it was made; its own schema has no default
        return schema.changed(default=value)
    return with_default(schema, value)


def branch_field(branch: AvroType, options: AvroOptions) -> str:
    """The field of a union's struct that stands for a branch."""
    if isinstance(branch, Record | Enum):
        return branch.name if options.enhanced else branch.simple_name
    return branch.kind


def _is_entry(items: AvroType) -> bool:
    if not isinstance(items, Record):
        return False
    named = items.name == f"{names.NAMESPACE}.{names.MAP_ENTRY}"
    if not named and items.properties.get(names.INTERNAL_TYPE) != names.MAP_ENTRY:
        return False
    if items.by_name.keys() != {"key", "value"}:
        raise DataError("Found map encoded as array of key-value pairs, but array elements do not match the expected format.")  # fmt: skip
    return True


def _decimal(properties: dict[str, Any]) -> Schema:
    scale, precision = properties.get("scale", 0), properties.get("precision")
    if type(scale) is not int:
        raise DataError("scale must be specified and must be a number.")
    made = s.decimal_schema(scale)
    if precision is None or precision == names.PRECISION_DEFAULT:
        return made
    return made.changed(parameters={s.SCALE: str(scale), names.PRECISION: str(precision)})


def _version(properties: dict[str, Any], given: int | None) -> int | None:
    version = properties.get("connect.version", given)
    if version is not None and type(version) is not int:
        raise DataError(f"Invalid Connect version found: {version}")
    return version


def _parameters(properties: dict[str, Any]) -> dict[str, str]:
    found = properties.get("connect.parameters", {})
    if not isinstance(found, dict):
        raise DataError(f"Expected JSON object for schema parameters but found: {found}")
    if any(not isinstance(each, str) for each in found.values()):
        raise DataError("Expected schema parameter values to be strings")
    return found


def default_value(schema: Schema, avro_type: AvroType, value: Any) -> Any:
    """A default of Avro's JSON as Connect's value."""
    if value is None:
        return None
    try:
        return _default(schema, avro_type, value)
    except (AttributeError, KeyError, TypeError, UnicodeEncodeError, ValueError) as error:
        raise DataError(f"Invalid default value in an Avro schema: {value!r:.100}") from error


def _default(schema: Schema, avro_type: AvroType, value: Any) -> Any:
    if isinstance(avro_type, Union):
        branches = [each for each in avro_type.branches if each.kind != "null"]
        if schema.name != names.UNION:
            return default_value(schema, branches[0], value)
        field = schema.fields[0]  # a default is of the first branch
        return Struct(schema, {field.name: default_value(field.schema, branches[0], value)})
    if schema.type is Type.BYTES:
        return _logical(schema, value.encode("latin-1"))
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return float(value) if schema.type is Type.FLOAT64 else to_float32(float(value))
    if isinstance(avro_type, Array) and schema.type is Type.MAP:
        keys, values = _inside(schema)
        entries = avro_type.items
        assert isinstance(entries, Record)
        types = entries.by_name["key"].type, entries.by_name["value"].type
        pairs = [(each["key"], each["value"]) if isinstance(each, dict) else tuple(each) for each in value]
        return {default_value(keys, types[0], key): default_value(values, types[1], each) for key, each in pairs}
    if isinstance(avro_type, Array):
        return [default_value(_inside(schema)[1], avro_type.items, each) for each in value]
    if isinstance(avro_type, Map):
        return {key: default_value(_inside(schema)[1], avro_type.values, each) for key, each in value.items()}
    if isinstance(avro_type, Record):
        made = Struct(schema)
        for each in avro_type.fields:
            inner = _inner(schema, each.name)
            made.put(each.name, default_value(inner, each.type, value.get(each.name, each.default)))
        return made
    return _logical(schema, value)


def _inner(schema: Schema, name: str) -> Schema:
    found = schema.field(name)
    if found is None:
        raise DataError(f"{name} is not a field of {schema}")
    return found.schema


def _inside(schema: Schema) -> tuple[Schema, Schema]:
    assert schema.value_schema is not None
    return schema.key_schema or s.STRING, schema.value_schema


def connect_value(schema: Schema | None, avro_type: AvroType, value: Any, options: AvroOptions | None = None) -> Any:
    """A value as Avro's decoder gives it with `stored`, as Connect's."""
    return _anything(value) if schema is None else _value(schema, avro_type, value, options or AvroOptions())


def _value(schema: Schema, avro_type: AvroType, value: Any, options: AvroOptions) -> Any:
    if value is None:
        return None
    if isinstance(avro_type, Union):
        if schema.name != names.UNION:
            inner = next(each for each in avro_type.branches if each.kind != "null")
            return _value(schema, inner, value, options)
        return _of_union(schema, avro_type, value, options)
    if isinstance(avro_type, Record):
        made = Struct(schema)
        for each in avro_type.fields:
            made.put(each.name, _value(_inner(schema, each.name), each.type, value[each.name], options))
        return made
    if isinstance(avro_type, Array):
        keys, values = _inside(schema)
        if schema.type is not Type.MAP:
            return [_value(values, avro_type.items, each, options) for each in value]
        assert isinstance(avro_type.items, Record) and not has_string_keys(schema)  # noqa: PT018
        types = avro_type.items.by_name
        try:
            return {_value(keys, types["key"].type, each["key"], options): _value(values, types["value"].type, each["value"], options) for each in value}  # fmt: skip
        except TypeError:
            raise DataError("The keys of a map cannot be structs, arrays or maps") from None
    if isinstance(avro_type, Map):
        values = _inside(schema)[1]
        return {key: _value(values, avro_type.values, each, options) for key, each in value.items()}
    return _logical(schema, value)


def _of_union(schema: Schema, union: Union, value: Any, options: AvroOptions) -> Struct:
    branches = [each for each in union.branches if each.kind != "null"]
    if len(branches) == 1:
        branch, found = branches[0], value
    else:
        name, found = value
        branch = next(each for each in branches if (each.name if isinstance(each, Named) else each.kind) == name)
    field = branch_field(branch, options)
    return Struct(schema, {field: _value(_inner(schema, field), branch, found, options)})


def _logical(schema: Schema, value: Any) -> Any:
    match schema.name:
        case s.DECIMAL:
            return logical.bytes_to_decimal(schema, value)
        case s.DATE:
            return logical.days_to_date(value)
        case s.TIME:
            return logical.millis_to_time(value)
        case s.TIMESTAMP:
            return logical.millis_to_timestamp(value)
    return value


def _anything(value: dict[str, Any]) -> Any:
    for kind, found in value.items():
        if found is None:
            continue
        if kind == "array":
            return [_anything(each) for each in found]
        if kind == "map":
            try:
                return {_anything(each["key"]): _anything(each["value"]) for each in found}
            except TypeError:
                raise DataError("The keys of a map cannot be arrays or maps") from None
        return found
    return None
