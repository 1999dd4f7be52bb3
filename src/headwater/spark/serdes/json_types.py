"""JSON Schema as Spark's types and back, and whether columns of one can hold what was written with another. Pure.

To Spark: integers are long, numbers double; `date-time`, `date` and base64 are timestamp, date and binary; an object
with properties is a struct, one with `additionalProperties` a map. Whatever has no one column (a choice, a recursion, a
schema elsewhere, nothing said) is a string: the JSON as it stands.

From Spark: closed objects, so that a field can be added in a later version; a field that may be null need not be there.
"""

import json
from collections.abc import Callable
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import types as spark

from headwater.base.errors import UserError
from headwater.schemas import SchemaError, SchemaType, parse

_DEPTH_MAX: Final = 50
_PLAIN: Final[dict[str, spark.DataType]] = {
    "integer": spark.LongType(),
    "number": spark.DoubleType(),
    "boolean": spark.BooleanType(),
}
_FORMATS: Final[dict[str, spark.DataType]] = {"date-time": spark.TimestampType(), "date": spark.DateType()}
_WHOLE: Final = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)
_FLOATING: Final = (spark.FloatType, spark.DoubleType)

_TOLD_BY_VALUES: Final = (  # these come as numbers or text, and each value tells
    spark.DecimalType,
    spark.TimestampType,
    spark.TimestampNTZType,
    spark.DateType,
    spark.BinaryType,
)
_WRITTEN_AS_TEXT: Final = (spark.TimestampType, spark.DateType, spark.BinaryType)
_ANYTHING: Final = spark.VariantType()
_READABLE: Final = frozenset(
    (
        *_WHOLE,
        *_FLOATING,
        *_TOLD_BY_VALUES,
        spark.BooleanType,
        spark.StringType,
    )
)


def given_type(option: str, text: str) -> spark.DataType:
    """Of an option: JSON Schema, or what `json()` of a struct, an array or a map of Spark gives."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict):
            raise TypeError("it is no object")
        if (found := _sparks(document)) is None:
            _check_schema(text)
            return json_spark_type(text)
        made: spark.DataType = _nullable(found)
    except (ValueError, KeyError, TypeError, RecursionError, PySparkException, SchemaError) as error:
        hint = "Give JSON Schema, or a StructType as text: schema.json()"
        raise UserError(f"The option {option} is not a schema of JSON", str(error), hint) from error
    if wrong := _not_in_json(made, ""):
        raise UserError(f"The option {option} has a type that JSON has no values of", wrong, "Take string for it")
    return made


def _sparks(document: dict[str, Any]) -> spark.DataType | None:
    """None for what is no type of Spark's: JSON Schema, which has arrays, too."""
    if document.get("type") == "struct":
        return spark.StructType.fromJson(document)
    if document.get("type") == "array" and "elementType" in document:
        return spark.ArrayType.fromJson(document, "element", None)
    if document.get("type") == "map":
        return spark.MapType.fromJson(document, "", None)
    return None


def _check_schema(text: str) -> None:
    """Raises SchemaError. One that refers elsewhere cannot be checked: what is meant by it is text in any case."""
    elsewhere: list[Any] = []

    def look(node: dict[str, Any]) -> None:
        reference = node.get("$ref")
        if isinstance(reference, str) and not reference.startswith("#"):
            elsewhere.append(reference)

    json.loads(text, object_hook=look)
    if not elsewhere:
        parse(SchemaType.JSON, text)


def _not_in_json(of_type: spark.DataType, path: str) -> str:
    """The first field that no value of JSON can fill; "" if there is none."""
    if isinstance(of_type, spark.StructType):
        wrong = (_not_in_json(each.dataType, f"{path}.{each.name}" if path else each.name) for each in of_type)
        return next((each for each in wrong if each), "")
    if isinstance(of_type, spark.ArrayType):
        return _not_in_json(of_type.elementType, f"{path}[]")
    if isinstance(of_type, spark.MapType) and type(of_type.keyType) is spark.StringType:
        return _not_in_json(of_type.valueType, f"{path}.*")
    return "" if type(of_type) in _READABLE else f"{path or 'the value'} is {of_type.simpleString()}"


