"""Connect's schemas as JSON Schemas and back. Pure.

Optional is `oneOf` null and the type. What JSON cannot tell apart stands in `connect.type`, the order of fields in
`connect.index`, names in `title`, docs in `description`. Maps whose keys are not plain strings are arrays of objects of
a key and a value. A `oneOf` or `anyOf` of several types is a struct with a field for each of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from headwater.connect.converters.avro.names import has_string_keys
from headwater.connect.converters.json_converter import decoded
from headwater.connect.data import schema as s
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.validation import with_default
from headwater.connect.errors import DataError
from headwater.schemas.json_text import compact_json
from headwater.schemas.jsonschema import JsonSchema

NAMESPACE: Final = "io.confluent.connect.json"
ENUM: Final = f"{NAMESPACE}.Enum"
ONE_OF: Final = f"{NAMESPACE}.OneOf"
_NUMBERS: Final = {each.type.value: each for each in (s.INT8, s.INT16, s.INT32, s.INT64, s.FLOAT32, s.FLOAT64)}
_INTEGERS: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)
Convert = Callable[[Schema | None, Any], Any]


@dataclass(frozen=True, slots=True)
class JsonSchemaOptions:
    """`closed`: whether objects of structs allow no other properties. `required`: whether fields count as optional
    where the schema does not list them as required.
    """

    closed: bool = False
    required: bool = False


def json_schema(schema: Schema, to_json: Convert, options: JsonSchemaOptions | None = None) -> dict[str, Any]:
    """`to_json` writes defaults."""
    return _Writer(to_json, options or JsonSchemaOptions()).node(schema)


class _Writer:
    def __init__(self, to_json: Convert, options: JsonSchemaOptions) -> None:
        self._to_json, self._options = to_json, options

    def node(self, schema: Schema, index: int | None = None) -> dict[str, Any]:
        placed = {} if index is None else {"connect.index": index}
        if schema.type is Type.STRUCT and schema.name == ONE_OF:
            branches = [self._base(each.schema) | {"connect.index": each.position} for each in schema.fields]
            return {"oneOf": [{"type": "null"}, *branches] if schema.optional else branches} | placed
        base = self._base(schema)
        return ({"oneOf": [{"type": "null"}, base]} if schema.optional else base) | placed

    def _base(self, schema: Schema) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if schema.name is not None:
            made["title"] = schema.name
        if schema.doc is not None:
            made["description"] = schema.doc
        if schema.default is not None:
            made["default"] = self._to_json(schema, schema.default)
        made |= self._shape(schema)
        if schema.version is not None:
            made["connect.version"] = schema.version
        parameters = {k: v for k, v in (schema.parameters or {}).items() if not k.startswith(NAMESPACE)}
        return made | ({"connect.parameters": parameters} if parameters else {})

    def _shape(self, schema: Schema) -> dict[str, Any]:
        parameters = schema.parameters or {}
        match schema.type:
            case Type.BOOLEAN:
                return {"type": "boolean"}
            case Type.STRING if ENUM in parameters:
                return {"enum": [value for key, value in parameters.items() if key.startswith(f"{ENUM}.")]}
            case Type.STRING:
                return {"type": "string"}
            case Type.BYTES:
                return {"type": "number" if schema.name == s.DECIMAL else "string", "connect.type": "bytes"}
            case Type.ARRAY:
                return {"type": "array", "items": self.node(_there(schema.value_schema))}
            case Type.MAP if has_string_keys(schema):
                values = self.node(_there(schema.value_schema))
                return {"type": "object", "additionalProperties": values, "connect.type": "map"}
            case Type.MAP:
                key, value = self.node(_there(schema.key_schema), 0), self.node(_there(schema.value_schema), 1)
                entry = {"type": "object", "properties": {"key": key, "value": value}}
                return {"type": "array", "items": entry, "connect.type": "map"}
            case Type.STRUCT:
                return self._object(schema)
        return {"type": "integer" if schema.type in _INTEGERS else "number", "connect.type": schema.type.value}

    def _object(self, schema: Schema) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "object"}
        if self._options.closed:
            made["additionalProperties"] = False
        required = [each.name for each in schema.fields if not each.schema.optional]
        if self._options.required and required:
            made["required"] = required
        made["properties"] = {each.name: self.node(each.schema, each.position) for each in schema.fields}
        return made


def _there(schema: Schema | None) -> Schema:
    if schema is None:
        raise DataError("An array or map without a schema of what is in it has no JSON Schema")
    return schema


def connect_schema(
    parsed: JsonSchema, from_json: Convert, options: JsonSchemaOptions | None = None, version: int | None = None
) -> Schema:
    """`from_json` reads defaults. `version` is the registry's, for a schema that names none itself."""
    return _Reader(parsed, from_json, options or JsonSchemaOptions()).schema(parsed.document, version=version)


