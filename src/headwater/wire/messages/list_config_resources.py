"""ListConfigResources: the names of everything that has configs. Flexible from the start.

v0 knows client metrics only. Types are those of DescribeConfigs.
"""

from headwater.wire.schema import INT8, INT16, INT32, STRING, Array, Message, Struct, field


class ListConfigResourcesRequest(Message, key=74, versions=(0, 1), flexible_since=0):
    resource_types: list[int] = field(Array(INT8), since=1)  # empty for all


class ConfigResource(Struct):
    resource_name: str = field(STRING)
    resource_type: int = field(INT8, since=1, default=16)


class ListConfigResourcesResponse(Message, key=74, versions=(0, 1), flexible_since=0):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    config_resources: list[ConfigResource] = field(Array(ConfigResource))
