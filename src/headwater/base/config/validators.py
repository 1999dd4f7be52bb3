"""The checks of config values, as small immutable objects.

`check` raises ConfigValueError with the sentence that Apache Kafka's own check has; `str` says in plain words what is
allowed, for the docs and for people's errors.
"""

from typing import Protocol


class ConfigValueError(ValueError):
    """A value that its property does not take. `reason` is Kafka's; `str` is the whole sentence."""

    def __init__(self, name: str, value: object, reason: str, *, whole: bool = False) -> None:
        shown = f"[{', '.join(value)}]" if isinstance(value, list) else value
        super().__init__(reason if whole else f"Invalid value {shown} for configuration {name}: {reason}")
        self.name = name
        self.value = value
        self.reason = reason


class Validator(Protocol):
    def check(self, name: str, value: object) -> None: ...


class AtLeast:
    __slots__ = ("minimum",)

    def __init__(self, minimum: int) -> None:
        self.minimum = minimum

    def check(self, name: str, value: object) -> None:
        if isinstance(value, int | float) and value < self.minimum:
            raise ConfigValueError(name, value, f"Value must be at least {self.minimum}")

    def __str__(self) -> str:
        return f"at least {self.minimum}"


class Between:
    __slots__ = ("maximum", "minimum")

    def __init__(self, minimum: int, maximum: float) -> None:
        self.minimum = minimum
        self.maximum = maximum

    def check(self, name: str, value: object) -> None:
        if not isinstance(value, int | float):
            return
        if value < self.minimum:
            raise ConfigValueError(name, value, f"Value must be at least {self.minimum}")
        if value > self.maximum:
            raise ConfigValueError(name, value, f"Value must be no more than {self.maximum}")

    def __str__(self) -> str:
        return f"from {self.minimum} to {self.maximum}"


class GzipLevel:
    """1 to 9, or -1 for zlib's own choice."""

    __slots__ = ()

    def check(self, name: str, value: object) -> None:
        if isinstance(value, int) and value != -1 and not 1 <= value <= 9:
            raise ConfigValueError(name, value, "Value must be between 1 and 9 or equal to -1")

    def __str__(self) -> str:
        return "from 1 to 9, or -1"


class NotZero:
    """A time that is positive, or negative for "for ever"; a retention of nothing at all is a mistake."""

    __slots__ = ()

    def check(self, name: str, value: object) -> None:
        if value == 0:
            raise ConfigValueError(name, value, "Value must be unlimited (-1) or at least 1")

    def __str__(self) -> str:
        return "at least 1, or -1 for no limit"


class OneOf:
    __slots__ = ("choices", "ignore_case")

    def __init__(self, *choices: str, ignore_case: bool = False) -> None:
        self.choices = choices
        self.ignore_case = ignore_case

    def check(self, name: str, value: object) -> None:
        if not isinstance(value, str):
            return
        found = value.lower() in (c.lower() for c in self.choices) if self.ignore_case else value in self.choices
        if not found:
            raise ConfigValueError(name, value, f"String must be one of: {', '.join(self.choices)}")

    def __str__(self) -> str:
        return f"one of {', '.join(self.choices)}"


class EachOf:
    """A list whose entries come from a set."""

    __slots__ = ("choices",)

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    def check(self, name: str, value: object) -> None:
        for entry in value if isinstance(value, list) else ():
            if entry not in self.choices:
                raise ConfigValueError(name, entry, f"String must be one of: {', '.join(self.choices)}")

    def __str__(self) -> str:
        return f"each one of {', '.join(self.choices)}"


class NotEmpty:
    __slots__ = ()

    def check(self, name: str, value: object) -> None:
        if value in ("", []):
            raise ConfigValueError(name, value, f"Configuration '{name}' must not be empty.", whole=True)

    def __str__(self) -> str:
        return "not empty"


class ThrottledReplicas:
    """`*`, or partition:broker pairs."""

    __slots__ = ()

    def check(self, name: str, value: object) -> None:
        if not isinstance(value, list) or value == ["*"]:
            return
        for entry in value:
            partition, colon, broker = entry.partition(":")
            if not (colon and partition.isdigit() and broker.isdigit()):
                reason = (
                    f"{name} must be the literal '*' or a list of replicas in the following format: "
                    "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
                )
                raise ConfigValueError(name, value, reason)

    def __str__(self) -> str:
        return "`*` or partition:broker pairs"


class SubjectNameStrategy:
    """How the subject of a schema is named: ours, or Confluent's classes."""

    __slots__ = ()

    CHOICES = ("topic", "record", "topic_record")
    CLASSES = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")

    def check(self, name: str, value: object) -> None:
        if isinstance(value, str) and value not in self.CHOICES and value.rpartition(".")[2] not in self.CLASSES:
            choices = ", ".join(self.CHOICES + self.CLASSES)
            raise ConfigValueError(name, value, f"String must be one of: {choices}")

    def __str__(self) -> str:
        return "topic, record or topic_record, or Confluent's TopicNameStrategy, RecordNameStrategy, TopicRecordNameStrategy"


class AddressCounts:
    """`host:count` pairs, as in max.connections.per.ip.overrides."""

    __slots__ = ()

    def check(self, name: str, value: object) -> None:
        for entry in value.split(",") if isinstance(value, str) and value else ():
            host, colon, count = entry.strip().rpartition(":")
            if not (colon and host and count.isascii() and count.isdigit()):
                raise ConfigValueError(name, value, "Expected host:count pairs with commas between them")

    def __str__(self) -> str:
        return "host:count pairs with commas"
