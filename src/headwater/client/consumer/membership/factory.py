"""The membership that `group.protocol` asks for."""

from headwater.client.consumer.membership.classic import ClassicMembership
from headwater.client.consumer.membership.port import Membership, MembershipHost
from headwater.client.consumer.membership.settings import MembershipSettings


def membership_for(protocol: str, host: MembershipHost, settings: MembershipSettings) -> Membership:
    """`protocol` is "classic" or "consumer"."""
    return ClassicMembership(host, settings)
