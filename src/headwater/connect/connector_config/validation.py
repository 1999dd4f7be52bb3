"""The whole check of a connector's config before anything starts, and its answer as Kafka Connect's REST door gives
it.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple

from headwater.base.config.definition import ConfigType
from headwater.connect.config.definition import (
    ConfigDef,
    ConfigKey,
    ConfigValue,
    Props,
    converter_config,
    own_config,
    text_of,
    unknown_property,
)
from headwater.connect.config.keys import LOW, text
from headwater.connect.config.secrets import forms_of, is_secret, redacted, secrets_in_addresses, shown
from headwater.connect.connector_config.common import (
    ERRORS,
    PREDICATES,
    TRANSFORMS,
    common_def,
    connector_def,
    step_keys,
)
from headwater.connect.connector_config.topic_creation_keys import wrong_topic_creation
from headwater.connect.errors import ConfigError, ConnectError
from headwater.connect.java_regex import compile_java
from headwater.connect.plugins import Catalog, Kind, Plugin

_CONVERTERS = ("key.converter", "value.converter", "header.converter")


class Validation(NamedTuple):
    name: str  # of the class, as it was given
    groups: list[str]
    values: dict[str, ConfigValue]

    @property
    def errors(self) -> list[str]:
        return [error for each in self.values.values() for error in each.errors]

    def hiding(self, secrets: set[str], given: Props, resolved: Props) -> "Validation":
        """Without what config providers gave: a property that refers to one has its reference as value again."""
        values = {}
        for name, each in self.values.items():
            changed = given.get(name) != resolved.get(name)
            value = given[name] if changed else each.value if name in given else _hidden(each.value, secrets)
            errors = [redacted(error, secrets) for error in each.errors]
            values[name] = replace(each, value=value, errors=errors, recommended=_hidden(each.recommended, secrets))
        return Validation(self.name, [redacted(each, secrets) for each in self.groups], values)

    def answer(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "error_count": len(self.errors),
            "groups": self.groups,
            "configs": [
                {"definition": definition_answer(each.key), "value": _value(each)} for each in self.values.values()
            ],
        }


def names_plugins(name: str) -> bool:
    """Properties that say which other properties there are: their values come back as names."""
    return name in ("connector.class", "transforms", "predicates") or (
        name.startswith(("transforms.", "predicates.")) and name.endswith(".type")
    )


def _hidden(value: Any, secrets: set[str]) -> Any:
    if isinstance(value, list):
        return [_hidden(each, secrets) for each in value]
    return redacted(value, secrets) if isinstance(value, str) else value


def definition_answer(key: ConfigKey) -> dict[str, Any]:
    return {
        "name": key.name,
        "type": key.type.name,
        "required": key.required,
        "default_value": text_of(key, key.default),
        "importance": key.importance.name,
        "documentation": key.doc,
        "group": key.group,
        "order_in_group": key.order,
        "width": key.width,
        "display_name": key.display_name or key.name,
        "dependents": list(key.dependents),
    }


def _value(found: ConfigValue) -> dict[str, Any]:
    """As GET of a connector shows it: nothing that is secret by its type or name, and no address with a password."""
    name = found.key.name
    wrong = isinstance(found.value, str) and found.errors and not is_secret(name)
    text = found.value if wrong and found.key.type is not ConfigType.PASSWORD else text_of(found.key, found.value)
    in_addresses = forms_of(secrets_in_addresses(text or ""))
    return {
        "name": name,
        "value": text if text is None or found.value == found.key.default else shown({name: text})[name],
        "recommended_values": found.recommended,
        "errors": [redacted(error, in_addresses) for error in found.errors],
        "visible": found.visible,
    }


class Delivery(StrEnum):
    """What a worker does with the records of sources."""

    STANDALONE = "standalone"
    AT_LEAST_ONCE = "at least once"
    EXACTLY_ONCE = "exactly once"


def validate(catalog: Catalog, props: Mapping[str, str], delivery: Delivery = Delivery.STANDALONE) -> Validation:
    """Raises ConnectError if the class itself is missing or not known."""
    given = props.get("connector.class")
    if not given:
        raise ConfigError("Connector config contains no connector type", name="connector.class")
    plugin = catalog.connector(given)
    groups = ["Common", TRANSFORMS, PREDICATES, ERRORS]
    if plugin.kind is Kind.SOURCE:
        groups += ["Topic Creation", "Exactly Once Support", "offsets.topic"]
    values = connector_def(catalog, plugin.kind).validate(props)
    for kind, name, title in (
        (Kind.TRANSFORMATION, "transforms", "Transforms"),
        (Kind.PREDICATE, "predicates", "Predicates"),
    ):
        aliases = values[name].value if isinstance(values[name].value, list) else []
        written = [each.strip() for each in (props.get(name) or "").split(",")]  # a list has each entry once
        if len(written) > len(aliases) > 0:
            listed = ", ".join(written)
            values[name].errors.append(f"Invalid value [{listed}] for configuration {name}: Duplicate alias provided.")
        for alias in aliases:
            groups.append(f"{title}: {alias}")
            values |= _step(catalog, props, f"{name}.{alias}.", groups[-1], kind)
    _check_predicates(values)
    own = plugin.config_def.validate(props)
    try:
        plugin.make().validate(props, own)
    except ConnectError as error:
        next(iter(own.values())).errors.append(str(error))
    values |= own
    values |= _converters(catalog, props, values)
    _check_together(plugin, values)
    if plugin.kind is Kind.SOURCE:
        named = values["topic.creation.groups"].value
        values |= wrong_topic_creation(props, named if isinstance(named, list) else [])
        _check_delivery(plugin, props, values, delivery)
    return Validation(given, groups, values)


def _step(catalog: Catalog, props: Props, prefix: str, group: str, kind: Kind) -> dict[str, ConfigValue]:
    values = ConfigDef(*step_keys(catalog, prefix, group, kind)).validate(props)
    found = values[f"{prefix}type"]
    if found.errors:
        return values
    step = catalog.find(str(found.value), kind)
    _check_version(values[f"{prefix}plugin.version"], step)
    own = own_config(prefix, {k: v or "" for k, v in props.items()})
    checked = step.config_def.validate(own)
    if not any(each.errors for each in checked.values()):
        try:
            made = step.make()
            made.configure(own)
            made.close()
        except ConnectError as error:
            found.errors.append(str(error))
    return values | {prefix + name: _prefixed(each, prefix, group) for name, each in checked.items()}


def _prefixed(found: ConfigValue, prefix: str, group: str | None) -> ConfigValue:
    key = found.key
    named = ConfigKey(
        prefix + key.name,
        key.type,
        key.default,
        key.importance,
        key.doc,
        key.validator,
        group,
        key.width,
        key.display_name or key.name,
    )
    errors = [
        each.replace(f"configuration {key.name}", f"configuration {prefix}{key.name}").replace(
            f'"{key.name}"', f'"{prefix}{key.name}"'
        )
        for each in found.errors
    ]
    return ConfigValue(named, found.value, found.recommended, errors, found.visible)


def _check_predicates(values: dict[str, ConfigValue]) -> None:
    aliases = values["predicates"].value or []
    for name, found in values.items():
        if (
            name.startswith("transforms.")
            and name.endswith(".predicate")
            and found.value is not None
            and found.value not in aliases
        ):
            found.errors.append(f"Unknown predicate: {found.value}")


def _converters(catalog: Catalog, props: Props, values: dict[str, ConfigValue]) -> dict[str, ConfigValue]:
    """The settings of converters that the connector brings itself."""
    made: dict[str, ConfigValue] = {}
    for part, kind in (("key", Kind.CONVERTER), ("value", Kind.CONVERTER), ("header", Kind.HEADER_CONVERTER)):
        name = f"{part}.converter"
        found = values[name]
        if found.value is None or found.errors:
            continue
        prefix = f"{name}."
        own = converter_config(part, {k: v or "" for k, v in props.items()}) | {"converter.type": part}
        plugin = catalog.find(str(found.value), kind)
        _check_version(values[f"{prefix}plugin.version"], plugin)
        checked = plugin.config_def.validate(own)
        for each in plugin.cls.unknown(own.keys() - {"converter.type"}):
            key = text(each, None, LOW, "Not known here.")
            checked[each] = ConfigValue(key, own[each], errors=[unknown_property(plugin.cls.__name__, prefix + each)])
        made |= {prefix + each: _prefixed(value, prefix, None) for each, value in checked.items()}
    return made


def wrong_converters(catalog: Catalog, worker: Props) -> list[str]:
    """What is wrong with the worker's own converters, which connectors have that bring none."""
    keys = [key for key in common_def(catalog) if key.name.startswith(_CONVERTERS)]
    values = ConfigDef(*keys).validate(worker)
    values |= _converters(catalog, worker, values)
    return [error for each in values.values() for error in each.errors]


