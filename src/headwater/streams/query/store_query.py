"""What can be asked of a store, as parameters of a URL, and what its rows are in JSON. Pure.

A key comes in one of three forms: `key=` is text, read as the store's serde means it (a number, JSON, plain text);
`key_json=` is JSON, so that "1" and 1 are told apart; `key_base64=` are the bytes of the key as they stand in the
topic. `lower`, `upper` and `prefix` are keys too. Times are milliseconds since 1970. Values that JSON knows are
themselves; a typed record is what its serde writes if that is JSON; bytes, and everything else, are `{"base64": ...}`.
"""

import base64
import binascii
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headwater.streams.model.windows import LONG_MAX, Windowed
from headwater.streams.serdes.port import Serde, SerdeError
from headwater.streams.stores.spec import StoreKind

ROWS_MAX: Final = 10_000
_WHOLE: Final = ("short", "int", "long")
_FRACTIONAL: Final = ("float", "double")
_PLAIN: Final = (str, int, float, bool, list, dict, type(None))


class BadStoreQuery(Exception):
    """The parameters make no sense; the message is for people."""


@dataclass(frozen=True, slots=True)
class Operation:
    """`keys` are parameters that name keys, `times` those that are times, with their defaults (None: it must be
    given).
    """

    method: str
    keys: tuple[str, ...] = ()
    optional_keys: tuple[str, ...] = ()
    times: Mapping[str, int | None] = field(default_factory=dict)
    gives: str = "rows"  # or `value`, or `count`
    ordered: bool = True  # takes `reverse`


_FORMS: Final = ("", "_json", "_base64")
_SPAN: Final = {"from": 0, "to": LONG_MAX}
OPERATIONS: Final[Mapping[StoreKind, Mapping[str, Operation]]] = {
    StoreKind.KEY_VALUE: {
        "get": Operation("get", ("key",), gives="value"),
        "range": Operation("range", optional_keys=("lower", "upper")),
        "all": Operation("all"),
        "prefix": Operation("prefix", ("prefix",), ordered=False),
        "count": Operation("approximate_count", gives="count"),
    },
    StoreKind.WINDOW: {
        "get": Operation("get", ("key",), times={"start": None}, gives="value"),
        "fetch": Operation("fetch", ("key",), times=_SPAN),
        "fetch_range": Operation("fetch_range", optional_keys=("lower", "upper"), times=_SPAN),
        "fetch_all": Operation("fetch_all", times=_SPAN),
        "all": Operation("all"),
    },
    StoreKind.SESSION: {
        "get": Operation("get", ("key",), times={"start": None, "end": None}, gives="value"),
        "fetch": Operation("fetch", ("key",)),
        "find_sessions": Operation("find_sessions", ("key",), times={"earliest_end": 0, "latest_start": LONG_MAX}),
        "all": Operation("all"),
    },
    StoreKind.VERSIONED: {
        "get": Operation("get", ("key",), gives="value"),
        "get_as_of": Operation("get_as_of", ("key",), times={"timestamp": None}, gives="value"),
        "history": Operation("history", ("key",), times=_SPAN),
    },
}


@dataclass(frozen=True, slots=True)
class StoreQuery:
    """One operation with its arguments, ready to be asked of a typed store."""

    operation: Operation
    arguments: tuple[Any, ...]
    reverse: bool
    limit: int
    key: Any = None


