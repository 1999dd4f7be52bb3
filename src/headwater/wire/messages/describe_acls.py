"""DescribeAcls: the access rules that match a filter.

v1 has prefixed patterns, v2 is flexible, v3 knows users as resources.

Resource types: 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user (v3). Patterns: 3
literal, 4 prefixed; in filters also 1 any, 2 match.
"""

from headwater.wire.schema import INT8, INT16, INT32, STRING, Array, Message, Struct, field


class DescribeAclsRequest(Message, key=29, versions=(1, 3), flexible_since=2):
    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable_since=0)
    pattern_type_filter: int = field(INT8, default=3)
    principal_filter: str | None = field(STRING, nullable_since=0)
    host_filter: str | None = field(STRING, nullable_since=0)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class AclDescription(Struct):
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class DescribeAclsResource(Struct):
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, default=3)
    acls: list[AclDescription] = field(Array(AclDescription))


class DescribeAclsResponse(Message, key=29, versions=(1, 3), flexible_since=2):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    resources: list[DescribeAclsResource] = field(Array(DescribeAclsResource))
