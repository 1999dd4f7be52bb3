"""Schemas as Connect's JSON has them: `{"type":"struct","fields":[...],"optional":false,"name":...}`, in that order."""

from collections.abc import Callable
from typing import Any, Final

from headwater.connect.data.schema import Schema, Type, array, map_of, struct
from headwater.connect.data.validation import with_default
from headwater.connect.errors import DataError

_TO_JSON: Final = {Type.FLOAT32: "float", Type.FLOAT64: "double"}
_FROM_JSON: Final = {_TO_JSON.get(each, each.value): each for each in Type}
Convert = Callable[[Schema | None, Any], Any]


def schema_to_json(schema: Schema, to_json: Convert) -> dict[str, Any]:
    made: dict[str, Any] = {"type": _TO_JSON.get(schema.type, schema.type.value)}
    if schema.type is Type.ARRAY:
        made["items"] = _inner(schema.value_schema, to_json)
    elif schema.type is Type.MAP:
        made["keys"] = _inner(schema.key_schema, to_json)
        made["values"] = _inner(schema.value_schema, to_json)
    elif schema.type is Type.STRUCT:
        made["fields"] = [schema_to_json(each.schema, to_json) | {"field": each.name} for each in schema.fields]
    made["optional"] = schema.optional
    for name in ("name", "version", "doc"):
        if getattr(schema, name) is not None:
            made[name] = getattr(schema, name)
    if schema.parameters is not None:
        made["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        made["default"] = to_json(schema, schema.default)
    return made


def _inner(schema: Schema | None, to_json: Convert) -> dict[str, Any] | None:
    return None if schema is None else schema_to_json(schema, to_json)


def schema_from_json(found: Any, from_json: Convert) -> Schema | None:
    if found is None:
        return None
    kind = found.get("type") if isinstance(found, dict) else None
    if not isinstance(kind, str):
        raise DataError("Schema must contain 'type' field")
    type_ = _FROM_JSON.get(kind)
    if type_ is None:
        raise DataError(f"Unknown schema type: {kind}")
    made = _shape(type_, found, from_json)
    version, parameters = found.get("version"), found.get("parameters")
    if isinstance(parameters, dict):
        if any(not isinstance(each, str) for each in parameters.values()):
            raise DataError("Schema parameters must have string values.")
        parameters = parameters or None
    made = made.changed(
        optional=found.get("optional") is True,
        name=_text(found.get("name")),
        version=version if isinstance(version, int) and not isinstance(version, bool) else None,
        doc=_text(found.get("doc")),
        parameters=parameters if isinstance(parameters, dict) else None,
    )
    if "default" in found:
        default = from_json(made, found["default"])
        made = made if default is None else with_default(made, default)
    return made


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _shape(type_: Type, found: dict[str, Any], from_json: Convert) -> Schema:
    if type_ is Type.ARRAY:
        items = schema_from_json(found.get("items"), from_json)
        if items is None:
            raise DataError("Array schema did not specify the element type")
        return array(items)
    if type_ is Type.MAP:
        keys, values = (schema_from_json(found.get(name), from_json) for name in ("keys", "values"))
        if keys is None or values is None:
            raise DataError("Map schema did not specify the key type or the value type")
        return map_of(keys, values)
    if type_ is not Type.STRUCT:
        return Schema(type_)
    fields = found.get("fields")
    if not isinstance(fields, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    named = []
    for each in fields:
        name = each.get("field") if isinstance(each, dict) else None
        if not isinstance(name, str):
            raise DataError("Struct schema's field name not specified properly")
        inner = schema_from_json(each, from_json)
        assert inner is not None
        named.append((name, inner))
    return struct(named)