def parse(kind: StoreKind, name: str, given: Mapping[str, str], key: Serde) -> StoreQuery:
    """Raises BadStoreQuery."""
    known = OPERATIONS[kind]
    operation = known.get(name)
    if operation is None:
        raise BadStoreQuery(f"A {kind} store has no {name[:50]!r}; it has {', '.join(known)}")
    _refuse_unknown(name, operation, given)
    keys = [_key(parameter, given, key) for parameter in operation.keys]
    for parameter, found in zip(operation.keys, keys, strict=True):
        if found is None:
            raise BadStoreQuery(f"{name} needs a parameter {parameter}")
    arguments = keys + [_key(parameter, given, key) for parameter in operation.optional_keys]
    for parameter, default in operation.times.items():
        at = _integer(parameter, given, default)
        if at is None:
            raise BadStoreQuery(f"{name} needs a parameter {parameter}")
        arguments.append(at)
    said = given.get("reverse", "false").lower()
    if said not in ("true", "false"):
        raise BadStoreQuery(f"reverse is true or false, not {said[:50]!r}")
    reverse = said == "true"
    if reverse and not operation.ordered:
        raise BadStoreQuery(f"{name} takes no reverse")
    limit = _integer("limit", given, ROWS_MAX) or 0
    if not 1 <= limit <= ROWS_MAX:
        raise BadStoreQuery(f"limit is from 1 to {ROWS_MAX}")
    return StoreQuery(operation, tuple(arguments), reverse, limit, keys[0] if keys else None)


def _refuse_unknown(name: str, operation: Operation, given: Mapping[str, str]) -> None:
    """A slip in an optional one would be an answer to another question."""
    keys = [*operation.keys, *operation.optional_keys]
    known = [*keys, *operation.times, "limit", "reverse"]
    forms = {f"{key}{form}" for key in keys for form in _FORMS}
    unknown = [parameter for parameter in given if parameter not in known and parameter not in forms]
    if unknown:
        raise BadStoreQuery(f"{name} has no parameter {unknown[0][:50]!r}; it has {', '.join(known)}")


def _integer(name: str, given: Mapping[str, str], default: int | None) -> int | None:
    text = given.get(name)
    if text is None:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 19) or abs(int(text)) > LONG_MAX:
        raise BadStoreQuery(f"{name} is a whole number, not {text[:50]!r}")
    return int(text)


def _key(name: str, given: Mapping[str, str], serde: Serde) -> Any:
    """What the parameter means, in whichever form it comes; None if in none."""
    forms: tuple[tuple[str, Callable[[str, Serde], Any]], ...] = (
        (name, from_text),
        (f"{name}_json", from_json),
        (f"{name}_base64", _raw if name == "prefix" else from_base64),
    )
    for parameter, read in forms:
        if parameter in given:
            try:
                found = read(given[parameter], serde)
                if read is not _raw and found is not None:
                    serde.serialize(found)  # a number may be out of range, or what JSON knows no key
                return found
            except (ValueError, TypeError, OverflowError, RecursionError, SerdeError, binascii.Error) as error:
                raise BadStoreQuery(f"{parameter} cannot be a key, whose serde is {serde.name}: {error}") from None
    return None


def from_text(text: str, serde: Serde) -> Any:
    match serde.name:
        case "text":
            return text
        case "bytes":
            return text.encode()
        case name if name in _WHOLE:
            return int(text)
        case name if name in _FRACTIONAL:
            return float(text)
    try:
        return serde.deserialize(text.encode())
    except SerdeError:
        return serde.deserialize(json.dumps(text).encode())


def from_json(text: str, serde: Serde) -> Any:
    value = json.loads(text)
    if serde.name in ("text", "json", *_WHOLE, *_FRACTIONAL):
        return value
    if serde.name == "bytes":
        return str(value).encode()
    return serde.deserialize(json.dumps(value).encode())


def from_base64(text: str, serde: Serde) -> Any:
    return serde.deserialize(_raw(text, serde))


def _raw(text: str, _serde: Serde) -> bytes:
    return base64.b64decode(text, validate=True)


def plain(value: Any, serde: Serde) -> Any:
    """A key or value as JSON shows it."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Windowed):
        return {"key": plain(value.key, serde), "start": value.start, "end": value.end}
    data = bytes(value) if isinstance(value, bytes | bytearray | memoryview) else serde.serialize(value)
    if not isinstance(value, bytes | bytearray | memoryview):
        try:
            return json.loads(data)
        except ValueError:
            pass
    return {"base64": base64.b64encode(data).decode()}


def encode(document: Any) -> bytes:
    """As JSON. What JSON does not know within a record (bytes, dates, NaN) is text."""
    try:
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=str)
    except ValueError:
        text = json.dumps(_finite(document), ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode("utf-8", "surrogatepass")


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
