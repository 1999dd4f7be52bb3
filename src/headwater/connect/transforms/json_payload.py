"""JSON text as a struct with a schema of its own, as Debezium's EventRouter expands a payload. Pure.

All fields are optional. A null has no type, and an empty list none for its items: such fields are left out, unless they
are to be bytes and texts.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from headwater.connect.data import schema as s
from headwater.connect.data.schema import Schema, SchemaAndValue, Type
from headwater.connect.data.struct import Struct

_INT32, _INT64 = 1 << 31, 1 << 63
_KINDS: Final = {bool: "boolean", str: "text", int: "whole", float: "number", list: "list", dict: "object"}


def expanded(text: str, name: str, *, nulls_as_bytes: bool, empty_as_texts: bool) -> SchemaAndValue:
    """Raises ValueError if the text is no JSON object, or has values of several types in one list."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    schema = _Inference(nulls_as_bytes, empty_as_texts).schema(name, found)
    assert schema is not None
    return SchemaAndValue(schema, _value(schema, found))


class _Inference:
    def __init__(self, nulls_as_bytes: bool, empty_as_texts: bool) -> None:
        self._null = s.OPTIONAL_BYTES if nulls_as_bytes else None
        self._empty = s.array(s.OPTIONAL_STRING, optional=True) if empty_as_texts else None

    def schema(self, name: str, value: Any) -> Schema | None:
        """None: the field is left out."""
        match value:
            case None:
                return self._null
            case bool():
                return s.OPTIONAL_BOOLEAN
            case str():
                return s.OPTIONAL_STRING
            case int():
                return _whole(value)
            case float():
                return s.OPTIONAL_FLOAT64
            case []:
                return self._empty
            case list():
                return s.array(self._items(name, value), optional=True)
        return s.struct(self._fields(name, value).items(), name=name or None, optional=True)

    def _fields(self, name: str, value: Mapping[str, Any]) -> dict[str, Schema]:
        found = ((each, self.schema(f"{name}.{each}" if name else each, field)) for each, field in value.items())
        return {each: schema for each, schema in found if schema is not None}

    def _items(self, name: str, values: list[Any]) -> Schema:
        there = [each for each in values if each is not None]
        kinds = {_KINDS[type(each)] for each in there}
        if len(kinds) > 1:
            raise ValueError(f"a list has values of several types: {', '.join(sorted(kinds))}")
        if kinds != {"object"}:
            schemas = {self.schema("", each) for each in there}
            found = schemas.pop() if len(schemas) == 1 else None
            if found is None:
                raise ValueError("a list has items whose type cannot be told")
            return found
        fields: dict[str, Schema] = {}
        for each in there:
            for field, schema in self._fields(name, each).items():
                fields[field] = _merged(fields[field], schema) if field in fields else schema
        return s.struct(fields.items(), name=name or None, optional=True)


def _merged(one: Schema, other: Schema) -> Schema:
    """With the fields of both; of what does not go together, the first: no value of the other fits that."""
    if one.type is Type.BYTES:  # a null
        return other
    if one.type is Type.STRUCT and other.type is Type.STRUCT:
        fields = {each.name: each.schema for each in one.fields}
        for each in other.fields:
            fields[each.name] = _merged(fields[each.name], each.schema) if each.name in fields else each.schema
        return s.struct(fields.items(), name=one.name, optional=True)
    if one.type is Type.ARRAY and other.type is Type.ARRAY:
        assert one.value_schema is not None
        assert other.value_schema is not None
        return s.array(_merged(one.value_schema, other.value_schema), optional=True)
    return one


def _whole(value: int) -> Schema:
    if -_INT32 <= value < _INT32:
        return s.OPTIONAL_INT32
    if -_INT64 <= value < _INT64:
        return s.OPTIONAL_INT64
    raise ValueError(f"{value} is more than an int64 has")


def _value(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    if schema.type is Type.STRUCT:
        made = Struct(schema)
        for field in schema.fields:
            made.put(field.name, _value(field.schema, value.get(field.name)))
        return made
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        return [_value(schema.value_schema, each) for each in value]
    return value
