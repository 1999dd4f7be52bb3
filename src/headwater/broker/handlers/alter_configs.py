"""AlterConfigs (key 33), versions 0 to 2: replaces the whole dynamic config of topics and brokers.

What the request does not name goes back to its default. The older of the two APIs; the newer one is incremental.
"""

from typing import TYPE_CHECKING

from headwater.broker.config_changes import Alterations
from headwater.broker.config_requests import replacements_of
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.wire.messages.alter_configs import (
    AlterConfigsRequest,
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
        replacements_of(request),
        response=AlterConfigsResponse,
        resource_response=AlterConfigsResourceResponse,
        validate_only=request.validate_only,
    ).submit()
