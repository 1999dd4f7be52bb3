"""A config definition: one row per property, for parsing, for validation over REST, for the docs and for forms.

Texts of numbers, lists and booleans are read as Kafka reads them, with Kafka's sentences for what is wrong. A
definition is a constant; `parse` and `validate` have no other state.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from headwater.base.config.definition import ConfigType, Definition, Importance, format_value
from headwater.base.config.validators import ConfigValueError, Validator
from headwater.connect.errors import ConfigError

HIDDEN: Final = "[hidden]"
Props = Mapping[str, str | None]


class _Required:
    def __repr__(self) -> str:
        return "(required)"


REQUIRED: Final = _Required()


class Recommender(NamedTuple):
    """Which values a form offers, and whether the property is shown at all, given all other values."""

    values: Callable[[str, Mapping[str, Any]], Iterable[str]] = lambda _name, _values: ()
    visible: Callable[[str, Mapping[str, Any]], bool] = lambda _name, _values: True


@dataclass(frozen=True, slots=True)
class ConfigKey:
    name: str
    type: ConfigType
    default: Any
    importance: Importance
    doc: str
    validator: Validator | None = None
    group: str | None = None
    width: str = "NONE"
    display_name: str = ""
    dependents: tuple[str, ...] = ()
    recommender: Recommender | None = None
    order: int = -1

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    def parse(self, text: str | None) -> Any:
        """A property that is given counts; null is only for those whose default is null."""
        if text is None:
            value = None
        else:
            try:
                value = Definition(self.name, self.type, None, "").parse(text)
            except ConfigValueError as error:
                raise ConfigError(str(error), name=self.name) from None
        self.check(value)
        return value

    def check(self, value: Any) -> None:
        if self.validator is None:
            return
        try:
            self.validator.check(self.name, value)
        except ConfigValueError as error:
            raise ConfigError(str(error), name=self.name) from None

    def missing(self) -> str:
        return f'Missing required configuration "{self.name}" which has no default value.'


@dataclass(slots=True)
class ConfigValue:
    """What validation found of one property."""

    key: ConfigKey
    value: Any
    recommended: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    visible: bool = True


class ConfigDef:
    def __init__(self, *keys: ConfigKey) -> None:
        self._keys = {key.name: key for key in keys}
        assert len(self._keys) == len(keys), "a property is defined twice"

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self._keys.values())

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def __getitem__(self, name: str) -> ConfigKey:
        return self._keys[name]

    def __add__(self, other: "ConfigDef | Iterable[ConfigKey]") -> "ConfigDef":
        """What `other` defines anew counts."""
        made = ConfigDef()
        made._keys = {**self._keys, **{key.name: key for key in other}}
        return made

    def parse(self, props: Props) -> dict[str, Any]:
        """All values, defaults included; the first thing that is wrong is raised."""
        values: dict[str, Any] = {}
        for key in self:
            if key.name in props:
                values[key.name] = key.parse(props[key.name])
            elif key.required:
                raise ConfigError(key.missing(), name=key.name)
            else:
                values[key.name] = key.default
        return values

    def validate(self, props: Props) -> dict[str, ConfigValue]:
        """Everything that is wrong, property by property."""
        found: dict[str, ConfigValue] = {}
        values: dict[str, Any] = {}
        for key in self:
            each = found[key.name] = ConfigValue(key, None if key.required else key.default)
            if key.name in props:
                try:
                    each.value = key.parse(props[key.name])
                except ConfigError as error:
                    each.value = props[key.name]
                    each.errors.append(str(error))
            elif key.required:
                each.errors.append(key.missing())
            values[key.name] = each.value
        for each in found.values():
            recommender = each.key.recommender
            if recommender is not None:
                each.recommended = list(recommender.values(each.key.name, values))
                each.visible = recommender.visible(each.key.name, values)
        return found


def text_of(key: ConfigKey, value: Any) -> str | None:
    """A value for people's eyes: as text, and passwords not at all."""
    if value is None or value is REQUIRED:
        return None
    if key.type is ConfigType.PASSWORD:
        return HIDDEN
    return format_value(value)


def unknown_property(converter: str, name: str) -> str:
    return f"{converter} has no property {name} here: remove it, docs/CONNECT.md lists those it has"


def own_config(prefix: str, props: Mapping[str, str]) -> dict[str, str]:
    """What stands under a prefix, without it."""
    return {name[len(prefix) :]: value for name, value in props.items() if name.startswith(prefix)}


def converter_config(part: str, props: Mapping[str, str]) -> dict[str, str]:
    """Of the key's, the value's or the header's converter: without its version, which is of the worker's concern."""
    own = own_config(f"{part}.converter.", props)
    own.pop("plugin.version", None)
    return own
