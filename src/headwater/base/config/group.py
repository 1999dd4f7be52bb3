"""Group configs (KIP-848, KIP-1043): what one consumer group may have other than the broker's `group.*` properties.
Pure.

A group config is called as the broker property that stands in for it, without `group.` in front. Where the broker has a
least and a most for it, a group stays between them. Configs of share and streams groups are taken, as Apache Kafka
takes them, and have no effect: there are no such groups here.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from headwater.base.config.alter import ConfigOperation, apply_operations
from headwater.base.config.broker import BrokerConfig
from headwater.base.config.definition import (
    ConfigType,
    Definition,
    DynamicMode,
    Scope,
    Synonym,
    Value,
    format_value,
)
from headwater.base.config.describe import ConfigEntry, ConfigSource, SynonymEntry, selected
from headwater.base.config.table import BROKER
from headwater.base.config.validators import AtLeast, ConfigValueError, OneOf, Validator
from headwater.base.errors import ErrorCode, KafkaError

CONSUMER_SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
CONSUMER_HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
CONSUMER_ASSIGNMENT_INTERVAL: Final = "consumer.assignment.interval.ms"


def _group(
    name: str, type_: ConfigType, default: Value, doc: str, validator: Validator, *, used: bool = True
) -> Definition:
    broker = f"group.{name}"
    synonyms = (Synonym(broker),) if broker in BROKER else ()
    return Definition(
        name, type_, default, doc, validator, DynamicMode.CLUSTER_WIDE, scope=Scope.GROUP, synonyms=synonyms, used=used
    )


# fmt: off
# one row, one line
DEFINITIONS: Final = (
    _group(CONSUMER_SESSION_TIMEOUT, ConfigType.INT, 45000, "The session timeout of the group's members, in the consumer protocol.", AtLeast(1)),
    _group(CONSUMER_HEARTBEAT_INTERVAL, ConfigType.INT, 5000, "How often members report, in the consumer protocol.", AtLeast(1)),
    _group(CONSUMER_ASSIGNMENT_INTERVAL, ConfigType.INT, 1000, "How often at the most the group computes its assignment anew, in the consumer protocol.", AtLeast(0)),
    _group("share.session.timeout.ms", ConfigType.INT, 45000, "The session timeout of a share group.", AtLeast(1), used=False),
    _group("share.heartbeat.interval.ms", ConfigType.INT, 5000, "How often members of a share group report.", AtLeast(1), used=False),
    _group("share.record.lock.duration.ms", ConfigType.INT, 30000, "How long a member of a share group has a record for itself.", AtLeast(1), used=False),
    _group("share.auto.offset.reset", ConfigType.STRING, "latest", "Where a share group begins.", OneOf("latest", "earliest"), used=False),
    _group("share.isolation.level", ConfigType.STRING, "read_uncommitted", "Which records a share group reads.", OneOf("read_committed", "read_uncommitted"), used=False),
    _group("streams.session.timeout.ms", ConfigType.INT, 45000, "The session timeout of a streams group.", AtLeast(1), used=False),
    _group("streams.heartbeat.interval.ms", ConfigType.INT, 5000, "How often members of a streams group report.", AtLeast(1), used=False),
    _group("streams.num.standby.replicas", ConfigType.INT, 0, "How many standby tasks a streams group has.", AtLeast(0), used=False),
)
# fmt: on
_RANGES: Final = {
    CONSUMER_SESSION_TIMEOUT: ("group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    CONSUMER_HEARTBEAT_INTERVAL: (
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
}  # broker properties: the least and the most that a group may say
GROUP: Final = {definition.name: definition for definition in DEFINITIONS}


def altered_group_configs(
    config: BrokerConfig, current: Mapping[str, str], operations: Iterable[ConfigOperation]
) -> dict[str, str]:
    """A group's overrides after the operations; raises KafkaError(INVALID_CONFIG).

    What they do not name is not checked: another version may have stored it, or under other limits.
    """
    operations = list(operations)
    result = apply_operations(GROUP, current, operations)
    named = {operation.name for operation in operations}
    for name in [each.name for each in operations if each.name in result]:
        if name not in GROUP:
            raise _refusal(f"Unknown group config name: {name}")
        try:
            value = GROUP[name].parse(result[name])
        except ConfigValueError as problem:
            raise _refusal(str(problem)) from None
        _check_range(config, name, value)
    for kind in ("consumer", "share", "streams"):
        pair = (f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms")
        if named.isdisjoint(pair) or result.keys().isdisjoint(pair):
            continue
        timeout_ms, interval_ms = (group_number(result, each, config.int(f"group.{each}")) for each in pair)
        if timeout_ms <= interval_ms:
            raise _refusal(f"{pair[0]} must be greater than {pair[1]}")
    return result


def _check_range(config: BrokerConfig, name: str, value: Value) -> None:
    if name not in _RANGES or not isinstance(value, int):
        return
    least, most = _RANGES[name]
    if value < config.int(least):
        raise _refusal(f"{name} must be greater than or equal to {least}")
    if value > config.int(most):
        raise _refusal(f"{name} must be less than or equal to {most}")


def _refusal(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def describe_group(
    config: BrokerConfig, overrides: Mapping[str, str], names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """All configs of a group, or those of `names` that there are."""
    entries = []
    for definition in selected(GROUP, names):
        default = config.value(definition.synonyms[0].name) if definition.synonyms else definition.default
        chain = [SynonymEntry(definition.name, format_value(default), ConfigSource.DEFAULT_CONFIG)]
        if definition.name in overrides:
            text = _shown(definition, overrides[definition.name])
            chain.insert(0, SynonymEntry(definition.name, text, ConfigSource.DYNAMIC_GROUP_CONFIG))
        entries.append(ConfigEntry(definition, chain[0].value, chain[0].source, chain, read_only=False))
    return entries


def _shown(definition: Definition, text: str) -> str | None:
    """What only another version can read is shown as it stands."""
    try:
        return format_value(definition.parse(text))
    except ConfigValueError:
        return text


def group_number(overrides: Mapping[str, str], name: str, otherwise: int) -> int:
    """What a group says, or what counts where it says nothing (or what only another version can read)."""
    if name not in overrides:
        return otherwise
    try:
        value = GROUP[name].parse(overrides[name])
    except ConfigValueError:
        return otherwise
    return value if isinstance(value, int) else otherwise
