"""DescribeCluster (key 60), versions 0 to 2: the brokers, their addresses on the client's listener, and the controller.

v1 lets a client say whether it wants brokers or controllers; only brokers are here. v2 asks for fenced brokers too:
there are none.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.broker.handlers.metadata import CLUSTER_OPERATIONS, brokers_for
from headwater.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(broker: "Broker", context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=int(ErrorCode.MISMATCHED_ENDPOINT_TYPE),
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER",
        )
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=int(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
            error_message=f"Unsupported endpoint type {request.endpoint_type}",
        )
    response = DescribeClusterResponse(
        error_code=0,
        cluster_id=broker.image.cluster_id,
        controller_id=broker.image.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=state.node_id, host=state.host, port=state.port, rack=state.rack)
            for state in brokers_for(broker, context.connection.listener)
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
