"""DescribeCluster: brokers and controller, without topics. Flexible from the start.

v1 can ask for the controllers' endpoints, v2 for brokers that are fenced.
"""

from headwater.wire.schema import BOOL, INT8, INT16, INT32, STRING, Array, Message, Struct, field


class DescribeClusterRequest(Message, key=60, versions=(0, 2), flexible_since=0):
    include_cluster_authorized_operations: bool = field(BOOL)
    endpoint_type: int = field(INT8, since=1, default=1)  # 1 brokers, 2 controllers
    include_fenced_brokers: bool = field(BOOL, since=2)


class DescribeClusterBroker(Struct):
    broker_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable_since=0)
    is_fenced: bool = field(BOOL, since=2)


class DescribeClusterResponse(Message, key=60, versions=(0, 2), flexible_since=0):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    endpoint_type: int = field(INT8, since=1, default=1)
    cluster_id: str = field(STRING)
    controller_id: int = field(INT32, default=-1)
    brokers: list[DescribeClusterBroker] = field(Array(DescribeClusterBroker))
    cluster_authorized_operations: int = field(INT32, default=-0x8000_0000)
