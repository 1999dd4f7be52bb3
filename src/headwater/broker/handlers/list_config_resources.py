"""ListConfigResources (key 74), versions 0 and 1: the names of what has configs.

v0 asks for client metrics only, v1 for the types it names, or for all. Of groups, those that have configs of their own
are told. Client metrics are a legal type of which nothing is configured here; so are loggers, whose levels
DescribeConfigs does not serve.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode
from headwater.broker.config_changes import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from headwater.broker.context import RequestContext
from headwater.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_LOGGER: Final = 8
_CLIENT_METRICS: Final = 16
_TYPES: Final = frozenset((TOPIC_RESOURCE, BROKER_RESOURCE, _LOGGER, _CLIENT_METRICS, GROUP_RESOURCE))


def handle(
    broker: "Broker", context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    wanted = {_CLIENT_METRICS} if context.api_version == 0 else set(request.resource_types) or _TYPES
    if not wanted <= _TYPES:
        return ListConfigResourcesResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION), config_resources=[])
    found = []
    if BROKER_RESOURCE in wanted:
        found += [(str(broker_id), BROKER_RESOURCE) for broker_id in sorted(broker.image.brokers)]
    if TOPIC_RESOURCE in wanted:
        found += [(name, TOPIC_RESOURCE) for name in sorted(broker.image.ids_by_name)]
    if GROUP_RESOURCE in wanted:
        found += [(name, GROUP_RESOURCE) for name, config in sorted(broker.image.group_configs.items()) if config]
    return ListConfigResourcesResponse(
        error_code=0, config_resources=[ConfigResource(resource_name=name, resource_type=kind) for name, kind in found]
    )
