"""What one connection's requests use of its clients' quotas. There is a meter only where some quota of users or client
ids exists.

A request may name any client id, so limits are looked up per request and remembered as long as the quotas stay what
they are.

Owned by its connection.
"""

from typing import Final

from headwater.broker.quotas.client_quotas import NAME_MAX, ClientQuotas, Limits

_PRODUCE: Final = 0
_REMEMBERED_MAX: Final = 64
_NS_TO_PERCENT: Final = 100 / 1_000_000_000


class Meter:
    __slots__ = ("_generation", "_limits", "_quotas", "_user")

    def __init__(self, quotas: ClientQuotas, principal: str) -> None:
        self._quotas = quotas
        self._user = principal.partition(":")[2]
        self._generation = -1
        self._limits: dict[str, Limits | None] = {}

    def limits(self, client_id: str | None) -> Limits | None:
        """None if no quota holds for that client of this connection's user."""
        client_id = client_id or ""
        if len(client_id) > NAME_MAX:  # made up, most likely; remembered they would fill memory
            return self._quotas.limits(self._user, client_id)
        if self._generation != self._quotas.generation or len(self._limits) > _REMEMBERED_MAX:
            self._generation = self._quotas.generation
            self._limits.clear()
        try:
            return self._limits[client_id]
        except KeyError:
            found = self._limits[client_id] = self._quotas.limits(self._user, client_id)
            return found

    # Fetch: what is too much is not sent

    def fetch_bytes_max(self, client_id: str | None) -> int | None:
        """What one answer may hold at most, so that it can ever be sent."""
        limits = self.limits(client_id)
        if limits is None or limits.fetch is None:
            return None
        window = self._quotas.window
        return max(1, int(limits.fetch.bound * max(1, window.samples - 1) * window.window_ms / 1000))

    def fetch_throttle_ms(self, client_id: str | None, size_bytes: int, now_ms: int) -> int:
        """An answer of that size is about to go out. 0 if it may; otherwise it does not, and does not count.

        The first that counts goes out whatever its size: a batch may be larger than what the quota allows of a window.
        """
        limits = self.limits(client_id)
        if limits is None or limits.fetch is None or not size_bytes:
            return 0
        limit = limits.fetch
        is_first = limit.used.is_idle(now_ms)
        limit.used.record(size_bytes, now_ms)
        throttle_ms = 0 if is_first else limit.throttle_ms(now_ms)
        if throttle_ms:
            limit.used.record(-size_bytes, now_ms)
            limit.used.throttled(throttle_ms, now_ms)
        return throttle_ms

    # Every request: what it has used counts, and whoever has used too much waits

    def record(self, api_key: int, client_id: str | None, size_bytes: int, busy_ns: int, now_ms: int) -> None:
        """A request of that size was handled, and took the loop's thread for so long."""
        limits = self.limits(client_id)
        if limits is None:
            return
        if api_key == _PRODUCE and limits.produce is not None:
            limits.produce.used.record(size_bytes, now_ms)
        if limits.request is not None:
            limits.request.used.record(self.percent_of(busy_ns), now_ms)

    def throttle_ms(self, api_key: int, client_id: str | None, now_ms: int) -> int:
        """How long the sender of such a request has to wait."""
        limits = self.limits(client_id)
        if limits is None:
            return 0
        throttle_ms = 0
        if api_key == _PRODUCE and limits.produce is not None:
            throttle_ms = limits.produce.throttle_ms(now_ms)
            if throttle_ms:
                limits.produce.used.throttled(throttle_ms, now_ms)
        if limits.request is not None:
            waits_ms = min(limits.request.throttle_ms(now_ms), self._quotas.window.window_ms)
            if waits_ms:
                limits.request.used.throttled(waits_ms, now_ms)
            throttle_ms = max(throttle_ms, waits_ms)
        return throttle_ms

    @staticmethod
    def percent_of(busy_ns: int) -> float:
        """What a rate of request percentages records: summed over a second it is the share of the thread in that
        second.
        """
        return busy_ns * _NS_TO_PERCENT

    def takes_at_once(self, limits: Limits, size_bytes: int, now_ms: int) -> bool:
        """Whether a produce of that size keeps to its quotas. Then it counts; otherwise it is for the general way to
        say.
        """
        if limits.request is not None and limits.request.throttle_ms(now_ms):
            return False
        if limits.produce is not None:
            limits.produce.used.record(size_bytes, now_ms)
            if limits.produce.throttle_ms(now_ms):
                limits.produce.used.record(-size_bytes, now_ms)
                return False
        return True
