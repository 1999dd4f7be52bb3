"""ApiVersions: which APIs and versions a broker speaks, and its features. Every client opens with it.

v1 adds throttling. v3 is flexible, names the client's software and tells features; its response still has header v0.
v4 may name features whose lowest version is 0. v5 tells which cluster and broker the client believes to have reached
(KIP-1242). A version that the broker does not know is answered in v0, with UNSUPPORTED_VERSION and the versions of
this API.
"""

from headwater.wire.schema import BOOL, INT16, INT32, INT64, STRING, Array, Message, Struct, field


class ApiVersionsRequest(Message, key=18, versions=(0, 5), flexible_since=3):
    client_software_name: str = field(STRING, since=3)
    client_software_version: str = field(STRING, since=3)
    cluster_id: str | None = field(STRING, since=5, nullable_since=0)
    node_id: int = field(INT32, since=5, default=-1)


class ApiVersion(Struct):
    api_key: int = field(INT16)
    min_version: int = field(INT16)
    max_version: int = field(INT16)


class SupportedFeatureKey(Struct):
    name: str = field(STRING)
    min_version: int = field(INT16)
    max_version: int = field(INT16)


class FinalizedFeatureKey(Struct):
    name: str = field(STRING)
    max_version_level: int = field(INT16)
    min_version_level: int = field(INT16)


class ApiVersionsResponse(Message, key=18, versions=(0, 5), flexible_since=3):
    error_code: int = field(INT16)
    api_keys: list[ApiVersion] = field(Array(ApiVersion))
    throttle_time_ms: int = field(INT32, since=1)
    supported_features: list[SupportedFeatureKey] = field(Array(SupportedFeatureKey), since=3, tag=0)
    finalized_features_epoch: int = field(INT64, since=3, tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field(Array(FinalizedFeatureKey), since=3, tag=2)
    zk_migration_ready: bool = field(BOOL, since=3, tag=3)
