"""From Connect to Avro: the schema as Avro's JSON, and values as what Avro's encoder takes. Pure.

Optional schemas are unions with null: null first, or last where there is a default, which must be of the first branch.
Maps whose keys are not plain strings are arrays of records of a key and a value. int8 and int16 are ints that say so.
What Avro has no place for (names, versions, docs, parameters, defaults) stands in properties that begin with
`connect.`, in Confluent's order.
"""

from typing import Any, Final

from headwater.connect.converters.avro import names
from headwater.connect.converters.avro.names import AvroOptions, has_string_keys, is_enum
from headwater.connect.data import logical
from headwater.connect.data import schema as s
from headwater.connect.data.java_text import java_float
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.validation import fits, type_of
from headwater.connect.errors import DataError

_KINDS: Final = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
    Type.ARRAY: "array",
    Type.MAP: "map",
}
_LOGICAL: Final = {s.DATE: "date", s.TIME: "time-millis", s.TIMESTAMP: "timestamp-millis"}


def avro_schema(schema: Schema | None, options: AvroOptions | None = None) -> Any:
    """Avro's schema as JSON's objects; without a schema, the one for anything."""
    return names.ANYTHING if schema is None else _Writer(options or AvroOptions()).node(schema)


class _Writer:
    """One schema; a named type is written out once."""

    def __init__(self, options: AvroOptions) -> None:
        self._options = options
        self._written: dict[str, Schema] = {}
        self._entries: dict[Schema, str] = {}
        self._unnamed: dict[Schema, str] = {}

    def node(self, schema: Schema) -> Any:
        if schema.type is Type.STRUCT and schema.name == names.UNION:
            branches = [self._base(each.schema.changed(optional=False)) for each in schema.fields]
            return ["null", *branches] if schema.optional else branches
        base = self._base(schema.changed(optional=False) if schema.optional else schema)
        if not schema.optional:
            return base
        return ["null", base] if schema.default is None else [base, "null"]

    def _base(self, schema: Schema) -> Any:
        match schema.type:
            case Type.STRUCT:
                return self._record(schema)
            case Type.ARRAY:
                made: dict[str, Any] = {"type": "array", "items": self.node(_there(schema.value_schema))}
            case Type.MAP if has_string_keys(schema):
                made = {"type": "map", "values": self.node(_there(schema.value_schema))}
            case Type.MAP:
                made = {"type": "array", "items": self._entry(schema)}
            case Type.STRING if self._options.enhanced and is_enum(schema):
                return self._enum(schema)
            case _:
                made = {"type": _KINDS[schema.type]}
        made |= self._properties(schema)
        return made if len(made) > 1 else made["type"]

    def _record(self, schema: Schema) -> Any:
        name = schema.name or self._default_name(schema)
        if self._known(name, schema):
            return name
        parameters = schema.parameters or {}
        made = _named("record", name)
        if names.RECORD_DOC in parameters:
            made["doc"] = parameters[names.RECORD_DOC]
        made["fields"] = [
            self._field(each.name, each.schema, parameters.get(names.FIELD_DOC + each.name)) for each in schema.fields
        ]
        return made | self._properties(schema)

    def _default_name(self, schema: Schema) -> str:
        number = len(self._unnamed) + 1
        return self._unnamed.setdefault(schema, names.DEFAULT_NAME + (str(number) if number > 1 else ""))

    def _known(self, name: str, schema: Schema) -> bool:
        if name not in self._written:
            self._written[name] = schema
            return False
        if self._written[name] == schema:
            return True
        raise DataError(f"Two different schemas have the name {name}: Avro knows one type by a name")

    def _field(self, name: str, schema: Schema, doc: str | None = None) -> dict[str, Any]:
        made: dict[str, Any] = {"name": name, "type": self.node(schema)}
        if doc is not None:
            made["doc"] = doc
        if schema.default is not None:
            made["default"] = avro_default(schema, schema.default)
        elif schema.optional:
            made["default"] = None
        return made

    def _entry(self, schema: Schema) -> Any:
        """The record of a key and a value. A second one that is different has a number, and a property that says what
        it is.
        """
        number = len(self._entries) + 1
        given = schema.name or f"{names.NAMESPACE}.{names.MAP_ENTRY}" + (str(number) if number > 1 else "")
        shape = s.map_of(_there(schema.key_schema), _there(schema.value_schema)).changed(name=schema.name)
        if shape in self._entries:
            return self._entries[shape]
        self._entries[shape] = given
        made = _named("record", given)
        made["fields"] = [
            self._field("key", _there(schema.key_schema)),
            self._field("value", _there(schema.value_schema)),
        ]
        if given != f"{names.NAMESPACE}.{names.MAP_ENTRY}":
            made[names.INTERNAL_TYPE] = names.MAP_ENTRY
        return made

    def _enum(self, schema: Schema) -> Any:
        parameters = schema.parameters or {}
        name = parameters[names.ENUM]
        if self._known(name, schema):
            return name
        simple = name.rpartition(".")[2]
        made = _named("enum", name)
        if names.ENUM_DOC + simple in parameters:
            made["doc"] = parameters[names.ENUM_DOC + simple]
        made["symbols"] = [value for key, value in parameters.items() if key.startswith(f"{names.ENUM}.")]
        if names.ENUM_DEFAULT + simple in parameters:
            made["default"] = parameters[names.ENUM_DEFAULT + simple]
        return made | self._properties(schema)

    def _properties(self, schema: Schema) -> dict[str, Any]:
        parameters = schema.parameters or {}
        made: dict[str, Any] = {}
        if schema.name == s.DECIMAL:
            made |= {"scale": logical.scale_of(schema), "precision": precision_of(schema)}
        if self._options.metadata:
            made |= _metadata(schema)
        if schema.name == s.DECIMAL and 0 <= made["scale"] <= made["precision"]:
            made["logicalType"] = "decimal"
        elif schema.name in _LOGICAL:
            made["logicalType"] = _LOGICAL[schema.name]
        return made | {key: value for key, value in parameters.items() if key.startswith("avro")}


