"""Finds the classes of an API by its key, importing them only then: start-up pays for what it serves."""

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from headwater.base.errors import ErrorCode, KafkaError
from headwater.wire import messages
from headwater.wire.api import API_NAMES, module_name
from headwater.wire.schema import Message


def request_class(key: int) -> type[Message]:
    return _message_class(key, "Request")


def response_class(key: int) -> type[Message]:
    return _message_class(key, "Response")


def known_keys() -> list[int]:
    """The keys that have messages here, in order."""
    files = {module.name for module in iter_modules(messages.__path__)}
    return [key for key in API_NAMES if module_name(key) in files]


def _message_class(key: int, kind: str) -> type[Message]:
    try:
        module = import_module(f"{messages.__name__}.{module_name(key)}")
    except (KeyError, ModuleNotFoundError) as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no API {key} here") from error
    found: Any = getattr(module, API_NAMES[key] + kind)
    message: type[Message] = found
    return message
