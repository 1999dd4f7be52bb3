"""AlterConfigs: replaces all dynamic configs of a resource; what is not named falls back to its default.

v2 is flexible.
"""

from headwater.wire.schema import BOOL, INT8, INT16, INT32, STRING, Array, Message, Struct, field


class AlterableConfig(Struct):
    name: str = field(STRING)
    value: str | None = field(STRING, nullable_since=0)


class AlterConfigsResource(Struct):
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[AlterableConfig] = field(Array(AlterableConfig))


class AlterConfigsRequest(Message, key=33, versions=(0, 2), flexible_since=2):
    resources: list[AlterConfigsResource] = field(Array(AlterConfigsResource))
    validate_only: bool = field(BOOL)


class AlterConfigsResourceResponse(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)


class AlterConfigsResponse(Message, key=33, versions=(0, 2), flexible_since=2):
    throttle_time_ms: int = field(INT32)
    responses: list[AlterConfigsResourceResponse] = field(Array(AlterConfigsResourceResponse))
