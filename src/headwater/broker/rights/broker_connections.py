"""Which connections are those of other brokers, and which requests these send on in the name of a client.

A client id or a replica id is only what somebody says. A broker asks over the listener that brokers use among
themselves, and has the right to it (CLUSTER_ACTION) where an authorizer knows rights. Whoever speaks for a client is
also logged in as the user as which this broker logs in at others: an administrator, who may do what brokers may, does
not become a broker by a name. No state.
"""

from typing import TYPE_CHECKING

from headwater.base.acls import Operation
from headwater.base.config.listeners import Listener
from headwater.base.errors import UserError
from headwater.broker.origins import FORWARDED, FORWARDED_CLIENT
from headwater.broker.rights.authorizer import caller_of

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.context import ConnectionContext, RequestContext


def is_of_a_broker(broker: "Broker", connection: "ConnectionContext") -> bool:
    if broker.peers is None or connection.listener != broker.config.inter_broker_listener().name:
        return False
    caller = caller_of(broker.authorizer, connection)
    return caller is None or caller.may_cluster(Operation.CLUSTER_ACTION)


def is_sent_on(broker: "Broker", context: "RequestContext") -> bool:
    """Whether another broker sends the request on, which has asked already whether its client may, and tells it."""
    if context.api_key not in FORWARDED or not (context.client_id or "").startswith(FORWARDED_CLIENT):
        return False
    if not is_of_a_broker(broker, context.connection):
        return False
    listener = broker.config.inter_broker_listener()
    user = _user_of_brokers(broker, listener) if listener.protocol.startswith("SASL_") else None
    return user is None or context.connection.principal == f"User:{user}"


def _user_of_brokers(broker: "Broker", listener: Listener) -> str | None:
    """As which this broker logs in at others; None where only its token says it."""
    from headwater.base.security.sasl_client import credentials_from  # only where brokers log in

    settings = broker.config.listener(listener.name)
    mechanism = (settings.string("sasl.mechanism.inter.broker.protocol") or "").upper()
    if mechanism == "OAUTHBEARER":
        return None
    try:
        return credentials_from(mechanism, jaas=settings.string("sasl.jaas.config", mechanism)).user
    except UserError:  # then it logs in nowhere
        return ""
