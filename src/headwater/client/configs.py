"""Settings of topics and brokers, and the log directories of brokers: the admin calls that look into one broker.

Topic settings are answered by any broker; those of a broker, and its directories, by itself. No state.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.cluster import Cluster
from headwater.client.errors import error_for, raise_for
from headwater.client.types import ConfigEntry, LogDir, LogDirReplica, ResourceType
from headwater.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from headwater.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from headwater.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from headwater.wire.schema import Message

R = TypeVar("R", bound=Message)

_SET: Final = 0
_DELETE: Final = 1
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


def describe_configs(
    cluster: Cluster, kind: ResourceType, name: str, keys: list[str] | None = None, *, documentation: bool = False
) -> list[ConfigEntry]:
    """All settings of a topic or broker, or those named, by name."""
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)],
        include_documentation=documentation,
    )
    response = _call(cluster, kind, name, request, DescribeConfigsResponse)
    entries = []
    for result in response.results:
        raise_for(result.error_code, result.error_message)
        entries += [_entry(config) for config in result.configs]
    return sorted(entries, key=lambda entry: entry.name)


def alter_configs(
    cluster: Cluster, kind: ResourceType, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False
) -> None:
    """Sets each key to its value; None takes the setting away, so that the default holds again."""
    configs = [
        AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
        for key, value in changes.items()
    ]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)],
        validate_only=validate_only,
    )
    response = _call(cluster, kind, name, request, IncrementalAlterConfigsResponse)
    for result in response.responses:
        raise_for(result.error_code, result.error_message)


def describe_log_dirs(cluster: Cluster, broker_ids: list[int] | None = None) -> list[LogDir]:
    """The log directories of these brokers, or of all."""
    cluster.refresh()
    dirs = []
    for broker_id in broker_ids if broker_ids is not None else sorted(cluster.view.brokers):
        response = cluster.broker(broker_id).call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
        raise_for(response.error_code)
        dirs += [_log_dir(broker_id, result) for result in response.results]
    return dirs


def _call(cluster: Cluster, kind: ResourceType, name: str, request: Message, response_type: type[R]) -> R:
    """A broker's own settings are asked of itself; an empty name means the defaults of all brokers."""
    if kind != ResourceType.BROKER or not name:
        return cluster.call_any(request, response_type)
    if not name.isdigit():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name!r} is not the number of a broker")
    return cluster.broker(int(name)).call(request, response_type)


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=_SOURCES.get(config.config_source, "unknown"),
        read_only=config.read_only,
        sensitive=config.is_sensitive,
        type=_TYPES[config.config_type] if 0 <= config.config_type < len(_TYPES) else "unknown",
        documentation=config.documentation,
    )


def _log_dir(broker_id: int, result: DescribeLogDirsResult) -> LogDir:
    replicas = [
        LogDirReplica(topic.name, each.partition_index, each.partition_size, each.offset_lag, each.is_future_key)
        for topic in result.topics
        for each in topic.partitions
    ]
    return LogDir(
        broker=broker_id,
        path=result.log_dir,
        error=error_for(result.error_code).code,
        total_bytes=result.total_bytes,
        usable_bytes=result.usable_bytes,
        replicas=sorted(replicas),
    )