def _metadata(schema: Schema) -> dict[str, Any]:
    made: dict[str, Any] = {}
    parameters = {key: value for key, value in (schema.parameters or {}).items() if key != names.FIELD_DEFAULT}
    if schema.doc is not None:
        made["connect.doc"] = schema.doc
    if schema.version is not None:
        made["connect.version"] = schema.version
    if parameters:
        made["connect.parameters"] = parameters
    if schema.default is not None and names.FIELD_DEFAULT not in (schema.parameters or {}):
        made["connect.default"] = avro_default(schema, schema.default)
    if schema.name is not None:
        made["connect.name"] = schema.name
    if schema.type in (Type.INT8, Type.INT16):
        made["connect.type"] = schema.type.value
    return made


def _named(kind: str, name: str) -> dict[str, Any]:
    namespace, _, simple = name.rpartition(".")
    return {"type": kind, "name": simple, "namespace": namespace}


def _there(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("An array or map without a schema of what is in it has no Avro schema")
    return schema


def precision_of(schema: Schema) -> int:
    given = (schema.parameters or {}).get(names.PRECISION, str(names.PRECISION_DEFAULT))
    if not given.isdecimal():
        raise DataError(f"Invalid {names.PRECISION} in a Decimal schema: {given}")
    return int(given)


def avro_default(schema: Schema, value: Any) -> Any:
    """A default as it stands in Avro's JSON: bytes as text of the characters 0 to 255."""
    if value is None:
        return None
    stored = _stored(schema, value)
    match schema.type:
        case Type.BYTES:
            return bytes(stored).decode("latin-1")
        case Type.FLOAT32:
            return float(java_float(stored))
        case Type.ARRAY:
            return [avro_default(_there(schema.value_schema), each) for each in stored]
        case Type.MAP if has_string_keys(schema):
            return {key: avro_default(_there(schema.value_schema), each) for key, each in stored.items()}
        case Type.MAP:
            keys, values = _there(schema.key_schema), _there(schema.value_schema)
            return [
                {"key": avro_default(keys, key), "value": avro_default(values, each)} for key, each in stored.items()
            ]
        case Type.STRUCT:
            return {each.name: avro_default(each.schema, stored.get(each.name)) for each in schema.fields}
    return stored


def avro_value(schema: Schema | None, value: Any, options: AvroOptions | None = None) -> Any:
    """A value as Avro's encoder takes it: dicts, lists, and (branch, value) in unions."""
    return _anything(value) if schema is None else _value(schema, value, options or AvroOptions())


def _value(schema: Schema, value: Any, options: AvroOptions) -> Any:
    if value is None:
        if not schema.optional:
            raise DataError("Found null value for non-optional schema")
        return None
    stored = _stored(schema, value)
    match schema.type:
        case Type.ARRAY:
            items = _there(schema.value_schema)
            return [_value(items, each, options) for each in stored]
        case Type.MAP:
            keys, values = _there(schema.key_schema), _there(schema.value_schema)
            if has_string_keys(schema):
                return {key: _value(values, each, options) for key, each in stored.items()}
            return [
                {"key": _value(keys, key, options), "value": _value(values, each, options)}
                for key, each in stored.items()
            ]
        case Type.STRUCT:
            return _struct(schema, stored, options)
    return stored


def _struct(schema: Schema, value: Any, options: AvroOptions) -> Any:
    if value.schema is not schema and value.schema.changed(optional=schema.optional, default=schema.default) != schema:
        raise DataError("Mismatching struct schema")
    if schema.name == names.UNION:
        for each in schema.fields:
            found = value.get_without_default(each.name)
            if found is not None:
                return _branch(each.schema, options), _value(each.schema, found, options)
        if schema.optional:
            return None
        raise DataError("None of the fields of a union has a value")
    get = value.get_without_default if options.keep_nulls else value.get
    return {
        each.name: _value(each.schema, get(each.name) if each.schema.optional else value.get(each.name), options)
        for each in schema.fields
    }


def _branch(schema: Schema, options: AvroOptions) -> str:
    """The name of the branch of a union."""
    if schema.type is Type.STRUCT:
        return schema.name or names.DEFAULT_NAME
    if options.enhanced and is_enum(schema):
        return (schema.parameters or {})[names.ENUM]
    return "array" if schema.type is Type.MAP and not has_string_keys(schema) else _KINDS[schema.type]


def _stored(schema: Schema, value: Any) -> Any:
    """What a logical value is stored as, after a look at its class."""
    if not fits(schema, value):
        raise DataError(f"Invalid type for {schema.name or schema.type.name}: {type(value).__name__}")
    match schema.name:
        case s.DECIMAL:
            return logical.decimal_to_bytes(schema, value)
        case s.DATE:
            return logical.date_to_days(value)
        case s.TIME:
            return logical.time_to_millis(value)
        case s.TIMESTAMP:
            return logical.timestamp_to_millis(value)
    return value


def _anything(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    kind = type_of(value)
    if kind is None or kind is Type.STRUCT:
        raise DataError(f"Unknown type for data without a schema: {type(value).__name__}")
    if kind is Type.ARRAY:
        return {"array": [_anything(each) for each in value]}
    if kind is Type.MAP:
        return {"map": [{"key": _anything(key), "value": _anything(each)} for key, each in value.items()]}
    return {_KINDS[kind]: value}
