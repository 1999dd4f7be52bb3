"""JSON_SR: columns out of a JSON Schema, a schema out of columns. The rows themselves are the JSON format's, behind the
schema's id.

The schemas that are made are Connect's: every property NULL or its type, with `connect.index` and `connect.type`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from headwater.schemas import ParsedSchema, SchemaType, StoredSchema
from headwater.schemas.jsonschema import JsonSchema
from headwater.sql.formats.json_rows import JsonFormat
from headwater.sql.formats.port import Field, FormatOptions, Row
from headwater.sql.formats.registry.codec import Unsupported, name_of
from headwater.sql.language import types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.types import ArrayType, Base, DecimalType, MapType, StructType, Type

_CONNECT: Final = "org.apache.kafka.connect.data."
_PLAIN: Final[dict[Base, dict[str, Any]]] = {
    Base.BOOLEAN: {"type": "boolean"},
    Base.INTEGER: {"type": "integer", "connect.type": "int32"},
    Base.BIGINT: {"type": "integer", "connect.type": "int64"},
    Base.DOUBLE: {"type": "number", "connect.type": "float64"},
    Base.STRING: {"type": "string"},
    Base.BYTES: {"type": "string", "connect.type": "bytes"},
    Base.DATE: {"type": "integer", "title": f"{_CONNECT}Date", "connect.version": 1, "connect.type": "int32"},
    Base.TIME: {"type": "integer", "title": f"{_CONNECT}Time", "connect.version": 1, "connect.type": "int32"},
    Base.TIMESTAMP: {"type": "integer", "title": f"{_CONNECT}Timestamp", "connect.version": 1, "connect.type": "int64"},
}
_TITLED: Final = {
    f"{_CONNECT}Date": types.DATE,
    f"{_CONNECT}Time": types.TIME,
    f"{_CONNECT}Timestamp": types.TIMESTAMP,
}
_CONNECT_TYPES: Final = {
    "int8": types.INTEGER, "int16": types.INTEGER, "int32": types.INTEGER, "int64": types.BIGINT,
    "float32": types.DOUBLE, "float64": types.DOUBLE, "bytes": types.BYTES,
}  # fmt: skip
_JSON_TYPES: Final = {
    "integer": types.BIGINT,
    "number": types.DOUBLE,
    "string": types.STRING,
    "boolean": types.BOOLEAN,
}
_DEPTH_MAX: Final = 100


class JsonSchemaCodec:
    schema_type = SchemaType.JSON
    can_unwrap = True

    def schema(self, fields: Sequence[Field], *, wrapped: bool, options: FormatOptions) -> StoredSchema:
        if wrapped:
            shown = _object(fields)
        else:
            shown = {"oneOf": [{"type": "null"}, _shown(fields[0].type)]}
        if options.full_name:
            shown["title"] = options.full_name
        return StoredSchema(json.dumps(shown, separators=(",", ":")), SchemaType.JSON)

    def columns(self, schema: ParsedSchema, *, single: str | None, upper: bool, full_name: str | None) -> list[Field]:
        del full_name
        assert isinstance(schema, JsonSchema)
        made = _Columns(schema, upper)
        if single is not None:
            return [Field(single, made.column_type(schema.document, 0))]
        found = made.column_type(schema.document, 0)
        if not isinstance(found, StructType):
            raise SqlError(
                "Schema returned from schema registry is anonymous type.",
                hint="To use this schema, set 'WRAP_SINGLE_VALUE=false' in the WITH clause properties.",
            )
        return [Field(name, each) for name, each in found.fields]

    def reader(
        self, schema: ParsedSchema, fields: Sequence[Field], *, wrapped: bool, indexes: tuple[int, ...]
    ) -> Callable[[bytes], Row | None]:
        del schema, indexes  # the data says what it is
        return JsonFormat().serde(fields, FormatOptions(wrap_single=wrapped)).deserialize

    def writer(
        self, schema: ParsedSchema, fields: Sequence[Field], *, wrapped: bool, full_name: str | None
    ) -> tuple[Callable[[Row], bytes], tuple[int, ...]]:
        del full_name
        named = _named_as(schema, fields) if wrapped else fields
        return JsonFormat().serde(named, FormatOptions(wrap_single=wrapped)).serialize, ()


def _named_as(schema: ParsedSchema, fields: Sequence[Field]) -> list[Field]:
    """The columns with the names that the schema's properties have."""
    assert isinstance(schema, JsonSchema)
    document = schema.document if isinstance(schema.document, dict) else {}
    names = {name.upper(): name for name in document.get("properties") or {}}
    return [Field(names.get(each.name.upper(), each.name), each.type) for each in fields]


