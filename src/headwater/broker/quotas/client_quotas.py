"""The quotas of this broker's clients, as the image has them, and what each client has used of them.

`follow` reads them after a change; a rate goes on through that, only its bound is another. Meters remember rates, so
one is dropped only when nothing of it counts any more, and then the generation changes, so that nobody goes on with it.
Where there are very many and none can be dropped, whoever is new shares one rate with others who are new. Clients make
up client ids: rates of those that no quota names are kept apart, and too many of them touch only their own user. A long
one is cut there: ids that begin with the same characters share a rate.

Each broker measures on its own, as in Apache Kafka: a quota is what a client may do at one broker. Owned by the
broker's loop.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from headwater.broker.quotas.entities import (
    CONNECTION,
    FETCH,
    MUTATION,
    PRODUCE,
    REQUEST,
    Entity,
    all_quotas,
    quotas_in,
)
from headwater.broker.quotas.precedence import ApplicableQuota, applicable_quota
from headwater.broker.quotas.rates import Rate, TokenBucket, Window

if TYPE_CHECKING:
    from headwater.base.config.broker import BrokerConfig
    from headwater.metadata.image import ClusterImage

_RATES_MAX: Final = 10_000
NAME_MAX: Final = 255
_SHARED: Final = "\0"  # no client id that a quota names


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


class Used(NamedTuple):
    """Whose use of which quota is measured. None: the quota is not by that."""

    quota: str
    user: str | None
    client_id: str | None


_Key = tuple[str, str | None, str | None]


_Used = TypeVar("_Used", Rate, TokenBucket)


class _Table(Generic[_Used]):
    """What was used, by whom. Of what counts, nothing is ever dropped."""

    def __init__(self, make: Callable[[], _Used], counts_ms: int, dropped: Callable[[], None]) -> None:
        self._make: Callable[[], _Used] = make
        self._counts_ms = counts_ms
        self._dropped = dropped
        self._kept: dict[_Key, _Used] = {}
        self._shared: dict[str, _Used] = {}  # by quota, where there is no room
        self._looked_ms: int | None = None  # when it was full

    def find(self, key: _Key, now_ms: int) -> _Used | None:
        """None where there is no room for one more."""
        found = self._kept.get(key)
        if found is None and (len(self._kept) < _RATES_MAX or self._drop_idle(now_ms)):
            found = self._kept[key] = self._make()
        return found

    def all(self) -> Iterator[tuple[_Key, _Used]]:
        yield from self._kept.items()
        for quota, used in self._shared.items():
            yield (quota, None, _SHARED), used

    def shared(self, quota: str) -> _Used:
        found = self._shared.get(quota)
        if found is None:
            found = self._shared[quota] = self._make()
        return found

    def _drop_idle(self, now_ms: int) -> bool:
        """Whether there is room now. To look at all of them takes time, so it is done once in the time in which they
        can become idle.
        """
        if self._looked_ms is not None and now_ms - self._looked_ms < self._counts_ms:
            return False
        self._looked_ms = now_ms
        self._kept = {key: used for key, used in self._kept.items() if not used.is_idle(now_ms)}
        if len(self._kept) >= _RATES_MAX:
            return False
        self._dropped()
        return True


class ClientQuotas:
    def __init__(self, image: "ClusterImage", config: "BrokerConfig", now_ms: Callable[[], int]) -> None:
        self._image = image
        self._now_ms = now_ms  # of the monotonic clock
        self.window = Window(config.int("quota.window.num"), config.int("quota.window.size.seconds") * 1000)
        self._mutation_window = Window(
            config.int("controller.quota.window.num"), config.int("controller.quota.window.size.seconds") * 1000
        )
        self.generation = 0  # whoever remembers limits asks for them anew when it is another
        self._table: dict[Entity, dict[str, float]] = dict(all_quotas(image))
        self._addresses = sum(entity.address is not None for entity in self._table)
        rates_ms, buckets_ms = self.window.counts_ms, self._mutation_window.counts_ms
        self._rates = _Table(lambda: Rate(self.window), rates_ms, self._are_others)
        self._rates_of_made_up = _Table(lambda: Rate(self.window), rates_ms, self._are_others)
        self._rates_of_addresses = _Table(lambda: Rate(self.window), rates_ms, self._are_others)
        self._buckets = _Table(lambda: TokenBucket(self._mutation_window), buckets_ms, self._are_others)
        self._buckets_of_made_up = _Table(lambda: TokenBucket(self._mutation_window), buckets_ms, self._are_others)

    def _are_others(self) -> None:
        self.generation += 1

    @property
    def concerns_clients(self) -> bool:
        """Whether there is any quota of users or client ids."""
        return len(self._table) > self._addresses

    @property
    def concerns_addresses(self) -> bool:
        return self._addresses > 0

    def follow(self, entities: Iterable[Entity]) -> None:
        """The image has other configs of these, in which other things than quotas may have changed."""
        for entity in entities:
            quotas = quotas_in(entity.config_in(self._image))
            entity = entity.as_met
            known = self._table.get(entity)
            if quotas == (known or {}):
                continue
            if entity.address is not None:
                self._addresses += bool(quotas) - (known is not None)
            if quotas:
                self._table[entity] = quotas
            else:
                del self._table[entity]
            self._are_others()

    # Clients

    def limits(self, user: str, client_id: str) -> Limits | None:
        """None if no quota holds. To be asked for anew when `generation` is another."""
        found = Limits(
            self._rate_limit(PRODUCE, user, client_id),
            self._rate_limit(FETCH, user, client_id),
            self._rate_limit(REQUEST, user, client_id),
            self.mutation_limit(user, client_id),
        )
        return None if found == (None, None, None, None) else found

    def mutation_limit(self, user: str, client_id: str) -> BucketLimit | None:
        """The one of `limits`, alone: of somebody who has no connection here nothing else is measured."""
        found = applicable_quota(self._table, MUTATION, user, client_id)
        if found is None:
            return None
        return BucketLimit(self._used(self._buckets, self._buckets_of_made_up, MUTATION, found), found.bound)

    def _rate_limit(self, key: str, user: str, client_id: str) -> RateLimit | None:
        found = applicable_quota(self._table, key, user, client_id)
        if found is None:
            return None
        return RateLimit(self._used(self._rates, self._rates_of_made_up, key, found), found.bound)

    def _used(self, known: _Table[_Used], made_up: _Table[_Used], quota: str, found: ApplicableQuota) -> _Used:
        now_ms = self._now_ms()
        client_id = None if found.client_id is None else found.client_id[:NAME_MAX]
        used = None
        if found.is_made_up:
            used = made_up.find((quota, found.user, client_id), now_ms)
            client_id = _SHARED
        if used is None:
            used = known.find((quota, found.user, client_id), now_ms)
        return known.shared(quota) if used is None else used

    def used(self) -> "Iterator[tuple[Used, Rate | TokenBucket]]":
        """What is measured of users and clients now, for the metrics."""
        for table in (self._rates, self._rates_of_made_up, self._buckets, self._buckets_of_made_up):
            for (quota, user, client_id), used in table.all():
                others = client_id == _SHARED
                yield Used(quota, user, "<others>" if others else client_id), used

    # Addresses

    def connection_throttle_ms(self, address: str, now_ms: int) -> int:
        """A connection came from there. 0 if it may stay; otherwise it does not count, and ends after so long."""
        address = address.partition("%")[0]
        quotas = self._table.get(Entity(address=address)) or self._table.get(Entity(address=""))
        bound = None if quotas is None else quotas.get(CONNECTION)
        if bound is None:
            return 0
        table = self._rates_of_addresses
        rate = table.find((CONNECTION, address, None), now_ms) or table.shared(CONNECTION)
        rate.record(1, now_ms)
        throttle_ms = rate.throttle_ms(bound, now_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
        return min(throttle_ms, self.window.window_ms)
