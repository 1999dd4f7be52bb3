"""kio's classes beside ours: kio has one class for each version, and richer types for times, errors and uuids."""

import dataclasses
import datetime
import io
import types
import typing
import uuid
from functools import cache
from importlib import import_module
from typing import Any

from headwater.wire.api import module_name
from headwater.wire.schema import Array, Field, FieldType, Message

EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)
WIRE_TYPES = {
    "error_code": "int16",
    "timedelta_i32": "int32",
    "timedelta_i64": "int64",
    "datetime_i64": "int64",
}


@cache
def kio_class(cls: type[Message], version: int) -> Any | None:
    """kio's class for a message of ours, or None where kio lacks the version."""
    kind = "request" if cls.__name__.endswith("Request") else "response"
    try:
        module = import_module(f"kio.schema.{module_name(cls.KEY)}.v{version}.{kind}")
    except ModuleNotFoundError:
        return None
    return getattr(module, cls.__name__)


def encode(cls: Any, message: Any) -> bytes:
    from kio.serial import entity_writer

    buffer = io.BytesIO()
    entity_writer(cls)(buffer, to_kio(cls, message))
    return buffer.getvalue()


def to_kio(cls: Any, value: Any) -> Any:
    return cls(
        **{
            field.name: _convert(field, getattr(value, our_name(value, field.name)))
            for field in dataclasses.fields(cls)
        }
    )


def our_name(ours: Any, name: str) -> str:
    """kio leaves out the unit of what it turns into a time, and has an older name here and there."""
    names = {field.name for field in ours.FIELDS}
    if name == "generation_id" and name not in names:
        return "generation_id_or_member_epoch"
    return name if name in names else f"{name}_ms"


def described(field: dataclasses.Field[Any]) -> tuple[str, bool, Any]:
    """(type as we would write it, nullable, struct class or None)"""
    inner, nullable = _without_none(field.type)
    prefix = ""
    if typing.get_origin(inner) is tuple:
        inner, _ = _without_none(typing.get_args(inner)[0])
        prefix = "[]"
    if dataclasses.is_dataclass(inner):
        return prefix + inner.__name__, nullable, inner  # type: ignore[union-attr]
    kafka_type = field.metadata["kafka_type"]
    if kafka_type in ("uuid", "datetime_i64"):
        nullable = False  # kio's None for zero and for -1
    return prefix + WIRE_TYPES.get(kafka_type, kafka_type), nullable, None


def our_type(type_: FieldType) -> str:
    if isinstance(type_, Array):
        return "[]" + our_type(type_.element)
    return type_.__name__ if isinstance(type_, type) else type_.name


def our_default(field: Field) -> Any:
    if isinstance(field.type, type) and field.nullable_since is None:
        return field.type()
    return field.default


def kio_default(field: dataclasses.Field[Any], ours: Any) -> Any:
    """kio's default in our types: `ours` when it has none."""
    default = field.default
    if default is dataclasses.MISSING:
        return ours
    if isinstance(default, datetime.timedelta):
        return default // MILLISECOND
    if isinstance(default, datetime.datetime):
        return (default - EPOCH) // MILLISECOND
    if dataclasses.is_dataclass(default):
        values = {f.name: kio_default(f, getattr(ours, f.name)) for f in dataclasses.fields(default)}
        return type(ours)(**values)
    if field.metadata.get("kafka_type") == "uuid":
        return bytes(16) if default is None else default.bytes
    if field.metadata.get("kafka_type") == "datetime_i64" and default is None:
        return -1
    return default


def _convert(field: dataclasses.Field[Any], value: Any) -> Any:
    inner, _ = _without_none(field.type)
    if typing.get_origin(inner) is tuple:
        element, _ = _without_none(typing.get_args(inner)[0])
        return None if value is None else tuple(_convert_one(element, field, item) for item in value)
    if value is None and dataclasses.is_dataclass(inner) and field.default is not dataclasses.MISSING:
        return field.default
    return _convert_one(inner, field, value)


def _convert_one(type_: Any, field: dataclasses.Field[Any], value: Any) -> Any:
    if value is None:
        return None
    if dataclasses.is_dataclass(type_):
        return to_kio(type_, value)
    kafka_type = field.metadata["kafka_type"]
    if kafka_type == "error_code":
        from kio.schema.errors import ErrorCode

        return ErrorCode(value)
    if kafka_type.startswith("timedelta"):
        return value * MILLISECOND
    if kafka_type == "datetime_i64":
        _, nullable = _without_none(field.type)
        return None if value == -1 and nullable else EPOCH + value * MILLISECOND
    if kafka_type == "uuid":
        return uuid.UUID(bytes=value) if any(value) else None
    return value


def _without_none(type_: Any) -> tuple[Any, bool]:
    if typing.get_origin(type_) in (types.UnionType, typing.Union):
        parts = [part for part in typing.get_args(type_) if part is not type(None)]
        return parts[0], True
    return type_, False
