"""Admin calls about the cluster itself: its brokers, what they speak, its features. No state."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from headwater._version import VERSION
from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.admin.call_routing import each_of, every_broker, failure, of_any, of_controller
from headwater.client.errors import raise_for
from headwater.client.negotiation import VersionRange
from headwater.client.session import Session
from headwater.client.types import Broker, ClusterInfo
from headwater.wire.messages import api_versions as versions_wire
from headwater.wire.messages import describe_cluster as describe_wire
from headwater.wire.messages import unregister_broker as unregister_wire
from headwater.wire.messages import update_features as features_wire


class Features(NamedTuple):
    """What a broker could do, and what the whole cluster has agreed on. An epoch of -1: nothing was agreed on yet."""

    supported: dict[str, VersionRange]
    finalized: dict[str, VersionRange]
    epoch: int


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """The version that a feature shall have; 0 takes it away."""

    version: int
    type: UpgradeType = UpgradeType.UPGRADE


async def describe_cluster(session: Session, *, include_fenced: bool = False) -> ClusterInfo:
    """Cluster id, controller and brokers, by id. Fenced brokers are registered, but do not serve now."""
    await every_broker(session)
    if not include_fenced:  # everybody knows this, and the metadata came just now
        view = session.view
        return ClusterInfo(view.cluster_id, view.controller_id, sorted(view.brokers.values()))
    request = describe_wire.DescribeClusterRequest(include_fenced_brokers=True)
    link = await session.link(min(session.view.brokers))
    if link.version_for(request) < 2:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the broker cannot tell which brokers are fenced")
    response = await of_any(session, request, describe_wire.DescribeClusterResponse)
    raise_for(response.error_code, response.error_message)
    brokers = [Broker(each.broker_id, each.host, each.port, each.rack, each.is_fenced) for each in response.brokers]
    return ClusterInfo(response.cluster_id, response.controller_id, sorted(brokers))


async def describe_api_versions(session: Session) -> dict[Broker, dict[int, VersionRange] | KafkaError]:
    """Which versions of which APIs (by key) each broker offers."""

    async def one(broker: Broker) -> dict[int, VersionRange]:
        return dict((await session.link(broker.id)).versions)

    await every_broker(session)
    return await each_of(session, sorted(session.view.brokers.values()), one)


async def describe_features(session: Session) -> Features:
    request = versions_wire.ApiVersionsRequest(client_software_name="headwater", client_software_version=VERSION)
    response = await of_any(session, request, versions_wire.ApiVersionsResponse)
    raise_for(response.error_code, "the broker does not tell its features")
    return Features(
        {each.name: VersionRange(each.min_version, each.max_version) for each in response.supported_features},
        {
            each.name: VersionRange(each.min_version_level, each.max_version_level)
            for each in response.finalized_features
        },
        response.finalized_features_epoch,
    )


async def update_features(
    session: Session, updates: Mapping[str, int | FeatureUpdate], *, validate_only: bool = False
) -> dict[str, KafkaError | None]:
    """Agrees on versions of features for the whole cluster: all of them, or none."""
    wanted = {name: FeatureUpdate(each) if isinstance(each, int) else each for name, each in updates.items()}
    request = features_wire.UpdateFeaturesRequest(
        timeout_ms=session.settings.request_timeout_ms,
        feature_updates=[
            features_wire.FeatureUpdateKey(
                feature=name,
                max_version_level=each.version,
                allow_downgrade=each.type != UpgradeType.UPGRADE,
                upgrade_type=each.type,
            )
            for name, each in wanted.items()
        ],
        validate_only=validate_only,
    )
    response = await of_controller(
        session, request, features_wire.UpdateFeaturesResponse, lambda answer: [answer.error_code]
    )
    outcome: dict[str, KafkaError | None] = dict.fromkeys(wanted, failure(response.error_code, response.error_message))
    if not response.error_code:
        outcome.update({each.feature: failure(each.error_code, each.error_message) for each in response.results})
    return outcome


async def unregister_broker(session: Session, broker_id: int) -> None:
    """Makes the cluster forget a broker that is gone for good."""
    request = unregister_wire.UnregisterBrokerRequest(broker_id=broker_id)
    response = await of_controller(
        session, request, unregister_wire.UnregisterBrokerResponse, lambda answer: [answer.error_code]
    )
    raise_for(response.error_code, response.error_message or f"broker {broker_id}")
