"""`topic.creation.<group>.*` of a source: what is wrong with them, told before anything starts."""

from collections.abc import Mapping, Sequence

from headwater.base.config.definition import ConfigType
from headwater.base.config.validators import ConfigValueError
from headwater.connect.config.definition import ConfigDef, ConfigKey, ConfigValue
from headwater.connect.config.keys import LOW, Pattern, listing, whole

_PREFIX = "topic.creation."


class _Patterns:
    def check(self, name: str, value: object) -> None:
        for each in value if isinstance(value, list) else []:
            Pattern().check(name, each)

    def __str__(self) -> str:
        return "regular expressions"


class _CountOrDefault:
    def check(self, name: str, value: object) -> None:
        if isinstance(value, int) and (value == 0 or value < -1):
            raise ConfigValueError(name, value, "a positive number is needed, or -1 for the broker's default")

    def __str__(self) -> str:
        return "a positive number, or -1"


def wrong_topic_creation(props: Mapping[str, str | None], groups: Sequence[str]) -> dict[str, ConfigValue]:
    """Those properties that are wrong. `default` counts for topics that no group includes."""
    found: dict[str, ConfigValue] = {}
    for group in dict.fromkeys((*groups, "default")):
        prefix = f"{_PREFIX}{group}."
        found |= ConfigDef(
            listing(f"{prefix}include", [], LOW, "Patterns of topics.", _Patterns(), group="Topic Creation"),
            listing(f"{prefix}exclude", [], LOW, "Patterns of topics.", _Patterns(), group="Topic Creation"),
            whole(f"{prefix}partitions", -1, LOW, "Their partitions.", _CountOrDefault(), group="Topic Creation"),
            ConfigKey(
                f"{prefix}replication.factor",
                ConfigType.SHORT,
                -1,
                LOW,
                "Their replicas.",
                _CountOrDefault(),
                "Topic Creation",
            ),
        ).validate(props)
    return {name: each for name, each in found.items() if each.errors}
