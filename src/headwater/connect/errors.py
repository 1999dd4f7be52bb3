"""The errors of Connect, under the names that connectors written for Apache Kafka Connect know.

`ConnectError` is the root. `DataError` is about one record and may be tolerated (`errors.tolerance`); `RetriableError`
asks for the same call again; `ConfigError` is about a property, by name. `java_name` is what
`__connect.errors.exception.class.name` and the REST door call them.
"""

from typing import ClassVar


class ConnectError(Exception):
    java_name: ClassVar[str] = "org.apache.kafka.connect.errors.ConnectException"


class DataError(ConnectError):
    java_name = "org.apache.kafka.connect.errors.DataException"


class SchemaBuilderError(DataError):
    java_name = "org.apache.kafka.connect.errors.SchemaBuilderException"


class RetriableError(ConnectError):
    """The same call may succeed a little later."""

    java_name = "org.apache.kafka.connect.errors.RetriableException"


class Interrupted(ConnectError):
    """A task that is to stop gives up what it has in its hands; nothing of that is committed."""


class ConfigError(ConnectError):
    """A property whose value cannot be taken. `str` is the sentence that Apache Kafka has for it."""

    java_name = "org.apache.kafka.common.config.ConfigException"

    def __init__(self, message: str, *, name: str = "") -> None:
        super().__init__(message)
        self.name = name

    @classmethod
    def of(cls, name: str, value: object, why: str = "") -> "ConfigError":
        shown = f"[{', '.join(map(str, value))}]" if isinstance(value, list) else "null" if value is None else value
        return cls(f"Invalid value {shown} for configuration {name}" + (f": {why}" if why else ""), name=name)


def java_name_of(error: BaseException) -> str:
    """The class name for peers: Java's where there is one, else Python's own."""
    return getattr(error, "java_name", None) or f"{type(error).__module__}.{type(error).__qualname__}"
