"""IncrementalAlterConfigs (key 44), versions 0 and 1: sets, deletes, appends to and subtracts from single configs.

Append and subtract are for lists. What a topic has not set is taken from the table's default, as in Apache Kafka.
"""

from typing import TYPE_CHECKING

from headwater.base.config.alter import ConfigOperation, check_operations
from headwater.broker.config_changes import Alteration, Alterations
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: IncrementalAlterConfigsRequest,
) -> Deferred:
    return Alterations(
        broker,
        alterations_of(request),
        response=IncrementalAlterConfigsResponse,
        resource_response=AlterConfigsResourceResponse,
        validate_only=request.validate_only,
    ).submit()


def alterations_of(request: IncrementalAlterConfigsRequest) -> list[Alteration]:
    return [Alteration(r.resource_type, r.resource_name, _Operations(r)) for r in request.resources]


class _Operations:
    def __init__(self, resource: AlterConfigsResource) -> None:
        self._resource = resource

    def __call__(self, current: dict[str, str]) -> list[ConfigOperation]:  # noqa: ARG002
        return check_operations((c.name, c.config_operation, c.value) for c in self._resource.configs)
