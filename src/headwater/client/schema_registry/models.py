"""Schemas from Python's own types, values from their objects and back: dataclasses, pydantic models, enums, dates.
Pure.

int is a long and float a double; `X | None` may be null, and is null by default where the class says None; `list`,
`tuple`, `dict[str, X]`, enums (by their names), nested classes, datetime (timestamp-micros), date, time and UUID are
what one expects. A Decimal needs its precision and scale: `Annotated[Decimal, DecimalDigits(10, 2)]`.
"""

import dataclasses
import datetime
import enum
import types
import typing
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from headwater.base.errors import UserError

_PLAIN: Final[dict[Any, Any]] = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null",
    datetime.datetime: {"type": "long", "logicalType": "timestamp-micros"},
    datetime.date: {"type": "int", "logicalType": "date"},
    datetime.time: {"type": "long", "logicalType": "time-micros"},
    uuid.UUID: {"type": "string", "logicalType": "uuid"},
}
_JSON: Final[dict[Any, dict[str, Any]]] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    type(None): {"type": "null"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.time: {"type": "string", "format": "time"},
    uuid.UUID: {"type": "string", "format": "uuid"},
}
_MISSING: Final = object()


@dataclasses.dataclass(frozen=True, slots=True)
class DecimalDigits:
    precision: int
    scale: int = 0


def is_model(given: Any) -> bool:
    return isinstance(given, type) and (dataclasses.is_dataclass(given) or hasattr(given, "model_fields"))


def _fields(model: type) -> list[tuple[str, Any, Any]]:
    """(name, type, default) of each field."""
    hints = typing.get_type_hints(model, include_extras=True)
    if dataclasses.is_dataclass(model):
        return [
            (each.name, hints[each.name], each.default if each.default is not dataclasses.MISSING else _MISSING)
            for each in dataclasses.fields(model)
        ]
    found = []
    for name, each in model.model_fields.items():  # type: ignore[attr-defined]  # pydantic's
        required = each.is_required() or each.default_factory is not None
        found.append((name, hints[name], _MISSING if required else each.default))
    return found


def avro_schema(model: type) -> dict[str, Any]:
    """The Avro record that a class describes."""
    made: dict[str, Any] = _avro_record(model, set())
    return made


def _avro_record(model: type, known: set[str]) -> Any:
    if model.__name__ in known:
        return model.__name__
    known.add(model.__name__)
    fields = []
    for name, hint, default in _fields(model):
        field: dict[str, Any] = {"name": name, "type": _avro_type(hint, known, f"{model.__name__}.{name}")}
        if default is not _MISSING and (default is None or isinstance(default, bool | int | float | str)):
            plain = default.name if isinstance(default, enum.Enum) else default
            field["default"] = plain
            if isinstance(field["type"], list) and default is not None:
                field["type"] = [*[each for each in field["type"] if each != "null"], "null"]
        elif isinstance(default, enum.Enum):
            field["default"] = default.name
        fields.append(field)
    return {"type": "record", "name": model.__name__, "fields": fields}


