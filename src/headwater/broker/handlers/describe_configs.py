"""DescribeConfigs (key 32), versions 1 to 4: the configs of topics, brokers and groups, with where each value comes
from.

A broker answers for itself, any broker for groups; the empty broker name stands for what is set dynamically for all. No
keys, or an empty list of them, asks for everything; keys that do not exist are left out. v3 has types and, on demand,
documentation.
"""

from typing import TYPE_CHECKING

from headwater.base.config.describe import ConfigEntry, describe_broker, describe_broker_defaults, describe_topic
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.names import validate_topic_name
from headwater.broker.config_changes import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from headwater.broker.context import RequestContext
from headwater.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse:
    results = []
    for resource in request.resources:
        result = DescribeConfigsResult(
            error_code=0,
            error_message="",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[],
        )
        try:
            entries = _entries(broker, resource)
        except KafkaError as problem:
            result.error_code, result.error_message = int(problem.code), problem.message or ""
        else:
            result.configs = [_result(entry, request) for entry in entries]
        results.append(result)
    return DescribeConfigsResponse(results=results)


def _entries(broker: "Broker", resource: DescribeConfigsResource) -> list[ConfigEntry]:
    name, keys = resource.resource_name, resource.configuration_keys
    if resource.resource_type == TOPIC_RESOURCE:
        validate_topic_name(name)
        return describe_topic(broker.config, broker.image.topic(name).config, keys)
    if resource.resource_type == BROKER_RESOURCE:
        if name == "":
            return describe_broker_defaults(broker.config, keys)
        if name == str(broker.broker_id):
            return describe_broker(broker.config, keys)
        raise KafkaError(ErrorCode.INVALID_REQUEST, _not_this_broker(broker, name))
    if resource.resource_type == GROUP_RESOURCE:
        if name == "":
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        from headwater.base.config.group import describe_group  # rare; not at start-up

        return describe_group(broker.config, broker.image.group_configs.get(name, {}), keys)
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type {resource.resource_type}")


def _not_this_broker(broker: "Broker", name: str) -> str:
    if not name.isascii() or not name.lstrip("-").isdigit():
        return f"Broker id must be an integer, but it is: {name}"
    return f"Unexpected broker id, expected {broker.broker_id} or empty string, but received {name}"


def _result(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=int(entry.source),
        is_sensitive=entry.definition.is_sensitive,
        synonyms=[DescribeConfigsSynonym(name=s.name, value=s.value, source=int(s.source)) for s in synonyms],
        config_type=int(entry.definition.type),
        documentation=entry.definition.doc if request.include_documentation else None,
    )
