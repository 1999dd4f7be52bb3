"""The membership that a consumer's settings ask for."""

from headwater.client.consumer.assignors.named import assignors_for
from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.consumer.membership.factory import membership_for
from headwater.client.consumer.membership.port import Membership, MembershipHost
from headwater.client.consumer.membership.settings import MembershipSettings


def new_membership(host: MembershipHost, settings: ConsumerSettings) -> Membership:
    raw = settings.raw
    protocol = raw.text("group.protocol")
    return membership_for(
        protocol,
        host,
        MembershipSettings(
            group_id=settings.group_id or "",
            group_instance_id=raw["group.instance.id"],
            session_timeout_ms=raw.number("session.timeout.ms"),
            heartbeat_interval_ms=raw.number("heartbeat.interval.ms"),
            max_poll_interval_ms=raw.number("max.poll.interval.ms"),
            rack_id=raw["client.rack"] or None,
            assignors=assignors_for(raw["partition.assignment.strategy"]) if protocol == "classic" else (),
            remote_assignor=raw["group.remote.assignor"],
        ),
    )
