"""The quota of changes that the controller makes for a client (KIP-599): partitions made and deleted, by a bucket of
tokens.

It is kept where the change is made: by the controller, also for requests that other brokers send on, which count for
whoever asked there. A topic takes its tokens when it has passed every check, so what is refused costs nothing, and what
is then not done gives them back. A topic that comes when the bucket is overdrawn is refused with
THROTTLING_QUOTA_EXCEEDED in the versions that know it; older ones are served and told to wait, and so is Metadata,
which makes topics that somebody asks for.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ports import Clock
from headwater.broker.origins import Origin, origin_in
from headwater.broker.quotas.client_quotas import BucketLimit, ClientQuotas
from headwater.broker.rights.broker_connections import is_sent_on

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.context import RequestContext

_STRICT_SINCE: Final = {19: 6, 20: 5, 37: 3}  # CreateTopics, DeleteTopics, CreatePartitions


class MutationQuota:
    """What one request takes of a bucket. Owned by the request."""

    def __init__(self, limit: BucketLimit, clock: Clock, *, is_strict: bool) -> None:
        self._used, self._rate = limit
        self._clock = clock
        self._is_strict = is_strict
        self._taken = 0
        self._is_exceeded = False

    def take(self, partitions: int) -> None:
        """Raises where the bucket is overdrawn and the request's version knows that error."""
        now_ms = self._clock.monotonic_ms()
        if self._is_strict and self._used.throttle_ms(self._rate, now_ms):
            self._is_exceeded = True
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        self._used.take(partitions, self._rate, now_ms)
        self._taken += partitions

    def give_back(self) -> None:
        """Nothing of it was done."""
        self._used.take(-self._taken, self._rate, self._clock.monotonic_ms())
        self._taken = 0

    def throttle_ms(self) -> int:
        """How long whoever asked has to wait, who is told so now."""
        if not (self._is_exceeded if self._is_strict else self._taken):
            return 0
        now_ms = self._clock.monotonic_ms()
        throttle_ms = self._used.throttle_ms(self._rate, now_ms)
        if throttle_ms:
            self._used.throttled(throttle_ms, now_ms)
        return throttle_ms


def mutation_quota(broker: "Broker", quotas: ClientQuotas, context: "RequestContext") -> MutationQuota | None:
    """Of whoever asked first; None where no quota holds. What a broker asks for itself does not count."""
    asked: Origin | None = Origin(context.connection.principal, context.client_id or "")
    if is_sent_on(broker, context):
        asked = origin_in(context.client_id)
    limit = None if asked is None else quotas.mutation_limit(asked.principal.partition(":")[2], asked.client_id)
    if limit is None:
        return None
    strict_since = _STRICT_SINCE.get(context.api_key)
    is_strict = strict_since is not None and context.api_version >= strict_since
    return MutationQuota(limit, broker.clock, is_strict=is_strict)
