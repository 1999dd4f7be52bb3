"""Whether a value fits its schema: what Connect checks at every `Struct.put` and before a header is added."""

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

from headwater.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, StructValue, Type
from headwater.connect.errors import DataError, SchemaBuilderError

_LIMITS: Final = {Type.INT8: 1 << 7, Type.INT16: 1 << 15, Type.INT32: 1 << 31, Type.INT64: 1 << 63}
_LOGICAL: Final[dict[str, type]] = {DECIMAL: Decimal, DATE: date, TIME: time, TIMESTAMP: datetime}
_CLASSES: Final[dict[Type, tuple[type, ...]]] = {
    Type.FLOAT32: (float,),
    Type.FLOAT64: (float,),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes, bytearray, memoryview),
    Type.ARRAY: (list, tuple),
    Type.MAP: (dict,),
}


def validate(schema: Schema, value: Any, location: str = "value") -> None:
    if value is None:
        if not schema.optional:
            raise DataError(f"Invalid value: null used for required {location}, schema type: {schema.type.name}")
        return
    if not fits(schema, value):
        named = f' "{schema.name}"' if schema.name else ""
        kind = type(value).__name__
        raise DataError(f"Invalid object for schema{named} with type {schema.type.name}: {kind} for {location}")
    if schema.type is Type.STRUCT:
        if value.schema != schema:
            raise DataError("Struct schemas do not match.")
        value.validate()
    elif schema.type is Type.ARRAY:
        for entry in value:
            validate(_there(schema.value_schema, location), entry, f"element of array {location}")
    elif schema.type is Type.MAP:
        for key, entry in value.items():
            validate(_there(schema.key_schema, location), key, f"key of map {location}")
            validate(_there(schema.value_schema, location), entry, f"value of map {location}")


def _there(schema: Schema | None, location: str) -> Schema:
    if schema is None:
        raise DataError(f"No schema defined for {location}")
    return schema


def fits(schema: Schema, value: Any) -> bool:
    """The class alone; what is inside of arrays, maps and structs is `validate`'s."""
    kind = _LOGICAL.get(schema.name) if schema.name is not None else None
    if kind is not None:
        return isinstance(value, kind) and not (kind is date and isinstance(value, datetime))
    limit = _LIMITS.get(schema.type)
    if limit is not None:
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    if schema.type is Type.STRUCT:
        return isinstance(value, StructValue)
    return isinstance(value, _CLASSES[schema.type])


def with_default(schema: Schema, value: Any) -> Schema:
    """The schema with this default, which is checked as Connect's builder checks it."""
    made = schema.changed(default=value)
    try:
        validate(made, value)
    except DataError as error:
        raise SchemaBuilderError("Invalid default value") from error
    return made


def type_of(value: Any) -> Type | None:
    """The type of a value without a schema. Whole numbers are 64 bits wide: Python has no narrower ones."""
    for kinds, type_ in _INFERRED:
        if isinstance(value, kinds):
            return type_
    return Type.STRUCT if isinstance(value, StructValue) else None


_INFERRED: Final[tuple[tuple[tuple[type, ...], Type], ...]] = (
    ((bool,), Type.BOOLEAN),
    ((int,), Type.INT64),
    ((float,), Type.FLOAT64),
    ((str,), Type.STRING),
    ((bytes, bytearray, memoryview), Type.BYTES),
    ((list, tuple), Type.ARRAY),
    ((dict,), Type.MAP),
)
