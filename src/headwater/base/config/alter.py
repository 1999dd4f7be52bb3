"""Changes to configs, checked before anyone stores them: pure functions, for CreateTopics, AlterConfigs and
IncrementalAlterConfigs.

Errors are those of Apache Kafka: INVALID_CONFIG for a topic's unknown names and bad values, INVALID_REQUEST for what a
broker may not change while it runs. As in Apache Kafka, a broker config that nobody knows is taken, and has no effect.
`listener.name.<listener>.<property>` is checked as the property. A password is encrypted by `password.encoder.secret`,
and refused where there is none, since the metadata would hold it readable. Mechanisms that a listener would not be
opened with are refused while it runs, too.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, NoReturn

from headwater.base.config.broker import BrokerConfig
from headwater.base.config.definition import ConfigType, Definition, DynamicMode, format_value
from headwater.base.config.listener_config import PREFIX, check_mechanism_changes, definition_of, is_listener_secret
from headwater.base.config.table import BROKER, TOPIC
from headwater.base.config.validators import ConfigValueError
from headwater.base.errors import ErrorCode, KafkaError, UserError

_UNKNOWN_CHARACTERS_MAX: Final = (
    16_384  # of one broker's configs that have no definition, and so no bounds of their own
)
_LISTENER_CHARACTERS_MAX: Final = 262_144  # of one broker's configs for listeners: a node of ZooKeeper holds a megabyte
_SECRET_NAMES: Final = tuple(name for name, definition in BROKER.items() if definition.is_sensitive)
_ENABLED: Final = "sasl.enabled.mechanisms"


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigOperation(NamedTuple):
    name: str
    operation: Operation
    value: str | None


def checked_topic_configs(configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """A topic's whole overrides, as a client sent them; the last of several settings of one name wins."""
    wanted = dict(configs)
    missing = [name for name, value in wanted.items() if value is None]
    if missing:
        _refuse(f"Null value not supported for topic configs: {','.join(missing)}")
    overrides = {name: value for name, value in wanted.items() if value is not None}
    validate_topic_configs(overrides)
    return overrides


def validate_topic_configs(overrides: Mapping[str, str]) -> None:
    """Raises KafkaError(INVALID_CONFIG) unless a topic may have all of these."""
    values = {}
    for name, text in overrides.items():
        definition = TOPIC.get(name)
        if definition is None:
            _refuse(f"Unknown topic config name: {name}")
        try:
            values[name] = definition.parse(text)
        except ConfigValueError as problem:
            _refuse(str(problem))
    if values.get("remote.storage.enable"):
        _refuse(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
        )
    least, most = (values.get(name, TOPIC[name].default) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms"))
    if isinstance(least, int) and isinstance(most, int) and least > most:
        _refuse(f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})")


def altered_topic_configs(current: Mapping[str, str], operations: Iterable[ConfigOperation]) -> dict[str, str]:
    """A topic's overrides after the operations, checked as a whole.

    A list that the topic has not set starts from the table's default, not from the broker's config.
    """
    result = apply_operations(TOPIC, current, operations)
    validate_topic_configs(result)
    return result


def altered_broker_configs(
    config: BrokerConfig,
    current: Mapping[str, str],
    operations: Iterable[ConfigOperation],
    *,
    one_broker: bool,
    random_bytes: Callable[[int], bytes],
) -> dict[str, str]:
    """The dynamic config of one broker, or of all, after the operations, as the metadata holds it."""
    operations = list(operations)
    result = apply_operations(BROKER, current, operations)
    _check_unknown({name: text for name, text in result.items() if name not in BROKER})  # they count together
    touched = [
        o.name for o in operations if o.operation is not Operation.DELETE and result.get(o.name) != current.get(o.name)
    ]
    validate_broker_configs(config, {name: result[name] for name in touched}, one_broker=one_broker)
    if one_broker and any(o.name.lower().endswith(_ENABLED) for o in operations):
        _check_mechanisms(config, current, result)
    secrets = {name: result[name] for name in touched if is_listener_secret(name)}
    return {**result, **_encrypted(config, secrets, random_bytes)}


def _encrypted(
    config: BrokerConfig, secrets: Mapping[str, str], random_bytes: Callable[[int], bytes]
) -> dict[str, str]:
    if not secrets:
        return {}
    encoder = config.password_encoder
    assert encoder is not None, "validate_broker_configs has refused them"
    try:
        return {name: encoder.encode(text, random_bytes) for name, text in secrets.items()}
    except UserError as problem:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(problem)) from None