def _nullable(of_type: Any, leaf: Callable[[Any], Any] = lambda each: each) -> Any:
    """What a record does not have is null, whatever was given. With other types at its ends, if wished."""
    if isinstance(of_type, spark.StructType):
        return spark.StructType([spark.StructField(each.name, _nullable(each.dataType, leaf)) for each in of_type])
    if isinstance(of_type, spark.ArrayType):
        return spark.ArrayType(_nullable(of_type.elementType, leaf))
    if isinstance(of_type, spark.MapType):
        return spark.MapType(of_type.keyType, _nullable(of_type.valueType, leaf))
    return leaf(of_type)


def json_spark_type(text: str) -> spark.DataType:
    """Of a JSON Schema that stands."""
    made: spark.DataType = _nullable(described_type(text), _text_for_anything)
    return made


def described_type(text: str) -> spark.DataType:
    """The same with variants where anything may stand, and strings where the schema says so."""
    root = json.loads(text)
    return _type(root, root, ())


def _text_for_anything(of_type: spark.DataType) -> spark.DataType:
    return spark.StringType() if isinstance(of_type, spark.VariantType) else of_type


def _type(schema: Any, root: Any, through: tuple[str, ...]) -> spark.DataType:
    if not isinstance(schema, dict) or len(through) > _DEPTH_MAX:
        return _ANYTHING
    reference = schema.get("$ref")
    if isinstance(reference, str):
        found = None if reference in through else _local(root, reference)
        return _ANYTHING if found is None else _type(found, root, (*through, reference))
    kind = schema.get("type")
    if isinstance(kind, list):
        others = [each for each in kind if each != "null"]
        kind = others[0] if len(others) == 1 else None
    inner = _one_choice(schema) if kind in (None, "object") else None  # of any other, it narrows what is said here
    if inner is not None:
        return _type(inner, root, (*through, ""))
    if kind == "object" or (kind is None and isinstance(schema.get("properties"), dict)):
        return _object(schema, root, (*through, ""))
    if kind == "array":
        return spark.ArrayType(_type(schema.get("items"), root, (*through, "")))
    if kind == "string":
        if schema.get("contentEncoding") == "base64":
            return spark.BinaryType()
        return _FORMATS.get(str(schema.get("format")), spark.StringType())
    return _PLAIN.get(str(kind), _ANYTHING)


def _object(schema: dict[str, Any], root: Any, through: tuple[str, ...]) -> spark.DataType:
    properties = schema.get("properties")
    if isinstance(properties, dict) and properties:
        return spark.StructType(
            [spark.StructField(name, _type(each, root, through)) for name, each in properties.items()]
        )
    more = schema.get("additionalProperties")
    return spark.MapType(spark.StringType(), _type(more, root, through)) if isinstance(more, dict) else _ANYTHING


def _one_choice(schema: dict[str, Any]) -> Any:
    """The one schema of a choice between it and null."""
    for word in ("oneOf", "anyOf", "allOf"):
        choices = schema.get(word)
        if isinstance(choices, list):
            others = [each for each in choices if not (isinstance(each, dict) and each.get("type") == "null")]
            return others[0] if len(others) == 1 and "properties" not in schema else None
    return None


def _local(root: Any, reference: str) -> Any:
    """`#/definitions/name`; None for what lies elsewhere."""
    if not reference.startswith("#"):
        return None
    found = root
    for part in reference[1:].split("/")[1:]:
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found


def json_schema(of_type: spark.DataType) -> str:
    """The schema that a column of this type is written with, as text."""
    made = {"$schema": "http://json-schema.org/draft-07/schema#", **_schema(of_type, "value")}
    return json.dumps(made, separators=(",", ":"))


