"""Which column of a DataFrame holds what a serde reads, as Spark writes types in text. Pure.

text            string                    json         its schema if one is given, else the JSON as a string short, int,
long    smallint, int, bigint     a dataclass, a pydantic model, a msgspec struct     struct, by its annotations float,
double   float, double             windowed keys    struct<key, start, end>, times in milliseconds anything else
binary: as it is in the topic
"""

import dataclasses
import enum
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from headwater.streams.serdes.port import Serde
from headwater.streams.serdes.windowed import SessionWindowedSerde, WindowedSerde

JSON_TEXT: Final = "json"
NUMBERS: Final = {"short": "smallint", "int": "int", "long": "bigint", "float": "float", "double": "double"}
_SCALARS: Final = {"str": "string", "int": "bigint", "float": "double", "bool": "boolean", "date": "date"} | {
    "datetime": "timestamp"
}
_DEPTH_MAX: Final = 20


def column_type(serde: Serde) -> str:
    """`json` where a schema must tell more."""
    if isinstance(serde, WindowedSerde | SessionWindowedSerde):
        return f"struct<key:{windowed_key_type(serde.inner)},start:bigint,end:bigint>"
    kind = getattr(serde, "record_type", None)
    if kind is not None:
        return record_type(kind)
    if serde.name == "text":
        return "string"
    return JSON_TEXT if serde.name == "json" else NUMBERS.get(serde.name, "binary")


def windowed_key_type(inner: Serde) -> str:
    """Of the key within a windowed one. JSON is text there, also that of typed records: as in a key of its own."""
    is_json = inner.name == "json" or getattr(inner, "record_type", None) is not None
    return "string" if is_json else column_type(inner)


def record_type(kind: Any, depth: int = 0) -> str:
    """By the annotations of a class of records; what has no column of its own is a string, the JSON as it stands."""
    if dataclasses.is_dataclass(kind):
        names = [each.name for each in dataclasses.fields(kind)]
    else:
        names = list(getattr(kind, "model_fields", ()) or getattr(kind, "__struct_fields__", ()))
    hints = get_type_hints(kind)
    fields = ",".join(f"`{name}`:{_type(hints[name], depth + 1)}" for name in names if name in hints)
    return f"struct<{fields}>" if fields else "string"


def _type(annotation: Any, depth: int) -> str:
    if depth > _DEPTH_MAX:  # a type that has itself as a field
        return "string"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Union or type(annotation).__name__ == "UnionType":
        others = [each for each in arguments if each is not type(None)]
        return _type(others[0], depth) if len(others) == 1 else "string"
    if origin in (list, tuple, set, frozenset) and arguments:
        return f"array<{_type(arguments[0], depth + 1)}>"
    if origin is dict and len(arguments) == 2:
        return f"map<string,{_type(arguments[1], depth + 1)}>"
    if not isinstance(annotation, type) or issubclass(annotation, enum.Enum):
        return "string"
    if dataclasses.is_dataclass(annotation) or hasattr(annotation, "model_fields"):
        return record_type(annotation, depth)
    if hasattr(annotation, "__struct_fields__"):
        return record_type(annotation, depth)
    return _SCALARS.get(annotation.__name__, "string")
