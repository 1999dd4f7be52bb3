"""UpdateFeatures (key 57), versions 0 to 2: raises or lowers the levels of features, all of them or none.

The levels of this broker are those of its code (see broker/features.py): a level that holds already is confirmed, any
other is refused in Kafka's words. v0 says with a flag, later versions with a type, whether a level may go down. Before
v2 each feature has a result of its own when all went well.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, bounded
from headwater.broker.context import RequestContext
from headwater.broker.features import FEATURES
from headwater.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2
_UNSAFE_DOWNGRADE: Final = 3
_FAILED: Final = "The update failed for all features since the following feature had an error: "


def handle(broker: "Broker", context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    for update in request.feature_updates:
        problem = _problem(broker, update, context.api_version)
        if problem is not None:
            reason = f"Invalid update version {update.max_version_level} for feature {update.feature}. {problem}"
            return UpdateFeaturesResponse(
                error_code=int(ErrorCode.INVALID_UPDATE_VERSION), error_message=bounded(_FAILED + reason), results=[]
            )
    return UpdateFeaturesResponse(
        error_code=0,
        error_message=None,
        results=[
            UpdatableFeatureResult(feature=update.feature, error_code=0, error_message="NONE")
            for update in request.feature_updates
        ],
    )


def _problem(broker: "Broker", update: FeatureUpdateKey, version: int) -> str | None:
    level, feature = update.max_version_level, FEATURES.get(update.feature)
    kind = update.upgrade_type
    if version == 0:
        kind = _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE
    if kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if feature is None:
        if level == 0:
            return f"Feature {update.feature} not found."
        return f"Local controller {broker.broker_id} does not support this feature."
    if not feature.lowest <= level <= feature.highest and level != 0:
        return f"Local controller {broker.broker_id} only supports versions {feature.lowest}-{feature.highest}"
    if level == feature.finalized:
        return None
    if level < feature.finalized and kind == _UPGRADE:
        return "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
    return f"This broker holds it at {feature.finalized}."
