"""Keys and values of records as BSON documents.

A struct or a map is a document. Text is read as MongoDB's extended JSON, bytes as BSON, so that String and ByteArray
converters work as well. The four logical types are Decimal128 and dates.
"""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from headwater.connect.data.logical import millis_of, millis_to_timestamp
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError

SIZE_BYTES_MAX = 16 * 1024 * 1024  # of a document, by every server


def document_of(value: Any, what: str) -> dict[str, Any]:
    """`what` is key or value. Raises DataError if it is no document."""
    import bson
    from bson import json_util

    found = value
    try:
        if isinstance(value, str):
            found = json_util.loads(value)
        elif isinstance(value, bytes):
            found = bson.decode(value)
    except (ValueError, TypeError, bson.errors.BSONError):
        found = None
    if not isinstance(found, Struct | dict):
        raise DataError(f"The {what} is no document: a struct, a map, a JSON object or BSON is needed")
    return bson_value(None, found)  # type: ignore[no-any-return]


def bson_value(schema: Schema | None, value: Any) -> Any:
    """A value of Connect's as pymongo takes it."""
    from bson.decimal128 import Decimal128
    from bson.int64 import Int64

    if isinstance(value, Struct):
        return {field.name: bson_value(field.schema, value.get(field.name)) for field in value.schema.fields}
    inner = schema.value_schema if schema is not None else None
    if isinstance(value, dict):
        return {name if isinstance(name, str) else _name(name): bson_value(inner, each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [bson_value(inner, each) for each in value]
    if isinstance(value, Decimal):
        try:
            return Decimal128(value)
        except ArithmeticError:
            raise DataError(f"The decimal {value} has more than 34 digits, which MongoDB's have") from None
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, date | time):
        return millis_to_timestamp(millis_of(value))
    if isinstance(value, int) and not isinstance(value, bool) and schema is not None and schema.type is Type.INT64:
        return Int64(value)
    return value


def _name(key: Any) -> str:
    return json.dumps(key) if isinstance(key, bool | int | float) else str(key)


def encoded(document: dict[str, Any]) -> Any:
    """The document as it goes over the wire. Raises DataError if it cannot."""
    import bson
    from bson.raw_bson import RawBSONDocument

    try:
        data = bson.encode(document)
    except (bson.errors.BSONError, OverflowError, ValueError, TypeError) as error:
        raise DataError(f"The document cannot be BSON: {error}") from None
    if len(data) > SIZE_BYTES_MAX:
        raise DataError(f"The document has {len(data)} bytes; MongoDB takes {SIZE_BYTES_MAX} at most")
    return RawBSONDocument(data)
