"""IncrementalAlterConfigs: changes single configs of a resource and leaves the others alone. v1 is flexible."""

from headwater.wire.schema import BOOL, INT8, INT16, INT32, STRING, Array, Message, Struct, field


class AlterableConfig(Struct):
    name: str = field(STRING)
    config_operation: int = field(INT8)  # 0 set, 1 delete, 2 append, 3 subtract
    value: str | None = field(STRING, nullable_since=0)


class AlterConfigsResource(Struct):
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[AlterableConfig] = field(Array(AlterableConfig))


class IncrementalAlterConfigsRequest(Message, key=44, versions=(0, 1), flexible_since=1):
    resources: list[AlterConfigsResource] = field(Array(AlterConfigsResource))
    validate_only: bool = field(BOOL)


class AlterConfigsResourceResponse(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)


class IncrementalAlterConfigsResponse(Message, key=44, versions=(0, 1), flexible_since=1):
    throttle_time_ms: int = field(INT32)
    responses: list[AlterConfigsResourceResponse] = field(Array(AlterConfigsResourceResponse))
