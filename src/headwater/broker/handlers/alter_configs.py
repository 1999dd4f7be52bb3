"""AlterConfigs (key 33), versions 0 to 2: replaces the whole dynamic config of topics and brokers.

What the request does not name goes back to its default. The older of the two APIs; the newer one is incremental.
"""

from typing import TYPE_CHECKING

from headwater.base.config.alter import ConfigOperation, Operation, check_operations
from headwater.broker.config_changes import Alteration, Alterations
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: AlterConfigsRequest,
) -> Deferred:
    return Alterations(
        broker,
        alterations_of(request),
        response=AlterConfigsResponse,
        resource_response=AlterConfigsResourceResponse,
        validate_only=request.validate_only,
    ).submit()


def alterations_of(request: AlterConfigsRequest) -> list[Alteration]:
    return [Alteration(r.resource_type, r.resource_name, _Replacement(r)) for r in request.resources]


class _Replacement:
    """As operations: what is there and not named is deleted, the rest is set."""

    def __init__(self, resource: AlterConfigsResource) -> None:
        self._resource = resource

    def __call__(self, current: dict[str, str]) -> list[ConfigOperation]:
        named = {config.name for config in self._resource.configs}
        wanted = check_operations((c.name, int(Operation.SET), c.value) for c in self._resource.configs)
        return [ConfigOperation(name, Operation.DELETE, None) for name in current if name not in named] + wanted
