"""DeleteAcls: removes the access rules that match filters, and answers which they were.

v1 has prefixed patterns, v2 is flexible, v3 knows users as resources.

Numbers are those of DescribeAcls.
"""

from headwater.wire.schema import INT8, INT16, INT32, STRING, Array, Message, Struct, field


class DeleteAclsFilter(Struct):
    resource_type_filter: int = field(INT8)
    resource_name_filter: str | None = field(STRING, nullable_since=0)
    pattern_type_filter: int = field(INT8, default=3)
    principal_filter: str | None = field(STRING, nullable_since=0)
    host_filter: str | None = field(STRING, nullable_since=0)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class DeleteAclsRequest(Message, key=31, versions=(1, 3), flexible_since=2):
    filters: list[DeleteAclsFilter] = field(Array(DeleteAclsFilter))


class DeleteAclsMatchingAcl(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    pattern_type: int = field(INT8, default=3)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class DeleteAclsFilterResult(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    matching_acls: list[DeleteAclsMatchingAcl] = field(Array(DeleteAclsMatchingAcl))


class DeleteAclsResponse(Message, key=31, versions=(1, 3), flexible_since=2):
    throttle_time_ms: int = field(INT32)
    filter_results: list[DeleteAclsFilterResult] = field(Array(DeleteAclsFilterResult))
