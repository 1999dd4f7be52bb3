"""Levels of the worker's loggers, read and set while it runs: `/admin/loggers`. Python's loggers under log4j's level
names.
"""

import logging
import time
from typing import Any, Final

from headwater.web.messages import HttpError

_LEVELS: Final = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
_NAMES: Final = {number: name for name, number in _LEVELS.items()}
_modified_ms: dict[str, int] = {}


def _logger(name: str) -> logging.Logger:
    return logging.getLogger() if name == "root" else logging.getLogger(name)


def _known() -> list[str]:
    made = [name for name, each in logging.root.manager.loggerDict.items() if isinstance(each, logging.Logger)]
    return ["root", *sorted(made)]


def _told(name: str) -> dict[str, Any]:
    level = _logger(name).getEffectiveLevel()
    return {"level": _NAMES.get(level, logging.getLevelName(level)), "last_modified": _modified_ms.get(name)}


def all_levels() -> dict[str, Any]:
    """Those that have a level of their own."""
    return {name: _told(name) for name in _known() if name == "root" or _logger(name).level != logging.NOTSET}


def level_of(name: str) -> dict[str, Any]:
    if name not in _known():
        raise HttpError(404, f"Logger {name} not found.")
    return _told(name)


def check_level(level: str) -> int:
    number = _LEVELS.get(level.upper())
    if number is None:
        raise HttpError(404, f"invalid log level '{level}'.")
    return number


def set_level(name: str, level: str) -> list[str]:
    """The loggers that it changed: this one, and those below it."""
    number = check_level(level)
    below = [each for each in _known() if name == "root" or each == name or each.startswith(f"{name}.")]
    now_ms = time.time_ns() // 1_000_000
    for each in dict.fromkeys([name, *below]) if name in _known() or below else [name]:
        _logger(each).setLevel(number)
        _modified_ms[each] = now_ms
    return sorted(dict.fromkeys([name, *below]))