def _check_together(plugin: Plugin, values: dict[str, ConfigValue]) -> None:
    _check_version(values["connector.plugin.version"], plugin)
    if plugin.kind is Kind.SINK:
        topics, regex = bool(values["topics"].value), bool(values["topics.regex"].value)
        if topics and regex:
            for name in ("topics", "topics.regex"):
                values[name].errors.append("topics and topics.regex are mutually exclusive options, but both are set.")
        elif not topics and not regex:
            for name in ("topics", "topics.regex"):
                values[name].errors.append("Must configure one of topics or topics.regex")
        _check_dead_letters(values["errors.deadletterqueue.topic.name"], values["topics"], values["topics.regex"])


def _check_version(asked: ConfigValue, plugin: Plugin) -> None:
    wrong = plugin.wrong_version(asked.value)
    if wrong is not None:
        asked.errors.append(wrong)


def _check_dead_letters(dead: ConfigValue, topics: ConfigValue, regex: ConfigValue) -> None:
    """A sink that reads its own dead letters would never come to an end."""
    if not dead.value:
        return
    if isinstance(topics.value, list) and dead.value in topics.value:
        dead.errors.append(
            f"The DLQ topic '{dead.value}' may not be included in the list of topics "
            f"('topics=[{', '.join(topics.value)}]') consumed by the connector"
        )
    if regex.value and not regex.errors and compile_java(str(regex.value)).fullmatch(str(dead.value)):
        dead.errors.append(
            f"The DLQ topic '{dead.value}' may not be matched by the regex for the topics "
            f"('topics.regex={regex.value}') consumed by the connector"
        )


