"""What a handler knows about who asks: the request's header and its connection."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.broker.quotas.meter import Meter
    from headwater.broker.rights.connection_rights import ConnectionRights


@dataclass(slots=True)
class ConnectionContext:
    """One per connection. What a peer says about itself is never put into a path, and is escaped in logs."""

    client_host: str
    client_port: int
    listener: str
    principal: str = "User:ANONYMOUS"
    client_software: str = ""
    client_software_version: str = ""
    rights: "ConnectionRights | None" = None  # what the quick ways compare; None where they are open, or not used
    meter: "Meter | None" = None  # of what its requests use of quotas; None while there are none


@dataclass(slots=True)
class RequestContext:
    """One per request."""

    connection: ConnectionContext
    api_key: int
    api_version: int
    client_id: str | None
