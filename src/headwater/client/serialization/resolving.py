"""The settings `key.serializer` and so on: names, Java's class names, functions and objects, to one kind of
function.
"""

from collections.abc import Callable
from typing import Any, Final

from headwater.base.errors import UserError
from headwater.client.serialization import basic
from headwater.client.serialization.basic import Headers, Serde

Serialize = Callable[[str, Any, Headers], bytes | None]
Deserialize = Callable[[str, bytes | None, Headers], Any]

_JAVA: Final = "org.apache.kafka.common.serialization."
_NAMES: Final[dict[str, Serde]] = {
    "bytes": basic.BYTES,
    "string": basic.STRING,
    "str": basic.STRING,
    "short": basic.SHORT,
    "int": basic.INTEGER,
    "integer": basic.INTEGER,
    "long": basic.LONG,
    "float": basic.FLOAT,
    "double": basic.DOUBLE,
    "boolean": basic.BOOLEAN,
    "bool": basic.BOOLEAN,
    "uuid": basic.UUID,
    "json": basic.JSON,
    "void": basic.VOID,
}
_CLASSES: Final[dict[str, Serde]] = {
    "ByteArray": basic.BYTES,
    "Bytes": basic.BYTES,
    "String": basic.STRING,
    "Short": basic.SHORT,
    "Integer": basic.INTEGER,
    "Long": basic.LONG,
    "Float": basic.FLOAT,
    "Double": basic.DOUBLE,
    "Boolean": basic.BOOLEAN,
    "UUID": basic.UUID,
    "Void": basic.VOID,
}


def deserializer_for(given: object, setting: str = "value.deserializer") -> Deserialize | None:
    """None: bytes are given as they are."""
    if given is None or given is bytes:
        return None
    if isinstance(given, str):
        serde = _named(given, "Deserializer", setting)
        return None if serde is basic.BYTES else serde.deserialize
    if isinstance(given, type) and hasattr(given, "deserialize"):
        given = given()
    method = getattr(given, "deserialize", None)
    if callable(method):
        return None if given is basic.BYTES else method
    if callable(given):
        function = given
        return lambda _topic, data, _headers: None if data is None else function(data)
    raise _unusable(given, setting, "deserialize(topic, data, headers)")


def serializer_for(given: object, setting: str = "value.serializer") -> Serialize | None:
    """None: the value is bytes already."""
    if given is None or given is bytes:
        return None
    if isinstance(given, str):
        return _named(given, "Serializer", setting).serialize
    if isinstance(given, type) and hasattr(given, "serialize"):
        given = given()
    method = getattr(given, "serialize", None)
    if callable(method):
        return method  # type: ignore[no-any-return]
    if callable(given):
        function = given
        return lambda _topic, value, _headers: None if value is None else function(value)
    raise _unusable(given, setting, "serialize(topic, value, headers)")


def _named(name: str, suffix: str, setting: str) -> Serde:
    found = _NAMES.get(name.lower())
    if found is None and name.startswith(_JAVA) and name.endswith(suffix):
        found = _CLASSES.get(name[len(_JAVA) : -len(suffix)])
    if found is None:
        raise UserError(
            f"{setting} cannot be {name!r}",
            "no serializer is called so",
            f"There are {', '.join(sorted(_NAMES))}; or give a function",
        )
    return found


def _unusable(given: object, setting: str, method: str) -> UserError:
    return UserError(f"{setting} cannot be {given!r}", "", f"It is a name, a function, or an object with {method}")
