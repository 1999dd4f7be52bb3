"""How many logins may wait for the brokers at a time: of all callers, of one peer, and of one peer with one user's
name. Pure.

Who tries many passwords waits in his own line: others, from elsewhere, find places. A peer is an address of IPv4, or a
/64 network of IPv6, for one machine has all of its addresses. Those who have logged in before do not come here.
"""

from collections import Counter
from typing import Final

from headwater.base.networks import network_of
from headwater.web.messages import HttpError

_ALL_MAX: Final = 200
_PEER_MAX: Final = 32
_USER_MAX: Final = 8

Place = tuple[str, str]


class PendingLogins:
    def __init__(self) -> None:
        self._peers: Counter[str] = Counter()
        self._users: Counter[Place] = Counter()

    def enter(self, peer: str, user: str) -> Place:
        """A place, for `leave`. `peer`: `host:port`; `user`: empty for a token. Raises HttpError 503."""
        network = _network(peer)
        place = (network, user)
        if (
            self._peers.total() >= _ALL_MAX
            or self._peers[network] >= _PEER_MAX
            or (user and self._users[place] >= _USER_MAX)
        ):
            raise HttpError(503, "Too many logins are under way; try again", headers={"Retry-After": "1"})
        self._peers[network] += 1
        self._users[place] += 1
        return place

    def leave(self, place: Place) -> None:
        self._peers[place[0]] -= 1
        self._users[place] -= 1
        self._peers, self._users = +self._peers, +self._users  # without those that have none


def _network(peer: str) -> str:
    return network_of(peer.rpartition(":")[0].strip("[]"))