class _Reader:
    def __init__(self, parsed: JsonSchema, from_json: Convert, options: JsonSchemaOptions) -> None:
        self._documents, self._from_json, self._options = parsed.documents, from_json, options
        self._under_way: set[int] = set()

    def schema(self, given: Any, *, optional: bool = False, version: int | None = None) -> Schema:
        node = self._documents.follow(given)
        if not isinstance(node, dict):
            raise DataError(f"A JSON Schema that is just {str(node).lower()} says nothing of a type")
        if id(node) in self._under_way:
            raise DataError("A JSON Schema contains itself: Connect has no schema for that here")
        self._under_way.add(id(node))
        made = self._one(node, optional, version)
        self._under_way.discard(id(node))
        return made

    def _one(self, node: dict[str, Any], optional: bool, version: int | None) -> Schema:
        branches = _branches(node)
        if branches is not None:
            found = [each for each in branches if not self._is_null(each)]
            nullable = optional or len(found) < len(branches)
            if len(found) == 1:
                return self.schema(found[0], optional=nullable, version=version)
            return self._one_of(found, nullable)
        made = self._shape(node)
        parameters = dict(made.parameters or {}) | _parameters(node)
        own = node.get("connect.version", version)
        made = made.changed(
            optional=optional,
            name=_text(node, "title"),
            version=own if type(own) is int else None,
            doc=_text(node, "description"),
            parameters=parameters or None,
        )
        if node.get("default") is None:
            return made
        value = self._from_json(made, decoded(compact_json(node["default"]).encode()))
        return made.changed(default=value) if made.type is Type.STRUCT else with_default(made, value)

    def _is_null(self, given: Any) -> bool:
        node = self._documents.follow(given)
        return isinstance(node, dict) and node.get("type") == "null"

    def _one_of(self, branches: list[Any], optional: bool) -> Schema:
        fields = [(f"{ONE_OF}.field.{index}", self.schema(each, optional=True)) for index, each in enumerate(branches)]
        return s.struct(fields, optional=optional, name=ONE_OF)

    def _shape(self, node: dict[str, Any]) -> Schema:
        kind, connect = node.get("type"), node.get("connect.type")
        if isinstance(node.get("enum"), list) and kind in (None, "string"):
            symbols = {f"{ENUM}.{each}": str(each) for each in node["enum"]}
            return Schema(Type.STRING, parameters={ENUM: "", **symbols})
        match kind:
            case "boolean":
                return s.BOOLEAN
            case "integer" | "number" | "string" if connect == "bytes":
                return s.BYTES
            case "integer" | "number":
                return _NUMBERS.get(str(connect)) or (s.INT64 if kind == "integer" else s.FLOAT64)
            case "string":
                return s.STRING
            case "array":
                return self._array(node)
            case "object":
                return self._object(node)
        if "properties" in node:
            return self._object(node)
        raise DataError(f"A JSON Schema of the type {kind!r} has no counterpart in Connect")

    def _array(self, node: dict[str, Any]) -> Schema:
        items = self._documents.follow(node.get("items"))
        if not isinstance(items, dict):
            raise DataError("Array schema did not specify the items type")
        if node.get("connect.type") == "map" and isinstance(items.get("properties"), dict):
            keys, values = (items["properties"].get(each) for each in ("key", "value"))
            return s.map_of(self.schema(keys), self.schema(values))
        return s.array(self.schema(items))

    def _object(self, node: dict[str, Any]) -> Schema:
        if node.get("connect.type") == "map":
            return s.map_of(s.STRING, self.schema(node.get("additionalProperties")))
        properties = node.get("properties", {})
        required = node.get("required", [])
        names = list(properties)
        places = {name: _place(properties[name], position) for position, name in enumerate(names)}
        fields = []
        for name in sorted(names, key=lambda each: places[each]):
            lenient = self._options.required and name not in required
            fields.append((name, self.schema(properties[name], optional=lenient)))
        return s.struct(fields)


def _place(node: Any, position: int) -> int:
    index = node.get("connect.index") if isinstance(node, dict) else None
    return index if type(index) is int else position


def _branches(node: dict[str, Any]) -> list[Any] | None:
    """The alternatives of a schema that has several: `oneOf`, `anyOf`, or a list of types."""
    for key in ("oneOf", "anyOf"):
        if isinstance(node.get(key), list):
            return list(node[key])
    if isinstance(node.get("type"), list):
        return [{**node, "type": each} for each in node["type"]]
    if isinstance(node.get("allOf"), list):
        if len(node["allOf"]) == 1:
            return list(node["allOf"])
        raise DataError("A JSON Schema with allOf of several schemas has no counterpart in Connect")
    return None


def _parameters(node: dict[str, Any]) -> dict[str, str]:
    found = node.get("connect.parameters", {})
    if not isinstance(found, dict) or any(not isinstance(each, str) for each in found.values()):
        raise DataError("Expected schema parameter values to be strings")
    return found


def _text(node: dict[str, Any], key: str) -> str | None:
    return node[key] if isinstance(node.get(key), str) else None
