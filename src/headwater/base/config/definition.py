"""One row of the config table: a property's name, type, default, check and meaning, and how its text becomes a value.

The table serves four readers: the parser of server.properties, the topic and broker configs of the admin APIs,
DescribeConfigs, and docs/CONFIG.md. Rows are constants; nobody changes them after import.

Numbers are read as Java reads them: an optional sign and ASCII digits, within the range of the type. So a value that
Apache Kafka refuses is refused here, with the same sentence.
"""

from enum import IntEnum, StrEnum
from typing import Final, NamedTuple, TypeAlias

from headwater.base.config.validators import ConfigValueError, Validator

Value: TypeAlias = bool | int | float | str | list[str] | None


class ConfigType(IntEnum):
    """The numbers are those of DescribeConfigs (`config_type`)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class DynamicMode(StrEnum):
    """When a broker property may change while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"  # on one broker by its id
    CLUSTER_WIDE = "cluster-wide"  # on one broker, or as the default of all


class Importance(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Scope(StrEnum):
    BROKER = "broker"
    TOPIC = "topic"
    GROUP = "group"


class Synonym(NamedTuple):
    """A broker property that a topic config (or another broker property) falls back to."""

    name: str
    multiplier: int = 1  # hours and minutes to milliseconds


class Definition(NamedTuple):
    name: str
    type: ConfigType
    default: Value
    doc: str
    validator: Validator | None = None
    mode: DynamicMode = DynamicMode.READ_ONLY
    importance: Importance = Importance.MEDIUM
    scope: Scope = Scope.BROKER
    synonyms: tuple[Synonym, ...] = ()  # in the order in which they are asked
    used: bool = True  # False: a name of Kafka's that is known here and has no effect
    hidden: bool = False  # not in DescribeConfigs and the docs' main tables
    may_hold_login: bool = False  # addresses that may be http://user:password@host

    @property
    def is_sensitive(self) -> bool:
        """Passwords go in and never come out; what nobody knows may be one."""
        return self.may_hold_login or self.type in (ConfigType.PASSWORD, ConfigType.UNKNOWN)

    def parse(self, text: str) -> Value:
        """The value that `text` stands for; raises ConfigValueError with Kafka's sentence."""
        value = _parse(self.name, self.type, text)
        if self.validator is not None:
            self.validator.check(self.name, value)
        return value

    @property
    def allowed(self) -> str:
        """What a value may be, for people."""
        kind = _KIND[self.type]
        return f"{kind}, {self.validator}" if self.validator is not None else kind


_KIND: Final = {
    ConfigType.UNKNOWN: "anything",
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "text",
    ConfigType.INT: "a whole number (32 bits)",
    ConfigType.SHORT: "a whole number (16 bits)",
    ConfigType.LONG: "a whole number (64 bits)",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "a list with commas",
    ConfigType.CLASS: "a class name",
    ConfigType.PASSWORD: "a password",
}

_BITS: Final = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}


def _parse(name: str, type_: ConfigType, text: str) -> Value:
    if type_ is ConfigType.PASSWORD:
        return text
    trimmed = text.strip()
    if type_ is ConfigType.BOOLEAN:
        lowered = trimmed.lower()
        if lowered not in ("true", "false"):
            raise ConfigValueError(name, text, "Expected value to be either true or false")
        return lowered == "true"
    if type_ in _BITS:
        return _parse_whole(name, type_, text, trimmed)
    if type_ is ConfigType.DOUBLE:
        return _parse_double(name, text, trimmed)
    if type_ is ConfigType.LIST:
        return _parse_list(name, trimmed)
    return trimmed


def _parse_whole(name: str, type_: ConfigType, text: str, trimmed: str) -> int:
    digits = trimmed[1:] if trimmed[:1] in ("+", "-") else trimmed
    if digits.isascii() and digits.isdigit() and len(digits) <= 40:
        value = int(trimmed)
        limit = 1 << _BITS[type_]
        if -limit <= value < limit:
            return value
    raise ConfigValueError(name, text, f"Not a number of type {type_.name}")


def _parse_double(name: str, text: str, trimmed: str) -> float:
    try:
        value = float(trimmed) if trimmed.isascii() and "_" not in trimmed else None
    except ValueError:
        value = None
    if value is None or value != value:
        raise ConfigValueError(name, text, "Not a number of type DOUBLE")
    return value


def _parse_list(name: str, trimmed: str) -> list[str]:
    """Entries are trimmed, repeated ones dropped; an entry of nothing is a mistake, an empty list is not."""
    if not trimmed:
        return []
    entries = list(dict.fromkeys(entry.strip() for entry in trimmed.split(",")))
    if "" in entries:
        raise ConfigValueError(name, trimmed, f"Configuration '{name}' values must not be empty.", whole=True)
    return entries


def format_value(value: Value) -> str | None:
    """As Java prints it, which is what clients compare with."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _format_double(value)
    return ",".join(value)


def _format_double(value: float) -> str:
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value!r}".partition("e")
    if not exponent:  # Python writes 1e7 .. 1e16 and small fractions plainly
        mantissa, _, exponent = f"{value:.17e}".partition("e")
        for digits in range(1, 17):
            shorter = f"{value:.{digits}e}"
            if float(shorter) == value:
                mantissa, _, exponent = shorter.partition("e")
                break
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
