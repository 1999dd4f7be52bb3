"""IncrementalAlterConfigs (key 44), versions 0 and 1: sets, deletes, appends to and subtracts from single configs.

Append and subtract are for lists. What a topic has not set is taken from the table's default, as in Apache Kafka.
"""

from typing import TYPE_CHECKING

from headwater.broker.config_changes import Alterations
from headwater.broker.config_requests import operations_of
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.wire.messages.incremental_alter_configs import (
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
        operations_of(request),
        response=IncrementalAlterConfigsResponse,
        resource_response=AlterConfigsResourceResponse,
        validate_only=request.validate_only,
    ).submit()