def _schema(of_type: spark.DataType, path: str) -> dict[str, Any]:
    if isinstance(of_type, spark.StructType):
        return {
            "type": "object",
            "properties": {each.name: _schema(each.dataType, f"{path}.{each.name}") for each in of_type},
            "required": [each.name for each in of_type if not each.nullable],
            "additionalProperties": False,
        }
    if isinstance(of_type, spark.ArrayType):
        return {"type": "array", "items": _or_null(_schema(of_type.elementType, path), of_type.containsNull)}
    if isinstance(of_type, spark.MapType) and isinstance(of_type.keyType, spark.StringType):
        values = _or_null(_schema(of_type.valueType, path), of_type.valueContainsNull)
        return {"type": "object", "additionalProperties": values}
    if isinstance(of_type, _WHOLE):
        return {"type": "integer"}
    if isinstance(of_type, _FLOATING):
        return {"type": "number"}
    if isinstance(of_type, spark.BooleanType):
        return {"type": "boolean"}
    if isinstance(of_type, spark.StringType):
        return {"type": "string"}
    if isinstance(of_type, spark.BinaryType):
        return {"type": "string", "contentEncoding": "base64"}
    for word, kind in _FORMATS.items():
        if of_type == kind:
            return {"type": "string", "format": word}
    raise UserError(
        f"The field {path} cannot be written as JSON",
        f"there is nothing that holds {of_type.simpleString()} exactly",
        "Cast it, as to string or double",
    )


def _or_null(schema: dict[str, Any], nullable: bool) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, schema]} if nullable else schema


def unreadable(reader: spark.DataType, writer: spark.DataType) -> str:
    """Why columns of the one type cannot hold what the other describes; "" if they can. A string holds any JSON."""

    def holds(reader: spark.DataType, writer: spark.DataType) -> bool:
        return isinstance(reader, (spark.StringType, *_TOLD_BY_VALUES)) or _holds_numbers(reader, writer)

    return _misfit(reader, writer, holds)


def unwritable(schema: spark.DataType, column: spark.DataType) -> str:
    """Why values of a column are not what a `described_type` says; "" if they are. Times and bytes are text, and text
    may be theirs.
    """

    def describes(schema: spark.DataType, column: spark.DataType) -> bool:
        if isinstance(schema, spark.StringType):
            return isinstance(column, _WRITTEN_AS_TEXT)
        if isinstance(schema, _WRITTEN_AS_TEXT):
            return isinstance(column, spark.StringType)
        return isinstance(schema, spark.VariantType) or _holds_numbers(schema, column)

    return _misfit(schema, column, describes)


def _misfit(
    wanted: spark.DataType,
    found: spark.DataType,
    fits: Callable[[spark.DataType, spark.DataType], bool],
    path: str = "",
) -> str:
    if isinstance(wanted, spark.StructType) and isinstance(found, spark.StructType):
        there = {each.name: each.dataType for each in found}
        wrong = (
            _misfit(each.dataType, there[each.name], fits, f"{path}.{each.name}" if path else each.name)
            for each in wanted
            if each.name in there
        )
        return next((each for each in wrong if each), "")
    if isinstance(wanted, spark.ArrayType) and isinstance(found, spark.ArrayType):
        return _misfit(wanted.elementType, found.elementType, fits, path)
    if isinstance(wanted, spark.MapType) and isinstance(found, spark.MapType):
        return _misfit(wanted.valueType, found.valueType, fits, path)
    if type(wanted) is type(found) or fits(wanted, found):
        return ""
    return f"{path or 'the value'} is {found.simpleString()}, not {wanted.simpleString()}"


def _holds_numbers(wanted: spark.DataType, found: spark.DataType) -> bool:
    whole = isinstance(wanted, (*_WHOLE, *_FLOATING)) and isinstance(found, _WHOLE)
    return whole or (isinstance(wanted, _FLOATING) and isinstance(found, _FLOATING))
