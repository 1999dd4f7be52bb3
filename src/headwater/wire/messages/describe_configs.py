"""DescribeConfigs: the configs of topics and brokers, with where each value comes from.

v1 tells sources and synonyms, v3 types and documentation. v4 is flexible.

Resource types: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group. Sources: 1 topic, 2 dynamic broker,
3 dynamic cluster-wide default, 4 static broker, 5 default.
"""

from headwater.wire.schema import BOOL, INT8, INT16, INT32, STRING, Array, Message, Struct, field


class DescribeConfigsResource(Struct):
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configuration_keys: list[str] | None = field(Array(STRING), nullable_since=0)  # None for all


class DescribeConfigsRequest(Message, key=32, versions=(1, 4), flexible_since=4):
    resources: list[DescribeConfigsResource] = field(Array(DescribeConfigsResource))
    include_synonyms: bool = field(BOOL)
    include_documentation: bool = field(BOOL, since=3)


class DescribeConfigsSynonym(Struct):
    name: str = field(STRING)
    value: str | None = field(STRING, nullable_since=0)
    source: int = field(INT8)


class DescribeConfigsResourceResult(Struct):
    name: str = field(STRING)
    value: str | None = field(STRING, nullable_since=0)
    read_only: bool = field(BOOL)
    config_source: int = field(INT8, default=-1)
    is_sensitive: bool = field(BOOL)
    synonyms: list[DescribeConfigsSynonym] = field(Array(DescribeConfigsSynonym))
    config_type: int = field(INT8, since=3)
    documentation: str | None = field(STRING, since=3, nullable_since=0)


class DescribeConfigsResult(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[DescribeConfigsResourceResult] = field(Array(DescribeConfigsResourceResult))


class DescribeConfigsResponse(Message, key=32, versions=(1, 4), flexible_since=4):
    throttle_time_ms: int = field(INT32)
    results: list[DescribeConfigsResult] = field(Array(DescribeConfigsResult))
