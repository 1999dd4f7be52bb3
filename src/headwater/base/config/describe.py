"""What DescribeConfigs tells: each config's value, where it comes from, and what would stand in for it.

Synonyms are listed in the order in which they win. Passwords are told by name only. As in Apache Kafka, a default that
stands under another name than the config's first synonym (retention.ms has its default in log.retention.hours) is not
listed; but where somebody has set that other name, it is, and it is the source.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from headwater.base.config.broker import BrokerConfig
from headwater.base.config.definition import ConfigType, Definition, Synonym, format_value
from headwater.base.config.listener_config import definition_of
from headwater.base.config.table import BROKER, TOPIC


class ConfigSource(IntEnum):
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8


class SynonymEntry(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    definition: Definition
    value: str | None
    source: ConfigSource
    synonyms: list[SynonymEntry]
    read_only: bool

    @property
    def name(self) -> str:
        return self.definition.name


def describe_topic(
    config: BrokerConfig, overrides: Mapping[str, str], names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """All configs of a topic, or those of `names` that there are."""
    values = config.topic_values(overrides)
    if "segment.bytes" not in overrides and "internal.segment.bytes" in overrides:
        values["segment.bytes"] = config.topic_values({})["segment.bytes"]
    entries = []
    for definition in selected(TOPIC, names):
        value = format_value(values[definition.name])
        chain = _chain(config, definition.synonyms) if definition.synonyms else []
        if definition.name in overrides:
            chain.insert(0, SynonymEntry(definition.name, value, ConfigSource.TOPIC_CONFIG))
        entries.append(ConfigEntry(definition, value, _source(chain), chain, read_only=False))
    return entries


def describe_broker(config: BrokerConfig, names: Iterable[str] | None = None) -> list[ConfigEntry]:
    """All properties of this broker."""
    entries = []
    for definition in selected(BROKER, names, {*config.dynamic_broker, *config.dynamic_default}):
        synonyms = _broker_synonyms(definition)
        chain = _masked(definition, _from_name(_chain(config, synonyms, definition.name), definition.name))
        value = None if definition.is_sensitive else format_value(config.value(definition.name))
        entries.append(ConfigEntry(definition, value, _source(chain), chain, definition.mode == "read-only"))
    for_listeners = {name: text for name, text in config.static.items() if definition_of(name) is not None}
    layers = {
        ConfigSource.DYNAMIC_BROKER_CONFIG: config.dynamic_broker,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: config.dynamic_default,
        ConfigSource.STATIC_BROKER_CONFIG: for_listeners,
    }
    return entries + _beyond_the_table(config, layers, names)


def describe_broker_defaults(config: BrokerConfig, names: Iterable[str] | None = None) -> list[ConfigEntry]:
    """What has been set dynamically for all brokers, and nothing else."""
    entries = []
    for definition in selected(BROKER, names, set(config.dynamic_default)):
        if definition.name in config.dynamic_default:
            text = config.dynamic_default[definition.name]
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            chain = _masked(definition, [SynonymEntry(definition.name, text, source)])
            value = None if definition.is_sensitive else format_value(definition.parse(text))
            entries.append(ConfigEntry(definition, value, source, chain, definition.mode == "read-only"))
    layers = {ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: config.dynamic_default}
    return entries + _beyond_the_table(config, layers, names)


def _beyond_the_table(
    config: BrokerConfig, layers: Mapping[ConfigSource, Mapping[str, str]], names: Iterable[str] | None
) -> list[ConfigEntry]:
    """Configs of one listener (`listener.name.external.ssl.keystore.type`), with what stands in for them; and what was
    set and nobody knows: by name only, since nobody knows whether it is secret. Read-only, as Apache Kafka tells both.
    """
    wanted = set(names or ())
    chains: dict[str, list[SynonymEntry]] = {}
    for source, layer in layers.items():
        for name, text in layer.items():
            if name not in BROKER and (not wanted or name in wanted):
                chains.setdefault(name, []).append(SynonymEntry(name, text, source))
    entries = []
    for name, chain in sorted(chains.items()):
        for_all = definition_of(name)
        if for_all is not None:
            chain += _chain(config, _broker_synonyms(for_all), for_all.name)
            definition = for_all._replace(name=name)
        else:
            definition = Definition(name, ConfigType.UNKNOWN, None, "")
        shown = _masked(definition, chain)
        entries.append(ConfigEntry(definition, shown[0].value, shown[0].source, shown, read_only=True))
    return entries


def selected(
    table: Mapping[str, Definition], names: Iterable[str] | None, changed: Collection[str] = ()
) -> Iterator[Definition]:
    """No names, or an empty list of them, asks for everything; what is hidden is shown once it was `changed`."""
    wanted = set(names or ())
    for definition in table.values():
        shown = definition.name in changed or not definition.hidden
        if definition.name in wanted or (shown and not wanted):
            yield definition


def _broker_synonyms(definition: Definition) -> tuple[Synonym, ...]:
    return definition.synonyms or (Synonym(definition.name),)


def _chain(config: BrokerConfig, synonyms: tuple[Synonym, ...], name: str = "") -> list[SynonymEntry]:
    """Every layer that says something about one of the synonyms, in the order in which they win."""
    name = name or synonyms[0].name
    found = [
        SynonymEntry(synonym.name, layer[synonym.name], source)
        for layer, source in (
            (config.dynamic_broker, ConfigSource.DYNAMIC_BROKER_CONFIG),
            (config.dynamic_default, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            (config.static, ConfigSource.STATIC_BROKER_CONFIG),
        )
        for synonym in synonyms
        if synonym.name in layer
    ]
    for synonym in synonyms:
        default = format_value(BROKER[synonym.name].default)
        if default is not None and (found or synonym.name == name):
            found.append(SynonymEntry(synonym.name, default, ConfigSource.DEFAULT_CONFIG))
    return found


def _from_name(chain: list[SynonymEntry], name: str) -> list[SynonymEntry]:
    """A broker property is described under its own name: what only another one says is not its value."""
    first = next((index for index, entry in enumerate(chain) if entry.name == name), len(chain))
    return chain[first:]


def _masked(definition: Definition, chain: list[SynonymEntry]) -> list[SynonymEntry]:
    return [entry._replace(value=None) for entry in chain] if definition.is_sensitive else chain


def _source(chain: list[SynonymEntry]) -> ConfigSource:
    return chain[0].source if chain else ConfigSource.DEFAULT_CONFIG
