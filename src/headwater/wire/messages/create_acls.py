"""CreateAcls: adds access rules.

v1 has prefixed patterns, v2 is flexible, v3 knows users as resources.

Numbers are those of DescribeAcls.
"""

from headwater.wire.schema import INT8, INT16, INT32, STRING, Array, Message, Struct, field


class AclCreation(Struct):
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    resource_pattern_type: int = field(INT8, default=3)
    principal: str = field(STRING)
    host: str = field(STRING)
    operation: int = field(INT8)
    permission_type: int = field(INT8)


class CreateAclsRequest(Message, key=30, versions=(1, 3), flexible_since=2):
    creations: list[AclCreation] = field(Array(AclCreation))


class AclCreationResult(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)


class CreateAclsResponse(Message, key=30, versions=(1, 3), flexible_since=2):
    throttle_time_ms: int = field(INT32)
    results: list[AclCreationResult] = field(Array(AclCreationResult))