def _avro_type(hint: Any, known: set[str], where: str) -> Any:
    hint, digits = _without_annotations(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if hint is Decimal:
        if digits is None:
            raise UserError(
                f"{where} has no Avro type",
                "a Decimal needs its digits",
                "Write Annotated[Decimal, DecimalDigits(10, 2)]",
            )
        return {"type": "bytes", "logicalType": "decimal", "precision": digits.precision, "scale": digits.scale}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        branches = [_avro_type(each, known, where) for each in arguments]
        return sorted(branches, key=lambda each: each != "null")
    if origin in (list, tuple, set, frozenset) and arguments:
        return {"type": "array", "items": _avro_type(arguments[0], known, where)}
    if origin is dict and arguments and arguments[0] is str:
        return {"type": "map", "values": _avro_type(arguments[1], known, where)}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        if hint.__name__ in known:
            return hint.__name__
        known.add(hint.__name__)
        return {"type": "enum", "name": hint.__name__, "symbols": [each.name for each in hint]}
    if is_model(hint):
        return _avro_record(hint, known)
    raise UserError(f"{where} has no Avro type", f"its type is {hint!r}", "Give the serializer a schema of your own")


def _without_annotations(hint: Any) -> tuple[Any, DecimalDigits | None]:
    digits = None
    while typing.get_origin(hint) is typing.Annotated:
        digits = next((each for each in hint.__metadata__ if isinstance(each, DecimalDigits)), digits)
        hint = hint.__origin__
    return hint, digits


def json_schema(model: type) -> dict[str, Any]:
    """The JSON Schema of a class: pydantic's own for its models."""
    if hasattr(model, "model_json_schema"):
        made: dict[str, Any] = model.model_json_schema()
        return made
    schema = _json_object(model, [])
    return {"$schema": "http://json-schema.org/draft-07/schema#", **schema}


def _json_object(model: type, outer: list[type]) -> dict[str, Any]:
    if model in outer:
        raise UserError(
            f"{model.__name__} has no JSON Schema by itself",
            "it contains itself",
            "Give the serializer a schema of your own",
        )
    properties, required = {}, []
    for name, hint, default in _fields(model):
        properties[name] = _json_type(hint, [*outer, model], f"{model.__name__}.{name}")
        if default is _MISSING:
            required.append(name)
    schema = {"type": "object", "title": model.__name__, "properties": properties, "additionalProperties": False}
    return schema | ({"required": required} if required else {})


def _json_type(hint: Any, outer: list[type], where: str) -> dict[str, Any]:
    hint, _ = _without_annotations(hint)
    if hint in _JSON:
        return _JSON[hint]
    if hint is Decimal:
        return {"type": "string"}
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return {"oneOf": [_json_type(each, outer, where) for each in arguments]}
    if origin in (list, tuple, set, frozenset) and arguments:
        return {"type": "array", "items": _json_type(arguments[0], outer, where)}
    if origin is dict and arguments and arguments[0] is str:
        return {"type": "object", "additionalProperties": _json_type(arguments[1], outer, where)}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [each.name for each in hint]}
    if is_model(hint):
        return _json_object(hint, outer)
    raise UserError(f"{where} has no JSON Schema", f"its type is {hint!r}", "Give the serializer a schema of your own")


def to_plain(value: Any) -> Any:
    """Objects of such classes as dicts, enums by their names; everything else stays."""
    if isinstance(value, enum.Enum):
        return value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if hasattr(type(value), "model_fields"):
        return {name: to_plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, list | set | frozenset):
        return [to_plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(to_plain(item) for item in value)
    return value


def to_json(value: Any) -> Any:
    """As `to_plain`, with what JSON does not know as text. A model of pydantic as its own JSON Schema describes it: by
    aliases, enums by their values.
    """
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    return _to_json(to_plain(value))


def _to_json(plain: Any) -> Any:
    if isinstance(plain, Mapping):
        return {key: _to_json(item) for key, item in plain.items()}
    if isinstance(plain, list | tuple):
        return [_to_json(item) for item in plain]
    if isinstance(plain, datetime.datetime | datetime.date | datetime.time):
        return plain.isoformat()
    return str(plain) if isinstance(plain, uuid.UUID | Decimal) else plain


def from_json(hint: Any, value: Any, text: bytes) -> Any:
    """A value of this type from JSON: `value` is what its text is."""
    return hint.model_validate_json(text) if hasattr(hint, "model_validate_json") else build(hint, value)


def build(hint: Any, value: Any) -> Any:
    """A value of this type from what was decoded."""
    hint, _ = _without_annotations(hint)
    if value is None or hint is Any:
        return value
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _build_union(arguments, value)
    if origin in (list, set, frozenset, tuple) and arguments and isinstance(value, list):
        return origin(build(arguments[0], item) for item in value)
    if origin is dict and isinstance(value, Mapping):
        return {key: build(arguments[1], item) for key, item in value.items()}
    if not isinstance(hint, type):
        return value
    if issubclass(hint, enum.Enum):
        return hint[value] if isinstance(value, str) else value
    if is_model(hint) and isinstance(value, Mapping):
        return hint(**{_argument(hint, name): build(of, value[name]) for name, of, _ in _fields(hint) if name in value})
    if isinstance(value, str) and hint in (datetime.datetime, datetime.date, datetime.time):
        return hint.fromisoformat(value)
    if isinstance(value, str) and hint in (uuid.UUID, Decimal):
        return hint(value)
    return value


def _argument(model: Any, name: str) -> str:
    """What a class calls a field when it is made: pydantic's aliases."""
    alias = model.model_fields[name].validation_alias if hasattr(model, "model_fields") else None
    return alias if isinstance(alias, str) else name


def _build_union(arguments: tuple[Any, ...], value: Any) -> Any:
    candidates = [each for each in arguments if each is not type(None)]
    if isinstance(value, Mapping):  # the class with just these fields
        for each in candidates:
            if is_model(each) and value.keys() == {name for name, _, _ in _fields(each)}:
                return build(each, value)
    return build(candidates[0], value) if len(candidates) == 1 else value
