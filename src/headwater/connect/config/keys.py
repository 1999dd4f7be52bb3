"""Short ways to write rows of a config definition."""

from typing import Any
from zoneinfo import ZoneInfo

from headwater.base.config.definition import ConfigType, Importance
from headwater.base.config.validators import Between, ConfigValueError, Validator
from headwater.connect.config.definition import REQUIRED as REQUIRED
from headwater.connect.config.definition import ConfigKey

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def text(
    name: str, default: Any, importance: Importance, doc: str, validator: Validator | None = None, **more: Any
) -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, default, importance, doc, validator, **more)


def flag(name: str, default: Any, importance: Importance, doc: str, **more: Any) -> ConfigKey:
    return ConfigKey(name, ConfigType.BOOLEAN, default, importance, doc, **more)


def whole(
    name: str, default: Any, importance: Importance, doc: str, validator: Validator | None = None, **more: Any
) -> ConfigKey:
    return ConfigKey(name, ConfigType.INT, default, importance, doc, validator, **more)


def long(
    name: str, default: Any, importance: Importance, doc: str, validator: Validator | None = None, **more: Any
) -> ConfigKey:
    return ConfigKey(name, ConfigType.LONG, default, importance, doc, validator, **more)


def listing(
    name: str, default: Any, importance: Importance, doc: str, validator: Validator | None = None, **more: Any
) -> ConfigKey:
    return ConfigKey(name, ConfigType.LIST, default, importance, doc, validator, **more)


def a_class(
    name: str, default: Any, importance: Importance, doc: str, validator: Validator | None = None, **more: Any
) -> ConfigKey:
    return ConfigKey(name, ConfigType.CLASS, default, importance, doc, validator, **more)


def secret(name: str, default: Any, importance: Importance, doc: str, **more: Any) -> ConfigKey:
    return ConfigKey(name, ConfigType.PASSWORD, default, importance, doc, **more)


PORT = Between(1, 65535)


class NonEmptyList:
    def check(self, name: str, value: object) -> None:
        if not value:
            raise ConfigValueError(name, value, "Empty list")

    def __str__(self) -> str:
        return "at least one entry"


class NonEmptyText:
    def check(self, name: str, value: object) -> None:
        if isinstance(value, str) and not value:
            raise ConfigValueError(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "not empty"


class TimeZone:
    def check(self, name: str, value: object) -> None:
        try:
            ZoneInfo(str(value))
        except (KeyError, ValueError, OSError):
            raise ConfigValueError(name, value, "no time zone of that name is known, such as Europe/Berlin") from None

    def __str__(self) -> str:
        return "a time zone's name"


class Pattern:
    """A regular expression in Java's syntax, as far as RE2 reads it."""

    def check(self, name: str, value: object) -> None:
        from headwater.connect.errors import ConfigError
        from headwater.connect.java_regex import compile_java

        if isinstance(value, str):
            try:
                compile_java(value)
            except ConfigError as error:
                raise ConfigValueError(name, value, f"Invalid regex: {error}") from None

    def __str__(self) -> str:
        return "a regular expression"


REPLACE_NULL = flag(
    "replace.null.with.default",
    True,
    MEDIUM,
    "Whether a null in a field that has a default value becomes that default (true) or stays null (false).",
)
FIELD_SYNTAX = "field.syntax.version"
