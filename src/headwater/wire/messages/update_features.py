"""UpdateFeatures: finalizes versions of features for the whole cluster. Flexible from the start.

v1 can try without doing, and tells upgrades from downgrades. v2 answers one error for all.
"""

from headwater.wire.schema import BOOL, INT8, INT16, INT32, STRING, Array, Message, Struct, field


class FeatureUpdateKey(Struct):
    feature: str = field(STRING)
    max_version_level: int = field(INT16)  # 0 deletes
    allow_downgrade: bool = field(BOOL, until=0)
    upgrade_type: int = field(INT8, since=1, default=1)  # 1 upgrade, 2 safe downgrade, 3 unsafe downgrade


class UpdateFeaturesRequest(Message, key=57, versions=(0, 2), flexible_since=0):
    timeout_ms: int = field(INT32, default=60_000)
    feature_updates: list[FeatureUpdateKey] = field(Array(FeatureUpdateKey))
    validate_only: bool = field(BOOL, since=1)


class UpdatableFeatureResult(Struct):
    feature: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)


class UpdateFeaturesResponse(Message, key=57, versions=(0, 2), flexible_since=0):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    results: list[UpdatableFeatureResult] = field(Array(UpdatableFeatureResult), until=1)