def _check_mechanisms(config: BrokerConfig, current: Mapping[str, str], result: Mapping[str, str]) -> None:
    """Also what goes away counts: below it another setting may stand that was of no effect."""
    before, after = BrokerConfig(config.static), BrokerConfig(config.static)
    before.set_dynamic(config.dynamic_default, current)
    after.set_dynamic(config.dynamic_default, result)
    try:
        check_mechanism_changes(before, after)
    except UserError as problem:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(problem)) from None


def validate_broker_configs(config: BrokerConfig, overrides: Mapping[str, str], *, one_broker: bool) -> None:
    """Raises KafkaError(INVALID_REQUEST) unless these may change while brokers run."""
    _check_unknown({name: text for name, text in overrides.items() if name not in BROKER})
    known = {name: found for name in overrides if (found := definition_of(name)) is not None}
    fixed = [name for name, definition in known.items() if definition.mode is DynamicMode.READ_ONLY]
    if fixed:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    for_one = [name for name, definition in known.items() if definition.mode is DynamicMode.PER_BROKER]
    if for_one and not one_broker:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs at default cluster level, broker id must be specified: [{', '.join(for_one)}]",
        )
    _check_secrets(config, [name for name, definition in known.items() if definition.is_sensitive])
    meant = [name for name in overrides if name not in known and name.strip().lower().endswith(_SECRET_NAMES)]
    if meant:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "These look like passwords under names that nobody knows, and the metadata would hold them readable; write "
            f"{PREFIX}<listener>.<property> in small letters: [{', '.join(meant)}]",
        )
    bound = [name for name in ("listeners", "listener.security.protocol.map") if name in overrides]
    if any(overrides[name].strip() != format_value(config.value(name)) for name in bound):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"{' and '.join(bound)} can change only with a restart of this broker."
        )
    for name, definition in known.items():
        try:
            definition.parse(overrides[name])
        except ConfigValueError as problem:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(problem)) from None


def _check_unknown(texts: Mapping[str, str]) -> None:
    """Those for listeners count by themselves: certificates are long."""
    sizes = {True: 0, False: 0}
    for name, text in texts.items():
        sizes[definition_of(name) is not None] += len(name) + len(text)
    if sizes[False] > _UNKNOWN_CHARACTERS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Configs that nobody knows, of more than {_UNKNOWN_CHARACTERS_MAX} characters"
        )
    if sizes[True] > _LISTENER_CHARACTERS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Configs for listeners, of more than {_LISTENER_CHARACTERS_MAX} characters"
        )


def _check_secrets(config: BrokerConfig, secret: list[str]) -> None:
    for_all = [name for name in secret if not name.startswith(PREFIX)]
    if for_all:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "These security configs can be dynamically updated only per-listener using the listener prefix: "
            f"[{', '.join(for_all)}]",
        )
    if secret and config.password_encoder is None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "The metadata would hold these passwords readable; set password.encoder.secret in the properties file of "
            f"the brokers, or the passwords themselves: [{', '.join(secret)}]",
        )


def check_operations(operations: Iterable[tuple[str, int, str | None]]) -> list[ConfigOperation]:
    """The operations of one resource as a client sent them; raises KafkaError(INVALID_REQUEST)."""
    result = []
    for name, number, value in operations:
        if not 0 <= number <= 3:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {number} for {name}")
        result.append(ConfigOperation(name, Operation(number), value))
    if len({operation.name for operation in result}) != len(result):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    missing = [o.name for o in result if o.value is None and o.operation is not Operation.DELETE]
    if missing:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(missing)}")
    return result


def apply_operations(
    table: Mapping[str, Definition], current: Mapping[str, str], operations: Iterable[ConfigOperation]
) -> dict[str, str]:
    result = dict(current)
    for name, operation, value in operations:
        if operation is Operation.DELETE:
            result.pop(name, None)
            continue
        assert value is not None, name  # check_operations has seen to it
        if operation is Operation.SET:
            result[name] = value
            continue
        definition = table.get(name)
        if definition is None or definition.type is not ConfigType.LIST:
            _refuse(f"Can't {operation.name} to key {name} because its type is not LIST.")
        before = result.get(name)
        entries = _split(before if before is not None else format_value(definition.default) or "")
        change = _split(value)
        if operation is Operation.APPEND:
            entries += [entry for entry in change if entry not in entries]
        else:
            entries = [entry for entry in entries if entry not in change]
        result[name] = ",".join(entries)
    return result


def _split(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _refuse(message: str) -> NoReturn:
    raise KafkaError(ErrorCode.INVALID_CONFIG, message)
