"""What brokers send on to the controller, and in whose name: told in the client id of the request that goes there.

The controller counts such a request for the user and the client id of whoever asked first (`quotas/mutations.py`). A
broker of an older version reads a client id that begins as it knows it, and counts nothing. Both names are escaped, so
that they are read back as they were, and cut, so that they fit into a header whatever they are. No state.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.base.peers import Lane
from headwater.broker.registry import APIS

if TYPE_CHECKING:
    from headwater.broker.context import RequestContext

FORWARDED_CLIENT: Final = "__forwarded"  # how the client id of such requests begins, between brokers
_NAMES: Final = {
    "create_topics",
    "create_acls",
    "delete_acls",
    "delete_topics",
    "create_partitions",
    "alter_configs",
    "incremental_alter_configs",
    "elect_leaders",
    "alter_partition_reassignments",
    "list_partition_reassignments",
    "update_features",
    "alter_user_scram_credentials",
    "alter_client_quotas",
}
FORWARDED: Final = frozenset(key for key, api in APIS.items() if api.name in _NAMES)
FIRST_FORWARDED: Final = min(FORWARDED)
_PRINCIPAL_MAX: Final = 1500  # characters; escaped, one takes up to 12 bytes, and a client id has 32,767
_CLIENT_ID_MAX: Final = 1000


def client_id_on(lane: Lane, client_id: str) -> str:
    """Of a broker towards another one."""
    return f"{FORWARDED_CLIENT}-{client_id}" if lane is Lane.CONTROL else client_id


class Origin(NamedTuple):
    principal: str
    client_id: str


def told(context: "RequestContext") -> str:
    """What the client id of a request that is sent on ends with."""
    from urllib.parse import quote  # only where something is sent on

    principal, client_id = context.connection.principal[:_PRINCIPAL_MAX], (context.client_id or "")[:_CLIENT_ID_MAX]
    return f" {quote(principal, '', errors='replace')} {quote(client_id, '', errors='replace')}"


def origin_in(client_id: str | None) -> Origin | None:
    """What such a client id says; None if it says nothing. Whether to believe it: `rights/broker_connections.py`."""
    from urllib.parse import unquote

    parts = (client_id or "").split(" ")
    if len(parts) != 3 or not parts[0].startswith(FORWARDED_CLIENT):
        return None
    return Origin(unquote(parts[1]), unquote(parts[2]))
