"""Typed records: JSON into a dataclass, a pydantic model or a msgspec struct, and back.

msgspec and pydantic are used if the type is theirs, and read and write themselves. Dataclasses are read by their
annotations: nested ones, also within themselves, lists, tuples, dicts, unions with None, enums, `datetime`, `date`,
`Decimal`, `UUID`. A field that is missing has its default; one that is not known is left out.
"""

import dataclasses
import json
from collections.abc import Callable
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from headwater.base.errors import UserError
from headwater.streams.serdes.port import Serde, SerdeError
from headwater.streams.serdes.stock import FunctionSerde

Convert = Callable[[Any], Any]
Known = dict[Any, Convert]  # of dataclasses: one may be within itself


def typed(kind: type) -> Serde:
    """The serde of a type."""
    made = _typed(kind)
    made.record_type = kind
    return made


def _typed(kind: type) -> FunctionSerde:
    if dataclasses.is_dataclass(kind):
        return _dataclass_serde(kind)
    if hasattr(kind, "model_validate_json"):
        return _pydantic_serde(kind)
    if hasattr(kind, "__struct_fields__"):
        return _msgspec_serde(kind)
    raise UserError(
        f"No serde is known for {kind.__name__}",
        "it is neither a dataclass nor a pydantic model nor a msgspec struct",
        "give a Serde, or a name such as json",
    )


def _pydantic_serde(kind: Any) -> FunctionSerde:
    def read(data: bytes) -> Any:
        try:
            return kind.model_validate_json(data)
        except ValueError as error:
            raise SerdeError(f"no {kind.__name__}: {error}") from None

    return FunctionSerde(kind.__name__, lambda value: value.model_dump_json().encode(), read)


def _msgspec_serde(kind: Any) -> FunctionSerde:
    import msgspec

    decoder, encoder = msgspec.json.Decoder(kind), msgspec.json.Encoder()

    def read(data: bytes) -> Any:
        try:
            return decoder.decode(data)
        except msgspec.MsgspecError as error:
            raise SerdeError(f"no {kind.__name__}: {error}") from None

    return FunctionSerde(kind.__name__, encoder.encode, read)


def _dataclass_serde(kind: type) -> FunctionSerde:
    convert: Convert | None = None  # made when first used: annotations may name what comes later

    def write(value: Any) -> bytes:
        if not isinstance(value, kind):
            raise SerdeError(f"the serde is {kind.__name__} and the object is {type(value).__name__}")
        return json.dumps(_plain(value), separators=(",", ":"), ensure_ascii=False).encode()

    def read(data: bytes) -> Any:
        nonlocal convert
        if convert is None:
            convert = _converter(kind, {})
        try:
            return convert(json.loads(data))
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
            raise SerdeError(f"no {kind.__name__}: {error}") from None

    return FunctionSerde(kind.__name__, write, read)


def _plain(value: Any) -> Any:
    """What `json` can write. Raises SerdeError for what nobody could read again."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if value is None or isinstance(value, str | bool | int | float):
        return getattr(value, "value", value)  # an enum of texts or numbers
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if hasattr(value, "value"):
        return _plain(value.value)
    kind = type(value)
    if isinstance(value, bytes | bytearray | memoryview) or (kind.__str__, kind.__repr__) == _NO_TEXT:
        raise SerdeError(f"JSON has no {kind.__name__}")
    return str(value)


_NO_TEXT: Final[tuple[Any, Any]] = (object.__str__, object.__repr__)


def _converter(annotation: Any, known: Known) -> Convert:
    """From what `json` reads to what an annotation says."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return lambda value: value
    if origin is Union or type(annotation).__name__ == "UnionType":
        return _union([_converter(one, known) for one in arguments if one is not type(None)])
    if origin in (list, set, frozenset) and arguments:
        inner, collect = _converter(arguments[0], known), origin
        return lambda value: collect(inner(item) for item in _checked(value, list))
    if origin is tuple and arguments:
        return _tuple(arguments, known)
    if origin is dict and arguments:
        key, inner = _key(arguments[0], known), _converter(arguments[1], known)
        return lambda value: {key(name): inner(item) for name, item in _checked(value, dict).items()}
    if dataclasses.is_dataclass(annotation):
        return _dataclass_converter(annotation, known)
    return _scalar(annotation)


def _tuple(arguments: tuple[Any, ...], known: Known) -> Convert:
    """`tuple[int, ...]` of any length, or with a type for each place."""
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        inner = _converter(arguments[0], known)
        return lambda value: tuple(inner(item) for item in _checked(value, list))
    places = [_converter(each, known) for each in arguments]

    def convert(value: Any) -> Any:
        if len(_checked(value, list)) != len(places):
            raise TypeError(f"{value!r} has {len(value)} elements, not {len(places)}")
        return tuple(place(item) for place, item in zip(places, value, strict=True))

    return convert


def _key(annotation: Any, known: Known) -> Convert:
    """Of a dict: JSON has text only."""
    if annotation in (int, float, bool):
        plain = _scalar(annotation)
        return lambda name: plain(json.loads(name))
    return _converter(annotation, known)


def _scalar(kind: Any) -> Convert:
    if kind is float:
        return lambda value: float(_checked(value, int | float))
    if kind in (str, int, bool, list, dict):
        return lambda value: _checked(value, kind)
    if hasattr(kind, "fromisoformat"):
        return lambda value: kind.fromisoformat(value)
    if isinstance(kind, type):
        return lambda value: kind(value)  # Decimal, UUID, enums
    return lambda value: value


def _checked(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{value!r} is not {getattr(kind, '__name__', kind)}")
    return value


def _union(converters: list[Convert]) -> Convert:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        failed: Exception | None = None
        for converter in converters:
            try:
                return converter(value)
            except (ValueError, TypeError, KeyError) as error:
                failed = error
        raise TypeError(f"{value!r} fits none of the types") from failed

    return convert


def _dataclass_converter(kind: Any, known: Known) -> Convert:
    found = known.get(kind)
    if found is not None:
        return found
    converters: Known = {}

    def convert(value: Any) -> Any:
        given = _checked(value, dict)
        return kind(**{name: convert(given[name]) for name, convert in converters.items() if name in given})

    known[kind] = convert
    hints = get_type_hints(kind)
    converters |= {field.name: _converter(hints[field.name], known) for field in dataclasses.fields(kind) if field.init}
    return convert
