"""The membership that `group.protocol` asks for."""

from headwater.base.errors import UserError
from headwater.client.consumer.membership.classic import ClassicMembership
from headwater.client.consumer.membership.consumer import ConsumerMembership
from headwater.client.consumer.membership.port import Membership, MembershipHost
from headwater.client.consumer.membership.settings import MembershipSettings


def membership_for(protocol: str, host: MembershipHost, settings: MembershipSettings) -> Membership:
    """`protocol` is "classic" or "consumer", in any case."""
    match protocol.lower():
        case "classic":
            return ClassicMembership(host, settings)
        case "consumer":
            return ConsumerMembership(host, settings)
    raise UserError(f"group.protocol cannot be {protocol!r}", "there are two protocols", 'Use "classic" or "consumer"')
