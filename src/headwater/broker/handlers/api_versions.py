"""ApiVersions (key 18), versions 0 to 4: what this broker speaks. The registry's table is the answer.

A version that we do not know is answered in v0 with UNSUPPORTED_VERSION and our range for this API, so that a newer
client can come down to it. v3 names the client's software. Finalized features come with an epoch, or clients would
never look at them; a feature stands there only when all of it works.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.broker.features import EPOCH, FEATURES
from headwater.broker.registry import APIS
from headwater.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_KEY: Final = 18
_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.")


def handle(broker: "Broker", context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:  # noqa: ARG001
    if context.api_version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not _is_software_name(name) or not _is_software_name(version):
            return ApiVersionsResponse(error_code=int(ErrorCode.INVALID_REQUEST), api_keys=[])
        context.connection.client_software = name
        context.connection.client_software_version = version
    return ApiVersionsResponse(
        error_code=0,
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.advertises[0], max_version=api.advertises[1])
            for api in APIS.values()
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=feature.lowest, max_version=feature.highest)
            for name, feature in FEATURES.items()
            if feature.lowest > 0 or context.api_version >= 4  # clients before v4 cannot read a lowest version of 0
        ],
        finalized_features_epoch=EPOCH,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=feature.finalized, min_version_level=feature.finalized)
            for name, feature in FEATURES.items()
            if feature.finalized > 0
        ],
    )


def unsupported_version_response() -> ApiVersionsResponse:
    """The v0 answer to a version from the future."""
    first, last = APIS[_KEY].advertises
    return ApiVersionsResponse(
        error_code=int(ErrorCode.UNSUPPORTED_VERSION),
        api_keys=[ApiVersion(api_key=_KEY, min_version=first, max_version=last)],
    )


def _is_software_name(text: str) -> bool:
    """Letters, digits, dashes and dots, beginning and ending with a letter or a digit: it goes into logs and
    metrics.
    """
    return bool(text) and text[0].isalnum() and text[-1].isalnum() and _NAME_CHARACTERS.issuperset(text)
