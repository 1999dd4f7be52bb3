"""A record as a document: its JSON, its id, its version, and the mapping of its schema. No connection here."""

import json
from base64 import b64encode
from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any, Final

from headwater.connect.data import schema as s
from headwater.connect.data.json_text import dumps
from headwater.connect.data.logical import millis_of
from headwater.connect.data.record import SinkRecord
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError

ID_BYTES_MAX: Final = 512  # a longer one makes the servers refuse the whole request
_VERSION_MAX: Final = (1 << 63) - 1
_TYPES: Final = {
    Type.INT8: "byte", Type.INT16: "short", Type.INT32: "integer", Type.INT64: "long", Type.FLOAT32: "float",
    Type.FLOAT64: "double", Type.BOOLEAN: "boolean", Type.BYTES: "binary",
}  # fmt: skip
_LOGICAL: Final = {s.DECIMAL: "double", s.DATE: "date", s.TIME: "date", s.TIMESTAMP: "date"}


def key_id(record: SinkRecord) -> str:
    """Raises DataError if the key cannot be an id."""
    key = record.key
    if key is None:
        raise DataError("Key is used as document id and can not be null.")
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise DataError(f"The key is a document's id: a text or a whole number is needed, not {type(key).__name__}")
    made = str(key)
    size = len(made.encode("utf-8", "replace"))
    if not 0 < size <= ID_BYTES_MAX:
        raise DataError(f"The key is a document's id, which has 1 to {ID_BYTES_MAX} bytes; this one has {size}")
    return made


def place_id(record: SinkRecord) -> str:
    """Where the record stands in Kafka: transforms may send several topics to one index."""
    return f"{record.original_topic}+{record.original_partition}+{record.offset}"


def version_of(record: SinkRecord, header: str) -> int:
    """Raises DataError if there is no such header, or no whole number in it."""
    if not header:
        return record.offset
    found = next((each.value for each in reversed(record.headers) if each.key == header), None)
    try:
        version = int(found.decode() if isinstance(found, bytes) else found)  # type: ignore[arg-type]
        good = not isinstance(found, bool | float | Decimal) and 0 <= version <= _VERSION_MAX
    except (ValueError, TypeError):
        good = False
    if not good:
        raise DataError(f"external.version.header: the header {header!r} is no whole number from 0 on")
    return version


def document_text(record: SinkRecord, *, compact: bool) -> str:
    """One line of JSON. Raises DataError."""
    if not isinstance(record.value, Struct | dict):
        raise DataError(f"The value is no document: a struct or a map is needed, not {type(record.value).__name__}")
    try:
        made = _plain(record.value_schema, record.value, compact)
        if not isinstance(made, dict):  # in an update, the server would refuse the whole request for it
            raise DataError("The value is no document: a map must have text as keys, and compact.map.entries be true")
        try:
            return json.dumps(made, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except (TypeError, ValueError):  # decimals, and what is no number, as Jackson writes them
            return dumps(made)
    except RecursionError:
        raise DataError("The value cannot be JSON: it is nested too deeply") from None
    except (AssertionError, ValueError) as error:
        raise DataError(f"The value cannot be JSON: {error}") from None


def _plain(schema: Schema | None, value: Any, compact: bool) -> Any:
    if isinstance(value, Struct):
        return {each.name: _plain(each.schema, value.get(each.name), compact) for each in value.schema.fields}
    inner = schema.value_schema if schema is not None else None
    if isinstance(value, dict):
        if _is_object(schema, value, compact):
            return {name: _plain(inner, each, compact) for name, each in value.items()}
        keys = schema.key_schema if schema is not None else None
        return [{"key": _plain(keys, name, compact), "value": _plain(inner, each, compact)} for name, each in value.items()]  # fmt: skip
    if isinstance(value, list | tuple):
        return [_plain(inner, each, compact) for each in value]
    if isinstance(value, date | time):
        return millis_of(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode("ascii")
    return value


def _is_object(schema: Schema | None, value: Mapping[Any, Any], compact: bool) -> bool:
    if schema is None or schema.key_schema is None:
        return all(isinstance(name, str) for name in value)
    return compact and schema.key_schema.type is Type.STRING


def mapping_of(schema: Schema | None, *, compact: bool) -> dict[str, Any]:
    """The mapping of an index for documents of this schema. Raises DataError if there is none."""
    if schema is None or schema.type not in (Type.STRUCT, Type.MAP):
        raise DataError("Cannot infer mapping without schema: schema.ignore=true leaves that to the server")
    return _mapping(schema, compact) if schema.type is Type.STRUCT else {}


def _mapping(schema: Schema, compact: bool) -> dict[str, Any]:
    logical = _LOGICAL.get(schema.name or "")
    if logical is not None:
        return _with_default({"type": logical}, schema)
    match schema.type:
        case Type.STRUCT:
            return {"properties": {each.name: _mapping(each.schema, compact) for each in schema.fields}}
        case Type.ARRAY:
            assert schema.value_schema is not None
            return _mapping(schema.value_schema, compact)
        case Type.MAP:
            assert schema.key_schema is not None
            assert schema.value_schema is not None
            if compact and schema.key_schema.type is Type.STRING:
                return {"type": "object"}
            entries = {"key": _mapping(schema.key_schema, compact), "value": _mapping(schema.value_schema, compact)}
            return {"type": "nested", "properties": entries}
        case Type.STRING:
            return {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}
    return _with_default({"type": _TYPES[schema.type]}, schema)


def _with_default(mapping: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """What stands for a null where documents are searched."""
    default = schema.default
    if default is None or mapping["type"] == "binary":
        return mapping
    if isinstance(default, date | time):
        default = millis_of(default)
    return {**mapping, "null_value": float(default) if isinstance(default, Decimal) else default}