class _Columns:
    def __init__(self, schema: JsonSchema, upper: bool) -> None:
        self._documents = schema.documents
        self._upper = upper

    def column_type(self, node: Any, depth: int) -> Type:
        node = self._without_null(self._documents.follow(node))
        if not isinstance(node, dict) or depth > _DEPTH_MAX:
            raise Unsupported("anything")
        title = node.get("title")
        if title in _TITLED:
            return _TITLED[title]
        if title == f"{_CONNECT}Decimal":
            digits = node.get("connect.parameters") or {}
            return types.decimal(int(digits.get("connect.decimal.precision", 64)), int(digits.get("scale", 0)))
        connect, kind = node.get("connect.type"), node.get("type")
        if connect == "map" or (kind == "object" and "properties" not in node and isinstance(node.get("additionalProperties"), dict)):  # fmt: skip
            return self._map(node, depth)
        if kind == "array":
            return types.array(self.column_type(node.get("items"), depth + 1))
        if kind == "object" or "properties" in node:
            return self._struct(node, depth)
        if connect in _CONNECT_TYPES and (kind != "string" or connect == "bytes"):
            return _CONNECT_TYPES[connect]
        if kind is None and "enum" in node:
            return types.STRING
        if kind not in _JSON_TYPES:
            raise Unsupported(str(kind))
        return _JSON_TYPES[kind]

    def _map(self, node: dict[str, Any], depth: int) -> Type:
        if node.get("type") == "array":  # entries of key and value
            entry = self._documents.follow(node.get("items"))
            return types.mapping(types.STRING, self.column_type(entry["properties"]["value"], depth + 1))
        return types.mapping(types.STRING, self.column_type(node.get("additionalProperties"), depth + 1))

    def _struct(self, node: dict[str, Any], depth: int) -> Type:
        properties = list((node.get("properties") or {}).items())
        places = [each.get("connect.index") if isinstance(each, dict) else None for _, each in properties]
        if all(isinstance(each, int) for each in places):
            properties = [properties[at] for at in sorted(range(len(places)), key=lambda at: int(places[at] or 0))]
        found = []
        for name, each in properties:
            try:
                found.append((name_of(name, self._upper), self.column_type(each, depth + 1)))
            except (Unsupported, types.NoSuchType):
                continue
        if not found:
            raise Unsupported("an object without properties")
        return types.struct(*found)

    def _without_null(self, node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        kinds = node.get("type")
        if isinstance(kinds, list):
            others = [each for each in kinds if each != "null"]
            return node | {"type": others[0]} if len(others) == 1 else node
        for word in ("oneOf", "anyOf"):
            choices = node.get(word)
            if isinstance(choices, list):
                others = [self._documents.follow(each) for each in choices]
                others = [each for each in others if not (isinstance(each, dict) and each.get("type") == "null")]
                if len(others) == 1:
                    return self._without_null(others[0])
        return node


def _object(fields: Sequence[Field]) -> dict[str, Any]:
    properties = {
        each.name: {"connect.index": place, "oneOf": [{"type": "null"}, _shown(each.type)]}
        for place, each in enumerate(fields)
    }
    return {"type": "object", "properties": properties}


def _shown(given: Type) -> dict[str, Any]:
    if given.base in _PLAIN:
        return dict(_PLAIN[given.base])
    if isinstance(given, DecimalType):
        digits = {"scale": str(given.scale), "connect.decimal.precision": str(given.precision)}
        return {
            "type": "number",
            "title": f"{_CONNECT}Decimal",
            "connect.version": 1,
            "connect.type": "bytes",
            "connect.parameters": digits,
        }
    nullable = {"type": "null"}
    if isinstance(given, ArrayType):
        return {"type": "array", "items": {"oneOf": [nullable, _shown(given.item)]}}
    if isinstance(given, MapType):
        return {"type": "object", "connect.type": "map", "additionalProperties": {"oneOf": [nullable, _shown(given.value)]}}  # fmt: skip
    assert isinstance(given, StructType)
    return _object([Field(name, each) for name, each in given.fields])