def _check_delivery(plugin: Plugin, props: Props, values: dict[str, ConfigValue], delivery: Delivery) -> None:
    if str(values["exactly.once.support"].value).lower() == "required":
        errors = values["exactly.once.support"].errors
        if delivery is Delivery.STANDALONE:
            errors.append("A standalone worker does not write exactly once: distributed ones do")
        elif delivery is Delivery.AT_LEAST_ONCE:
            errors.append("This worker does not have exactly.once.source.support=enabled")
        elif not plugin.cls.exactly_once:
            errors.append("The connector does not support exactly-once semantics with the provided configuration.")
    boundary = values["transaction.boundary"]
    if str(boundary.value).lower() == "connector" and not plugin.cls.sets_transaction_boundaries:
        boundary.errors.append(
            "The connector does not support connector-defined transaction boundaries with the given configuration. Please reconfigure "
            "it to use a different transaction boundary definition."
        )
    needed = plugin.cls.stdin_without
    if needed is not None and not props.get(needed) and delivery is not Delivery.STANDALONE:
        values[needed].errors.append(
            f"Workers of a group need {needed}: without it lines come from stdin, which only a standalone worker reads"
        )
    if props.get("offsets.storage.topic") and delivery is Delivery.STANDALONE:
        values["offsets.storage.topic"].errors.append(
            "A worker alone keeps offsets in its file: workers of a group have topics"
        )
