"""The quotas of this broker's clients, as the image has them, and what each client has used of them.

`follow` reads them anew after a change; a rate goes on through that, only its bound is another. Rates are kept as long as something of
them counts, or until there are very many: then the one that was longest without use goes. Client ids are made up by clients, so a long
one is cut where rates are kept: ids that begin with the same characters share a rate then.

Each broker measures on its own, as in Apache Kafka: a quota is what a client may do at one broker. Owned by the broker's loop.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.broker.quotas.entities import CONNECTION, FETCH, MUTATION, PRODUCE, REQUEST, Entity, all_quotas
from headwater.broker.quotas.precedence import holding
from headwater.broker.quotas.rates import Rate, TokenBucket, Window

if TYPE_CHECKING:
    from headwater.base.config.broker import BrokerConfig
    from headwater.metadata.image import ClusterImage

_RATES_MAX: Final = 10_000
_NAME_MAX: Final = 255


class RateLimit(NamedTuple):
    used: Rate
    bound: float

    def throttle_ms(self, now_ms: int) -> int:
        return self.used.throttle_ms(self.bound, now_ms)


class BucketLimit(NamedTuple):
    used: TokenBucket
    bound: float


class Limits(NamedTuple):
    """Of one client of one user; None where no quota holds."""

    produce: RateLimit | None
    fetch: RateLimit | None
    request: RateLimit | None  # percent of the loop's thread
    mutation: BucketLimit | None


_Key = tuple[str, str | None, str | None]


class ClientQuotas:
    def __init__(self, image: "ClusterImage", config: "BrokerConfig") -> None:
        self._image = image
        self.window = Window(config.int("quota.window.num"), config.int("quota.window.size.seconds") * 1000)
        self._mutation_window = Window(
            config.int("controller.quota.window.num"), config.int("controller.quota.window.size.seconds") * 1000
        )
        self.generation = 0  # of what was followed
        self.concerns_clients = False  # whether there is any quota of users or client ids
        self.concerns_addresses = False
        self._table: dict[Entity, dict[str, float]] = {}
        self._rates: dict[_Key, Rate] = {}  # the last that was used is the last
        self._buckets: dict[_Key, TokenBucket] = {}

    def follow(self) -> None:
        self._table = dict(all_quotas(self._image))
        self.concerns_clients = any(entity.address is None for entity in self._table)
        self.concerns_addresses = any(entity.address is not None for entity in self._table)
        self.generation += 1

    # Clients

    def limits(self, user: str, client_id: str) -> Limits | None:
        """None if no quota holds. To be asked for anew after a `follow`."""
        mutation = holding(self._table, MUTATION, user, client_id)
        found = Limits(
            self._rate_limit(PRODUCE, user, client_id),
            self._rate_limit(FETCH, user, client_id),
            self._rate_limit(REQUEST, user, client_id),
            None
            if mutation is None
            else BucketLimit(self._bucket(_key(MUTATION, mutation.user, mutation.client_id)), mutation.bound),
        )
        return None if found == (None, None, None, None) else found

    def _rate_limit(self, key: str, user: str, client_id: str) -> RateLimit | None:
        found = holding(self._table, key, user, client_id)
        return None if found is None else RateLimit(self._rate(_key(key, found.user, found.client_id)), found.bound)

    def _rate(self, key: _Key) -> Rate:
        rate = self._rates.pop(key, None) or Rate(self.window)
        if len(self._rates) >= _RATES_MAX:
            del self._rates[next(iter(self._rates))]
        self._rates[key] = rate
        return rate

    def _bucket(self, key: _Key) -> TokenBucket:
        bucket = self._buckets.pop(key, None) or TokenBucket(self._mutation_window)
        if len(self._buckets) >= _RATES_MAX:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[key] = bucket
        return bucket

    # Addresses

    def connection_throttle_ms(self, address: str, now_ms: int) -> int:
        """A connection came from there. 0 if it may stay; otherwise it does not count, and ends after so long."""
        quotas = self._table.get(Entity(address=address)) or self._table.get(Entity(address=""))
        bound = None if quotas is None else quotas.get(CONNECTION)
        if bound is None:
            return 0
        rate = self._rate((CONNECTION, address, None))
        rate.record(1, now_ms)
        throttle_ms = rate.throttle_ms(bound, now_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
        return min(throttle_ms, self.window.window_ms)


def _key(key: str, user: str | None, client_id: str | None) -> _Key:
    return key, user, None if client_id is None else client_id[:_NAME_MAX]
