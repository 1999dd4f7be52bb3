"""Admin calls about settings: of topics, brokers, groups, client metrics, loggers.

The settings of a broker, and its loggers, are asked of itself; the others of any broker. No state.
"""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeVar

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.admin.call_routing import each_of, every_broker, failure, of_any, of_broker
from headwater.client.errors import error_for, raise_for
from headwater.client.session import Session
from headwater.client.types import ConfigEntry, ConfigResource, ConfigSynonym, ResourceType
from headwater.wire.messages import alter_configs as replace_wire
from headwater.wire.messages import describe_configs as describe_wire
from headwater.wire.messages import incremental_alter_configs as alter_wire
from headwater.wire.messages import list_config_resources as list_wire
from headwater.wire.schema import Message

R = TypeVar("R", bound=Message)
V = TypeVar("V")

_SOURCES: Final = {
    0: "unknown",
    1: "topic",
    2: "dynamic-broker",
    3: "dynamic-default",
    4: "static-broker",
    5: "default",
    6: "dynamic-logger",
    7: "client-metrics",
    8: "group",
}
_TYPES: Final = ("unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password")
_OWN: Final = (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
_LIST_ALL_SINCE: Final = 1


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2  # these and SUBTRACT: to settings that are lists
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


Changes = Mapping[str, str | None] | Iterable[ConfigChange]


async def describe_configs(
    session: Session,
    resources: Iterable[ConfigResource],
    *,
    keys: Iterable[str] | None = None,
    synonyms: bool = False,
    documentation: bool = False,
) -> dict[ConfigResource, list[ConfigEntry] | KafkaError]:
    """All settings of each resource, or those named, by name. An empty name of a broker: the defaults of all
    brokers.
    """
    wanted = None if keys is None else list(keys)

    async def ask(asked: list[ConfigResource]) -> dict[ConfigResource, list[ConfigEntry] | KafkaError]:
        request = describe_wire.DescribeConfigsRequest(
            resources=[
                describe_wire.DescribeConfigsResource(
                    resource_type=each.type, resource_name=each.name, configuration_keys=wanted
                )
                for each in asked
            ],
            include_synonyms=synonyms,
            include_documentation=documentation,
        )
        response = await _call(session, asked[0], request, describe_wire.DescribeConfigsResponse)
        return {
            _resource(each.resource_type, each.resource_name): error_for(each.error_code, each.error_message)
            if each.error_code
            else sorted((_entry(config) for config in each.configs), key=lambda entry: entry.name)
            for each in response.results
        }

    return await _together(session, resources, ask)


async def alter_configs(
    session: Session, changes: Mapping[ConfigResource, Changes], *, validate_only: bool = False
) -> dict[ConfigResource, KafkaError | None]:
    """Changes single settings and leaves the others as they are. None as value takes a setting away: the default holds
    again.
    """

    async def ask(asked: list[ConfigResource]) -> dict[ConfigResource, KafkaError | None]:
        request = alter_wire.IncrementalAlterConfigsRequest(
            resources=[
                alter_wire.AlterConfigsResource(
                    resource_type=each.type, resource_name=each.name, configs=_alterable(changes[each])
                )
                for each in asked
            ],
            validate_only=validate_only,
        )
        response = await _call(session, asked[0], request, alter_wire.IncrementalAlterConfigsResponse)
        return {
            _resource(each.resource_type, each.resource_name): failure(each.error_code, each.error_message)
            for each in response.responses
        }

    return await _together(session, changes, ask)


async def replace_configs(
    session: Session, configs: Mapping[ConfigResource, Mapping[str, str | None]], *, validate_only: bool = False
) -> dict[ConfigResource, KafkaError | None]:
    """Gives resources exactly these settings: all others go back to their defaults. For brokers too old for
    `alter_configs`.
    """

    async def ask(asked: list[ConfigResource]) -> dict[ConfigResource, KafkaError | None]:
        request = replace_wire.AlterConfigsRequest(
            resources=[
                replace_wire.AlterConfigsResource(
                    resource_type=each.type,
                    resource_name=each.name,
                    configs=[
                        replace_wire.AlterableConfig(name=name, value=configs[each][name]) for name in configs[each]
                    ],
                )
                for each in asked
            ],
            validate_only=validate_only,
        )
        response = await _call(session, asked[0], request, replace_wire.AlterConfigsResponse)
        return {
            _resource(each.resource_type, each.resource_name): failure(each.error_code, each.error_message)
            for each in response.responses
        }

    return await _together(session, configs, ask)


async def list_config_resources(session: Session, types: Iterable[ResourceType] = ()) -> list[ConfigResource]:
    """Everything that has settings, or all of these types. A broker before version 4.1 can only list client metrics."""
    wanted = list(types)
    request = list_wire.ListConfigResourcesRequest(resource_types=[int(each) for each in wanted])
    if wanted != [ResourceType.CLIENT_METRICS]:
        await _check_lists_all(session, request)
    response = await of_any(session, request, list_wire.ListConfigResourcesResponse)
    raise_for(response.error_code, "the resources that have settings cannot be listed")
    return sorted(_resource(each.resource_type, each.resource_name) for each in response.config_resources)


async def list_client_metrics(session: Session) -> list[str]:
    """The names of the subscriptions to client metrics."""
    return [each.name for each in await list_config_resources(session, [ResourceType.CLIENT_METRICS])]


async def _check_lists_all(session: Session, request: list_wire.ListConfigResourcesRequest) -> None:
    """An old broker would leave the types out, and list client metrics instead."""
    await every_broker(session)
    link = await session.link(min(session.view.brokers))
    if link.version_for(request) < _LIST_ALL_SINCE:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the broker can only list client metrics")


async def _together(
    session: Session,
    resources: Iterable[ConfigResource],
    ask: Callable[[list[ConfigResource]], Coroutine[Any, Any, dict[ConfigResource, V]]],
) -> dict[ConfigResource, V | KafkaError]:
    """One request per broker that must be asked itself, and one for all the rest; in the order given."""
    wanted = list(dict.fromkeys(ConfigResource(ResourceType(each.type), each.name) for each in resources))
    groups: dict[str | None, list[ConfigResource]] = {}
    for each in wanted:
        groups.setdefault(each.name if each.type in _OWN and each.name else None, []).append(each)
    answered = await each_of(session, groups, lambda group: ask(groups[group]))
    outcome: dict[ConfigResource, V | KafkaError] = {}
    for group, answer in answered.items():
        for each in groups[group]:
            if isinstance(answer, KafkaError):
                outcome[each] = answer
            elif each in answer:
                outcome[each] = answer[each]
            else:
                outcome[each] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker said nothing about it")
    return {each: outcome[each] for each in wanted}


async def _call(session: Session, resource: ConfigResource, request: Message, response_type: type[R]) -> R:
    if resource.type not in _OWN or not resource.name:
        return await of_any(session, request, response_type)
    if not resource.name.isdigit():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{resource.name!r} is not the number of a broker")
    return await of_broker(session, int(resource.name), request, response_type)


def _resource(kind: int, name: str) -> ConfigResource:
    return ConfigResource(ResourceType(kind), name)


def _alterable(changes: Changes) -> list[alter_wire.AlterableConfig]:
    if isinstance(changes, Mapping):
        changes = [
            ConfigChange(name, value, ConfigOperation.DELETE if value is None else ConfigOperation.SET)
            for name, value in changes.items()
        ]
    return [
        alter_wire.AlterableConfig(name=each.name, config_operation=each.operation, value=each.value)
        for each in changes
    ]


def _entry(config: describe_wire.DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=_source(config.config_source),
        read_only=config.read_only,
        sensitive=config.is_sensitive,
        type=_TYPES[config.config_type] if 0 <= config.config_type < len(_TYPES) else "unknown",
        documentation=config.documentation,
        synonyms=[ConfigSynonym(each.name, each.value, _source(each.source)) for each in config.synonyms],
    )


def _source(number: int) -> str:
    return _SOURCES.get(number, "unknown")
