"""Which schemas a topic takes, as its configs say: whether keys and values are held against a registry, and of which
subject they must be. Pure.

Confluent's names of the configs and ours mean the same: validation is on if either says so, and our strategy wins where
it is set.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headwater.base.config.table import TOPIC
from headwater.base.config.validators import ConfigValueError

_SWITCHES: Final = {
    False: ("headwater.value.schema.validation", "confluent.value.schema.validation"),
    True: ("headwater.key.schema.validation", "confluent.key.schema.validation"),
}
_STRATEGIES: Final = {
    False: ("headwater.value.subject.name.strategy", "confluent.value.subject.name.strategy"),
    True: ("headwater.key.subject.name.strategy", "confluent.key.subject.name.strategy"),
}


@dataclass(frozen=True, slots=True)
class SidePolicy:
    """What the keys, or the values, of a topic must name."""

    topic: str
    of_key: bool
    strategy: str  # topic, record or topic_record

    def subjects(self, record_names: frozenset[str]) -> frozenset[str]:
        """Under one of these the schema must be registered; `record_names` are of the types that it defines."""
        if self.strategy == "topic":
            return frozenset((f"{self.topic}-{'key' if self.of_key else 'value'}",))
        if self.strategy == "record":
            return record_names
        return frozenset(f"{self.topic}-{name}" for name in record_names)

    @property
    def noun(self) -> str:
        return "key" if self.of_key else "value"


@dataclass(frozen=True, slots=True)
class SchemaPolicy:
    sides: tuple[SidePolicy, ...]


def policy_of(topic: str, config: Mapping[str, str]) -> SchemaPolicy | None:
    """None for a topic that asks for nothing, which is nearly every one."""
    if not any(name.endswith(".schema.validation") for name in config):
        return None
    sides = tuple(
        SidePolicy(topic, of_key, _strategy(config, of_key))
        for of_key in (True, False)
        if any(_parsed(config, name) is True for name in _SWITCHES[of_key])
    )
    return SchemaPolicy(sides) if sides else None


def _strategy(config: Mapping[str, str], of_key: bool) -> str:
    for name in _STRATEGIES[of_key]:
        given = _parsed(config, name)
        if isinstance(given, str):
            return _short(given)
    return "topic"


def _parsed(config: Mapping[str, str], name: str) -> object:
    try:
        return TOPIC[name].parse(config[name]) if name in config else None
    except ConfigValueError:  # stored by a version that took it
        return None


def _short(name: str) -> str:
    """`topic`, `record`, `topic_record`; also for Confluent's classes, with or without their package."""
    last = name.rpartition(".")[2]
    return {
        "TopicNameStrategy": "topic",
        "RecordNameStrategy": "record",
        "TopicRecordNameStrategy": "topic_record",
    }.get(last, last)
